"""Every single fault of a scenario: one plan for each fault at each representative point of its protocol.

Theory of operation
-------------------
The scenario is run once without its own faults and without expectations. Each plan keeps its steps and adds one fault: a
broken session, or a node that dies. A plan ends as every cell does: faults are healed, nodes are started, and the drain waits
until all mail is accounted for. So that a dead server may be missed for longer than ShadowResubmitTimeSpan, some plans wait
before that.

Faults with the same effect at a point are counted once: `Enumeration.pruned` says how many were left out, and why.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from conformance.explore.points import ProtocolPoint
from conformance.faults import WHENS
from conformance.scenarios.document import Cell
from conformance.scenarios.steps.action import Action, Expect, Parallel, Repeat, Step
from conformance.scenarios.steps.breaking import Disk, Fault, Heal, Partition
from conformance.scenarios.steps.nodes import Kill, Moment, Pause, Start, Wipe
from conformance.scenarios.steps.timing import Advance

_LEFT_OUT = (Expect, Fault, Partition, Heal, Disk)
_LONG_S = 3 * 3600 + 600
"""Documented seconds that a server stays away: longer than ShadowResubmitTimeSpan and a heartbeat by default."""
_STALL_S = 1200
"""Documented seconds for which a fault holds a unit: longer than every timeout of RFC 5321 4.5.3.2."""
_MARGIN_S = 60
"""Documented seconds to wait for a moment that came by then in the run without a fault."""
_BODY_OCTETS = 20
"""Octets of the body that pass before it is cut."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One cell to run: `name` says what was added to which scenario, `faults` are the names of the faults that must fire."""

    name: str
    cell: Cell
    faults: tuple[str, ...] = ()


@dataclass(slots=True)
class Enumeration:
    """The plans of a sweep, and how many candidates were left out for which reason; all together were enumerated."""

    plans: list[Plan] = field(default_factory=list)
    pruned: Counter[str] = field(default_factory=Counter)

    @property
    def enumerated(self) -> int:
        """The number of plans and of candidates that were left out."""
        return len(self.plans) + self.pruned.total()


def without_faults(cell: Cell) -> Cell:
    """Return a cell without its faults and expectations; what is left of its steps keeps its order."""
    return cell.model_copy(update={"steps": tuple(_kept(cell.steps))})


def sweep(cell: Cell, points: Sequence[ProtocolPoint], left_out: int, end_t: float, *, can_freeze: bool) -> Enumeration:
    """Return one plan for each fault at each point. `cell` has no faults of its own, and its last step ends at `end_t`.

    `left_out` is the number of points that stand for no class of their own. `can_freeze` says whether nodes can be frozen: the
    timers of a node in this process go on.
    """
    found = Enumeration()
    kinds = len(list(_link_faults(ProtocolPoint("a", "b", "frontend", "dot", 1, 0.0)))) + 3 + can_freeze
    found.pruned["another point of the same class is tried"] += left_out * kinds
    for point in points:
        for name, action, reason in _link_faults(point):
            if reason:
                found.pruned[reason] += 1
            else:
                found.plans.append(_plan(cell, f"{point.text} {name}", before=(action,), faults=("explored",)))
        for node in sorted({point.client, point.server} & cell.topology.by_name.keys()):
            if point.place in ("connect", "greeting", "body"):
                found.pruned["a node dies at commands and at the final dot only"] += 3 + can_freeze
                continue
            # the drain starts nodes at its beginning: a node must have died by then
            wait = max(0.0, point.t - end_t) + _MARGIN_S
            plans = list(_node_plans(cell, point, node, wait))
            found.plans += plans if can_freeze else plans[:-1]
            found.pruned["a node in the process of the harness cannot be frozen"] += not can_freeze
    return found


def _kept(steps: Sequence[Step]) -> Iterator[Step]:
    """Yield the steps without faults and expectations, blocks with what is left in them."""
    for step in steps:
        action = step.action
        if isinstance(action, _LEFT_OUT):
            continue
        if isinstance(action, Parallel | Repeat):
            inner = tuple(_kept(action.steps))
            if inner:
                yield step.model_copy(update={"action": action.model_copy(update={"steps": inner})})
            continue
        yield step


