"""A candidate: a description, in YAML, of how to run a mail-transport node under test (node contract).

The schema is closed: an unknown key is an error. Identity is independent of kind: the same server under two kinds has
one name in every report.
"""

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator, model_validator

from conformance import __version__
from conformance.history.dialects import PROFILE_1, Dialect
from conformance.scenarios.errors import Mark, Problem, Report, did_you_mean, listed, shown
from conformance.scenarios.expectations import Copies
from conformance.scenarios.own_timers import OwnTimers
from conformance.scenarios.validation import validate
from conformance.scenarios.values import Duration
from conformance.scenarios.yaml_full import read_full
from conformance.scenarios.yaml_nodes import Node

Kind = Literal["python", "exec", "docker", "remote"]

Claim = Literal[
    "relay", "dsn", "lmtp-delivery", "duplicate-detection", "shadow-2013", "shadow-2010", "delayed-acknowledgement",
    "safety-net", "journal", "inspect", "redirect", "resubmit",
]  # fmt: skip
"""A capability (node contract). A test holds the words against the scenario language's."""

Door = Literal["frontend", "transport", "delivery"]

Generation = Literal["ex2010", "ex2013", "ex2016"]

_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.+-]{0,79}$"
MOST_OCTETS = 2**20
"""The largest description that is read."""

Argv = Annotated[tuple[str, ...], Field(min_length=1)]

NODE_COMMANDS = ("inspect", "redirect-messages", "resubmit")
"""What a node of the contract may be asked; each prints one JSON object."""

SERVER_COMMANDS = ("start", "stop", "kill", "wipe", "pause", "resume", "reload", "flush", "list-queue", "version")
"""What the life of a server may need a command of its own for, where a signal does not do."""


_MEANS = {"python": frozenset({"in-process"}), "exec": frozenset({"moved-clock", "disk"})}


class CandidateError(ValueError):
    """A candidate's description cannot be used; the text says what is wrong and where."""


class _Closed(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=False)


class Address(_Closed):
    """Where a server answers or dials."""

    host: str = "127.0.0.1"
    port: int = Field(ge=1, le=65535)

    @property
    def at(self) -> tuple[str, int]:
        """Host and port."""
        return self.host, self.port


class Container(_Closed):
    """What the `docker` kind needs beside the image."""

    image: str = Field(description="an image that the engine has already; nothing is pulled")
    memory: str = Field("512m", description="memory limit, as Docker writes it")
    pids: int = Field(256, ge=8, description="most processes and threads")
    ports: dict[Door, Annotated[int, Field(ge=1, le=65535)]] = Field(
        {"frontend": 2525, "transport": 2526, "delivery": 2527},
        description="where its doors are in there, for a server that has ports of its own",
    )
    writable: tuple[str, ...] = Field(
        (), description="directories of the image that need a tmpfs: the root is read-only"
    )


