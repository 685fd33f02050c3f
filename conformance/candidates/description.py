"""A candidate: the YAML description of how a mail server under test is run, and of what it claims to support.

An unknown key is an error. The identity does not depend on the kind: the same server run as two kinds has one name in
every report. A *kind* is a way to run a server: `python`, `exec`, `docker` or `remote`; a *feature* is something that
the harness can do only with some kinds. The harness reads descriptions for `--candidate`; the reference server has
one in code (`REFERENCE`).
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
from conformance.clocks import IN_PROCESS
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
"""A larger file is refused."""


class CandidateError(ValueError):
    """A candidate's description cannot be used; the text says what is wrong and where."""


if TYPE_CHECKING:
    _OfKinds = KindFields
else:

    class _OfKinds(*(kind.fields for kind in KINDS.values() if kind.fields is not KindFields)):
        """The fields of every kind that has fields of its own."""


class Candidate(CommonFields, _OfKinds):
    """How to run a node, and what it claims to support."""

    kind: KindName

    _folder: Path | None = PrivateAttr(None)

    @property
    def folder(self) -> Path | None:
        """The folder of the description's file, `{here}` in commands; None for a description that was not read from a file."""
        return self._folder

    def with_folder(self, folder: Path) -> "Candidate":
        """Return a copy whose `folder` is this one."""
        copy = self.model_copy()
        copy._folder = folder
        return copy

    @field_validator("version_pattern")
    @classmethod
    def _check_pattern(cls, pattern: str) -> str:
        """Return the pattern unchanged. Raises ValueError when it is not a regular expression."""
        try:
            re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            raise ValueError(f"{short_repr(pattern)} is not a regular expression: {error}") from error
        return pattern

    @model_validator(mode="after")
    def _check_fields_together(self) -> "Candidate":
        """Return the description unchanged. Raises ValueError, whose text begins with a key, when fields contradict."""
        if not getattr(self, self.kind_definition.needs):
            raise ValueError(f"kind: the kind {self.kind} needs {self.kind_definition.needs!r}")
        if unknown := sorted(set(self.commands) - {*NODE_COMMANDS, *SERVER_COMMANDS}):
            known = ", ".join((*NODE_COMMANDS, *SERVER_COMMANDS))
            hint = did_you_mean(unknown[0], (*NODE_COMMANDS, *SERVER_COMMANDS)) or f"; known commands: {known}"
            raise ValueError(f"commands: there is no {unknown[0]!r}{hint}")
        if "frontend" not in self.listeners:
            raise ValueError("listeners: every server has a frontend; add 'frontend'")
        if self.flush_to_retry and "flush" not in self.commands:
            raise ValueError("flush-to-retry: needs the command 'flush'")
        self.kind_definition.check(self)
        if self.private_root and not self.installed:
            raise ValueError("private-root: needs 'installed', the directory that is laid over the root")
        return self

    @property
    def kind_definition(self) -> Kind:
        """The object that declares what all candidates of this candidate's kind have in common."""
        return KINDS[self.kind]

    @property
    def listener_names(self) -> tuple[ListenerName, ...]:
        """The listeners that the server opens; of one that runs already, those that the description has an address for."""
        return self.kind_definition.listener_names(self)

    def check_availability(self) -> Availability:
        """Look on this machine for what is needed to run the candidate; return where that is, or what is missing.

        For a container the Docker engine is asked, once per process.
        """
        return self.kind_definition.check_availability(self)

    @property
    def features(self) -> frozenset[str]:
        """What the harness can do with this candidate's kind and not with every kind: run in process, move clocks, fail disks."""
        return self.kind_definition.features

    def with_feature(self, feature: str) -> "Candidate":
        """Return a copy of the candidate as the first kind that has a feature and whose required field the description has.

        The candidate itself is returned when its own kind has the feature, or when no kind with it is possible.
        """
        if feature in self.features:
            return self
        kinds = [kind for kind in kinds_with_feature(feature) if getattr(self, KINDS[kind].needs)]
        return self.model_copy(update={"kind": kinds[0]}) if kinds else self

    @property
    def is_configured_here(self) -> bool:
        """Whether the harness configures the server. One that runs already was configured by its user."""
        return self.kind_definition.is_configured_here(self)

    @property
    def reads_json_document(self) -> bool:
        """Whether `argv` contains `{config}`: the program reads the node's JSON document, which names its status file."""
        return any("{config}" in word for word in self.argv)

    @property
    def takes_defaults_from_document(self) -> bool:
        """Whether only the node itself reads its JSON document: a parameter may be left out there, and the node takes its default.

        False for a description with `files`, since these are made from templates that need every value.
        """
        return (IN_PROCESS in self.features or self.reads_json_document) and not self.files

    @property
    def resolved_dialect(self) -> Dialect:
        """The dialect in which the candidate's sessions are interpreted: its own, or that of the wire profile."""
        return PROFILE_1 if self.dialect == "profile-1" else self.dialect

    @property
    def identity(self) -> str:
        """The name in every report: the same for every kind, followed by `+DEFECT` where the reference has one."""
        return f"{self.name}+{self.defect}" if self.defect else self.name

    @property
    def sha256(self) -> str:
        """A hash of all fields. It tells whether the description changed between two runs."""
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
"""The reference server, run in this process; `exec:reference` runs it as a program."""


def read_description(path: Path) -> Candidate:
    """Read a description from a file. A key `like` names another one, whose fields hold where this one does not set them.

    Raises CandidateError with a line `path:line:column: message` for each problem.
    """
    report = ProblemReport(str(path))
    inherited: dict[Problem, Problem] = {}
    node = read_full_yaml(path, report, max_octets=MAX_DESCRIPTION_OCTETS)
    like = node.get("like") if node is not None else None
    # A `like` that is not a file name is left to the schema to report.
    if node is not None and like is not None and isinstance(like.value, str) and re.fullmatch(FILE_NAME, like.value):
        like_report = ProblemReport(str(path.with_name(f"{like.value}{path.suffix}")))
        like_node = read_full_yaml(Path(like_report.path), like_report, max_octets=MAX_DESCRIPTION_OCTETS)
        report.add_all(like_report.problems)
        if like_node is not None and (not like_node.entries or "like" in like_node.entries):
            report.add(like.mark, f"like: {like.value} must be a description without a 'like' of its own")
        elif like_node is not None:
            node = Node(node.mark, {**like_node.entries, **node.entries})
            validate(Candidate, like_node, like_report)  # a problem of an inherited field stands in the other file
            of_like = [_at_key(problem, like_node) for problem in like_report.problems]
            inherited = {replace(problem, path=report.path): problem for problem in of_like}
    candidate = validate(Candidate, node, report) if node is not None and not report.problems else None
    if candidate is None or node is None:
        problems = [_at_key(problem, node) for problem in report.problems]
        raise CandidateError(format_problems([inherited.get(problem, problem) for problem in problems]))
    return candidate.with_folder(path.resolve().parent)


def _at_key(problem: Problem, node: Node | None) -> Problem:
    """Return a problem with the line and column of the key that its message begins with, if it has none more exact."""
    entry = node.entries.get(problem.message.partition(":")[0]) if node is not None else None
    if entry is None or Mark(problem.line, problem.column) != node.mark:  # type: ignore[union-attr]
        return problem
    return replace(problem, line=entry.key.line, column=entry.key.column)
