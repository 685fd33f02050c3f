"""What descriptions are made of: closed models, doors, addresses, and the fields that candidates of every kind have."""

import ipaddress
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from conformance.generations import GENERATIONS, Generation
from conformance.history.dialects import Dialect
from conformance.scenarios.document import CAPABILITIES
from conformance.scenarios.own_timers import OwnTimers
from conformance.scenarios.values import Duration

if TYPE_CHECKING:
    Claim = str
else:
    Claim = Literal[CAPABILITIES]

ListenerName = Literal["frontend", "transport", "delivery"]
Argv = Annotated[tuple[str, ...], Field(min_length=1)]

FILE_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.+-]{0,79}$"


class ClosedModel(BaseModel):
    """Takes no key that it does not know, and does not change."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=False)


class KindFields(ClosedModel):
    """The fields of a description that one kind has alone: every candidate has them, and only that kind reads them."""

    @classmethod
    def of(cls, candidate: ClosedModel) -> Self:
        """Return a candidate as what has these fields."""
        assert isinstance(candidate, cls)
        return candidate


class Address(ClosedModel):
    """Where a server answers or dials."""

    host: str = "127.0.0.1"
    port: int = Field(ge=1, le=65535)

    @property
    def at(self) -> tuple[str, int]:
        """Host and port."""
        return self.host, self.port


class CommonFields(KindFields):
    """What a description says, of whatever kind the candidate is."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+:-]*$", max_length=80)
    title: str = Field("", description="a sentence on what it is, for people")
    like: str | None = Field(
        None,
        pattern=FILE_NAME,
        max_length=80,
        description="another description in the same folder: all that is not said here is as it is there",
    )
    options: dict[str, str] = Field({}, description="what templates read as `options`: in what a variant differs")
    kind: str
    claims: tuple[Claim, ...] = Field(description="capabilities; what is claimed and missing is a failure")
    lacks: tuple[Literal["queue", "routes", "alternatives"], ...] = Field(
        (),
        description="what its claims do not cover: queue (it does not keep mail and try again), routes (everything goes to "
        "one next hop), alternatives (a domain has one next hop)",
    )
    version: str = Field("unknown", description="where no command tells it")
    version_pattern: str = Field(
        r"(\d+(?:\.\w+)+)", alias="version-pattern", description="what of the version command's output is the version"
    )
    contract: Literal[1, 2] = Field(1, description="which node contract its program was written for")
    dialect: Literal["profile-1"] | Dialect = Field(
        "profile-1",
        description="how it spells the operations of shadow redundancy, where that is not as the wire profile",
    )
    argv: tuple[str, ...] = Field((), description="exec, docker: the command, with {config}, {data}, {listen.frontend}")
    files: dict[str, str] = Field(
        {}, description="files to write into the node's directory first: name -> Jinja template over the node's JSON"
    )
    commands: dict[str, Argv] = Field(
        {}, description="inspect, redirect-messages, resubmit; stop, kill, wipe, flush, ..."
    )
    environment: dict[str, str] = Field({}, description="variables beside the harness's own")
    user: str | None = Field(
        None, description="exec: the user to run as, where the harness is root; docker: in place of the image's"
    )
    installed: str | None = Field(
        None,
        description="exec: the directory that `conformance candidate install` makes for it; {installed} in templates",
    )
    private_root: bool = Field(
        False,
        alias="private-root",
        description="exec: lay that directory over the system's root, in namespaces of its own (needs root)",
    )
    programs: tuple[str, ...] = Field((), description="exec: programs that must be there, else it is not applicable")
    listeners: tuple[ListenerName, ...] = Field(
        ("frontend", "transport", "delivery"),
        min_length=1,
        description="the doors it opens; for any other door of its role it is dialled at its frontend",
    )
    flush_to_retry: bool = Field(
        False,
        alias="flush-to-retry",
        description="run `flush` every MessageRetryInterval, for a server whose own interval cannot be set",
    )
    waits_for_silence: Duration | None = Field(
        None,
        alias="waits-for-silence",
        description="how long it waits for a next hop that says nothing, where no setting changes that: a scaled clock does "
        "not shorten it, and cells in which a next hop falls silent are not applicable there",
    )
    waits_between_attempts: Duration | None = Field(
        None,
        alias="waits-between-attempts",
        description="for how long it waits before it tries again at the least, whatever is set and flushed: a scaled clock does "
        "not shorten it, and cells in which a next hop is away or defers its mail are not applicable there",
    )
    waits_after_a_kill: Duration | None = Field(
        None,
        alias="waits-after-a-kill",
        description="for how long it may leave a deferred message alone when it was killed while it worked on it, where no "
        "setting changes that: a scaled clock does not shorten it, and cells that kill it while a next hop defers its mail "
        "are not applicable there",
    )
    own_timers: OwnTimers | None = Field(
        None,
        alias="own-timers",
        description="what it does about mail that waits when nobody sets its timers; without it, scenarios that leave "
        "the timers to the server are not applicable",
    )
    exit_codes: tuple[int, ...] = Field((0,), alias="exit-codes", description="what it may leave with after SIGTERM")
    ready_within: float = Field(20.0, alias="ready-within", gt=0, description="seconds, real")
    stop_within: float = Field(20.0, alias="stop-within", gt=0, description="seconds, real")
    command_within: float = Field(20.0, alias="command-within", gt=0, description="seconds, real, for each command")
    log_limit: int = Field(
        16 * 2**20,
        alias="log-limit",
        ge=1024,
        description="exec, docker: octets of its log that are kept, for each start",
    )
    directory_limit: int = Field(
        2 * 2**30,
        alias="directory-limit",
        ge=2**20,
        description="exec, docker: octets on disk beyond which it is killed",
    )
    defect: str | None = Field(None, description="a defect of the reference to run with")
    generations: tuple[Generation, ...] = Field(
        tuple(GENERATIONS),
        min_length=1,
        description="the generations that it can be; where they are said, it is started as no other, and the start-up "
        "probe uses the first",
    )


def is_loopback(host: str) -> bool:
    """Whether a host is this machine as nobody else sees it. Of names only `localhost` is: no name is looked up."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
