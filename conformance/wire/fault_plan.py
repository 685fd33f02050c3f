"""What is in force on links: armed faults, partitions and awaited moments, and the points at which they act.

A point is a pair of a name and a time: `("DATA", "before")` is when a DATA command arrives, `("DATA", "heard")` when it was
forwarded, `("DATA", "after")` when its reply arrives, `("DATA", "answered")` when the reply was forwarded. Names are verbs of
the wire profile, operations (`shadow-message`), `greeting` and `dot`. A moment is a point at which something else than a fault
is to happen, such as killing a server.

A session that passes such a point is one *occurrence* of it. A fault or moment is due from, or at, its n-th (`nth`). A
*hold* stops a lane (a direction of a session) or the dialling of a server; it is released by its reason, a text.
`FaultInjector` uses all this.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

from conformance.faults import FAULTS, When, fault_place
from conformance.scenarios.steps.breaking import Fault
from conformance.scenarios.steps.nodes import Moment
from conformance.wire.interfaces import Pair
from conformance.wire.units import CommandLine, ContentEnd, PendingReply, Unit, WholeReply


def check_fault(fault: Fault) -> None:
    """Raise ValueError if this kind of fault cannot act at this point, or lacks a field that it needs.

    The place is `fault.at`: `connect`, `greeting`, `dot` or `body`, and `verb` for the name of any command. `FAULTS` declares
    for each kind its places (`at`), whether it can act after a unit was forwarded (`after_unit`), and the points at which
    it makes no sense, with the reason (`invalid_points`).
    """
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
    if kind.required_field is not None and getattr(fault, kind.required_field) is None:
        raise ValueError(f"fault {fault.name}: {fault.does} needs `{kind.required_field}`")


def points_on_arrival(unit: Unit) -> frozenset[tuple[str, When]]:
    """Return the points that a unit reaches when it arrives: none for parts of a content and for raw octets.

    The time is `before` for what the client sends, and `after` for a reply, which has the names of the command that it answers.
    """
    match unit:
        case CommandLine():
            return frozenset((name, "before") for name in _names(unit.verb, unit.pending))
        case ContentEnd():
            return frozenset({("dot", "before")})
        case WholeReply(to="GREETING"):
            return frozenset({("greeting", "after")})
        case WholeReply(to="CONTENT"):
            return frozenset({("dot", "after")})
        case WholeReply():
            return frozenset((name, "after") for name in _names(unit.to, unit.pending))
        case _:
            return frozenset()


def points_when_forwarded(unit: Unit) -> frozenset[tuple[str, When]]:
    """Return the points that a unit reaches once it was forwarded: `answered` for replies, else `heard`.

    As on arrival, there are none for parts of a content and for raw octets.
    """
    when: When = "answered" if isinstance(unit, WholeReply) else "heard"
    return frozenset((name, when) for name, _ in points_on_arrival(unit))


def _names(verb: str, pending: PendingReply | None) -> set[str]:
    """Return the names under which a command can be given in a scenario: its canonical verb, and its operation if any.

    `verb` is the verb as it was sent. `pending` is the command's pending reply, which knows both names; None for a reply that
    answers no command: then the only name is `verb` ('').
    """
    if pending is None:
        return {verb}
    verb = pending.canonical_verb or verb
    return {verb} if pending.operation is None else {verb, pending.operation.name}


@dataclass(slots=True, eq=False)
class ArmedFault:
    """A fault in force on some links (`pairs`): fires at its n-th occurrence, counted over all of them, and at later ones.

    It fires `times` times in all. `fault` is the scenario's step, whose `times` is None for no limit. `undo` are called when
    it is healed. `timers` are those of what it will do later. `session`: it acts in the session of this name alone, None: in
    any. A content is (session, its number in the session); `_contents` are those in which the offset was reached.
    """

    fault: Fault
    pairs: frozenset[Pair]
    session: str | None = None
    occurrences: int = 0
    fired: int = 0
    undo: list[Callable[[], None]] = field(default_factory=list)
    timers: list[asyncio.TimerHandle] = field(default_factory=list)
    _contents: set[tuple[str, int]] = field(default_factory=set)

    @property
    def spent(self) -> bool:
        """Whether the fault has fired as often as it may (`times`), and never fires again; False if it has no limit."""
        return self.fault.times is not None and self.fired >= self.fault.times

    @property
    def offset(self) -> int:
        """Number of octets of the content, as on the wire, after which a fault at `body` acts; 0 if the step gives none."""
        return self.fault.offset or 0

    @property
    def hold_reason(self) -> str:
        """The reason under which the fault holds lanes and dialling."""
        return f"fault {self.fault.name}"

    @property
    def point(self) -> tuple[str, When]:
        """The point at which the fault acts: its name and its time.

        At the greeting, and for a kind that alters replies, `before` means when the reply arrives (`after`).
        """
        on_reply = self.fault.when == "before" and (
            self.fault.at == "greeting" or FAULTS[self.fault.does].acts_on_reply
        )
        return self.fault.at, "after" if on_reply else self.fault.when

    def concerns(self, pair: Pair, session: str) -> bool:
        """Whether the fault may act on a session of a link; the name of a session that is not connected yet is ''."""
        return pair in self.pairs and self.session in (None, session)

    def count_occurrence(self) -> bool:
        """Count an occurrence; return whether the fault is due: this is its `nth` or a later one, and it is not spent.

        The caller counts it in `fired` if the fault fires.
        """
        self.occurrences += 1
        return self.occurrences >= self.fault.nth and not self.spent

    def has_reached(self, content: tuple[str, int]) -> bool:
        """Whether `note_reached` was called for a content."""
        return content in self._contents

    def note_reached(self, content: tuple[str, int]) -> bool:
        """Note that the fault's offset in a content was reached; return True at the first call for a content, later False."""
        new = content not in self._contents
        self._contents.add(content)
        return new

    def heal(self) -> None:
        """Cancel the fault's timers, and call each function of `undo` once."""
        self.cancel_timers()
        for undo in self.undo:
            undo()
        self.undo.clear()

    def cancel_timers(self) -> None:
        """Cancel what the fault would do later; what it has done stays."""
        for timer in self.timers:
            timer.cancel()
        self.timers.clear()


