"""Draws faults for a scene, at moments at which something happens in its run without faults, so that they fire.

Theory of operation
-------------------
A fault of a session is armed shortly before the moment that it is meant for: a second before, or right before the step during
which everything happens at once. Its `nth` counts from there. An earlier fault of the same plan may change what happens before,
but seldom that something of the kind happens. Servers go down at a point of the protocol, or within a second of a moment at which
a server acts by itself, such as a heartbeat; they come back after a time drawn from the timers in force.
"""

import random
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from conformance.explore import grammar
from conformance.explore.points import ProtocolPoint, find_points
from conformance.explore.scenes import Scene, weighted
from conformance.faults import FAULTS, WHENS, fault_place
from conformance.history.events import AnyEvent, StepEvent
from conformance.parameters import effective_parameters
from conformance.scenarios.steps.action import Action
from conformance.scenarios.steps.breaking import Fault, Heal, Partition
from conformance.scenarios.steps.nodes import Kill, Moment, Start, Wipe
from conformance.scenarios.steps.timing import Advance
from conformance.wire.fault_plan import check_fault

_LEAD_S = 1.0
"""Documented seconds before its moment at which a fault is armed, where the plan is at rest for so long."""
_TRIES = 20
"""Draws of a fault until one makes sense."""


@dataclass(frozen=True, slots=True)
class Insertion:
    """An action to add to a plan: before its step with this number, from 0, or that many documented seconds after its beginning."""

    step: int
    after: float
    action: Action


@dataclass(slots=True)
class Aimed:
    """The faults that were drawn: actions to insert, the names under which they fire, and how long the plan must go on."""

    insertions: list[Insertion] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    until: float = 0.0


