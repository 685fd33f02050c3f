"""Fault grids: a scenario again with one fault at each point of a link, as one more axis of its matrix, `fault`.

A grid comes in three sizes. *smoke*: the points at which mail is lost most easily, each once. *pairwise*: every pair of
values (of the fault's place, position and kind, and of the scenario's axes) meets in some cell. *full*: everything with
everything. In each size all cells without a fault (`fault=none`) are there too.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import combinations
from typing import Literal

from conformance.faults import FAULTS, WHENS, fault_place
from conformance.scenarios.document import FaultGrid
from conformance.scenarios.matrix import Point, axis_text
from conformance.scenarios.steps.blocks import Step
from conformance.scenarios.steps.breaking import Fault

GridSize = Literal["smoke", "pairwise", "full"]
GRID_SIZES: dict[str, GridSize] = {"smoke": "smoke", "pairwise": "pairwise", "full": "full"}
"""The sizes of a fault grid, by what they are called."""

AXIS = "fault"
"""The axis that a grid adds; a scenario with a grid can have none of that name."""
NONE = "none"
"""Its value where no fault is armed."""

OFFSET = 20
"""Octet of the body at which a fault in the body strikes."""
LASTING = 30
"""Seconds that a delay lasts: shorter than every timeout of RFC 5321 and of the documents."""
RATE = 1000
"""Octets a second, of a fault that needs a rate."""

_SMOKE = frozenset(
    {
        "connect-before-refuse",
        "greeting-after-stall",
        "mail-after-replace",
        "body-before-cut",
        "dot-before-reset",
        "dot-after-drop",
        "dot-after-stall",
        "dot-after-replace",
    }
)


@dataclass(frozen=True, slots=True)
class GridFault:
    """One fault of a grid: at which place, at which point of the exchange there, and what it does."""

    place: str
    position: str
    kind: str

    @property
    def name(self) -> str:
        """`dot-after-drop`: its value on the axis."""
        return f"{self.place.lower()}-{self.position}-{self.kind}"

    def step(self, grid: FaultGrid, line: int) -> Step:
        """Return the step that arms it before the first step of the scenario; `line` is that of `faults:`."""
        needs = FAULTS[self.kind].required_field
        fault = Fault.model_validate(
            {
                "as": "grid",
                "from": grid.sender,
                "to": grid.to,
                "listener": grid.listener,
                "does": self.kind,
                "at": self.place,
                "when": self.position,
                "offset": OFFSET if self.place == "body" else None,
                "lasting": LASTING if needs == "lasting" else None,
                "rate": RATE if needs == "rate" else None,
                "reply": self._reply() if needs == "reply" else None,
            }
        )
        return Step(path="0", line=line, verb="fault", action=fault)

    def _reply(self) -> str:
        return "421 4.3.2 not now" if self.place == "greeting" else "451 4.3.0 try later"


def faults_of(grid: FaultGrid) -> tuple[GridFault, ...]:
    """Return every fault of a grid, in the order of a session."""
    return tuple(
        GridFault(place, position, kind)
        for place in places_of(grid)
        for position in WHENS
        for kind, declared in FAULTS.items()
        if position in declared.grid.get(fault_place(place), ())
    )


def places_of(grid: FaultGrid) -> tuple[str, ...]:
    """Return the places of a grid: those that it names, else those that every mail transaction passes."""
    if grid.places:
        return grid.places
    hello = "LHLO" if grid.listener in ("delivery", "lmtp") or grid.to.endswith("-store") else "EHLO"
    return ("connect", "greeting", hello, "MAIL", "RCPT", "DATA", "body", "dot")


def points_with_faults(
    grid: FaultGrid, points: Sequence[Point], size: GridSize
) -> Iterator[tuple[Point, GridFault | None]]:
    """Yield the points of a matrix with the faults of a grid of some size, in a stable order.

    Grids that name their places are small: *smoke* has the first fault after each place then.
    """
    yield from ((point, None) for point in points)
    faults = faults_of(grid)
    match size:
        case "smoke":
            chosen = _first_after_each(faults) if grid.places else [f for f in faults if f.name in _SMOKE]
            yield from ((points[0], fault) for fault in chosen)
        case "pairwise":
            yield from _pairwise(points, faults)
        case "full":
            yield from ((point, fault) for point in points for fault in faults)


def _first_after_each(faults: Iterable[GridFault]) -> list[GridFault]:
    return list({fault.place: fault for fault in reversed(tuple(faults)) if fault.kind in ("drop", "refuse")}.values())


def _pairwise(points: Sequence[Point], faults: Sequence[GridFault]) -> Iterator[tuple[Point, GridFault]]:
    """Yield combinations in which every pair of values that can meet does: always the one with most pairs that are new.

    Most combinations of place, position and kind make no sense, and an `exclude` takes others away; covering-array
    generators leave pairs out under such constraints, so the set is picked from the combinations that there are.
    """
    every = [(point, fault, _pairs(point, fault)) for point in points for fault in faults]
    missing = {pair for _, _, pairs in every for pair in pairs}
    # What a combination adds only ever shrinks: only the first of the queue has to be counted again.
    queue = [(-len(pairs), number) for number, (_, _, pairs) in enumerate(every)]
    heapify(queue)
    while missing:
        added, number = heappop(queue)
        point, fault, pairs = every[number]
        new = len(pairs & missing)
        if new == -added:
            missing -= pairs
            yield point, fault
        elif new:
            heappush(queue, (-new, number))


def _pairs(point: Point, fault: GridFault) -> frozenset[tuple[object, object]]:
    values = [fault.place, fault.position, fault.kind, *(axis_text(value.data()) for value in point.values())]
    return frozenset(combinations(enumerate(values), 2))
