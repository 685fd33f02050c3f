"""A node's processes as the clock sees them: when all of them have nothing to do, and what they wait for."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from conformance.nodes.processes import descendants
from conformance.run.shifted.shared_page import NEVER, SharedPage, Slot
from conformance.run.shifted.shim_library import CannotShift, why_not_shifted

T = TypeVar("T")

_ASLEEP = frozenset("SZTtXI")
"""States of a thread that neither runs, nor is about to, nor waits for a disk (proc(5))."""


_STOPPED = "T"

_GLANCES = 8
"""How often after a question it is enough to see in the page that somebody has not answered, who waited before."""

_LOOKS, _NAP = 2000, 0.001
"""How often a program that runs is looked at for its shim, and the real seconds between two looks: one that has just
begun may not have come to load it."""

_WHOLE = 16 * 1024
"""Octets of which no file that is read here has more."""


class ProcessTree:
    """The processes below a guard, with the page that they share.

    The guard itself wakes twice a second to look at the size of a directory, which is no news for anybody: it is at rest
    when it sleeps, unless it was told something a moment ago.

    A thread that waits in a call that the shim knows has proved, once it has seen the epoch, that nothing was there for
    it to do. Of any other thread it has to be believed when it slept, without any CPU, for a `moment` (real seconds).
    """

    def __init__(self, page: SharedPage, library: Path, moment: float) -> None:
        self.page = page
        self._library = library
        self._moment = moment
        self._guard: int | None = None
        self._epoch = 0
        self._slept: dict[int, tuple[bytes, float]] = {}
        self._inside: dict[int, int] = {}
        self._waited: list[int] = []
        self._woken: dict[int, int] = {}
        self._glances = 0
        self._guard_signalled_at = 0.0
        self.awake: tuple[int, ...] = ()
        """The processes that had something to do at the last look."""

    def note_guard_signalled(self) -> None:
        """Note that the guard was told something just now: until it has had the time to do it, it is not at rest."""
        self._guard_signalled_at = time.monotonic()

    def trust(self, moment: float) -> None:
        """Set how long a thread that the shim does not see must sleep to be believed, real seconds."""
        self._moment = moment

    def follow(self, guard: int) -> None:
        """Begin to look below a process, whose own clock is not moved."""
        self._guard = guard
        self._slept.clear()
        self._inside.clear()
        self._waited.clear()
        self.note_guard_signalled()
        self.ask()

    def leave(self) -> None:
        """Look no more: the node was ended."""
        self._guard = None

    def ask(self) -> None:
        """Note that something may have come for them since they were last found quiet."""
        self._woken = {}
        self._ask()

    def _ask(self) -> None:
        self._epoch = self.page.ask()
        self._glances = _GLANCES

    def check(self) -> None:
        """Raise CannotShift when the clock of one of the processes is not moved."""
        for pid in self._below():
            looks = 0
            while reason := why_not_shifted(pid, self._library, self.page.path):
                if looks == _LOOKS or _state(f"/proc/{pid}/task/{pid}") in _ASLEEP:
                    raise CannotShift(reason)
                looks += 1  # it may still be loading: whoever begins runs, or waits for a disk
                time.sleep(_NAP)
        if unmoved := self.unmoved:
            raise CannotShift(unmoved)

    @property
    def unmoved(self) -> str:
        """Why the clock is not moved of something that one of the processes has asked for; '' when it is of all."""
        return f"it asks for what is not moved: {words}" if (words := self.page.unmoved) else ""

    def deadline(self) -> int | None:
        """Return the earliest deadline of a thread, nanoseconds of the shifted monotonic clock; None while one has
        something to do. NEVER when all wait for others."""
        slots = {slot.tid: slot for slot in self.page.slots()}
        if self._glances and any(_has_not_seen(slots.get(tid), self._epoch) for tid in self._waited):
            self._glances -= 1
            return None
        awake: dict[int, None] = {}
        self._waited.clear()
        earliest = NEVER
        now = time.monotonic()
        asleep = True
        for pid, tid, place in self._threads():
            if pid == self._guard:
                if now - self._guard_signalled_at < self._moment or _state(place) not in _ASLEEP:
                    awake[pid] = None
                continue
            inner = self._inner(tid, place)
            slot = slots.get(inner)
            if slot is not None and slot.waits:
                self._waited.append(inner)
                state = _state(place)
                asleep = asleep and state in _ASLEEP
                if slot.seen >= self._epoch:
                    earliest = min(earliest, slot.deadline)
                elif state != _STOPPED:  # what is frozen will look when it thaws
                    awake[pid] = None
            elif not self._sleeps(tid, place, now):
                awake[pid] = None
        self.awake = tuple(awake)
        return earliest if not awake and self._nobody_moved(slots, asleep=asleep) else None

    def _nobody_moved(self, slots: Mapping[int, Slot], *, asleep: bool) -> bool:
        """Whether no wait has ended since the look at the slots began, and none is about to: something may have come
        for one from another who has been quiet only since.

        All asleep at the end of it are quiet for good. Who is about to run may have been given something, or his slice
        has ended: he is asked again, and when no wait has ended until all have answered, nothing was given to anybody.
        """
        waiting = {tid: slots[tid].woken for tid in self._waited}
        after = {slot.tid: slot.woken for slot in self.page.slots() if slot.waits}
        if any(after.get(tid) != woken for tid, woken in waiting.items()):
            return False
        if asleep or waiting == self._woken:
            return True
        self._woken = waiting
        self._ask()
        return False

    def _below(self) -> Iterator[int]:
        """Yield the processes that are the node's own: below the guard, and below an init of its own namespace."""
        if self._guard is None:
            return
        for pid in descendants(self._guard):
            if not _is_init(pid):
                yield pid

    def _threads(self) -> Iterator[tuple[int, int, str]]:
        """Yield the process, the thread, and where /proc tells of it."""
        if self._guard is None:
            return
        for pid in (self._guard, *descendants(self._guard)):  # the guard too: it may be about to signal them
            try:
                threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208  # no pathlib: this is done at every look
            except OSError:
                continue
            for thread in threads:
                yield pid, int(thread), f"/proc/{pid}/task/{thread}"

    def _inner(self, tid: int, place: str) -> int:
        """Return the thread's id as it knows it itself, in its own namespace."""
        found = self._inside.get(tid)
        if found is None:
            found = self._inside[tid] = _read(f"{place}/status", lambda text: _last(text, b"NSpid:"), tid)
        return found

    def _sleeps(self, tid: int, place: str, now: float) -> bool:
        """Whether a thread has slept for the moment that it takes to believe it."""
        state = _state(place)
        ran = _read(f"{place}/schedstat", bytes, b"")
        before, since = self._slept.get(tid, (b"", now))
        if before != ran or state not in _ASLEEP:
            self._slept[tid] = (ran, now)
            return False
        return now - since >= self._moment


def measure_sleep_threshold(times: int = 40) -> float:
    """Return how long a thread must sleep to be believed: real seconds, several times what this machine is late at
    worst in waking one."""
    worst = 0.0
    for _ in range(times):
        began = time.monotonic()
        time.sleep(0.001)
        worst = max(worst, time.monotonic() - began - 0.001)
    return min(0.005 + 3 * worst, 0.25)


def _has_not_seen(slot: Slot | None, epoch: int) -> bool:
    return slot is not None and bool(slot.waits) and slot.seen < epoch


def _state(place: str) -> str:
    return _read(f"{place}/stat", lambda text: text[text.rindex(b")") + 2 :][:1].decode(), "X")


def _is_init(pid: int) -> bool:
    return _read(f"/proc/{pid}/status", lambda text: _last(text, b"NSpid:") == 1, False)


def _last(text: bytes, key: bytes) -> int:
    return int(text.partition(key)[2].partition(b"\n")[0].split()[-1])


def _read(path: str, take: Callable[[bytes], T], otherwise: T) -> T:
    """Return what a file of /proc says; `otherwise` when the process has gone meanwhile."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return take(os.read(handle, _WHOLE))
        finally:
            os.close(handle)
    except (OSError, IndexError, ValueError):
        return otherwise