class Candidate(_Closed):
    """How to run one node, and what it claims to support."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+:-]*$", max_length=80)
    title: str = Field("", description="a sentence on what it is, for people")
    like: str | None = Field(
        None,
        pattern=_NAME,
        max_length=80,
        description="another description in the same folder: all that is not said here is as it is there",
    )
    options: dict[str, str] = Field({}, description="what templates read as `options`: in what a variant differs")
    kind: Kind
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
    factory: str | None = Field(None, description="python: `package.module:factory`")
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
    listeners: tuple[Door, ...] = Field(
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
    own_timers: OwnTimers | None = Field(
        None,
        alias="own-timers",
        description="what it does about mail that waits when nobody sets its timers; without it, scenarios that leave "
        "the timers to the server are not applicable",
    )
    exit_codes: tuple[int, ...] = Field((0,), alias="exit-codes", description="what it may leave with after SIGTERM")
    container: Container | None = Field(None, description="docker: the image, and what it needs")
    addresses: dict[Door, Address] = Field({}, description="remote: where its doors are")
    next_hops: dict[str, Address] = Field(
        {},
        alias="next-hops",
        description="remote: where it was set up to dial each party of the topology, its links: a sink, a server, "
        "`SERVER.delivery`, `SERVER-store` -> address",
    )
    scale: float | None = Field(
        None,
        gt=0,
        description="remote: by what the documents' times were divided when it was set up; unsaid, what depends on its "
        "times is not applicable",
    )
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
    process_limit: int = Field(
        4096,
        alias="process-limit",
        ge=8,
        description="exec: processes and threads beyond which it is killed (docker: container.pids)",
    )
    memory_limit: int = Field(
        4 * 2**30,
        alias="memory-limit",
        ge=2**24,
        description="exec: octets of memory of all its processes beyond which it is killed (docker: container.memory)",
    )
    defect: str | None = Field(None, description="a defect of the reference to run with")
    generations: tuple[Generation, ...] = Field(
        get_args(Generation),
        min_length=1,
        description="the generations that it can be; where they are said, it is started as no other, and the start-up "
        "probe uses the first",
    )

    _folder: Path | None = PrivateAttr(None)

    @property
    def folder(self) -> Path | None:
        """The folder of the description's file, `{here}` in commands; None of one that is in no file."""
        return self._folder

    def placed(self, folder: Path) -> "Candidate":
        """Return the description as it is in a folder."""
        placed = self.model_copy()
        placed._folder = folder
        return placed

    @field_validator("version_pattern")
    @classmethod
    def _is_pattern(cls, pattern: str) -> str:
        try:
            re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            raise ValueError(f"{shown(pattern)} is no regular expression: {error}") from error
        return pattern

    @model_validator(mode="after")
    def _whole(self) -> "Candidate":
        needed = {
            "python": ("factory", self.factory),
            "exec": ("argv", self.argv),
            "docker": ("container", self.container),
            "remote": ("addresses", self.addresses),
        }
        key, value = needed[self.kind]
        if not value:
            raise ValueError(f"kind: the kind {self.kind} needs {key!r}")
        if unknown := sorted(set(self.commands) - {*NODE_COMMANDS, *SERVER_COMMANDS}):
            known = ", ".join((*NODE_COMMANDS, *SERVER_COMMANDS))
            hint = did_you_mean(unknown[0], (*NODE_COMMANDS, *SERVER_COMMANDS)) or f"; there are {known}"
            raise ValueError(f"commands: there is no {unknown[0]!r}{hint}")
        if "frontend" not in self.listeners:
            raise ValueError("listeners: every server has a frontend")
        if self.flush_to_retry and "flush" not in self.commands:
            raise ValueError("flush-to-retry: it needs the command 'flush'")
        if self.kind == "remote":
            self._set_up()
        if self.private_root and not self.installed:
            raise ValueError("private-root: it needs 'installed', the directory to lay over the root")
        return self

    def _set_up(self) -> None:
        if "frontend" not in self.addresses:
            raise ValueError("addresses: every server has a frontend")
        if "start" in self.commands and not {"stop", "kill"} & set(self.commands):
            raise ValueError("commands: whoever is started must be ended, by 'stop' or 'kill'")
        places = [(address.host, address.port) for address in self.next_hops.values()]
        if len(set(places)) != len(places):
            raise ValueError("next-hops: two parties have one address")

    @property
    def doors(self) -> tuple[Door, ...]:
        """The doors that it opens: of a server that runs already, those with an address."""
        return tuple(self.addresses) if self.kind == "remote" else self.listeners

    @property
    def means(self) -> frozenset[str]:
        """What its kind has, beside what every kind has."""
        return _MEANS.get(self.kind, frozenset())

    def with_means(self, needed: str) -> "Candidate":
        """Return it of the first kind that has this, where its own has not."""
        kinds = [] if needed in self.means else [kind for kind, has in _MEANS.items() if needed in has]
        return self.model_copy(update={"kind": kinds[0]}) if kinds else self

    @property
    def is_told(self) -> bool:
        """Whether it gets the harness's configuration: one that runs already was set up by somebody else."""
        return self.kind != "remote" or "start" in self.commands

    @property
    def reads_its_document(self) -> bool:
        """Whether the program is given the harness's JSON document: the one that says where its status file is."""
        return any("{config}" in word for word in self.argv)

    @property
    def spelling(self) -> Dialect:
        """The dialect that its conversations are read with."""
        return PROFILE_1 if self.dialect == "profile-1" else self.dialect

    @property
    def identity(self) -> str:
        """The name in every report: the same under every kind; a defect makes it another."""
        return f"{self.name}+{self.defect}" if self.defect else self.name

    @property
    def sha256(self) -> str:
        """A hash of the whole description: did the candidate change between two runs?"""
        return hashlib.sha256(json.dumps(self.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()


REFERENCE = Candidate(
    name="reference",
    kind="python",
    claims=(
        "relay",
        "dsn",
        "lmtp-delivery",
        "duplicate-detection",
        "shadow-2013",
        "shadow-2010",
        "delayed-acknowledgement",
        "safety-net",
        "journal",
        "inspect",
        "redirect",
        "resubmit",
    ),
    version=__version__,
    contract=2,
    factory="conformance.reference.node:create",
    argv=("{python}", "-m", "conformance.reference", "--config", "{config}"),
    commands={
        name: ("{python}", "-m", "conformance.reference", "--config", "{config}", name, *placeholders)
        for name, placeholders in {
            "inspect": (),
            "redirect-messages": ("{1}",),
            "resubmit": ("{1}",),
        }.items()
    },
    own_timers=OwnTimers(
        source="EX2013, parameters: MessageExpirationTimeout 2 days; MessageRetryInterval 1 minute from an attempt's end",
        tries_in_first_hour=Copies(min=50, max=61),
        tries_in_half_a_day=Copies(min=600, max=721),
        given_up_after=2 * 86400,
        given_up_by=2 * 86400 + 60,
    ),
)
"""The reference transport, in this process; `exec:reference` is the same as a program of its own."""


def read_description(path: Path) -> Candidate:
    """Read a description from a file. Raises CandidateError with everything that is wrong, each with its place:
    `path:line:column: message`."""
    report = Report(str(path))
    node = read_full(path, report, most=MOST_OCTETS)
    like = node.get("like") if node is not None else None
    # A word that is no name is told by the schema, and names no file.
    if node is not None and like is not None and isinstance(like.value, str) and re.fullmatch(_NAME, like.value):
        beside = Report(str(path.with_name(f"{like.value}{path.suffix}")))
        other = read_full(Path(beside.path), beside, most=MOST_OCTETS)
        report.take(beside.problems)
        if other is not None and (not other.entries or "like" in other.entries):
            report.add(like.mark, f"like: {like.value} must be a description that is like no other itself")
        elif other is not None:
            node = Node(node.mark, {**other.entries, **node.entries})
    candidate = validate(Candidate, node, report) if node is not None and not report.problems else None
    if candidate is None or node is None:
        raise CandidateError(listed([_at_its_key(problem, node) for problem in report.problems]))
    return candidate.placed(path.resolve().parent)


def _at_its_key(problem: Problem, node: Node | None) -> Problem:
    """Return a problem of the whole description that begins with a key at the place of that key."""
    entry = node.entries.get(problem.message.partition(":")[0]) if node is not None else None
    if entry is None or Mark(problem.line, problem.column) != node.mark:  # type: ignore[union-attr]
        return problem
    return replace(problem, line=entry.key.line, column=entry.key.column)