def _link_faults(point: ProtocolPoint) -> Iterator[tuple[str, Fault, str]]:
    """Yield each fault of a session at a point: its name, the step, and the reason to leave it out ('': it is tried)."""
    where = {"as": "explored", "from": point.client, "to": point.server, "listener": point.listener, "nth": point.nth}
    where["at"] = point.place
    if point.place == "connect":
        yield "refuse", Fault.model_validate({**where, "does": "refuse"}), ""
        yield "stall", Fault.model_validate({**where, "does": "stall", "lasting": _STALL_S}), ""
        yield "drop", Fault.model_validate({**where, "does": "drop"}), "drop at connect: as refuse"
        return
    if point.place == "body":
        yield "cut", Fault.model_validate({**where, "does": "cut", "offset": _BODY_OCTETS}), ""
        return
    whens = WHENS if point.place != "greeting" else ("after", "answered")
    for when in whens:
        yield f"{when} drop", Fault.model_validate({**where, "does": "drop", "when": when}), ""
        same = "" if when == "after" else f"reset {when} the unit passes: as drop"
        yield f"{when} reset", Fault.model_validate({**where, "does": "reset", "when": when}), same
    for when in ("before", "after") if point.place != "greeting" else ("after",):
        yield f"{when} stall", Fault.model_validate({**where, "does": "stall", "when": when, "lasting": _STALL_S}), ""
    replies = ("451 4.3.0 try later", "550 5.7.1 refused", "421 4.3.2 closing")
    for reply in replies:
        refused = {**where, "does": "replace", "when": "after", "reply": reply}
        yield f"replaced by {reply[:3]}", Fault.model_validate(refused), ""
        if point.place not in ("greeting", "dot"):
            unseen = {**where, "does": "answer", "reply": reply}
            yield f"answered {reply[:3]}", Fault.model_validate(unseen), ""


def _node_plans(cell: Cell, point: ProtocolPoint, node: str, wait: float) -> Iterator[Plan]:
    """Yield the plans in which a node dies at a point: it comes back soon, late, or with a new database; or it is frozen."""
    moment = Moment.model_validate(
        {
            "from": point.client,
            "to": point.server,
            "after": point.place,
            "nth": point.nth,
            "arrived": node == point.server,
        }
    )
    killed = Kill(node=(node,), at=moment)
    occasion = (killed.occasion,)
    yield _plan(cell, f"{point.text} {node} killed", before=(killed,), after=(Advance(by=wait),), faults=occasion)
    away = Advance(by=wait + _LONG_S)
    yield _plan(cell, f"{point.text} {node} away", before=(killed,), after=(away,), faults=occasion)
    renewed = (Advance(by=wait), Wipe(node=(node,)), Start(node=(node,)))
    yield _plan(cell, f"{point.text} {node} renewed", before=(killed,), after=renewed, faults=occasion)
    frozen = Pause(node=(node,), at=moment)
    yield _plan(
        cell,
        f"{point.text} {node} frozen",
        before=(frozen,),
        after=(Advance(by=wait + _STALL_S),),
        faults=(frozen.occasion,),
    )


def _plan(
    cell: Cell, name: str, *, before: tuple[Action, ...], after: tuple[Action, ...] = (), faults: tuple[str, ...]
) -> Plan:
    """Return a plan with steps added in front and behind those of the cell."""
    steps = numbered((*map(as_step, before), *cell.steps, *map(as_step, after)))
    return Plan(f"{cell.id}: {name}", cell.model_copy(update={"steps": steps}), faults)


_VERBS: dict[type[Action], str] = {
    Fault: "fault", Kill: "kill", Pause: "pause", Wipe: "wipe", Start: "start", Advance: "advance",
}  # fmt: skip


def as_step(action: Action) -> Step:
    """Return an action as a step, which gets its path from `numbered`."""
    return Step(path="0", line=1, verb=_VERBS[type(action)], action=action)


def numbered(steps: Sequence[Step], prefix: str = "") -> tuple[Step, ...]:
    """Return the steps with the paths that they have in this order: `2`, or `3.1` inside a block."""
    found = []
    for number, step in enumerate(steps, start=1):
        path = f"{prefix}{number}"
        action = step.action
        if isinstance(action, Parallel | Repeat):
            action = action.model_copy(update={"steps": numbered(action.steps, f"{path}.")})
        found.append(step.model_copy(update={"path": path, "action": action}))
    return tuple(found)
