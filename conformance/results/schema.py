"""The records of a run directory (schema 2): `run.json`, the lines of a cell's file, and `footer.json`.

Unknown fields are errors, and records are immutable. A change that old readers would misread needs a new schema number;
a new optional field does not.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from conformance.clocks import CLOCKS, ClockName
from conformance.results.fingerprints import dependency_versions, harness_version, platform_facts
from conformance.verdicts import Outcome

SCHEMA = 2
"""The schema number that this version writes, and the highest that it reads. In schema 1 no file was compressed."""


class _Record(BaseModel):
    """The base class of all records."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=False)


class CandidateRecord(_Record):
    """A candidate of the run. `sha256` is the hash of its whole description: it differs where the description changed."""

    name: str
    kind: str
    version: str = "unknown"
    sha256: str
    claims: tuple[str, ...] = ()


class RunHeader(_Record):
    """`run.json`: everything about a run that is known before its first cell."""

    schema_number: int = Field(SCHEMA, alias="schema", ge=1)
    run: str = Field(min_length=1, max_length=200, description="the run's name, which is that of its folder")
    started: str = Field(description="UTC, ISO 8601")
    harness: str = Field(default_factory=harness_version)
    platform: dict[str, str] = Field(default_factory=platform_facts)
    dependencies: dict[str, str] = Field(default_factory=dependency_versions)
    seed: int
    clock: ClockName
    scale: float = 1.0
    grid: str = "smoke"
    candidates: tuple[CandidateRecord, ...]
    suite_sha256: str
    environment_sha256: str
    command: tuple[str, ...] = ()
    filtered: bool = Field(False, description="only a part of the suite was asked for (-k, -m, some paths)")
    cells_planned: int = Field(ge=0)

    @property
    def scale_text(self) -> str:
        """`, scale 60` for a clock with a scale, else '': a suffix of the clock's name."""
        return f", scale {self.scale:g}" if CLOCKS[self.clock].scaled else ""


class CellHeader(_Record):
    """The first line of a cell's file: all that is needed to read, query and repeat the cell without another file."""

    record: Literal["cell"] = "cell"
    schema_number: int = Field(SCHEMA, alias="schema", ge=1)
    run: str
    nodeid: str = Field(min_length=1)
    scenario: str
    title: str = ""
    path: str
    line: int = 1
    axes: dict[str, str] = {}
    candidate: str
    generations: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    scenario_sha256: str
    candidate_sha256: str
    environment_sha256: str
    seed: int
    clock: ClockName
    scale: float = 1.0
    tolerance: float = Field(0.0, description="seconds, documented time: how late is not yet wrong")
    started: str
    repeat: str = Field("", description="the command that runs this one cell again")
    topology: dict[str, JsonValue] = Field({}, description="conformance.topology.Topology as JSON, by alias")
    parameters: dict[str, dict[str, JsonValue]] = Field(
        {},
        description="server -> every transport parameter at the cell's start, documented seconds and octets; empty in runs "
        "of 0.1.0",
    )
    waive: dict[str, str] = Field({}, description="invariants that the scenario waives, each with its reason")
    own_timers: dict[str, JsonValue] | None = Field(
        None, description="the candidate's own timers, from its description, where the scenario does not set them"
    )
    claims: tuple[str, ...] = Field((), description="capabilities that every candidate of the cell claims")
    should: Literal["warn", "fail"] = Field("fail", description="what a broken `should` row does; 0.1.0 had no other")


class CellFooter(_Record):
    """The last line of a cell's file; a cell without it was cut short."""

    record: Literal["footer"] = "footer"
    outcome: Outcome
    sentence: str = ""
    events: int = Field(ge=0)
    verdicts: int = Field(ge=0)
    wall_seconds: float = Field(ge=0)
    cpu_seconds: float = Field(ge=0)
    simulated_seconds: float = Field(ge=0)
    known: str | None = Field(None, description="the baseline's comment, where every failure is known")


class RunFooter(_Record):
    """`footer.json`: the totals of a run, and the damage found in its files when the run ended."""

    schema_number: int = Field(SCHEMA, alias="schema", ge=1)
    finished: str = Field(description="UTC, ISO 8601")
    outcomes: dict[Outcome, int] = Field(description="finished cells, by outcome; every outcome has an entry")
    cells: int = Field(ge=0, description="cells that have a file")
    cut_short: int = Field(0, ge=0, description="cells whose file has no footer")
    missing: int = Field(0, ge=0, description="planned cells that have no file")
    wall_seconds: float = Field(ge=0)
    cells_per_second: float = Field(ge=0)
    simulated_per_wall_second: float = Field(ge=0)
    cpu_per_cell: float = Field(ge=0, description="seconds")
    interrupted: bool = False
    again: tuple[str, ...] = Field(
        (),
        description="node ids of cells that were run again, alone, because the harness was late while other cells ran",
    )
    damage: tuple[str, ...] = Field((), description="damaged lines, as file:line: why")
