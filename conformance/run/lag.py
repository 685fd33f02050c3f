"""Records how late the harness ran, and how long the nodes' programs waited for a processor: what is late then is excused.

In real time a busy machine makes both late. The clock measures the harness's own lateness. Programs may wait all the while
the harness is in time: the kernel counts how long each thread that could run was given no processor (`schedstat`, proc(5)).
A node's *guard* is the harness's process above the node's programs. Where time *jumps* (virtual and shifted clock), programs are
not measured.
"""

import asyncio
from collections.abc import Callable, Mapping

from conformance.clocks import CLOCKS
from conformance.history.events import Lag
from conformance.history.recorder import Recorder
from conformance.nodes.processes import descendants, threads_of
from conformance.run.clocks.interface import Clock

_PERIOD_S = 0.5
"""Real seconds between two records, in which small delays add up: each reply of a conversation may be a little late."""

_NS = 1e9

FindGuards = Callable[[], Mapping[str, int]]
"""Returns, for each node that runs, the id of its guard: the harness's process above the node's programs."""


class LagRecorder:
    """Records `Lag` events, in documented seconds.

    `guards` returns the process above the programs of each running node, by the node's name. The clock's `take_lag` returns
    how late the harness was since the last call, documented seconds.
    """

    def __init__(self, clock: Clock, recorder: Recorder, guards: FindGuards) -> None:
        self._clock = clock
        self._recorder = recorder
        # Where time jumps, it stands still while a program waits.
        self._run_delay = None if CLOCKS[clock.name].jumps else RunDelay(guards)

    def record(self, *, always: bool = False) -> None:
        """Record how late the harness and the programs were since the last call, if they were; with `always` also if not.

        The `Lag` event has the sum of both in documented seconds, and as its detail the cause of the larger one, "" if that is
        not known. Of the programs the node with the longest wait counts.
        """
        seconds, reason = self._clock.take_lag(), self._clock.take_lag_reason()
        if self._run_delay is not None:
            wait_real_s, node = self._run_delay.take_longest_wait()
            waited = wait_real_s / self._clock.duration(1.0)
            reason = f"{node} waited for a processor" if waited > seconds else reason
            seconds += waited
        if seconds or always:
            self._recorder.record(Lag, seconds=seconds, detail=reason)

    async def record_regularly(self) -> None:
        """Record lag every half a real second, until cancelled; return at once where time jumps."""
        while self._run_delay is not None:
            await asyncio.sleep(_PERIOD_S)
            self.record()


class RunDelay:
    """Reads the kernel's counters of how long the threads of the nodes have waited for a processor.

    `guards` returns the process above each node's programs, by the node's name. `_delays` are the counters at the last
    call, by (process, thread), real seconds.
    """

    def __init__(self, guards: FindGuards) -> None:
        self._guards = guards
        self._delays: dict[tuple[int, int], float] = {}

    def take_longest_wait(self) -> tuple[float, str]:
        """Return the longest wait of a node since the last call, in real seconds, and the node's name; (0.0, "") for none.

        The waits of a node's processes are added up, since each may have waited for the one before; of the threads of a
        process the longest wait counts, of a thread that is new all its wait so far. The waits of processes that have ended
        meanwhile are not known.
        """
        delays: dict[tuple[int, int], float] = {}
        longest = (0.0, "")
        for node, guard in self._guards().items():
            total = 0.0
            for process in descendants(guard):
                own = {(process, thread): delay for thread, delay in _delays(process)}
                total += max((delay - self._delays.get(key, 0.0) for key, delay in own.items()), default=0.0)
                delays |= own
            if total > longest[0]:
                longest = (total, node)
        self._delays = delays
        return longest


def _delays(process: int) -> list[tuple[int, float]]:
    """Return for each thread of a process its id and the real seconds that it has waited for a processor in its life.

    Threads that have ended are left out, and all of them where the kernel does not count.
    """
    delays = []
    for thread in threads_of(process):
        try:
            with open(f"/proc/{process}/task/{thread}/schedstat", "rb") as counters:  # noqa: PTH123
                delays.append((int(thread), int(counters.read().split()[1]) / _NS))  # run, waited, slices
        except (OSError, IndexError):
            continue
    return delays
