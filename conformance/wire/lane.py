"""A lane: one direction of a relay. It lets octets through, or unit by unit, or nothing while it is held."""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from conformance.wire.endpoint import Endpoint
from conformance.wire.units import RawOctets, Unit, WholeReply

QUEUED = 64 * 1024
"""Octets that a held lane takes before it stops its source."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The source of a lane ended its direction (FIN) or the whole connection (RST)."""

    how: Literal["fin", "reset"]


@dataclass(frozen=True, slots=True)
class Pace:
    """How slowly a lane writes: so many octets at a time, each taking so many (loop) seconds; `once`: for one unit."""

    octets: int
    seconds: float
    once: bool = False


class Watcher(Protocol):
    """Whoever records and breaks what passes (the relay)."""

    @property
    def watched(self) -> bool:
        """Whether every unit must be examined before it passes."""
        ...

    def examine(self, lane: "Lane", unit: Unit, skip: int) -> Unit | None:
        """Return what shall pass instead of a unit; None when it was taken care of."""
        ...

    def passing(self, lane: "Lane", unit: Unit) -> None:
        """Record a unit, right before its octets are written."""
        ...

    def passed(self, lane: "Lane", unit: Unit) -> None:
        """Notice that a unit's octets were written."""
        ...

    def ended(self, lane: "Lane", how: Literal["fin", "reset"]) -> None:
        """Notice that the lane's end was passed on."""
        ...

    def pending(self, lane: "Lane") -> bytes:
        """Return the lane's octets that are in no unit yet."""
        ...