class Aim:
    """Draws faults for one scene. `events` are those of its run without faults, `begins` the number of each step's first event."""

    def __init__(self, rng: random.Random, scene: Scene, events: Sequence[AnyEvent]) -> None:
        steps = [event for event in events if isinstance(event, StepEvent)]
        began = [event for event in steps if event.phase == "began"]
        self._rng, self._scene = rng, scene
        self._step_n = [event.n for event in began]
        self._step_t = [event.t for event in began]
        self._end_n = steps[-1].n if steps else 0
        found = [(name, point) for name, point in find_points(events, scene.topology) if point.n < self._end_n]
        self._points = [point for _, point in found]
        self._by_class: dict[tuple[str, ...], list[ProtocolPoint]] = defaultdict(list)
        for name, point in found:
            self._by_class[name].append(point)
        self._down: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self._aimed = Aimed(until=scene.end)

    def draw(self) -> Aimed:
        """Return the faults; none where the scene has no moment for any."""
        sources = {
            source: weight
            for source, weight in grammar.FAULT_SOURCES.items()
            if source == "link" or source in self._scene.features
        }
        if self._points:
            for number in range(1, weighted(self._rng, grammar.FAULT_NUMBERS) + 1):
                self._draw_one(weighted(self._rng, sources), f"f{number}")
        return self._aimed

    def _draw_one(self, source: str, name: str) -> None:
        """Draw one fault and its consequences."""
        point = self._draw_point()
        match source:
            case "link":
                self._break_session(name, point)
            case "partition":
                self._cut(name, point)
            case "kill":
                self._kill_at_point(point)
            case _:
                self._end_at_timer(point)

    def _draw_point(self) -> ProtocolPoint:
        """Return a point: of each class as often as of any other."""
        return self._rng.choice(self._by_class[self._rng.choice(sorted(self._by_class))])

    def _place_before(self, point: ProtocolPoint) -> tuple[int, float, int]:
        """Return where to arm a fault for a point: the step, the seconds after it began, and the number of the event there."""
        step = bisect_right(self._step_n, point.n) - 1
        after = point.t - _LEAD_S - self._step_t[step]
        if after <= 0:
            return step, 0.0, self._step_n[step]
        reached = bisect_right(self._points, point.t - _LEAD_S, key=lambda other: other.t)
        return step, after, self._points[reached - 1].n if reached else 0

    def _insert_at(self, t: float, *actions: Action) -> None:
        """Add actions at a time."""
        step = max(0, bisect_right(self._step_t, t) - 1)
        after = max(0.0, t - self._step_t[step])
        self._aimed.insertions += [Insertion(step, after, action) for action in actions]
        self._aimed.until = max(self._aimed.until, t)

    def _break_session(self, name: str, point: ProtocolPoint) -> None:
        """Arm a fault on the link of a point."""
        step, after, since = self._place_before(point)
        nth = sum(
            (other.client, other.server, other.listener, other.place)
            == (point.client, point.server, point.listener, point.place)
            for other in self._points
            if since < other.n <= point.n
        )
        for _ in range(_TRIES):
            fault = self._draw_fault(name, point, nth)
            if fault is not None:
                self._aimed.insertions.append(Insertion(step, after, fault))
                self._aimed.names.append(name)
                return

    def _draw_fault(self, name: str, point: ProtocolPoint, nth: int) -> Fault | None:
        """Return a fault at a point, None where the one that was drawn makes no sense there."""
        rng = self._rng
        place = fault_place(point.place)
        kinds = [kind for kind in FAULTS if kind in self._scene.features and place in FAULTS[kind].at]
        if not kinds:
            return None
        kind = rng.choice(kinds)
        whens = [when for when in WHENS if place not in ("connect", "body") or when == "before"]
        fields: dict[str, object] = {
            "as": name, "from": point.client, "to": point.server, "listener": point.listener, "does": kind, "at": point.place,
            "when": rng.choice(whens), "nth": nth, "times": weighted(rng, grammar.TIMES),
        }  # fmt: skip
        values: dict[str, object] = {
            "lasting": rng.choice(grammar.LASTING), "rate": rng.choice((10, 200)), "reply": rng.choice(grammar.REPLIES),
            "offset": rng.choice((0, 1, 40)),
        }  # fmt: skip
        for key in FAULTS[kind].field_meanings:
            if key != "offset" or place == "body":
                fields[key] = values[key]
        fault = Fault.model_validate(fields)
        try:
            check_fault(fault)
        except ValueError:
            return None
        return fault

    def _cut(self, name: str, point: ProtocolPoint) -> None:
        """Cut a link before a point, alone or with all links between the two sites, and often heal it later."""
        step, after, _ = self._place_before(point)
        ends: list[tuple[str, ...]] = [(point.client,), (point.server,)]
        by_name = self._scene.topology.by_name
        if point.client in by_name and point.server in by_name and self._rng.random() < 0.5:
            sites = [by_name[end].site for (end,) in ends]
            if sites[0] != sites[1]:
                ends = [tuple(s.name for s in by_name.values() if s.site == site) for site in sites]
        cut = Partition.model_validate(
            {
                "as": name,
                "between": ends,
                "how": self._rng.choice(("refuse", "blackhole")),
                "one-way": self._rng.random() < 0.2,
            }
        )
        self._aimed.insertions.append(Insertion(step, after, cut))
        self._aimed.names.append(name)
        if self._rng.random() < 0.6:
            self._insert_at(point.t + self._draw_duration(point.server), Heal(what=name))

    def _kill_at_point(self, point: ProtocolPoint) -> None:
        """Kill one of the ends of a point's link when the point comes."""
        nodes = sorted({point.client, point.server} & self._scene.topology.by_name.keys())
        if point.place in ("connect", "greeting", "body"):
            return self._end_at_timer(point)
        node = self._rng.choice(nodes)
        step, after, since = self._place_before(point)
        place = "content" if point.place == "dot" else point.place
        if (back := self._go_down(node, self._step_t[step] + after, point.t)) is None:
            return None
        nth = sum(
            (other.client, other.server, other.place) == (point.client, point.server, point.place)
            for other in self._points
            if since < other.n <= point.n
        )
        moment = Moment.model_validate(
            {"from": point.client, "to": point.server, "after": place, "nth": nth, "arrived": self._rng.random() < 0.5}
        )
        kill = Kill(node=(node,), at=moment)
        self._aimed.insertions.append(Insertion(step, after, kill))
        self._aimed.names.append(kill.occasion)
        return self._come_back(node, back)

    def _end_at_timer(self, point: ProtocolPoint) -> None:
        """Kill or stop one of the ends of a point's link within a second of the point."""
        node = self._rng.choice(sorted({point.client, point.server} & self._scene.topology.by_name.keys()))
        t = max(0.0, point.t + self._rng.choice(grammar.NEAR))
        if (back := self._go_down(node, t, t)) is not None:
            ending = weighted(self._rng, grammar.ENDINGS) if "stop" in self._scene.features else Kill
            self._insert_at(t, ending(node=(node,)))
            self._come_back(node, back)

    def _go_down(self, node: str, since: float, t: float) -> float | None:
        """Note that a server is down from a time on; return when it comes back, None where it is down already then."""
        back = t + self._draw_duration(node)
        if any(since <= until and begin <= back for begin, until in self._down[node]):
            return None
        self._down[node].append((since, back))
        return back

    def _come_back(self, node: str, back: float) -> None:
        """Start a server again, perhaps with an empty queue; or leave that to the end of the plan."""
        wiped = "wipe" in self._scene.features and self._rng.random() < 0.25
        if wiped or self._rng.random() < 0.8:
            self._insert_at(back, *([Wipe(node=(node,))] if wiped else []), Start(node=(node,)))
        else:
            self._down[node].append((back, float("inf")))
            self._aimed.until = max(self._aimed.until, back)

    def _draw_duration(self, party: str) -> float:
        """Return how long a server is away: within a second of a timer of its boundary, or a short time."""
        server = self._scene.topology.by_name.get(party, self._scene.topology.servers[0])
        parameters = effective_parameters(self._scene.topology.transport, server.transport)
        span: float = parameters["ShadowResubmitTimeSpan"]
        timers: tuple[float, ...] = (
            parameters["ShadowHeartbeatFrequency"],
            parameters["MessageRetryInterval"],
            parameters["ShadowHeartbeatTimeoutInterval"] * parameters["ShadowHeartbeatRetryCount"],
            span,
            span,
            span + parameters["ShadowHeartbeatFrequency"],
        )
        affordable = [timer for timer in timers if timer <= _LONGEST_S] or [60.0]
        return max(1.0, self._rng.choice((2.0, *affordable)) + self._rng.choice(grammar.NEAR))


_LONGEST_S = 4 * 3600
"""Documented seconds for which a server may be away: longer than ShadowResubmitTimeSpan by default."""


def insert(actions: Sequence[Action], insertions: Sequence[Insertion]) -> Iterator[Action]:
    """Yield the actions of a plan with others in between; an `advance` is divided where something happens during it."""
    for number, action in enumerate(actions):
        here = sorted((one for one in insertions if one.step == number), key=lambda one: one.after)
        if not isinstance(action, Advance):
            yield from (one.action for one in here)
            yield action
            continue
        passed = 0.0
        for one in here:
            if one.after > passed:
                yield Advance(by=round(one.after - passed, 6))
                passed = one.after
            yield one.action
        if action.by > passed:
            yield Advance(by=round(action.by - passed, 6))
