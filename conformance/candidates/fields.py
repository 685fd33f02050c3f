"""The fields that a description can have whatever its kind, and the models and types of fields.

The texts of `description=` are published in the schema that editors show.
"""

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
    """An immutable model that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=False)


class KindFields(ClosedModel):
    """The fields that only one kind has in its description. Every candidate has the attributes; only that kind reads them."""

    @classmethod
    def of(cls, candidate: ClosedModel) -> Self:
        """Return the candidate itself, typed as having these fields."""
        assert isinstance(candidate, cls)
        return candidate


class Address(ClosedModel):
    """The address of a listener."""

    host: str = "127.0.0.1"
    port: int = Field(ge=1, le=65535)

    @property
    def at(self) -> tuple[str, int]:
        """Host and port, as asyncio takes them."""
        return self.host, self.port


class CommonFields(KindFields):
    """The fields of a description that do not depend on the kind."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+:-]*$", max_length=80)
    title: str = Field("", description="one sentence that says what it is, for reports")
    like: str | None = Field(
        None,
        pattern=FILE_NAME,
        max_length=80,
        description="another description in the same folder, without .yaml: its fields hold where this one does not set them",
    )
    options: dict[str, str] = Field(
        {}, description="values that templates read as `options.NAME`, for variants of one server"
    )
    kind: str
    claims: tuple[Claim, ...] = Field(
        description="the capabilities of the server; a scenario that needs one is run, and fails if it does not work"
    )
    lacks: tuple[Literal["queue", "routes", "alternatives"], ...] = Field(
        (),
        description="what a relay usually has and it does not: queue (it does not keep mail and retry), routes (all mail goes "
        "to one next hop), alternatives (a domain has one next hop)",
    )
    version: str = Field("unknown", description="the version, for a server without the command `version`")
    version_pattern: str = Field(
        r"(\d+(?:\.\w+)+)",
        alias="version-pattern",
        description="regular expression; its first group is the version in the output of the command `version`",
    )
    contract: Literal[1, 2] = Field(1, description="the version of the node contract that its program implements")
    dialect: Literal["profile-1"] | Dialect = Field(
        "profile-1",
        description="the verbs and replies of its shadow redundancy, where they differ from the wire profile",
    )
    argv: tuple[str, ...] = Field((), description="exec, docker: the command, with {config}, {data}, {listen.frontend}")
    files: dict[str, str] = Field(
        {}, description="files to write into the node's directory first: name -> Jinja template over the node's JSON"
    )
    commands: dict[str, Argv] = Field(
        {}, description="inspect, redirect-messages, resubmit; stop, kill, wipe, flush, ..."
    )
    environment: dict[str, str] = Field({}, description="environment variables, in addition to the harness's own")
    user: str | None = Field(
        None, description="exec: the user that runs it, where the harness is root; docker: replaces the image's user"
    )
    installed: str | None = Field(
        None,
        description="exec: the name of the directory that `conformance candidate install` makes; its path is {installed} in templates",
    )
    private_root: bool = Field(
        False,
        alias="private-root",
        description="exec: lay the directory `installed` over the system's root, in separate namespaces (needs root)",
    )
    programs: tuple[str, ...] = Field(
        (), description="exec: programs that must be installed; without one, no scenario is applicable"
    )
    listeners: tuple[ListenerName, ...] = Field(
        ("frontend", "transport", "delivery"),
        min_length=1,
        description="the listeners that it opens; connections to any other listener of its role go to its frontend",
    )
    flush_to_retry: bool = Field(
        False,
        alias="flush-to-retry",
        description="run the command `flush` every MessageRetryInterval, for a server whose retry interval cannot be set",
    )
    waits_for_silence: Duration | None = Field(
        None,
        alias="waits-for-silence",
        description="how long it waits for a silent next hop, where no setting changes that; cells in which a next hop falls "
        "silent are then not applicable with a scaled clock",
    )
    waits_between_attempts: Duration | None = Field(
        None,
        alias="waits-between-attempts",
        description="the shortest time between two attempts, where neither a setting nor `flush` shortens it; cells in which a "
        "next hop is away or defers mail are then not applicable with a scaled clock",
    )
    waits_after_a_kill: Duration | None = Field(
        None,
        alias="waits-after-a-kill",
        description="how long a deferred message may rest after the server was killed while it worked on it, where no setting "
        "changes that; cells that kill it while a next hop defers mail are then not applicable with a scaled clock",
    )
    own_timers: OwnTimers | None = Field(
        None,
        alias="own-timers",
        description="its retries and expiry with its default configuration; without this, scenarios that leave the timers "
        "to the server are not applicable",
    )
    exit_codes: tuple[int, ...] = Field(
        (0,), alias="exit-codes", description="the exit codes that it may have after SIGTERM"
    )
    ready_within: float = Field(20.0, alias="ready-within", gt=0, description="seconds, real")
    stop_within: float = Field(20.0, alias="stop-within", gt=0, description="seconds, real")
    command_within: float = Field(20.0, alias="command-within", gt=0, description="seconds, real, for each command")
    log_limit: int = Field(
        16 * 2**20,
        alias="log-limit",
        ge=1024,
        description="exec, docker: how many octets of its log are kept, for each start",
    )
    directory_limit: int = Field(
        2 * 2**30,
        alias="directory-limit",
        ge=2**20,
        description="exec, docker: size of its directory on disk, in octets, beyond which it is killed",
    )
    defect: str | None = Field(None, description="a defect of the reference to run with")
    generations: tuple[Generation, ...] = Field(
        tuple(GENERATIONS),
        min_length=1,
        description="the generations that it can be; where they are stated, it is started as one of these only, and the "
        "start-up probe uses the first",
    )
