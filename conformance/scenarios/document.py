"""A scenario document as a whole, and the cell: one point of its matrix."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from conformance.parameters import editor_schema
from conformance.scenarios.name_types import Party, PartyOrAny, Place
from conformance.scenarios.steps.blocks import Expect, Step, flattened
from conformance.scenarios.values import Duration, Label, Parameter
from conformance.topology import Topology

CAPABILITIES = (
    "relay", "dsn", "lmtp-delivery", "duplicate-detection", "shadow-2013", "shadow-2010", "delayed-acknowledgement",
    "safety-net", "journal", "inspect", "redirect", "resubmit",
)  # fmt: skip
"""What a candidate can claim (docs/node-contract.md)."""

LACKS = ("queue", "routes", "alternatives")
"""What a claim covers unless a description says in `lacks` that it does not (docs/node-contract.md)."""

NEEDS = (*CAPABILITIES, "shadow", *LACKS)
"""What a scenario can need; `shadow` is one of those of the generations, for the parameters of Exchange."""


class FaultGrid(BaseModel):
    """Where a grid of faults is laid: on one link, over these verbs."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    sender: PartyOrAny = Field(alias="from", description="who dials; `*` is anyone")
    to: Party = Field(description="who is dialled")
    listener: Literal["frontend", "transport", "delivery", "smtp", "lmtp"] | None = None
    places: tuple[Place, ...] = Field(
        (), description="where faults strike; default: every place of a mail transaction, from connect to dot"
    )


class Document(BaseModel):
    """A scenario as written, after its values were checked; steps stay raw until the axes have values."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    id: Label = Field(description="what reports, baselines and links call it, for ever")
    title: str = Field(min_length=10, max_length=160, description="a sentence that is true when it passes")
    description: str = Field("", description="what is not obvious: what is held back, and who is caught by it")
    requirements: tuple[str, ...] = Field(min_length=1, description="rows of the catalogue; the first is foremost")
    needs: tuple[str, ...] = Field(
        (),
        description="capabilities of the candidate; `shadow`: of either generation; `queue`: it keeps mail and tries again; "
        "`routes`: it chooses the next hop by recipient domain",
    )
    topology: Any = Field(description="name of a topology of fixtures/topologies, or a whole one")
    axes: dict[Label, tuple[JsonValue, ...]] = Field({}, description="the matrix: names, each with a list of values")
    implied: dict[Label, JsonValue] = Field(
        {},
        description="of axes that were added to a scenario: the value that is not part of a cell's id, since it is what the "
        "scenario did before",
    )
    exclude: tuple[dict[Label, JsonValue], ...] = Field((), description="combinations of axis values that are no cells")
    configure: dict[str, Parameter] = Field(
        {}, description="transport parameters of all servers from the start", json_schema_extra=editor_schema()
    )
    timers: Literal["told", "own"] = Field(
        "told",
        description="own: servers are not told how often to try again and when to give up; `${own-given-up-by}` and its "
        "like stand for what the candidate's description says of itself",
    )
    unscaled: str = Field(
        "", description="why a scaled clock cannot show it: what does not shrink with the times that servers are told"
    )
    waive: dict[str, str] = Field({}, description="invariants that do not hold here, each with the reason")
    faults: FaultGrid | None = Field(None, description="repeat the scenario with a fault at every point of this link")
    drain: Duration = Field(6 * 3600, description="the bound of the drain at the end")
    tags: tuple[str, ...] = Field((), description="words to select by; `slow` and `docker` become marks")
    steps: tuple[Any, ...] = Field(min_length=1, description="what happens, in order")


class Cell(BaseModel):
    """One point of a scenario's matrix: everything that is needed to run and to judge it."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    scenario: str
    title: str
    path: str = Field(description="the scenario's file, relative to the corpus")
    line: int = Field(description="line of the scenario's id")
    axes: dict[str, str] = Field(description="axis values as text, sorted by axis")
    implied: dict[str, str] = Field({}, description="axis values of the cell that are not part of its id")
    requirements: tuple[str, ...]
    needs: tuple[str, ...]
    topology: Topology
    waive: dict[str, str] = {}
    drain: float
    steps: tuple[Step, ...]
    sha256: str = Field(description="of the scenario's text, its topology's and its messages': what the suite was")
    tags: tuple[str, ...] = ()
    timers: Literal["told", "own"] = "told"
    unscaled: str = ""

    @property
    def id(self) -> str:
        """`scenario[axis=value,...]`, stable for ever."""
        axes = ",".join(f"{name}={value}" for name, value in self.axes.items())
        return f"{self.scenario}[{axes}]" if axes else self.scenario

    @property
    def all_steps(self) -> tuple[Step, ...]:
        """All steps, those inside blocks too."""
        return tuple(flattened(self.steps))

    @property
    def judged_requirements(self) -> frozenset[str]:
        """Every requirement that the cell judges: its scenario's, and those of single expectations."""
        expected = (step.action.expectation for step in self.all_steps if isinstance(step.action, Expect))
        return frozenset(self.requirements).union(*(expectation.requirements for expectation in expected))
