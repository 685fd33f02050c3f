"""The plan of a fault: where it strikes, how often it has met its occasion, and whether it makes sense at all. A
moment is such a point at which something else is to be done, such as to kill a server.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from conformance.faults import FAULTS, When, fault_place
from conformance.scenarios.steps.breaking import Fault
from conformance.scenarios.steps.nodes import Moment
from conformance.wire.roles import Pair
from conformance.wire.units import CommandLine, ContentEnd, PendingReply, Unit, WholeReply


def check_fault(fault: Fault) -> None:
    """Raise ValueError when a fault makes no sense: this kind at this place, or without what it needs."""
    kind, place = FAULTS[fault.does], fault_place(fault.at)
    if place not in kind.at:
        raise ValueError(f"fault {fault.name}: {fault.does} makes no sense at {fault.at}")
    if fault.when in ("heard", "answered"):
        if place in ("connect", "body") or (place, fault.when) == ("greeting", "heard"):
            raise ValueError(f"fault {fault.name}: nothing is {fault.when} at {fault.at}")
        if not kind.after_unit:
            raise ValueError(f"fault {fault.name}: {fault.does} comes too late when {fault.at} was {fault.when}")
    if why := kind.invalid_points.get((place, fault.when)):
        raise ValueError(f"fault {fault.name}: {why}")
    if kind.needs is not None and getattr(fault, kind.needs) is None:
        raise ValueError(f"fault {fault.name}: {fault.does} needs `{kind.needs}`")


def points(unit: Unit) -> frozenset[tuple[str, When]]:
    """Return the names under which a unit can be met: its verb, what it means, `greeting`, `dot`."""
    match unit:
        case CommandLine():
            return frozenset((name, "before") for name in _names(unit.verb, unit.awaited))
        case ContentEnd():
            return frozenset({("dot", "before")})
        case WholeReply(to="GREETING"):
            return frozenset({("greeting", "after")})
        case WholeReply(to="CONTENT"):
            return frozenset({("dot", "after")})
        case WholeReply():
            return frozenset((name, "after") for name in _names(unit.to, unit.awaited))
        case _:
            return frozenset()


def _names(said: str, awaited: PendingReply | None) -> set[str]:
    """Return the verb, by its name in the wire profile, and the operation that it means."""
    if awaited is None:
        return {said}
    verb = awaited.known_as or said
    return {verb} if awaited.asked is None else {verb, awaited.asked.name}


def passed_points(unit: Unit) -> frozenset[tuple[str, When]]:
    """Return the names under which a unit can be met once it has passed."""
    when: When = "answered" if isinstance(unit, WholeReply) else "heard"
    return frozenset((name, when) for name, _ in points(unit))


@dataclass(slots=True, eq=False)
class Armed:
    """A fault in force on some links; it fires at the n-th occurrence over all of them, and `times` in all."""

    fault: Fault
    pairs: frozenset[Pair]
    seen: int = 0
    fired: int = 0
    on_heal: list[Callable[[], None]] = field(default_factory=list)
    timers: list[asyncio.TimerHandle] = field(default_factory=list)
    _contents: set[tuple[str, int]] = field(default_factory=set)

    @property
    def spent(self) -> bool:
        """Whether it will never fire again."""
        return self.fault.times is not None and self.fired >= self.fault.times

    @property
    def offset(self) -> int:
        """Octet of the content, as it is on the wire, at which it strikes."""
        return self.fault.offset or 0

    @property
    def reason(self) -> str:
        """Under which name it holds lanes."""
        return f"fault {self.fault.name}"

    @property
    def point(self) -> tuple[str, When]:
        """Where it strikes; a reply can only be replaced when it is there."""
        early = self.fault.when == "before" and (self.fault.at == "greeting" or FAULTS[self.fault.does].acts_on_reply)
        return self.fault.at, "after" if early else self.fault.when

    def occurs(self) -> bool:
        """Count an occurrence; return whether it fires at this one."""
        self.seen += 1
        if self.seen < self.fault.nth or self.spent:
            return False
        self.fired += 1
        return True

    def was_in(self, content: tuple[str, int]) -> bool:
        """Whether its place in a content was met already."""
        return content in self._contents

    def first_in(self, content: tuple[str, int]) -> bool:
        """Note that its place in a content was met; return whether that is new."""
        new = content not in self._contents
        self._contents.add(content)
        return new

    def heal(self) -> None:
        """Undo what it still does."""
        self.cancel_timers()
        for undo in self.on_heal:
            undo()
        self.on_heal.clear()

    def cancel_timers(self) -> None:
        """Forget what it would do later."""
        for timer in self.timers:
            timer.cancel()
        self.timers.clear()


@dataclass(slots=True, eq=False)
class Watch:
    """Waits for the n-th unit of a kind over all sessions of the links that it matches."""

    moment: Moment
    do: Callable[[], Awaitable[None]]
    name: str = ""
    seen: int = 0

    @property
    def reason(self) -> str:
        """Under which name it holds a lane."""
        return f"moment {id(self)}"

    def concerns(self, pair: Pair) -> bool:
        """Whether it may come on a link."""
        return self.moment.sender in ("*", pair.client) and self.moment.to in ("*", pair.server)

    def sees(self, pair: Pair, unit: Unit) -> bool:
        """Count a unit; return whether this is the moment."""
        if not self.concerns(pair) or not self._is(unit):
            return False
        self.seen += 1
        return self.seen == self.moment.nth

    def _is(self, unit: Unit) -> bool:
        if self.moment.after == "content":
            return isinstance(unit, ContentEnd)
        return (self.moment.after, "after") in points(unit)
