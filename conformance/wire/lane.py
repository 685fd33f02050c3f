"""A lane: one direction of a relay, from the endpoint that receives octets (source) to the one that sends them (target).

Theory of operation
-------------------

The relay parses octets as they arrive, and hands the lane the units that they complete. There are two ways through a lane:

- The fast path (`forward_fast`). While no fault or moment may act on the session and nothing is queued, held or throttled,
  octets are written as they arrived, before they are parsed. The units in them are recorded right after, in the same turn
  of the event loop, so before anything that the octets cause can happen.
- The queue (`accept`, `process_queue`). Each unit waits until no hold is left, is examined by the observer (which may
  forward, replace, answer, hold or drop it), recorded, and then written.

An unfinished line has no unit yet. On the fast path its octets are written at once; `_written_early` counts those. When its
unit is completed after the lane has left the fast path, the unit is queued with that count (`skip`), and only the rest of
it is written. When the lane returns to the fast path, `flush_partial_line` writes what an unfinished line still lacks.

Faults change how a lane writes: `hold` stops the queue until each of its reasons is released, `pace` writes slowly,
`merge_with_next` keeps octets back until the next are written, `discard_all` ends the lane. In each method, `skip` is the
number of octets at the beginning of a unit that were written before.

Flow control: a queue of more than `QUEUED` octets stops reading from the source until no more than that are left in it.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from conformance.wire.endpoint import Endpoint
from conformance.wire.units import RawOctets, Unit, WholeReply

QUEUED = 64 * 1024
"""Octets that a lane queues before it stops reading from its source."""


@dataclass(frozen=True, slots=True)
class EndOfStream:
    """The last entry of a lane's queue: the source ended its direction (FIN) or the whole connection (RST)."""

    how: Literal["fin", "reset"]


@dataclass(frozen=True, slots=True)
class Pace:
    """How slowly a lane writes: `octets` at a time, each octet taking `seconds` of the loop; `once`: for one unit only."""

    octets: int
    seconds: float
    once: bool = False


class LaneObserver(Protocol):
    """Records and intercepts what a lane forwards (implemented by `Relay`)."""

    @property
    def must_examine(self) -> bool:
        """Whether every unit must be examined before it is written."""
        ...

    def examine(self, lane: "Lane", unit: Unit, skip: int) -> Unit | None:
        """Return the unit to forward in place of `unit`, of which `skip` octets were written before; None for nothing."""
        ...

    def record_unit(self, lane: "Lane", unit: Unit) -> None:
        """Record a unit that is forwarded."""
        ...

    def after_write(self, lane: "Lane", unit: Unit) -> None:
        """Act on a unit that was forwarded through the queue; a throttled lane may not have written all of it yet."""
        ...

    def end_reached(self, lane: "Lane", how: Literal["fin", "reset"]) -> None:
        """Forward the end of the lane's stream, after everything before it was written or discarded."""
        ...

    def unparsed(self, lane: "Lane") -> bytes:
        """Return the octets received in the lane's direction that are in no unit yet."""
        ...


