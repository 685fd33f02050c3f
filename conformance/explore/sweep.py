"""Every single fault of a scenario: one plan for each fault at each representative point of its protocol.

Theory of operation
-------------------
The scenario is run once without expectations and its own faults (of links and disks; steps that stop a server stay). Each plan
keeps its steps and adds one fault: a broken session, or a node that goes away (`injections`). A plan ends as every cell does:
faults are healed, nodes are started, and the drain waits until all mail is accounted for. So that a fault can act, and a dead
server be missed, for long enough, some plans wait before that.

Each fault at each point was enumerated: it is a plan, or `Enumeration.pruned` counts it under the reason to leave it out. Plans are
built when they are asked for: a sweep of the corpus has 200,000, of which mostly a few hundred are drawn and run.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import overload

from conformance.explore.injections import Injection, injections_at
from conformance.explore.points import PointClass, ProtocolPoint, find_points, representatives
from conformance.history.events import AnyEvent, StepEvent
from conformance.scenarios.document import Cell
from conformance.scenarios.steps.action import ACTIONS, Action, Expect, Parallel, Repeat, Step
from conformance.scenarios.steps.breaking import Disk, Fault, Heal, Partition
from conformance.scenarios.steps.nodes import Activate, Configure, Inspect, NodeAction, Redirect, Resubmit

_LEFT_OUT = (Expect, Fault, Partition, Heal, Disk)
_MARGIN_S = 60
"""Documented seconds to wait longer than the point took to come in the run without a fault."""
_NAMES = ("explored", "explored-2")
"""The names of the first and the second fault of a plan, if it is a fault of a session."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One cell to run: `name` says what was added to which scenario, `faults` are the names of the faults that must fire."""

    name: str
    cell: Cell
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ObservedCell:
    """A cell without faults of its own, and what its run showed.

    These are the protocol points; event and time (documented seconds) at which the last step ended; and the last step that needs
    each server to be as the scenario left it, by the number of the event at which it began. For the second fault of a pair
    (`pairs`) the cell has the first fault already: `texts` says it in words, and `faults` is the name under which it fires.
    """

    cell: Cell
    points: Sequence[tuple[PointClass, ProtocolPoint]]
    end_n: int = -1
    end_t: float = 0.0
    last_uses: Mapping[str, int] = field(default_factory=dict)
    texts: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()

    @classmethod
    def from_run(
        cls, cell: Cell, events: Sequence[AnyEvent], texts: tuple[str, ...] = (), faults: tuple[str, ...] = ()
    ) -> "ObservedCell":
        """Return a cell with what the history of its run shows, in which no fault occurred but those named by `faults`."""
        steps = [event for event in events if isinstance(event, StepEvent)]
        end = max(((event.n, event.t) for event in steps), default=(-1, 0.0))
        used: dict[str, int] = {}
        by_path = {step.path: step.action for step in cell.all_steps}
        for event in steps:
            for node in _nodes_of(by_path.get(event.path)) if event.phase == "began" else ():
                used[node] = event.n
        return cls(cell, find_points(events, cell.topology), *end, used, texts, faults)

    def last_use_of(self, node: str) -> int:
        """Return the number of the event at which the last step that acts on a server, or on all, began; -1 without one."""
        return max(self.last_uses.get(node, -1), self.last_uses.get("all", -1))

    def name_of(self, injection: Injection) -> str:
        """Return the name of the plan with this fault added to the cell."""
        return f"{self.cell.id}: {', then '.join((*self.texts, injection.text))}"

    def plan(self, injection: Injection) -> Plan:
        """Return the plan with this fault added to the cell: a step before the others, and steps behind them where it needs time."""
        name = _NAMES[len(self.faults)]
        # The drain begins by healing faults and starting nodes, so the plan waits until the fault has acted.
        seconds_after_end = max(0.0, injection.point.t - self.end_t)
        after = injection.follow(seconds_after_end + _MARGIN_S, is_late=injection.point.n > self.end_n)
        steps = numbered((as_step(injection.arm(name)), *self.cell.steps, *map(as_step, after)))
        cell = self.cell.model_copy(update={"steps": steps})
        return Plan(self.name_of(injection), cell, (*self.faults, injection.occasion(name)))


