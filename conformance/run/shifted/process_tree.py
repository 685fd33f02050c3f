"""Finds out whether the processes of a node are quiet, that is, have nothing to do, and until when they wait.

Theory of operation. Time may jump only while every thread of the node is quiet. A look at all threads takes real time, in
which one that was seen as quiet may be woken by another. So a single look proves nothing by itself:

- A thread that waits in a call that the shim knows is in a loop of short waits (`shim/shim.h`). When the harness has done
  something that may concern the node, it begins a new epoch in the shared page. The thread reads the epoch, looks whether its
  call has anything to return, and if not writes the epoch to its slot. So a thread that has written the current epoch had
  nothing to do after that epoch began.
- Any other thread is taken as quiet when it has slept, without using the processor, for `sleep_threshold` real seconds, a
  multiple of how late this machine wakes a thread.
- When all threads are quiet, no wait may have ended since the look began (`Slot.woken`), and no waiting thread may be about to
  run. If one is, its slice of processor time may just be over, or something was given to it: a second epoch is begun, and when
  all have answered it without any wait having ended, nothing was given to any of them.

The guard, the process of the harness above the node's own, is looked at too, since it may be about to signal them. It wakes
twice a second to measure a directory, which concerns none of them: so it is quiet when it sleeps, unless the harness sent it a
command less than `sleep_threshold` ago.

A command of the node, such as one that waits until the node has drained its queues, is a process beside the guard, with processes
of its own. All of them are looked at like the node's own (`following_command`). A command that has ended counts as busy until
the harness has noticed that.

A thread's slot in the page has whether it waits (`waits`), the last epoch that it has answered (`seen`), until when it
waits (`deadline`), and how many of its waits have ended (`woken`). A thread that has never waited in a call that the shim
knows has no slot.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from conformance.nodes.processes import descendants
from conformance.run.shifted.shared_page import NEVER, SharedPage, Slot
from conformance.run.shifted.shim_library import CannotShift, why_not_shifted

T = TypeVar("T")

_ASLEEP = frozenset("SZTtXI")
"""States of a thread that neither runs, nor is about to, nor waits for a disk (proc(5))."""

_STOPPED = "T"

_ENDED = frozenset("ZX")
"""States of a process that has ended, and of one that has been waited for too."""

_QUICK_CHECKS = 8
"""The number of looks after a new epoch in which only the threads that waited before are checked: most have not answered yet."""

_MAX_LOADING_CHECKS, _LOADING_CHECK_S = 2000, 0.001
"""How often it is checked whether a program that runs has loaded the shim, and the real seconds between two checks."""

_MAX_OCTETS = 16 * 1024
"""More than any of the files of /proc that are read here has."""


class ProcessTree:
    """The processes below a guard, and those of the node's commands, which share a page.

    `sleep_threshold` is in real seconds (see the module). `_commands` are the process ids of the commands that are followed now.
    `_slept` has, for each thread without a waiting slot, its processor time and since when that is the same.
    `_inner_ids` are the ids of threads in their own process namespace; `_waiting` those that waited at the last look,
    `_woken` their `woken` when the second epoch was begun, {} before. For as many looks as `_quick_checks_left` only threads
    that waited before are checked. `awake` are the processes that had something to do at the last look.
    """

    def __init__(self, page: SharedPage, library: Path, sleep_threshold: float) -> None:
        """`library` is the copy of the shim that the processes must have loaded."""
        self.page = page
        self.sleep_threshold = sleep_threshold
        self._library = library
        self._guard: int | None = None
        self._commands: set[int] = set()
        self._epoch = 0
        self._slept: dict[int, tuple[bytes, float]] = {}
        self._inner_ids: dict[int, int] = {}
        self._waiting: list[int] = []
        self._woken: dict[int, int] = {}
        self._quick_checks_left = 0
        self._guard_signalled_at = 0.0
        self.awake: tuple[int, ...] = ()
        """The processes that had something to do at the last look."""

    def note_guard_signalled(self) -> None:
        """Note that the harness has just sent the guard a command: for `sleep_threshold` seconds it counts as busy."""
        self._guard_signalled_at = time.monotonic()

    def follow(self, guard: int) -> None:
        """Begin to look at the processes below `guard`, whose own clock is not shifted, and begin an epoch."""
        self._guard = guard
        self._slept.clear()
        self._inner_ids.clear()
        self._waiting.clear()
        self.note_guard_signalled()
        self.ask_again()

    def stop_following(self) -> None:
        """Look at no process any more: the node has ended, and counts as quiet."""
        self._guard = None

    @contextmanager
    def following_command(self, pid: int) -> Iterator[None]:
        """Look at the command with this process id, and at the processes below it, while the context lasts; begin an epoch."""
        self._commands.add(pid)
        self.ask_again()
        try:
            yield
        finally:
            self._commands.remove(pid)

    def ask_again(self) -> None:
        """Begin a new epoch, since the harness has done something that may concern the processes.

        What earlier looks have found counts no more: each waiting thread has to answer the new epoch.
        """
        self._woken = {}
        self._begin_epoch()

    def _begin_epoch(self) -> None:
        """Write a new epoch to the page: each waiting thread looks again whether it has something to do."""
        self._epoch = self.page.begin_epoch()
        self._quick_checks_left = _QUICK_CHECKS

    def check_shifted(self) -> None:
        """Raise CannotShift when the clock of one of the processes is not shifted, or one asked for what cannot be shifted.

        Block, with time.sleep, while the processes load the shim, up to some 2 s for each.
        """
        for pid in self._own_processes():
            for checks in range(_MAX_LOADING_CHECKS + 1):
                # Read before the files that it has mapped: a process that falls asleep in between has loaded everything.
                state = _state(f"/proc/{pid}/task/{pid}")
                reason = why_not_shifted(pid, self._library, self.page.path)
                if not reason:
                    break
                if checks == _MAX_LOADING_CHECKS or state in _ASLEEP:
                    raise CannotShift(reason)
                time.sleep(_LOADING_CHECK_S)  # a process that is loading its libraries runs, or waits for a disk
        if reason := self.unshifted_waits:
            raise CannotShift(reason)

    @property
    def unshifted_waits(self) -> str:
        """A clause about what the processes have ever asked for that the shim cannot shift; "" when nothing."""
        return f"it asks for what is not moved: {waits}" if (waits := self.page.unshifted_waits) else ""

    def quiet_until(self) -> int | None:
        """Look at all threads; return their earliest deadline if all are quiet, None if one may have something to do.

        The deadline is in nanoseconds of the shifted monotonic clock; NEVER when no thread waits with a time limit, or when
        no processes are followed. Sets `awake`, except in a quick look (`_QUICK_CHECKS`). To be called again after None: the
        look may have begun a new epoch, which the threads have to answer.
        """
        slots = {slot.tid: slot for slot in self.page.slots()}
        if self._quick_checks_left and any(_has_not_answered(slots.get(tid), self._epoch) for tid in self._waiting):
            self._quick_checks_left -= 1
            return None
        awake = {pid: None for pid in self._commands if _state(f"/proc/{pid}") in _ENDED}
        self._waiting.clear()
        earliest = NEVER
        now = time.monotonic()
        all_asleep = True
        for pid, tid, directory in self._threads():
            if pid == self._guard:
                if now - self._guard_signalled_at < self.sleep_threshold or _state(directory) not in _ASLEEP:
                    awake[pid] = None
                continue
            inner_id = self._inner_id(tid, directory)
            slot = slots.get(inner_id)
            if slot is not None and slot.waits:
                self._waiting.append(inner_id)
                state = _state(directory)
                all_asleep = all_asleep and state in _ASLEEP
                if slot.seen >= self._epoch:
                    earliest = min(earliest, slot.deadline)
                elif state != _STOPPED:  # a frozen thread looks when it is resumed
                    awake[pid] = None
            elif not self._has_slept(tid, directory, now):
                awake[pid] = None
        self.awake = tuple(awake)
        return earliest if not awake and self._none_was_woken(slots, all_asleep=all_asleep) else None

    def _none_was_woken(self, slots: Mapping[int, Slot], *, all_asleep: bool) -> bool:
        """Whether no wait of a thread has ended since `slots` were read, and none is about to end.

        When a waiting thread was about to run (not `all_asleep`), begin a second epoch and return False; True only in a later look,
        when all have answered that one without any wait having ended (see the module). `_woken` has the counts as the second
        epoch was begun.
        """
        before = {tid: slots[tid].woken for tid in self._waiting}
        after = {slot.tid: slot.woken for slot in self.page.slots() if slot.waits}
        if any(after.get(tid) != woken for tid, woken in before.items()):
            return False
        if all_asleep or before == self._woken:
            return True
        self._woken = before
        self._begin_epoch()
        return False

    def _own_processes(self) -> Iterator[int]:
        """Yield the ids of the node's own processes: those below the guard, without the init of a process namespace."""
        if self._guard is None:
            return
        for pid in descendants(self._guard):
            if not _is_init(pid):
                yield pid

    def _threads(self) -> Iterator[tuple[int, int, str]]:
        """Yield (process id, thread id, directory in /proc) for each thread of the guard, the commands and all processes below."""
        if self._guard is None:
            return
        for pid in (pid for top in (self._guard, *self._commands) for pid in (top, *descendants(top))):
            try:
                threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208  # pathlib is slower, and this runs at every look
            except OSError:
                continue
            for thread in threads:
                yield pid, int(thread), f"/proc/{pid}/task/{thread}"

    def _inner_id(self, tid: int, directory: str) -> int:
        """Return the id that a thread has in its own process namespace, which it writes to its slot; `tid` when it has ended."""
        inner_id = self._inner_ids.get(tid)
        if inner_id is None:
            inner_id = _read(f"{directory}/status", lambda text: _last_number(text, b"NSpid:"), tid)
            self._inner_ids[tid] = inner_id
        return inner_id

    def _has_slept(self, tid: int, directory: str, now: float) -> bool:
        """Whether a thread has slept, without using the processor, for `sleep_threshold` seconds up to `now` (time.monotonic).

        False at the first look at a thread. Notes in `_slept` since when its processor time is the same.
        """
        state = _state(directory)
        used = _read(f"{directory}/schedstat", bytes, b"")
        used_before, since = self._slept.get(tid, (b"", now))
        if used_before != used or state not in _ASLEEP:
            self._slept[tid] = (used, now)
            return False
        return now - since >= self.sleep_threshold


