"""An event loop whose clock is the machine's plus an offset, which is increased when neither loop nor programs are busy.

Theory of operation. The programs of the nodes are foreign and run with their real timers. The shim in each of them adds the
offset of a shared page to what clocks return. In between jumps time passes as it does. When the loop has nothing to do, it

1. waits until nothing is in flight on the loopback, as virtual time does;
2. begins a new epoch in all programs if it has called anything since the last one: they may have been sent something;
3. asks each `ProcessTree` whether its processes are quiet, and until when they wait;
4. polls the sockets once more, for what a program sent right before it was found quiet;
5. jumps: the offset is set in all pages, to the earliest moment for which the loop or a program waits.

Steps 1 to 3 are repeated, in real time, until all programs are quiet.

A program with a timer every second would make a wait of days last for hours, since each jump takes some milliseconds. When a
wait would take longer than MAX_EXACT_WAIT_S, it is made to take MAX_REAL_WAIT_S: the jumps are made longer than to the next
timer of a program (`_choose_jump_target`). Timers that are met late by that are reported as lag, as is the loop's own lateness:
the judge excuses what failed because of it.

A *look* is one inspection of all threads of the programs. An *epoch* is a number that the harness increments to ask every
thread whether it has found nothing to do since. `conformance.run.clocks.virtual.ShiftedClock` is the clock of this loop.
"""

import math
import time
from dataclasses import dataclass
from pathlib import Path

from conformance.run.shifted.process_tree import measure_sleep_threshold
from conformance.run.shifted.shared_page import NEVER, wait_for_tick
from conformance.run.shifted.shifted_program import ShiftedProgram
from conformance.run.shifted.shim_library import NeverQuiet, UnshiftedWait, build_shim
from conformance.run.virtual.loop import VirtualClockEventLoop
from conformance.run.virtual.selector import Ready

_MIN_POLL_S, _MAX_POLL_S = 0.0005, 0.005
"""Real seconds between two looks at programs that are busy: between the first ones, and at most."""

_ASK_AGAIN = -1
"""A count of events that is never reached: the programs are to be asked again, whatever the loop has done."""

_NANOSECONDS = 1_000_000_000

MAX_REAL_WAIT_S = 40.0
"""Real seconds for one wait of the harness in which timers of programs are met late, since it would take too long otherwise."""

MAX_EXACT_WAIT_S = 120.0
"""Real seconds up to which a wait may take as long as it does: a slow machine takes a few times longer than a fast one."""

MAX_SKIP_FRACTION = 0.0015
"""The largest part of such a wait that one jump may skip beyond a program's timer: nine minutes of four days."""

STUCK_AFTER_S = 60.0
"""Real seconds without a jump and without anything to do for the loop, after which NeverQuiet names the busy programs."""

_RECALIBRATE_AFTER_S = 5.0
"""Real seconds for which a measured sleep threshold is used: other programs on this machine start and end."""

_RECALIBRATION_SAMPLES = 10
"""Samples of later measurements, of 1 ms each."""

_FREQUENT_WAKEUPS_HZ = 100.0
"""Wake-ups of a node per second of its clock from which on it is named as the cause of lag."""

_MIN_JUMPS_TO_EXTRAPOLATE = 20
"""Jumps of a wait after which the real time that one takes is known well enough."""

_PART_TO_EXTRAPOLATE = 0.05
"""The part of MAX_EXACT_WAIT_S for which a wait is left exact in any case: its first jumps may be slower than the others."""

_SAME_TIMER_S = 1.0
"""A timer that differs from an earlier one by less is taken as the same one, set anew."""


@dataclass
class _Wait:
    """A wait of the loop for one of its timers: `when` it ends and `began` (both by `time()`), `began_real` by the machine.

    `jumps` counts the jumps in the wait, and `short_jumps` those of less than 1 / _FREQUENT_WAKEUPS_HZ seconds.
    `is_shortened` is True once it was seen that the wait would take longer than MAX_EXACT_WAIT_S.
    """

    when: float
    began: float
    began_real: float
    jumps: int = 0
    short_jumps: int = 0
    is_shortened: bool = False


