"""The files of an exploration's directory, which `conformance explore` writes and others read.

A *plan* is one cell that is run with faults and judged by the model alone. `header.json` says what is explored and how; it is
written before the first plan, and again when a sweep has found which cells take too long, and at the end of each call of the
command. `exploration.json` is what was found: equal plans give an equal file, whenever and in however many processes they were
run. The plans themselves are in `plans.jsonl`, which `conformance.explore.journal` alone reads.
"""

import hashlib
from pathlib import Path
from typing import ClassVar, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from conformance.clocks import CLOCKS, ClockName
from conformance.regular_files import read_regular
from conformance.results.fingerprints import harness_version
from conformance.results.layout import RunDirectoryError, SchemaTooNew
from conformance.results.schema import CandidateRecord

HEADER_FILE = "header.json"
EXPLORATION_FILE = "exploration.json"
PAGE_FILE = "index.html"
ORIGINALS_FOLDER = "original"
"""The folder with the plans of findings as they were before they were reduced."""
SCHEMA = 1
"""The schema number of headers that this version writes, and the highest that it reads."""

Method = Literal["sweep-1", "sweep-2", "random"]
METHODS: dict[Method, str] = {
    "sweep-1": "single faults at every point of scenarios",
    "sweep-2": "pairs of faults at the points of scenarios",
    "random": "random plans",
}
"""What is explored, in words."""


Model = TypeVar("Model", bound=BaseModel)


class _Versioned(BaseModel):
    """The part of a header that every schema has."""

    schema_number: int = Field(alias="schema", ge=1)


class _Record(BaseModel):
    """The base class of what is stored: immutable, and without unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=False)


class ExplorationHeader(_Record):
    """`header.json`: what is explored and how, and how long that has taken so far.

    Two headers that differ in `_OWN` alone are of the same plans.
    """

    _OWN: ClassVar[frozenset[str]] = frozenset({"exploration", "started", "seconds", "too_costly"})

    schema_number: int = Field(SCHEMA, alias="schema", ge=1)
    exploration: str = Field(min_length=1, max_length=255, description="its name, which is that of its folder")
    started: str = Field(description="UTC, ISO 8601")
    seconds: float = Field(0.0, ge=0, description="real time in which plans were run, of all calls together")
    harness: str = Field(default_factory=harness_version)
    candidate: CandidateRecord
    method: Method
    scenarios: tuple[str, ...] = Field((), description="the scenarios that were named; of a sweep none: all short ones")
    too_costly: tuple[str, ...] | None = Field(
        None,
        description="cells of a sweep that are left out since a run takes too long, as measured once; None: not yet",
    )
    seed: int
    clock: ClockName
    scale: float = 1.0
    environment_sha256: str
    inputs_sha256: str = Field(description="hash of the package, its scenarios and its fixtures")

    @property
    def clock_text(self) -> str:
        """The clock's name, with its scale for a clock that has one: `scaled, scale 60`."""
        return f"{self.clock}, scale {self.scale:g}" if CLOCKS[self.clock].scaled else self.clock

    def continues(self, other: "ExplorationHeader") -> bool:
        """Return whether another header is of the same plans, so that one exploration goes on where the other ended.

        The two may differ in name, beginning, time taken, and the cells that are left out as too costly.
        """
        return self.model_dump(exclude={*self._OWN}) == other.model_dump(exclude={*self._OWN})


class FaultCounts(_Record):
    """How many faults the plans had, and how many of them acted."""

    drawn: int
    fired: int


class PlanSize(_Record):
    """How much a plan has of what is counted when it is reduced."""

    steps: int
    faults: int
    messages: int
    servers: int

    @property
    def text(self) -> str:
        """The counts in words: `2 steps, 1 fault, 1 message, 1 server`."""
        counts = (("step", self.steps), ("fault", self.faults), ("message", self.messages), ("server", self.servers))
        return ", ".join(f"{count} {noun if count == 1 else noun + 's'}" for noun, count in counts)


class FindingRecord(_Record):
    """A check that failed, and the first plan in which it did."""

    file: str = Field(description="the reduced plan, a scenario file")
    original: str = Field(
        description="the plan as it was run, a scenario file too; both are paths in the exploration's folder"
    )
    check: str
    requirement: str
    plan: str = Field(description="the plan's name: its number and seed, or its scenario and faults")
    sentence: str
    plans: int = Field(description="in how many plans the check failed first")
    size: PlanSize
    original_size: PlanSize


class ExplorationSummary(_Record):
    """`exploration.json`: what came of the plans."""

    enumerated: int
    pruned: dict[str, int] = Field(description="why plans were left out -> how many")
    not_run: int
    plans: int
    outcomes: dict[str, int]
    unfinished: dict[str, int] = Field({}, description="why plans could not be run to their end -> how many")
    fired: int
    """The number of plans all of whose faults acted."""
    faults: FaultCounts
    states: int
    transitions: int
    states_seen_once: int
    new_states_per_100_plans: float
    curve: tuple[tuple[int, int], ...] = Field(
        (), description="(plans, distinct states that these showed), at 100 plans at most"
    )
    sometimes: dict[str, int]
    never_seen: tuple[str, ...]
    findings: tuple[FindingRecord, ...]


class Exploration(_Record):
    """An exploration that was read from its directory, and the hash of the two files."""

    path: str
    header: ExplorationHeader
    summary: ExplorationSummary
    content_sha256: str


def read_exploration(directory: Path) -> Exploration:
    """Return the exploration of a directory, from its two files, with their hash.

    Raises RunDirectoryError where a file is missing or damaged, SchemaTooNew for a header of a later schema.
    """
    header, summary = (_read(directory / name) for name in (HEADER_FILE, EXPLORATION_FILE))
    return Exploration(
        path=str(directory),
        header=_parse_header(directory / HEADER_FILE, header),
        summary=_parse(ExplorationSummary, directory / EXPLORATION_FILE, summary),
        content_sha256=hashlib.sha256(header + b"\0" + summary).hexdigest(),
    )


def read_header(directory: Path) -> ExplorationHeader | None:
    """Return the header of an exploration's directory, None where there is no `header.json`.

    Raises RunDirectoryError where the file is damaged, SchemaTooNew for one of a later schema.
    """
    path = directory / HEADER_FILE
    return _parse_header(path, _read(path)) if path.exists() else None


def _parse_header(path: Path, octets: bytes) -> ExplorationHeader:
    """Return the header in a file's content; `path` is for messages. Raises RunDirectoryError for a damaged one.

    Raises SchemaTooNew for a later schema, whatever its other fields are.
    """
    number = _parse(_Versioned, path, octets).schema_number
    if number > SCHEMA:
        raise SchemaTooNew(
            f"{path} has schema {number}, and this program reads schemas up to {SCHEMA}: use a later version"
        )
    return _parse(ExplorationHeader, path, octets)


def _parse(model: type[Model], path: Path, octets: bytes) -> Model:
    """Return a file's content as a record of the class `model`.

    Raises RunDirectoryError, which names `path` and the first mistake, where the content is not such a record.
    """
    try:
        return model.model_validate_json(octets)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise RunDirectoryError(f"{path}: {place}: {first['msg']}" if place else f"{path}: {first['msg']}") from error


def _read(path: Path) -> bytes:
    """Return the content of a file of an exploration. Raises RunDirectoryError where it cannot be read."""
    try:
        return read_regular(path)
    except OSError as error:
        raise RunDirectoryError(f"{path} cannot be read: {error.strerror}") from error
