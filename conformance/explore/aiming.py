"""Draws faults for a scene, at moments at which something happens in a run of it, so that they fire.

The run is the one without faults. For faults that replace others that did not fire, it is the run with those others. Without
`Bias.aimed` faults are drawn for any time instead.

Theory of operation
-------------------
A fault of a session is armed shortly before the moment that it is meant for: a second before, or right before the step during
which everything happens at once. Its `nth` counts from there. An earlier fault of the same plan may change what happens before,
but seldom that something of the kind happens. Servers go down at a point of the protocol, or within a second of one; they come back
after a time drawn from the timers in force.

`random_plans` draws the faults of each plan here. A *point* is the n-th time that something passes on a link (`points`), an
*action* the content of a step of the scenario language. Times are documented seconds since the cell began.
"""

import random
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from conformance.explore import grammar
from conformance.explore.points import ProtocolPoint, find_points
from conformance.explore.scenes import Scene, draw_weighted
from conformance.faults import FAULTS, WHENS, fault_place
from conformance.history.events import AnyEvent, FaultFired, NodeEvent, StepEvent
from conformance.parameters import effective_parameters
from conformance.scenarios.steps.action import Action
from conformance.scenarios.steps.breaking import Fault, Heal, Partition
from conformance.scenarios.steps.nodes import Kill, Moment, Start, Wipe
from conformance.scenarios.steps.timing import Advance
from conformance.wire.fault_plan import check_fault

_LEAD_S = 1.0
"""Documented seconds before its moment at which a fault is armed, where the plan is at rest for so long."""
_LONGEST_S = 4 * 3600
"""Documented seconds for which a server may be away: longer than ShadowResubmitTimeSpan by default."""
_TRIES = 20
"""Draws of a fault until one makes sense."""


@dataclass(frozen=True, slots=True)
class Insertion:
    """An action to add to a plan, `after` documented seconds after the beginning of its step with the number `step`, from 0.

    0 means right before that step.
    """

    step: int
    after: float
    action: Action


@dataclass(slots=True)
class Disturbance:
    """A fault with all that belongs to it, such as the return of a server.

    `name` is that under which it fires, '' for a step that does its work at once. The plan must go on until `until`.
    """

    name: str = ""
    insertions: list[Insertion] = field(default_factory=list)
    until: float = 0.0

    def fires_in(self, events: Sequence[AnyEvent]) -> bool:
        """Return whether the fault acted in a history; always True for a step that does its work at once."""
        return not self.name or any(isinstance(event, FaultFired) and event.fault == self.name for event in events)


