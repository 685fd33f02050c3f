"""A candidate: a description, in YAML, of how to run a mail-transport node under test (node contract).

The schema is closed: an unknown key is an error. Identity is independent of kind: the same server under two kinds has
one name in every report.
"""

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import PrivateAttr, field_validator, model_validator

from conformance import __version__, registry
from conformance.candidates import kinds
from conformance.candidates.availability import Availability
from conformance.candidates.fields import FILE_NAME, CommonFields, KindFields, ListenerName
from conformance.candidates.kind import KINDS, NODE_COMMANDS, SERVER_COMMANDS, Kind, kinds_with_feature
from conformance.history.dialects import PROFILE_1, Dialect
from conformance.scenarios.document import CAPABILITIES
from conformance.scenarios.errors import Mark, Problem, ProblemReport, did_you_mean, format_problems, short_repr
from conformance.scenarios.expectations import Copies
from conformance.scenarios.own_timers import OwnTimers
from conformance.scenarios.validation import validate
from conformance.scenarios.yaml_full import read_full_yaml
from conformance.scenarios.yaml_nodes import Node

registry.import_submodules(kinds)

if TYPE_CHECKING:
    KindName = str
else:
    KindName = Literal[tuple(KINDS)]

MAX_DESCRIPTION_OCTETS = 2**20
"""The largest description that is read."""


class CandidateError(ValueError):
    """A candidate's description cannot be used; the text says what is wrong and where."""


if TYPE_CHECKING:
    _OfKinds = KindFields
else:

    class _OfKinds(*(kind.fields for kind in KINDS.values() if kind.fields is not KindFields)):
        """The fields that one kind has alone."""


class Candidate(CommonFields, _OfKinds):
    """How to run one node, and what it claims to support."""

    kind: KindName

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
            raise ValueError(f"{short_repr(pattern)} is no regular expression: {error}") from error
        return pattern

    @model_validator(mode="after")
    def _whole(self) -> "Candidate":
        if not getattr(self, self.kind_definition.needs):
            raise ValueError(f"kind: the kind {self.kind} needs {self.kind_definition.needs!r}")
        if unknown := sorted(set(self.commands) - {*NODE_COMMANDS, *SERVER_COMMANDS}):
            known = ", ".join((*NODE_COMMANDS, *SERVER_COMMANDS))
            hint = did_you_mean(unknown[0], (*NODE_COMMANDS, *SERVER_COMMANDS)) or f"; there are {known}"
            raise ValueError(f"commands: there is no {unknown[0]!r}{hint}")
        if "frontend" not in self.listeners:
            raise ValueError("listeners: every server has a frontend")
        if self.flush_to_retry and "flush" not in self.commands:
            raise ValueError("flush-to-retry: it needs the command 'flush'")
        self.kind_definition.check(self)
        if self.private_root and not self.installed:
            raise ValueError("private-root: it needs 'installed', the directory to lay over the root")
        return self

    @property
    def kind_definition(self) -> Kind:
        """What is true of its kind."""
        return KINDS[self.kind]

    @property
    def listener_names(self) -> tuple[ListenerName, ...]:
        """The doors that it opens: of a server that runs already, those with an address."""
        return self.kind_definition.listener_names(self)

    def check_availability(self) -> Availability:
        """Look for what it needs to be run, in the way of its kind."""
        return self.kind_definition.check_availability(self)

    @property
    def features(self) -> frozenset[str]:
        """What its kind has that not every kind has."""
        return self.kind_definition.features

    def with_feature(self, needed: str) -> "Candidate":
        """Return it of a kind that has this, where its own has not, and the description has what that kind needs."""
        able = (
            []
            if needed in self.features
            else [one for one in kinds_with_feature(needed) if getattr(self, KINDS[one].needs)]
        )
        return self.model_copy(update={"kind": able[0]}) if able else self

    @property
    def is_configured_here(self) -> bool:
        """Whether it gets the harness's configuration: one that runs already was set up by somebody else."""
        return self.kind_definition.is_configured_here(self)

    @property
    def reads_json_document(self) -> bool:
        """Whether the program is given the harness's JSON document: the one that says where its status file is."""
        return any("{config}" in word for word in self.argv)

    @property
    def resolved_dialect(self) -> Dialect:
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
    report = ProblemReport(str(path))
    node = read_full_yaml(path, report, most=MAX_DESCRIPTION_OCTETS)
    like = node.get("like") if node is not None else None
    # A word that is no name is told by the schema, and names no file.
    if node is not None and like is not None and isinstance(like.value, str) and re.fullmatch(FILE_NAME, like.value):
        beside = ProblemReport(str(path.with_name(f"{like.value}{path.suffix}")))
        other = read_full_yaml(Path(beside.path), beside, most=MAX_DESCRIPTION_OCTETS)
        report.take(beside.problems)
        if other is not None and (not other.entries or "like" in other.entries):
            report.add(like.mark, f"like: {like.value} must be a description that is like no other itself")
        elif other is not None:
            node = Node(node.mark, {**other.entries, **node.entries})
    candidate = validate(Candidate, node, report) if node is not None and not report.problems else None
    if candidate is None or node is None:
        raise CandidateError(format_problems([_at_its_key(problem, node) for problem in report.problems]))
    return candidate.placed(path.resolve().parent)


def _at_its_key(problem: Problem, node: Node | None) -> Problem:
    """Return a problem of the whole description that begins with a key at the place of that key."""
    entry = node.entries.get(problem.message.partition(":")[0]) if node is not None else None
    if entry is None or Mark(problem.line, problem.column) != node.mark:  # type: ignore[union-attr]
        return problem
    return replace(problem, line=entry.key.line, column=entry.key.column)
