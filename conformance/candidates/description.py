"""A candidate: a description, in YAML, of how to run a mail-transport node under test (node contract).

The schema is closed: an unknown key is an error. Identity is independent of kind: the same server under two kinds has
one name in every report.
"""

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, PrivateAttr, field_validator, model_validator

from conformance import __version__, counterparts
from conformance.candidates import kinds
from conformance.candidates.kind import KINDS, NODE_COMMANDS, SERVER_COMMANDS, Kind, kinds_with
from conformance.candidates.parts import Door, OwnFields
from conformance.generations import GENERATIONS, Generation
from conformance.history.dialects import PROFILE_1, Dialect
from conformance.scenarios.document import CAPABILITIES
from conformance.scenarios.errors import Mark, Problem, Report, did_you_mean, listed, shown
from conformance.scenarios.expectations import Copies
from conformance.scenarios.own_timers import OwnTimers
from conformance.scenarios.validation import validate
from conformance.scenarios.values import Duration
from conformance.scenarios.yaml_full import read_full
from conformance.scenarios.yaml_nodes import Node

counterparts.load(kinds)

if TYPE_CHECKING:
    KindName = str
    Claim = str
else:
    KindName = Literal[tuple(KINDS)]
    Claim = Literal[CAPABILITIES]

_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.+-]{0,79}$"
MOST_OCTETS = 2**20
"""The largest description that is read."""

Argv = Annotated[tuple[str, ...], Field(min_length=1)]


class CandidateError(ValueError):
    """A candidate's description cannot be used; the text says what is wrong and where."""


if TYPE_CHECKING:
    _OfKinds = OwnFields
else:

    class _OfKinds(*(kind.fields for kind in KINDS.values() if kind.fields is not OwnFields)):
        """The fields that one kind has alone."""


class Candidate(_OfKinds):
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
    kind: KindName
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
        if not getattr(self, self.its_kind.needs):
            raise ValueError(f"kind: the kind {self.kind} needs {self.its_kind.needs!r}")
        if unknown := sorted(set(self.commands) - {*NODE_COMMANDS, *SERVER_COMMANDS}):
            known = ", ".join((*NODE_COMMANDS, *SERVER_COMMANDS))
            hint = did_you_mean(unknown[0], (*NODE_COMMANDS, *SERVER_COMMANDS)) or f"; there are {known}"
            raise ValueError(f"commands: there is no {unknown[0]!r}{hint}")
        if "frontend" not in self.listeners:
            raise ValueError("listeners: every server has a frontend")
        if self.flush_to_retry and "flush" not in self.commands:
            raise ValueError("flush-to-retry: it needs the command 'flush'")
        self.its_kind.check(self)
        if self.private_root and not self.installed:
            raise ValueError("private-root: it needs 'installed', the directory to lay over the root")
        return self

    @property
    def its_kind(self) -> Kind:
        """What is true of its kind."""
        return KINDS[self.kind]

    @property
    def doors(self) -> tuple[Door, ...]:
        """The doors that it opens: of a server that runs already, those with an address."""
        return self.its_kind.doors(self)

    @property
    def means(self) -> frozenset[str]:
        """What its kind has that not every kind has."""
        return self.its_kind.means

    def with_means(self, needed: str) -> "Candidate":
        """Return it of a kind that has this, where its own has not, and the description has what that kind needs."""
        able = [] if needed in self.means else [one for one in kinds_with(needed) if getattr(self, KINDS[one].needs)]
        return self.model_copy(update={"kind": able[0]}) if able else self

    @property
    def is_told(self) -> bool:
        """Whether it gets the harness's configuration: one that runs already was set up by somebody else."""
        return self.its_kind.is_told(self)

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


REFERENCE = Candidate(  # type: ignore[call-arg]  # the factory is a field of its kind
    name="reference",
    kind="python",
    claims=CAPABILITIES,
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