class Lane:
    """Octets go from `source` to `target`; `held` counts those received that are in no unit yet."""

    def __init__(self, watcher: Watcher, source: Endpoint, target: Endpoint) -> None:
        self.source = source
        self.target = target
        self.finished = False
        self.deaf = False
        self.pace: Pace | None = None
        self._watcher = watcher
        self._queue: deque[tuple[Unit | Ending, int]] = deque()
        self._queued = 0
        self._ahead = 0
        self._holds: set[str] = set()
        self._cleared: Unit | None = None
        self._slow = bytearray()
        self._kept = bytearray()
        self._pumping = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def idle(self) -> bool:
        """Whether nothing is on its way in this lane."""
        return not self._queue and not self._slow and not self._kept

    @property
    def held(self) -> bool:
        """Whether the lane is held."""
        return bool(self._holds)

    def hurry(self, data: bytes, left: int) -> bool:
        """Write octets that have just arrived when nobody watches and nothing is before them; return whether it did so.

        Their units are recorded right after, in the same turn of the loop: before anything that they cause can be.
        `left` counts the octets before them that are in no unit yet.
        """
        clear = not (self._queue or self._holds or self.pace or self._kept or self.deaf)
        if not clear or self._ahead != left or self._watcher.watched:
            return False
        self.target.write(data)
        return True

    def take(self, units: Sequence[Unit], data: bytes, left: int, *, hurried: bool) -> None:
        """Take the units that `data` completed; `left` counts the octets in none, and those may have `hurried` ahead.

        Through a lane that nobody watches octets pass at once, also those of an unfinished line.
        """
        if self.deaf:
            return
        if not hurried and (self._queue or self._holds or self.pace or self._kept or self._watcher.watched):
            for unit in units:
                own = isinstance(unit, WholeReply) and unit.injected
                skip = 0 if own else min(self._ahead, len(unit.raw))
                self._ahead -= skip
                self.put(unit, skip)
            self.pump()
            return
        for unit in units:
            self._watcher.passing(self, unit)
        if not hurried:
            before = sum(len(unit.raw) for unit in units) + left - len(data)
            if before != self._ahead:
                data = (b"".join(unit.raw for unit in units) + self._watcher.pending(self))[self._ahead :]
            self.target.write(data)
        self._ahead = left

    def put(self, unit: Unit | Ending, skip: int = 0) -> None:
        """Queue a unit, the first `skip` octets of which have passed before."""
        self._queue.append((unit, skip))
        if not isinstance(unit, Ending):
            self._queued += len(unit.raw)
            if self._queued > QUEUED:
                self.source.hold_reading("queue")

    def put_back(self, unit: Unit, skip: int = 0, *, examined: bool = True) -> None:
        """Let a unit be the next one again; `examined`: it passes then without question."""
        self._queue.appendleft((unit, skip))
        self._queued += len(unit.raw)
        self._cleared = unit if examined else None

    def end(self, how: Literal["fin", "reset"]) -> None:
        """Take the end of the source, behind everything that it sent before."""
        if how == "fin" and (rest := self._watcher.pending(self)[self._ahead :]):
            self.put(RawOctets(rest))
        self.put(Ending(how))
        self.pump()

    def pump(self) -> None:
        """Let pass what may."""
        if self._pumping:
            return
        self._pumping = True
        try:
            while self._queue and not self._holds:
                self._step(*self._queue.popleft())
        finally:
            self._pumping = False
        if self._queued <= QUEUED:
            self.source.release_reading("queue")

    def pass_on(self, unit: Unit, skip: int = 0) -> None:
        """Record a unit, then write it."""
        self._watcher.passing(self, unit)
        self.write(unit.raw[skip:])
        self._watcher.passed(self, unit)

    def write(self, octets: bytes) -> None:
        """Write octets at the lane's pace, together with what was kept to be merged with them."""
        if self._kept:
            octets = bytes(self._kept) + octets
            self._kept.clear()
        if self.pace is None:
            self.target.write(octets)
            return
        self._slow += octets
        if "pace" not in self._holds:
            self._tick()

    def keep(self, octets: bytes) -> None:
        """Keep octets to be written together with the next."""
        self._kept += octets

    def flush(self) -> None:
        """Write what was kept."""
        if self._kept:
            self.write(b"")

    def hold(self, reason: str) -> None:
        """Let nothing pass until each reason was released."""
        self._holds.add(reason)

    def release(self, reason: str) -> None:
        """Take a reason to hold away."""
        self._holds.discard(reason)
        self.pump()

    def relax(self) -> None:
        """Pass the octets of an unfinished line that were waiting for its end, when nobody watches any more."""
        if not self.deaf and self.idle and not self._holds and not self._watcher.watched:
            left = self._watcher.pending(self)
            self.target.write(left[self._ahead :])
            self._ahead = len(left)

    def stop(self) -> None:
        """Let nothing pass any more; what is queued is forgotten, what arrives is not heard."""
        self.deaf = True
        if self._timer is not None:
            self._timer.cancel()
        self._queue.clear()
        self._slow.clear()
        self._kept.clear()
        self._queued = 0
        self.source.release_reading("queue")

    def part(self) -> None:
        """Know no watcher any more, after all is over: nothing passes then."""
        del self._watcher

    def _step(self, unit: Unit | Ending, skip: int) -> None:
        if isinstance(unit, Ending):
            self.flush()
            if self._slow:
                self._queue.appendleft((unit, skip))
                return
            self._watcher.ended(self, unit.how)
            return
        self._queued -= len(unit.raw)
        if unit is self._cleared:
            self._cleared = None
            self.pass_on(unit, skip)
        elif (instead := self._watcher.examine(self, unit, skip)) is not None:
            self.pass_on(instead, skip)

    def _tick(self) -> None:
        """Write the next octets of a slow lane, and hold it until it is their turn."""
        if not self._slow or self.pace is None:
            self.quicken()
            return
        part = bytes(self._slow[: self.pace.octets])
        del self._slow[: len(part)]
        self.target.write(part)
        self.hold("pace")
        self._timer = asyncio.get_running_loop().call_later(self.pace.seconds * len(part), self._tick)

    def quicken(self) -> None:
        """Write all that is still to be written slowly; a pace that was for one unit only is over."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.target.write(bytes(self._slow))
        self._slow.clear()
        if self.pace is not None and self.pace.once:
            self.pace = None
        self.release("pace")