class ScenePlans(Sequence[Plan]):
    """Plans that are built when they are asked for: each is an observed cell with one more fault."""

    def __init__(self, entries: Sequence[tuple[ObservedCell, Injection]] = ()) -> None:
        self.entries = list(entries)

    def __len__(self) -> int:
        """Return how many plans there are; none is built for that."""
        return len(self.entries)

    @overload
    def __getitem__(self, index: int) -> Plan: ...

    @overload
    def __getitem__(self, index: slice) -> "ScenePlans": ...

    def __getitem__(self, index: int | slice) -> "Plan | ScenePlans":
        """Build the plan with this number; of a slice, return the plans without building them."""
        if isinstance(index, slice):
            return ScenePlans(self.entries[index])
        observed, injection = self.entries[index]
        return observed.plan(injection)

    def name_of(self, number: int) -> str:
        """Return the name of the plan with this number, which is not built for that."""
        observed, injection = self.entries[number]
        return observed.name_of(injection)

    def subset(self, numbers: Sequence[int]) -> "ScenePlans":
        """Return the plans with these numbers, in this order."""
        return ScenePlans([self.entries[number] for number in numbers])


@dataclass(slots=True)
class Enumeration:
    """The plans of a sweep, and how many candidates were left out for which reason; all together were enumerated."""

    plans: ScenePlans = field(default_factory=ScenePlans)
    pruned: Counter[str] = field(default_factory=Counter)

    @property
    def enumerated(self) -> int:
        """The number of plans and of candidates that were left out."""
        return len(self.plans) + self.pruned.total()


def without_faults(cell: Cell) -> Cell:
    """Return a cell without its faults of links and disks, what heals them, and expectations, in the same order."""
    return cell.model_copy(update={"steps": tuple(_kept(cell.steps))})


def sweep(
    observed: ObservedCell, reason_against: Callable[[Plan, Injection], str] = lambda plan, injection: ""
) -> Enumeration:
    """Return one plan for each fault at each representative point of a cell.

    `reason_against` returns why a plan with this fault cannot be run, '' if it can; it is asked once for each kind of fault of each
    node, and not about faults of a session. Every other fault is counted in `pruned` under the reason to leave it out.
    """
    found = Enumeration()
    servers = frozenset(observed.cell.topology.by_name)
    chosen = set(representatives(observed.points))
    against: dict[tuple[str, str], str] = {}
    for _, point in observed.points:
        for injection, reason in injections_at(point, servers):
            if point not in chosen:
                reason = "another point of the same class is tried"
            elif not reason and injection.node and point.n < observed.last_use_of(injection.node):
                reason = "a later step of the scenario acts on the node"
            elif not reason and injection.node:
                kind = injection.node, injection.kind
                if kind not in against:
                    against[kind] = reason_against(observed.plan(injection), injection)
                reason = against[kind]
            if reason:
                found.pruned[reason] += 1
            else:
                found.plans.entries.append((observed, injection))
    return found


def _nodes_of(action: Action | None) -> tuple[str, ...]:
    """Return the servers that a step acts on when it begins, and which must therefore be up or down as the scenario says.

    `all` stands for every server. () for any other step, and for one that acts at a later moment of the protocol (`at`).
    """
    match action:
        case NodeAction(node=nodes) if action.at is None:
            return nodes
        case Configure(node=nodes) | Inspect(node=nodes):
            return nodes
        case Activate(on=server) | Resubmit(on=server):
            return (server,)
        case Redirect(sender=sender, to=to):
            return (sender, to)
        case _:
            return ()


def _kept(steps: Sequence[Step]) -> Iterator[Step]:
    """Yield the steps without those of `_LEFT_OUT`; blocks with what is left in them, and no empty block."""
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


def as_step(action: Action) -> Step:
    """Return an action as a step, which gets its path from `numbered`."""
    return Step(path="0", line=1, verb=ACTIONS.name_of(type(action)), action=action)


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