class ShiftedClockEventLoop(VirtualClockEventLoop):
    """Runs together with foreign programs, whose clocks jump with its own.

    `_offset` is in nanoseconds. `_lag` and `_lag_reason` are kept until they are taken. `_deadlines` has, by node, until when its
    program waited when it was last seen quiet: nanoseconds of the shifted clock, or NEVER. `_looks` counts the looks at
    the programs since the epoch began at which the loop had handled `_events_at_epoch` sockets and callbacks.
    `_jumped_at` is when, by the machine, it last jumped or handled any. Each program has a shared `page` and a `tree`, which
    looks at its processes. `_sleep_threshold` is how many real seconds a thread must sleep to be taken as quiet, and
    `_calibrated_at` when that was measured last, by the machine. The base
    class has the sockets, the timers (`next_timer` is when the next is due, by `time()`) and the holds on time;
    `_handle_error` passes an error to the cell, or raises it.
    """

    time_passes = True

    def __init__(self) -> None:
        """Begin without programs and at the machine's time; measure `_sleep_threshold`. The first look begins an epoch."""
        super().__init__()
        self._offset = 0
        self._programs: list[ShiftedProgram] = []
        self._sleep_threshold = measure_sleep_threshold()
        self._calibrated_at = self._jumped_at = time.monotonic()
        self._lag_reason = ""
        self._deadlines: dict[str, int] = {}
        self._events_served = self._looks = 0
        self._events_at_epoch = _ASK_AGAIN
        self._lag = 0.0
        self._waits: list[_Wait] = []

    def time(self) -> float:
        """Return the machine's monotonic time plus the offset, seconds."""
        return time.monotonic() + self.offset

    @property
    def offset(self) -> float:
        """What is added to the machine's clocks, seconds."""
        return self._offset / _NANOSECONDS

    def take_lag(self) -> float:
        """Return the largest lateness of a timer since the last call, seconds; 0 if all were in time."""
        lag, self._lag = self._lag, 0.0
        return lag

    def take_lag_reason(self) -> str:
        """Return which node woke up so often that timers were met late since the last call; "" when none did."""
        reason, self._lag_reason = self._lag_reason, ""
        return reason

    def shifted_program(self, directory: Path) -> ShiftedProgram:
        """Return what shifts the clock of a program that is to be started; its page and its shim are put into `directory`.

        From then on the loop jumps only when that program is quiet. Raises CannotShift when the shim cannot be compiled on this
        machine.
        """
        program = ShiftedProgram(
            directory,
            build_shim(),
            self._sleep_threshold,
            hold_time=self.hold_time,
            stop_holding_for=self.stop_holding_for,
        )
        program.page.set_offset(self._offset, wait_for_tick())
        self._programs.append(program)
        return program

    def close(self) -> None:
        """Close the loop and unmap the pages of all programs."""
        super().close()
        for program in self._programs:
            program.page.close()
        self._programs.clear()

    # polling and jumping

    def poll_sockets(self, turns: int, *, may_wait: bool) -> Ready:
        """Return the sockets that are ready, as VirtualClockEventLoop does; before, note as lag how late the next timer is."""
        when = self.next_timer()
        if when is not None:
            self._lag = max(self._lag, self.time() - when)
        ready = super().poll_sockets(turns, may_wait=may_wait)
        self._events_served += len(ready)
        return ready

    def _wait_or_jump(self) -> Ready:
        """Return the sockets that become ready within a short time, or jump if the programs are quiet and return none.

        The base class calls it when no socket is ready and no callback is to be run. While time is held it blocks until a socket is
        ready or the next timer is due, for 1 s at most. Otherwise it blocks until nothing is in flight or a socket is ready; without a
        jump for up to 5 ms more, before a jump until the next tick (4 ms). Sockets that become ready right before a jump are returned
        instead. A program's request for a wait that cannot be shifted is reported as UnshiftedWait, programs that are busy for too
        long as NeverQuiet; then nothing is returned.
        """
        when = self.next_timer()
        if self._holds:  # reasons not to jump, such as a node that starts
            return self.sockets.poll(self._seconds_until(when))
        if ready := self._wait_for_kernel(nothing_readable=True) or self.sockets.poll(0):
            return ready
        self._ask_programs_again()
        for program in self._programs:
            if waits := program.take_unshifted_waits():
                self._handle_error(UnshiftedWait(waits))
                return []
        earliest = self._quiet_until(when)
        if earliest is not None and earliest > self.time():
            tick = wait_for_tick()
            self._events_at_epoch = _ASK_AGAIN
            # What a program sent after the last poll and before it was found quiet has to be read first.
            ready = self.sockets.poll(0)
            if not ready:
                self._jump(
                    earliest if when is None or earliest >= when else self._choose_jump_target(earliest, when), tick
                )
            return ready
        self._recalibrate()
        stuck = when is not None and time.monotonic() - self._jumped_at > STUCK_AFTER_S
        if stuck and (busy := self._describe_busy()):
            self._handle_error(NeverQuiet(f"for {STUCK_AFTER_S:g} s time could not jump: {busy}"))
            return []
        pause = min(_MIN_POLL_S * 1.2 ** min(self._looks, 50), _MAX_POLL_S)
        return self.sockets.poll(min(pause, self._seconds_until(when)))

    def _ask_programs_again(self) -> None:
        """Begin a new epoch in all programs if the loop has called anything, or jumped, since the last one; count this look.

        A new epoch also restarts the time after which NeverQuiet is reported.
        """
        events = self._events_served + self.callbacks_called
        if (
            events != self._events_at_epoch
        ):  # also after a jump: `_wait_or_jump` has set it to _ASK_AGAIN, which no count equals
            self._looks = 0
            self._jumped_at = time.monotonic()
            for program in self._programs:
                program.tree.ask_again()
        self._looks += 1
        self._events_at_epoch = events

    def _quiet_until(self, when: float | None) -> float | None:
        """Return the earliest moment for which a program or the loop (`when`) waits, by `time()`.

        None while a program may have something to do, and when neither waits for a moment (deadline NEVER).
        """
        earliest = math.inf if when is None else when
        for program in self._programs:
            deadline = program.tree.quiet_until()
            if deadline is None:
                return None
            self._deadlines[program.name] = deadline
            if deadline != NEVER:
                earliest = min(earliest, deadline / _NANOSECONDS)
        return None if math.isinf(earliest) else earliest

    def _choose_jump_target(self, earliest: float, when: float) -> float:
        """Return where to jump in a wait until `when`: to `earliest`, a program's timer, or later; note lag if later.

        The target is `earliest` in the first _MIN_JUMPS_TO_EXTRAPOLATE jumps, in the first real seconds (_PART_TO_EXTRAPOLATE), and
        while the wait may end within MAX_EXACT_WAIT_S at the pace so far. Once it may not, it is to end within MAX_REAL_WAIT_S:
        whenever it would not at the pace so far, the rest of the wait is divided by the number of jumps for which the real time
        that is left suffices, and the jump is that long at least. A jump beyond `earliest` ends at most MAX_SKIP_FRACTION of the
        wait after now, and at `when` at the latest. Also count the jump in the wait, and note the node that causes the lag.
        """
        now, real = self.time(), time.monotonic()
        wait = self._current_wait(when, now, real)
        wait.jumps += 1
        wait.short_jumps += earliest - now < 1 / _FREQUENT_WAKEUPS_HZ
        spent = real - wait.began_real
        limit = MAX_REAL_WAIT_S if wait.is_shortened else MAX_EXACT_WAIT_S
        in_time = spent * (when - wait.began) <= limit * (now - wait.began)
        undecided = not wait.is_shortened and spent < MAX_EXACT_WAIT_S * _PART_TO_EXTRAPOLATE
        if in_time or undecided or wait.jumps < _MIN_JUMPS_TO_EXTRAPOLATE:
            return earliest
        wait.is_shortened = True
        jumps_left = max(MAX_REAL_WAIT_S - spent, 0.0) * wait.jumps / spent
        shortest = min((when - now) / max(jumps_left, 1.0), MAX_SKIP_FRACTION * (when - wait.began))
        target = min(max(earliest, now + shortest), when)
        if wait.short_jumps * 2 > wait.jumps and (node := self._next_node_to_wake()):
            self._lag_reason = f"{node} wakes up more than {_FREQUENT_WAKEUPS_HZ:.0f} times a second"
        self._lag = max(self._lag, target - max(earliest, now))
        return target

    def _current_wait(self, when: float, now: float, real: float) -> _Wait:
        """Return the wait that ends at `when`; if there is none, begin a new one and forget those that have ended.

        Shorter waits may have interrupted it, and its timer may have been set anew, a moment off, after an event. `now` is by
        `time()`, `real` by the machine.
        """
        for wait in self._waits:
            if abs(wait.when - when) < _SAME_TIMER_S:
                return wait
        wait = _Wait(when, now, real)
        self._waits = [*(other for other in self._waits if other.when > now), wait]
        return wait

    def _next_node_to_wake(self) -> str:
        """Return the node whose program waited for the earliest moment when each was last seen quiet; "" when none did."""
        deadline, node = min(((deadline, node) for node, deadline in self._deadlines.items()), default=(NEVER, ""))
        return node if deadline != NEVER else ""

    def _describe_busy(self) -> str:
        """Return a clause that names the nodes with something to do, and their processes.

        Without any, it names the node that wakes up next as one that wakes up all the time; "" when none waits for a moment.
        """
        if busy := "; ".join(filter(None, (program.describe_awake() for program in self._programs))):
            return f"{busy} always had something to do"
        node = self._next_node_to_wake()
        return f"{node} wakes up more than {_FREQUENT_WAKEUPS_HZ:.0f} times a second" if node else ""

    def _recalibrate(self) -> None:
        """Measure the sleep threshold again, which blocks for some 10 ms, unless that was done a short time ago."""
        if time.monotonic() - self._calibrated_at > _RECALIBRATE_AFTER_S:
            self._sleep_threshold = measure_sleep_threshold(_RECALIBRATION_SAMPLES)
            self._calibrated_at = time.monotonic()
            for program in self._programs:
                program.tree.sleep_threshold = self._sleep_threshold

    def _jump(self, target: float, tick: int) -> None:
        """Set the offset, here and in all programs, so that `time()` is at least `target`; `tick` is what `wait_for_tick` returned."""
        self.jumps += 1
        self._turns = self._progress_since_jump = 0  # those since the last jump, of which too many are a Runaway
        self._jumped_at = time.monotonic()
        self._offset += math.ceil((target - self.time()) * _NANOSECONDS)
        for program in self._programs:
            program.page.set_offset(self._offset, tick)

    def _seconds_until(self, when: float | None) -> float:
        """Return the real seconds for which the loop may block before a timer, 1 at most; _MAX_POLL_S without a timer."""
        return _MAX_POLL_S if when is None else min(max(when - self.time(), 0.0), 1.0)