@dataclass(frozen=True, slots=True)
class ActivePartition:
    """A partition in force on some links.

    `refuse` resets open sessions and refuses new ones; `blackhole` forwards nothing until it is healed: octets and
    connections are late then, not lost.
    """

    name: str
    how: Literal["refuse", "blackhole"]
    pairs: frozenset[Pair]

    @property
    def action(self) -> str:
        """The partition's action in the events `fault-armed` and `fault-fired`: `partition-refuse` or `partition-blackhole`."""
        return f"partition-{self.how}"

    @property
    def hold_reason(self) -> str:
        """The reason under which the partition holds lanes and dialling."""
        return f"partition {self.name}"


@dataclass(slots=True, eq=False)
class AwaitedMoment:
    """A moment at which `do` is to be called: the n-th matching unit over all sessions of the links that it concerns.

    `moment` is the scenario's: its `after` is `content`, or a verb, operation or `dot` whose reply it waits for.
    `name` is its name in the history.
    """

    moment: Moment
    do: Callable[[], Awaitable[None]]
    name: str = ""
    occurrences: int = 0

    @property
    def hold_reason(self) -> str:
        """The reason under which the moment holds a lane; it differs for each moment."""
        return f"moment {id(self)}"

    def concerns(self, pair: Pair) -> bool:
        """Whether the moment may come on a link: its `from` and `to` match the link's parties, or are `*`."""
        return self.moment.sender in ("*", pair.client) and self.moment.to in ("*", pair.server)

    def count_unit(self, pair: Pair, unit: Unit) -> bool:
        """Count a unit of a link if it matches; return whether it is the `nth` that does, so that the moment has come."""
        if not self.concerns(pair) or not self._matches(unit):
            return False
        self.occurrences += 1
        return self.occurrences == self.moment.nth

    def _matches(self, unit: Unit) -> bool:
        """Whether a unit is of the kind that the moment is after: the end of a content, or a reply to the verb or operation."""
        if self.moment.after == "content":
            return isinstance(unit, ContentEnd)
        return (self.moment.after, "after") in points_on_arrival(unit)
