"""An event loop whose clock is the machine's plus an offset, which jumps when nobody has anything to do."""

import math
import time
from dataclasses import dataclass
from pathlib import Path

from conformance.run.shifted.process_tree import measure_sleep_threshold
from conformance.run.shifted.shared_page import NEVER, wait_for_tick
from conformance.run.shifted.shifted_program import ShiftedProgram
from conformance.run.shifted.shim_library import NeverQuiet, UnshiftedTimeout, library
from conformance.run.virtual.loop import VirtualClockEventLoop
from conformance.run.virtual.selector import Ready

_NAPS = (0.0005, 0.005)
"""Real seconds between two looks at programs that are busy: the first, and the longest."""

_NOTHING = -1
"""What the loop has done when the programs are to be asked in any case."""

_NANOSECONDS = 1_000_000_000

MAX_REAL_WAIT_S = 40.0
"""Real seconds that one wait of the harness shall take at most: where meeting every timer of the programs would take
longer, some are met late."""

MAX_SKIP_FRACTION = 0.0015
"""What part of such a wait is jumped over at most, to keep to that: nine minutes of four days."""

STUCK_AFTER_S = 60.0
"""Real seconds without a jump, and without anything to do for the loop, after which it says who is awake."""

_CALIBRATED_FOR = 5.0
"""Real seconds for which it holds how late this machine is in waking a thread: others begin and end to use it."""

_OFTEN = 100.0
"""Wakings in a second of the clock from which on a node is named when it makes the harness late."""

_AGAIN = 10
"""Samples when that is measured again, of a millisecond each."""

_TRIED = 20
"""Jumps of a wait after which it is known what one takes."""

_SAME = 1.0
"""Seconds that two timers are apart at most, of which the second takes the place of the first."""


@dataclass
class _Wait:
    """A wait of the loop for a timer of its own: until when, since when (both by `time()`), since when really, the jumps in
    it, and how many of these were of less than 10 ms."""

    when: float
    began: float
    began_real: float
    jumps: int = 0
    hasty: int = 0


