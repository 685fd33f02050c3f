"""The models of a scenario document and of a cell, which is one point of a scenario's matrix.

A *document* is one scenario as its file has it; a *cell* is what is run. The matrix has an *axis* for each thing that
the scenario varies. `loader` and `cells` make both; the runner, the judge and the pytest items use cells.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from conformance.parameters import editor_schema
from conformance.scenarios.name_types import Party, PartyOrAny, Place
from conformance.scenarios.steps.action import Expect, Step, flattened
from conformance.scenarios.values import Duration, Label, Parameter
from conformance.topology import Topology

CAPABILITIES = (
    "relay", "dsn", "lmtp-delivery", "duplicate-detection", "shadow-2013", "shadow-2010", "delayed-acknowledgement",
    "safety-net", "journal", "inspect", "redirect", "resubmit",
)  # fmt: skip
"""Capabilities that a candidate can claim (docs/node-contract.md)."""

LACKS = ("queue", "routes", "alternatives")
"""Abilities that every candidate has unless its description lists them in `lacks` (docs/node-contract.md)."""

NEEDS = (*CAPABILITIES, "shadow", *LACKS)
"""Words of `needs`; `shadow` is either of `shadow-2013` and `shadow-2010`, for scenarios about Exchange's parameters."""


Timers = Literal["told", "own"]
"""Whether the harness sets the retry timers of servers (`told`) or leaves those of the candidate (`own`)."""


Parameters = Literal["explicit", "default"]
"""Whether a node's file has every parameter (`explicit`) or only those that scenario and topology set (`default`)."""


PARAMETERS_AXIS = "parameters"
"""The axis that a document's `parameters` adds; such a scenario cannot have one of that name."""


class FaultGrid(BaseModel):
    """The link and the places of a fault grid: the scenario is repeated with a fault at each of them."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    sender: PartyOrAny = Field(alias="from", description="the party that connects; `*`: any")
    to: Party = Field(description="the party that is connected to")
    listener: Literal["frontend", "transport", "delivery", "smtp", "lmtp"] | None = None
    places: tuple[Place, ...] = Field(
        (), description="where faults occur; default: every place of a mail transaction, from connect to dot"
    )


class Document(BaseModel):
    """A scenario as written, with checked values; its steps are parsed later, for each point of the matrix."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    id: Label = Field(description="the stable name in reports, baselines and links")
    title: str = Field(min_length=10, max_length=160, description="a sentence that is true when it passes")
    description: str = Field(
        "", description="what is not obvious: what is delayed or withheld, and which defects fail it"
    )
    requirements: tuple[str, ...] = Field(
        min_length=1, description="rows of the catalogue; a failure is blamed on the first"
    )
    needs: tuple[str, ...] = Field(
        (),
        description="capabilities that the candidate must have; `shadow`: of either generation; `queue`: it keeps mail and retries; "
        "`routes`: it chooses the next hop by recipient domain",
    )
    topology: Any = Field(description="name of a topology of fixtures/topologies, or a topology itself")
    axes: dict[Label, tuple[JsonValue, ...]] = Field({}, description="the matrix: names, each with a list of values")
    implied: dict[Label, JsonValue] = Field(
        {},
        description="of axes that were added to a scenario: the value that cell ids leave out, since it is what the scenario "
        "did before",
    )
    exclude: tuple[dict[Label, JsonValue], ...] = Field((), description="combinations of axis values without a cell")
    configure: dict[str, Parameter] = Field(
        {}, description="transport parameters of all servers from the start", json_schema_extra=editor_schema()
    )
    server_names: str = Field(
        "same",
        alias="server-names",
        pattern=r"^(same|upper|\$\{[a-z][a-z0-9-]*\})$",
        description="upper: a server's configuration has the names of servers in upper case, but for its own name; "
        "`${axis}` for a value of an axis",
    )
    timers: Timers = Field(
        "told",
        description="own: servers keep their own retry interval and queue lifetime, and `${own-given-up-by}` and the like "
        "stand for what the candidate's description states",
    )
    parameters: tuple[Parameters, ...] = Field(
        ("explicit",),
        min_length=1,
        description="values of the axis `parameters`: explicit: the file of a node has every parameter and limit; default: it "
        "has only those that the scenario or its topology sets. Cell ids leave `explicit` out",
    )
    unscaled: str = Field(
        "", description="why the scaled clock cannot run it: a time that does not shrink with the configured ones"
    )
    waive: dict[str, str] = Field({}, description="invariants that do not hold here, each with the reason")
    faults: FaultGrid | None = Field(None, description="repeat the scenario with a fault at every point of this link")
    drain: Duration = Field(6 * 3600, description="how long the drain at the end may last")
    tags: tuple[str, ...] = Field((), description="words to select cells by; `slow` and `docker` become pytest marks")
    steps: tuple[Any, ...] = Field(min_length=1, description="what happens, in order")


class Cell(BaseModel):
    """One point of a scenario's matrix, with everything that is needed to run and to judge it.

    Where the scenario has a fault grid, the fault is the value of the axis `fault` and the first of the steps.
    """

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
    sha256: str = Field(description="hash of the scenario, its topology and its messages")
    tags: tuple[str, ...] = ()
    timers: Timers = "told"
    parameters: Parameters = "explicit"
    unscaled: str = ""

    @property
    def id(self) -> str:
        """The stable id `scenario[axis=value,...]`, without implied axes; without any axis the scenario's id alone."""
        axes = ",".join(f"{name}={value}" for name, value in self.axes.items())
        return f"{self.scenario}[{axes}]" if axes else self.scenario

    @property
    def all_steps(self) -> tuple[Step, ...]:
        """All steps in order: a block, then the steps inside it."""
        return tuple(flattened(self.steps))

    @property
    def judged_requirements(self) -> frozenset[str]:
        """The requirements of the scenario and of its single expectations."""
        expected = (step.action.expectation for step in self.all_steps if isinstance(step.action, Expect))
        return frozenset(self.requirements).union(*(expectation.requirements for expectation in expected))