class Lane:
    """Forwards octets from `source` to `target`. `ended` is set once FIN was forwarded; `discarding` after `discard_all`.

    Faults that play the server also set `ended` of the lane from it, so that the client's FIN ends the session.
    `pace` is how slowly it writes, None for at once; `_throttled` has the octets that this keeps back, `_merging` the
    units kept by `merge_with_next`, each with its `skip`. `_queue` has each waiting unit with the number of its octets
    that were written before (`skip`), and `_queued` counts the octets of those units. `_holds` are the reasons for
    which the queue stands still. `_examined` is a unit that was put back into the queue after the observer had examined
    it: it is forwarded without being examined again.
    """

    def __init__(self, observer: LaneObserver, source: Endpoint, target: Endpoint) -> None:
        self.source = source
        self.target = target
        self.ended = False
        self.discarding = False
        self.pace: Pace | None = None
        self._observer = observer
        self._queue: deque[tuple[Unit | EndOfStream, int]] = deque()
        self._queued = 0
        self._written_early = 0
        self._holds: set[str] = set()
        self._examined: Unit | None = None
        self._throttled = bytearray()
        self._merging: list[tuple[Unit, int]] = []
        self._processing = False  # set while the queue is being worked through, which a unit can cause again
        self._timer: asyncio.TimerHandle | None = None

    def forward_fast(self, data: bytes, unparsed: int) -> bool:
        """Write octets that have just arrived if the fast path is open; return whether they were written (else do nothing).

        `unparsed` counts the octets received before them that are in no unit yet.
        """
        busy = self._queue or self._holds or self.pace or self._merging or self.discarding
        if busy or self._written_early != unparsed or self._observer.must_examine:
            return False
        self.target.write(data)
        return True

    def accept(self, units: Sequence[Unit], data: bytes, unparsed: int, *, written: bool) -> None:
        """Record and forward the units that `data` completed; `written`: `forward_fast` has written `data`.

        `unparsed` counts the octets that are in no unit yet, `data` included. If something may act on the units, they
        are queued; else they are recorded, and all octets written that were not written yet, those of an unfinished
        line too. A lane that discards does nothing.
        """
        if self.discarding:
            return
        if not written and (self._queue or self._holds or self.pace or self._merging or self._observer.must_examine):
            for unit in units:
                injected = isinstance(unit, WholeReply) and unit.injected  # its octets were not received
                skip = 0 if injected else min(self._written_early, len(unit.raw))
                self._written_early -= skip
                self.enqueue(unit, skip)
            self.process_queue()
            return
        for unit in units:
            self._observer.record_unit(self, unit)
        if not written:
            before = sum(len(unit.raw) for unit in units) + unparsed - len(data)
            if before != self._written_early:  # of the octets received before `data` some were kept back
                data = (b"".join(unit.raw for unit in units) + self._observer.unparsed(self))[self._written_early :]
            self.target.write(data)
        self._written_early = unparsed

    def enqueue(self, unit: Unit | EndOfStream, skip: int = 0) -> None:
        """Append a unit to the queue, the first `skip` octets of which were written before; `process_queue` forwards it.

        With more than `QUEUED` octets in the queue, the source is not read any more.
        """
        self._queue.append((unit, skip))
        if not isinstance(unit, EndOfStream):
            self._queued += len(unit.raw)
            if self._queued > QUEUED:
                self.source.hold_reading("queue")

    def requeue(self, unit: Unit, skip: int = 0, *, examined: bool = True) -> None:
        """Put a unit back at the head of the queue; `examined`: it will be forwarded without being examined again."""
        self._queue.appendleft((unit, skip))
        self._queued += len(unit.raw)
        self._examined = unit if examined else None

    def enqueue_end(self, how: Literal["fin", "reset"]) -> None:
        """Queue the end of the source's stream after everything that it sent, and process the queue.

        The octets of an unfinished line are queued before FIN, but not in a lane that discards, and are lost with RST.
        """
        if how == "fin" and not self.discarding and (rest := self._observer.unparsed(self)[self._written_early :]):
            self.enqueue(RawOctets(rest))
        self.enqueue(EndOfStream(how))
        self.process_queue()

    def process_queue(self) -> None:
        """Examine, record and write queued units until the lane is held or the queue is empty.

        Do nothing if called while this runs. With `QUEUED` octets or fewer left, the source is read again.
        """
        if self._processing:
            return
        self._processing = True
        try:
            while self._queue and not self._holds:
                self._process(*self._queue.popleft())
        finally:
            self._processing = False
        if self._queued <= QUEUED:
            self.source.release_reading("queue")

    def forward(self, unit: Unit, skip: int = 0) -> None:
        """Record a unit, after those that `merge_with_next` kept, then write their octets and its own after the first `skip`.

        The observer's `after_write` is called for the unit, not for those that were kept.
        """
        kept = self._take_merged()
        self._observer.record_unit(self, unit)
        self.write(kept + unit.raw[skip:])
        self._observer.after_write(self, unit)

    def write(self, octets: bytes) -> None:
        """Write octets after those that `merge_with_next` kept, which are recorded now: at once, or slowly at the lane's pace."""
        octets = self._take_merged() + octets
        if self.pace is None:
            self.target.write(octets)
            return
        self._throttled += octets
        if "pace" not in self._holds:  # else the timer of the last piece goes on with these
            self._write_slowly()

    def merge_with_next(self, unit: Unit, skip: int) -> None:
        """Keep a unit: it is recorded, and its octets after the first `skip` are written, in one piece with the next ones."""
        self._merging.append((unit, skip))

    def flush_merged(self) -> None:
        """Record and write the units that `merge_with_next` kept; do nothing if there are none."""
        if self._merging:
            self.write(b"")  # write() puts what is kept before its octets

    @property
    def merging(self) -> tuple[Unit, ...]:
        """The units that `merge_with_next` kept, in their order."""
        return tuple(unit for unit, _ in self._merging)

    def flush_kept(self) -> None:
        """Write at once what a pace and `merge_with_next` have kept back, and record the latter; the queue does not go on.

        For use before the lane, or its target, ends.
        """
        octets = bytes(self._throttled) + self._take_merged()
        self._throttled.clear()
        self.target.write(octets)

    def _take_merged(self) -> bytes:
        """Record the units that `merge_with_next` kept, and return their octets, which are to be written now."""
        kept, self._merging = self._merging, []
        for unit, _ in kept:
            self._observer.record_unit(self, unit)
        return b"".join(unit.raw[skip:] for unit, skip in kept)

    def hold(self, reason: str) -> None:
        """Stop the queue until this reason, and every other one, was released."""
        self._holds.add(reason)

    def release(self, reason: str) -> None:
        """Remove a reason to hold the lane; if none is left, process the queue (also if `reason` was not in force)."""
        self._holds.discard(reason)
        self.process_queue()

    def flush_partial_line(self) -> None:
        """Write the octets of an unfinished line that were kept for its end, and count them in `_written_early`.

        Do nothing while a unit waits or may have to be examined, or the lane is held, throttled or discards.
        """
        idle = not self._queue and not self._throttled and not self._merging
        if idle and not self.discarding and not self._holds and not self._observer.must_examine:
            unparsed = self._observer.unparsed(self)
            self.target.write(unparsed[self._written_early :])
            self._written_early = len(unparsed)

    def flush_throttled(self) -> None:
        """Write at once what a pace has kept back, end a pace that was for one unit only, and release the hold of the pace.

        Another pace stays in force for the octets after these.
        """
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.target.write(bytes(self._throttled))
        self._throttled.clear()
        if self.pace is not None and self.pace.once:
            self.pace = None
        self.release("pace")

    def discard_all(self, *, keeps_end: bool = False) -> None:
        """Discard what is queued, throttled or kept for merging, and all octets that arrive from now on.

        An end of the stream that is queued is discarded too, unless `keeps_end`. The source is read again, so that its end is
        noticed.
        """
        ends = [one for one in self._queue if keeps_end and isinstance(one[0], EndOfStream)]
        self.discarding = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._holds.discard("pace")  # the timer would have released it
        self.pace = None
        self._queue = deque(ends)
        self._throttled.clear()
        self._merging.clear()
        self._queued = 0
        self.process_queue()
        self.source.release_reading("queue")

    def detach(self) -> None:
        """Drop the reference to the observer, so that the session is freed at once; the lane cannot be used any more."""
        del self._observer

    def _process(self, unit: Unit | EndOfStream, skip: int) -> None:
        """Examine and forward a unit just taken from the queue; one that was examined before is only forwarded.

        At the end of the stream, what `merge_with_next` kept is written first. The end is put back while throttled octets are
        unwritten; else the observer's `end_reached` is called.
        """
        if isinstance(unit, EndOfStream):
            self.flush_merged()
            if self._throttled:
                self._queue.appendleft((unit, skip))
                return
            self._observer.end_reached(self, unit.how)
            return
        self._queued -= len(unit.raw)
        if unit is self._examined:
            self._examined = None
            self.forward(unit, skip)
        elif (instead := self._observer.examine(self, unit, skip)) is not None:
            self.forward(instead, skip)

    def _write_slowly(self) -> None:
        """Write the next octets of a throttled lane, hold the lane (reason "pace"), and call this again after their time.

        When nothing is left to write, or the pace has ended, `flush_throttled` releases that hold.
        """
        if not self._throttled or self.pace is None:
            self.flush_throttled()
            return
        part = bytes(self._throttled[: self.pace.octets])
        del self._throttled[: len(part)]
        self.target.write(part)
        self.hold("pace")
        self._timer = asyncio.get_running_loop().call_later(self.pace.seconds * len(part), self._write_slowly)
