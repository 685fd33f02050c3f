"""Fault grids: repeat a scenario with one fault at each point of a link, as one more axis `fault` of its matrix.

A fault has a place in the session (MAIL, dot ...), a position there (before, after ...) and a kind (drop, stall ...). A grid
has one of three sizes. *smoke*: the faults that lose mail most easily (where the grid names its places, one at each), at
the first point of the matrix. *pairwise*: every pair of values that can occur together (of place, position, kind, and the
scenario's axes) occurs in some cell. *full*: every fault at every point. In each size the cells without a fault (`fault=none`)
are included.

A *point* of a scenario's matrix has the value of each axis, as a *node*: a value of the YAML file with its place.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Literal

from conformance.faults import FAULTS, WHENS, fault_place
from conformance.scenarios.document import FaultGrid
from conformance.scenarios.matrix import Point, axis_text
from conformance.scenarios.steps.action import Step
from conformance.scenarios.steps.breaking import Fault

GridSize = Literal["smoke", "pairwise", "full"]
GRID_SIZES: dict[str, GridSize] = {"smoke": "smoke", "pairwise": "pairwise", "full": "full"}
"""The sizes of a fault grid by name."""

AXIS = "fault"
"""The axis that a grid adds; a scenario with a grid cannot have one of that name."""
NONE = "none"
"""The value of that axis in a cell without a fault."""

_BODY_OFFSET = 20
"""Octet of the body at which a fault in the body occurs."""
_DELAY_S = 30
"""Duration of a delay: shorter than every timeout of RFC 5321 and of the documents."""
_RATE = 1000
"""Octets a second, for a fault that limits the rate."""

_SMOKE_FAULTS = frozenset(
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
    """A fault of a grid: a place in the session, the position there, such as "before", and the kind of fault."""

    place: str
    position: str
    kind: str

    @property
    def name(self) -> str:
        """The fault's value on the axis: `dot-after-drop`."""
        return f"{self.place.lower()}-{self.position}-{self.kind}"

    def step(self, grid: FaultGrid, line: int) -> Step:
        """Return a step, to precede those of the scenario, that arms the fault on the grid's link under the name `grid`.

        The fault acts once, at the first occurrence of its place. `line` is that of `faults:` in the file.
        """
        # The field that this kind of fault cannot do without, if any.
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
                "offset": _BODY_OFFSET if self.place == "body" else None,
                "lasting": _DELAY_S if needs == "lasting" else None,
                "rate": _RATE if needs == "rate" else None,
                "reply": self._reply() if needs == "reply" else None,
            }
        )
        return Step(path="0", line=line, verb="fault", action=fault)

    def _reply(self) -> str:
        """Return the reply that a fault sends in place of the server's."""
        return "421 4.3.2 not now" if self.place == "greeting" else "451 4.3.0 try later"


def faults_of(grid: FaultGrid) -> tuple[GridFault, ...]:
    """Return every fault of a grid, in the order of `places_of`, then of the positions there, then of the kinds.

    A kind declares in `grid` the positions at which grids try it, for each sort of place (`verb`: any SMTP verb).
    """
    return tuple(
        GridFault(place, position, kind)
        for place in places_of(grid)
        for position in WHENS
        for kind, declared in FAULTS.items()
        if position in declared.grid.get(fault_place(place), ())
    )


def places_of(grid: FaultGrid) -> tuple[str, ...]:
    """Return the places of a grid: those that it names, else those of every mail transaction."""
    if grid.places:
        return grid.places
    # A listener for deliveries and the sink `<server>-store` of a server's mailboxes speak LMTP.
    hello = "LHLO" if grid.listener in ("delivery", "lmtp") or grid.to.endswith("-store") else "EHLO"
    return ("connect", "greeting", hello, "MAIL", "RCPT", "DATA", "body", "dot")


def points_with_faults(
    grid: FaultGrid, points: Sequence[Point], size: GridSize
) -> Iterator[tuple[Point, GridFault | None]]:
    """Yield the matrix's points without a fault (None), then those with a fault of the grid, in a stable order.

    The size *smoke* tries faults at the first point only. Where the grid names its places, these are one fault for each place at
    which a session can be dropped or refused; else those of `_SMOKE_FAULTS`.
    """
    yield from ((point, None) for point in points)
    faults = faults_of(grid)
    match size:
        case "smoke":
            selected = _first_for_each_place(faults) if grid.places else [f for f in faults if f.name in _SMOKE_FAULTS]
            yield from ((point, fault) for point in points[:1] for fault in selected)
        case "pairwise":
            yield from _pairwise(points, faults)
        case "full":
            yield from ((point, fault) for point in points for fault in faults)


def _first_for_each_place(faults: Iterable[GridFault]) -> list[GridFault]:
    """Return the first fault at each place that drops or refuses the session, the last place first.

    A place without such a fault is left out.
    """
    # In reverse, since of several values for one key the last stays.
    return list({fault.place: fault for fault in reversed(tuple(faults)) if fault.kind in ("drop", "refuse")}.values())


def _pairwise(points: Sequence[Point], faults: Sequence[GridFault]) -> Iterator[tuple[Point, GridFault]]:
    """Yield points with faults so that every pair of values that can occur together does; greedily, most new pairs first.

    Generators of covering arrays omit pairs where combinations are excluded, as most of place, position and kind are. So
    combinations are selected from a list of all possible ones.
    """
    combinations = [(point, fault, _value_pairs(point, fault)) for point in points for fault in faults]
    missing = {pair for _, _, pairs in combinations for pair in pairs}
    # The number of a combination's new pairs only decreases: recounting the first of the queue is enough.
    queue = [(-len(pairs), number) for number, (_, _, pairs) in enumerate(combinations)]
    heapify(queue)
    while missing:
        count, number = heappop(queue)
        point, fault, pairs = combinations[number]
        new = len(pairs & missing)
        if new == -count:
            missing -= pairs
            yield point, fault
        elif new:
            heappush(queue, (-new, number))


def _value_pairs(point: Point, fault: GridFault) -> frozenset[tuple[object, object]]:
    """Return the pairs of values that occur in a cell with this fault.

    A value is (index, text): 0 to 2 are place, position and kind of the fault, the others the axes of the point.
    """
    values = [fault.place, fault.position, fault.kind, *(axis_text(value.data()) for value in point.values())]
    return frozenset(itertools.combinations(enumerate(values), 2))