class Aim:
    """Draws faults for the moments of a run, whose history is `events`.

    `_step_n` and `_step_t` are number and time of the event with which each step began, `_points` the protocol points in order,
    `_by_class` the same by class (`points.PointClass`). `_down` has, by server, the times between which it is down, in that run or by a
    fault drawn here; infinity for one that does not come back.
    """

    def __init__(self, rng: random.Random, scene: Scene, events: Sequence[AnyEvent], bias: grammar.Bias) -> None:
        """Collect the beginnings of the steps, the protocol points during the steps, and when each server was down.

        Points before the first step are left out: no fault can be armed for them. `events` is the history of the run. Of `bias`
        only `aimed` counts. A server that came back only after the last step counts as down without end.
        """
        steps = [event for event in events if isinstance(event, StepEvent)]
        began = [event for event in steps if event.phase == "began"]
        self._rng, self._scene, self._aimed = rng, scene, bias.aimed
        self._event_t = [event.t for event in events]
        self._event_n = [event.n for event in events]
        self._step_n = [event.n for event in began]
        self._step_t = [event.t for event in began]
        begin_n, end_n = (steps[0].n, steps[-1].n) if steps else (0, 0)
        found = [(name, point) for name, point in find_points(events, scene.topology) if begin_n < point.n < end_n]
        self._points = [point for _, point in found]
        self._by_class: dict[tuple[str, ...], list[ProtocolPoint]] = defaultdict(list)
        for name, point in found:
            self._by_class[name].append(point)
        self._down: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for event in events:
            if isinstance(event, NodeEvent) and event.action in ("killed", "stopped"):
                self._down[event.node].append((event.t, inf))
            elif (
                isinstance(event, NodeEvent) and event.action == "ready" and self._down[event.node] and event.n < end_n
            ):
                self._down[event.node][-1] = (self._down[event.node][-1][0], event.t)

    def draw(self, names: Sequence[str]) -> list[Disturbance]:
        """Return a fault for each name, without those for which no sensible one could be drawn; none if the run has no points.

        Where the fault is the end of a server, the server is noted as down for that time.
        """
        sources = {
            source: weight
            for source, weight in grammar.FAULT_SOURCES.items()
            if source == "link" or source in self._scene.features
        }
        drawn = [self._draw_one(draw_weighted(self._rng, sources), name) for name in names if self._points]
        return [disturbance for disturbance in drawn if disturbance.insertions]

    def _draw_one(self, source: str, name: str) -> Disturbance:
        """Return one fault with the steps that follow from it, such as a start after a kill.

        A fault of a link or a partition is named `name`, a kill after its moment, an end near a time ''. `insertions` (the steps
        added to the plan) is empty where none could be drawn. `source` is a key of `grammar.FAULT_SOURCES`. A kill at the
        connection, the greeting or the body of a message becomes the end of a server near that time, and so does every kill where
        faults are not aimed.
        """
        point = self._draw_point()
        match source:
            case "link":
                return self._break_session(name, point)
            case "partition":
                return self._cut(name, point)
            case "kill" if self._aimed and point.place not in ("connect", "greeting", "body"):
                return self._kill_at_point(point)
            case _:
                return self._end_near(point)

    def _draw_point(self) -> ProtocolPoint:
        """Return a random point of the run: each class of points is as likely as any other.

        Where faults are not aimed, the point gets another time, drawn evenly up to that of the last point.
        """
        point = self._rng.choice(self._by_class[self._rng.choice(sorted(self._by_class))])
        if self._aimed:
            return point
        t = self._rng.uniform(0.0, self._points[-1].t)
        return replace(point, t=t, n=self._event_n[max(0, bisect_right(self._event_t, t) - 1)])

    def _place_before(self, point: ProtocolPoint) -> tuple[int, float, int]:
        """Return where to arm a fault for a point: the number of the step, the seconds after it began, and an event's number.

        The fault is armed `_LEAD_S` before the point, or right before the step where the step began later than that. Its `nth`
        counts what comes after that event: the last point before it is armed (0 without one), or the beginning of the step.
        """
        step = max(0, bisect_right(self._step_n, point.n) - 1)
        after = point.t - _LEAD_S - self._step_t[step]
        if after <= 0:
            return step, 0.0, self._step_n[step]
        reached = bisect_right(self._points, point.t - _LEAD_S, key=lambda other: other.t)
        return step, after, self._points[reached - 1].n if reached else 0

    def _insertions_at(self, t: float, *actions: Action) -> list[Insertion]:
        """Return the insertions that make actions happen, in this order, at time `t` since the cell began."""
        step = max(0, bisect_right(self._step_t, t) - 1)
        return [Insertion(step=step, after=max(0.0, t - self._step_t[step]), action=action) for action in actions]

    def _break_session(self, name: str, point: ProtocolPoint) -> Disturbance:
        """Return a fault on the link of a point; an empty disturbance where none of `_TRIES` drawn faults makes sense there."""
        step, after, since = self._place_before(point)
        nth = sum(
            (other.client, other.server, other.listener, other.place)
            == (point.client, point.server, point.listener, point.place)
            for other in self._points
            if since < other.n <= point.n
        )
        for _ in range(_TRIES):
            fault = self._draw_fault(name, point, max(1, nth))
            if fault is not None:
                return Disturbance(name, [Insertion(step=step, after=after, action=fault)])
        return Disturbance()

    def _draw_fault(self, name: str, point: ProtocolPoint, nth: int) -> Fault | None:
        """Return a random fault at a point; None where the plan may use no kind that can act there, or the drawn one makes no sense.

        It acts at the `nth` time that something passes at this place of the link, counted from when the fault is armed.
        """
        rng = self._rng
        place = fault_place(point.place)
        kinds = [kind for kind in FAULTS if kind in self._scene.features and place in FAULTS[kind].at]
        if not kinds:
            return None
        kind = rng.choice(kinds)
        whens = [when for when in WHENS if place not in ("connect", "body") or when == "before"]
        fields: dict[str, object] = {
            "as": name, "from": point.client, "to": point.server, "listener": point.listener, "does": kind, "at": point.place,
            "when": rng.choice(whens), "nth": nth, "times": draw_weighted(rng, grammar.TIMES),
        }  # fmt: skip
        replies = grammar.REPLIES_TO_CONTENT if place == "dot" else grammar.REPLIES
        values: dict[str, object] = {
            "lasting": rng.choice(grammar.LASTING), "rate": rng.choice((10, 200)), "reply": rng.choice(replies),
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

    def _cut(self, name: str, point: ProtocolPoint) -> Disturbance:
        """Return a partition that begins before a point: of the point's two ends, or of the sites of two servers.

        In six of ten cases it is healed later, after a time that `_draw_duration` draws; else the drain heals it.
        """
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
        found = Disturbance(name, [Insertion(step=step, after=after, action=cut)])
        if self._rng.random() < 0.6:
            found.until = point.t + self._draw_duration(point.server)
            found.insertions += self._insertions_at(found.until, Heal(what=name))
        return found

    def _kill_at_point(self, point: ProtocolPoint) -> Disturbance:
        """Return a kill, at a protocol point, of the client or the server of that point, with the start that follows, if any.

        Marks the node as down until then; returns an empty disturbance where it is down already at a time in between.
        """
        node = self._rng.choice(sorted({point.client, point.server} & self._scene.topology.by_name.keys()))
        step, after, since = self._place_before(point)
        nth = sum(
            (other.client, other.server, other.place) == (point.client, point.server, point.place)
            for other in self._points
            if since < other.n <= point.n
        )
        moment = Moment.model_validate(
            {
                "from": point.client,
                "to": point.server,
                "after": "content" if point.place == "dot" else point.place,
                "nth": nth,
                "arrived": self._rng.random() < 0.5,
            }
        )
        kill = Kill(node=(node,), at=moment)
        return self._away(
            node,
            since=self._step_t[step] + after,
            t=point.t,
            name=kill.occasion,
            ending=[Insertion(step=step, after=after, action=kill)],
        )

    def _end_near(self, point: ProtocolPoint) -> Disturbance:
        """Return a kill or stop of the client or the server of a point, within a second of the point's time (`grammar.NEAR`).

        The start that follows, if any, belongs to it. Marks the node as down until then; returns an empty disturbance where it is
        down already at a time in between.
        """
        node = self._rng.choice(sorted({point.client, point.server} & self._scene.topology.by_name.keys()))
        t = max(0.0, point.t + self._rng.choice(grammar.NEAR))
        ending = draw_weighted(self._rng, grammar.ENDINGS) if "stop" in self._scene.features else Kill
        return self._away(node, since=t, t=t, name="", ending=self._insertions_at(t, ending(node=(node,))))

    def _away(self, node: str, since: float, t: float, name: str, ending: list[Insertion]) -> Disturbance:
        """Return the kill or stop of a server, given as `ending`, with its later start.

        The end is armed at `since` and acts at `t`; it fires under `name`, '' if it acts at once. The server comes back after a time
        that `_draw_duration` draws, perhaps with an empty queue, or only in the drain. Marks the server as down for that time. Returns
        an empty disturbance, and marks nothing, where the server is down already at a time in between.
        """
        back = t + self._draw_duration(node)
        if any(since <= until and begin <= back for begin, until in self._down[node]):
            return Disturbance()
        wiped = "wipe" in self._scene.features and self._rng.random() < 0.25
        returns = wiped or self._rng.random() < 0.8
        self._down[node].append((since, back if returns else inf))
        start = [*([Wipe(node=(node,))] if wiped else []), Start(node=(node,))] if returns else []
        return Disturbance(name=name, insertions=[*ending, *self._insertions_at(back, *start)], until=back)

    def _draw_duration(self, party: str) -> float:
        """Return for how many documented seconds a server is down or a party cut off: within a second of a timer, or of 2 s.

        The timers are those of the party; a sink or sender has the timers of the topology's first server. Timers above `_LONGEST_S`
        are not drawn; 60 s where all are. The result is at least 1.
        """
        server = self._scene.topology.by_name.get(party, self._scene.topology.servers[0])
        parameters = effective_parameters(self._scene.topology.transport, server.transport)
        span: float = parameters["ShadowResubmitTimeSpan"]
        timers: tuple[float, ...] = (
            parameters["ShadowHeartbeatFrequency"],
            parameters["MessageRetryInterval"],
            parameters["ShadowHeartbeatTimeoutInterval"] * parameters["ShadowHeartbeatRetryCount"],
            span,
            span,  # twice, since a return just before or after a promotion matters most
            span + parameters["ShadowHeartbeatFrequency"],
        )
        affordable = [timer for timer in timers if timer <= _LONGEST_S] or [60.0]
        return max(1.0, self._rng.choice((2.0, *affordable)) + self._rng.choice(grammar.NEAR))


def insert(actions: Sequence[Action], insertions: Sequence[Insertion]) -> Iterator[Action]:
    """Yield the actions of a plan with the insertions in their places; an `advance` is divided where something happens during it.

    Before an action of another kind insertions come at once, in the order of `after`. What comes after the end of an `advance`
    prolongs it. An insertion for a step that the plan lacks is left out.
    """
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