def measure_sleep_threshold(samples: int = 40) -> float:
    """Return how long a thread that the shim does not see must sleep to be taken as quiet, real seconds.

    That is several times the worst lateness with which this machine wakes a thread, measured in `samples` sleeps of 1 ms, which
    block; 0.25 s at most.
    """
    worst = 0.0
    for _ in range(samples):
        began = time.monotonic()
        time.sleep(0.001)
        worst = max(worst, time.monotonic() - began - 0.001)
    return min(0.005 + 3 * worst, 0.25)


def _has_not_answered(slot: Slot | None, epoch: int) -> bool:
    """Whether a thread waits and has not seen an epoch; False for one without a slot."""
    return slot is not None and bool(slot.waits) and slot.seen < epoch


def _state(directory: str) -> str:
    """Return the state of a thread as one letter (proc(5)); "X", dead, when it has gone."""
    return _read(f"{directory}/stat", lambda text: text[text.rindex(b")") + 2 :][:1].decode(), "X")


def _is_init(pid: int) -> bool:
    """Whether a process is the first one of a process namespace."""
    return _read(f"/proc/{pid}/status", lambda text: _last_number(text, b"NSpid:") == 1, False)


def _last_number(text: bytes, key: bytes) -> int:
    """Return the last number of the line that begins with `key`. Raises IndexError or ValueError when there is none."""
    return int(text.partition(key)[2].partition(b"\n")[0].split()[-1])


def _read(path: str, parse: Callable[[bytes], T], default: T) -> T:
    """Return what `parse` makes of a file of /proc; `default` when the process has gone, or `parse` finds no value in it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return parse(os.read(descriptor, _MAX_OCTETS))
        finally:
            os.close(descriptor)
    except (OSError, IndexError, ValueError):
        return default