class ShiftedClockEventLoop(VirtualClockEventLoop):
    """Runs with programs that nobody here wrote, whose clocks jump with its own.

    When nothing is ready in the loop, nothing under way, and every program quiet, all clocks jump together: to the next
    timer of the loop, or to the earliest moment that a program waits for, whichever comes first. In between time passes as
    it does.
    """

    time_passes = True

    def __init__(self) -> None:
        super().__init__()
        self._offset = 0
        self._programs: list[ShiftedProgram] = []
        self._moment = measure_sleep_threshold()
        self._calibrated = self._moved_at = time.monotonic()
        self._restless = ""
        self._events_served = self._looks = 0
        self._done_before = _NOTHING
        self._late = 0.0
        self._waits: list[_Wait] = []
        self.shifted = 0.0
        """Seconds that were jumped over so far."""

    def time(self) -> float:
        """Return the machine's monotonic time plus the offset, seconds."""
        return time.monotonic() + self._offset / _NANOSECONDS

    @property
    def offset(self) -> float:
        """What is added to the machine's clocks, seconds."""
        return self._offset / _NANOSECONDS

    @property
    def moment(self) -> float:
        """How long a thread that the shim does not see must sleep to be believed, real seconds; measured at the start."""
        return self._moment

    def take_lag(self) -> float:
        """Return how late a timer rang at worst since this was last asked, seconds."""
        late, self._late = self._late, 0.0
        return late

    def take_lag_reason(self) -> str:
        """Return which node woke so often that timers rang late since this was last asked; '' when none did."""
        words, self._restless = self._restless, ""
        return words

    def shifted_program(self, directory: Path) -> ShiftedProgram:
        """Return what moves a program's clock; its page and its copy of the shim are in `directory`.

        Raises CannotShift when the shim cannot be made on this machine.
        """
        made = ShiftedProgram(directory, library(), self._moment, hold_time=self.hold_time, release=self._release)
        made.page.set_offset(self._offset, wait_for_tick())
        self._programs.append(made)
        return made

    def close(self) -> None:
        """See asyncio.loop.close."""
        super().close()
        for program in self._programs:
            program.page.close()
        self._programs.clear()

    def _release(self, pid: int) -> None:
        """Let time go on though a child of ours runs: its clock is moved, or it is only a guard."""
        self.stop_holding_for(pid)

    # when to jump

    def poll_sockets(self, turns: int, *, may_wait: bool) -> Ready:
        """See TrackingEventLoop; how late the next timer is is noted too."""
        when = self.next_timer()
        if when is not None:
            self._late = max(self._late, self.time() - when)
        ready = super().poll_sockets(turns, may_wait=may_wait)
        self._events_served += len(ready)
        return ready

    def _wait_or_jump(self) -> Ready:
        when = self.next_timer()
        if self._holds:
            return self.sockets.poll(self._until(when))
        if ready := self._wait_for_kernel(nothing_readable=True) or self.sockets.poll(0):
            return ready
        done = self._events_served + self.callbacks_called
        if done != self._done_before:  # the loop has done something since, which they may have noticed
            self._looks = 0
            self._moved_at = time.monotonic()
            for program in self._programs:
                program.tree.ask()
        self._looks += 1
        self._done_before = done
        if unmoved := next((words for program in self._programs if (words := program.unmoved)), ""):
            self._handle_error(UnshiftedTimeout(unmoved))
            return []
        earliest = self._earliest(when)
        if earliest is not None and earliest > self.time():
            moment = wait_for_tick()
            self._done_before = _NOTHING
            # A program was found quiet after the last look at the sockets: what it sent in between has to be read first.
            ready = self.sockets.poll(0)
            if not ready:
                self._jump(earliest if when is None or earliest >= when else self._coarse(earliest, when), moment)
            return ready
        self._calibrate()
        if when is not None and time.monotonic() - self._moved_at > STUCK_AFTER_S and (awake := self._awake()):
            self._handle_error(
                NeverQuiet(f"for {STUCK_AFTER_S:g} s there was no moment to jump from; awake is {awake}")
            )
            return []
        nap = min(_NAPS[0] * 1.2 ** min(self._looks, 50), _NAPS[1])
        return self.sockets.poll(min(nap, self._until(when)))

    def _earliest(self, when: float | None) -> float | None:
        """Return the earliest moment that a program or the loop waits for, seconds of `time()`; None while a program has
        something to do, or when nobody waits for a moment."""
        earliest = math.inf if when is None else when
        for program in self._programs:
            deadline = program.tree.deadline()
            if deadline is None:
                return None
            if deadline != NEVER:
                earliest = min(earliest, deadline / _NANOSECONDS)
        return None if math.isinf(earliest) else earliest

    def _coarse(self, earliest: float, when: float) -> float:
        """Return the moment to jump to, of a program's next and the loop's own; what it comes too late for is lateness.

        A server with a timer every minute would make days last for hours on a busy machine. Of what is left of the
        patience, so many more jumps can be made as they have taken so far: the smallest jump is what is left of the
        wait, divided by them.
        """
        now, real = self.time(), time.monotonic()
        wait = self._wait_for(when, now, real)
        wait.jumps += 1
        wait.hasty += earliest - now < 1 / _OFTEN
        spent = real - wait.began_real
        if spent * (when - wait.began) <= MAX_REAL_WAIT_S * (now - wait.began) or wait.jumps < _TRIED:
            return earliest
        left = max(MAX_REAL_WAIT_S - spent, 0.0) * wait.jumps / spent
        smallest = min((when - now) / max(left, 1.0), MAX_SKIP_FRACTION * (when - wait.began))
        target = min(max(earliest, now + smallest), when)
        if wait.hasty * 2 > wait.jumps and (node := self._next_to_wake()):
            self._restless = f"{node} wakes up more than {_OFTEN:.0f} times a second"
        self._late = max(self._late, target - max(earliest, now))
        return target

    def _next_to_wake(self) -> str:
        """Return the node whose program waits for the earliest moment; '' when none waits for one."""
        found = [(deadline, program.name) for program in self._programs if (deadline := program.tree.deadline())]
        return min(found)[1] if found and min(found)[0] != NEVER else ""

    def _awake(self) -> str:
        """Name every node that has something to do, with its processes."""
        busy = "; ".join(filter(None, (program.awake() for program in self._programs)))
        if busy:
            return busy
        node = self._next_to_wake()
        return f"{node}, which wakes up more than {_OFTEN:.0f} times a second" if node else ""

    def _calibrate(self) -> None:
        """Measure anew, from time to time, how long a thread must sleep to be believed."""
        now = time.monotonic()
        if now - self._calibrated > _CALIBRATED_FOR:
            self._moment = measure_sleep_threshold(_AGAIN)
            self._calibrated = time.monotonic()
            for program in self._programs:
                program.tree.trust(self._moment)

    def _wait_for(self, when: float, now: float, real: float) -> _Wait:
        """Return the wait that goes on: a shorter one may have come between, and what waits on after an event reckons
        its end anew, a moment off."""
        for known in self._waits:
            if abs(known.when - when) < _SAME:
                return known
        begun = _Wait(when, now, real)
        self._waits = [*(known for known in self._waits if known.when > now), begun]
        return begun

    def _jump(self, target: float, moment: int) -> None:
        self.jumps += 1
        self._turns = 0
        self._moved_at = time.monotonic()
        delta = target - self.time()
        self.shifted += delta
        self._offset += math.ceil(delta * _NANOSECONDS)
        for program in self._programs:
            program.page.set_offset(self._offset, moment)

    def _until(self, when: float | None) -> float:
        return _NAPS[1] if when is None else min(max(when - self.time(), 0.0), 1.0)
