"""A node's processes as the clock sees them: when all of them have nothing to do, and what they wait for."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from conformance.nodes.guard import descendants
from conformance.run.shifted.errors import CannotShift
from conformance.run.shifted.page import NEVER, Page
from conformance.run.shifted.programs import untouched

T = TypeVar("T")

_ASLEEP = frozenset("SZTtXI")
"""States of a thread that neither runs, nor is about to, nor waits for a disk (proc(5))."""


_STOPPED = "T"


class Tree:
    """The processes below a guard, with the page that they share.

    A thread that waits in a call that the shim knows has proved, once it has seen the epoch, that nothing was there for
    it to do. Of any other thread it has to be believed when it slept, without any CPU, for a `moment` (real seconds).
    """

    def __init__(self, page: Page, library: Path, moment: float) -> None:
        self.page = page
        self._library = library
        self._moment = moment
        self._guard: int | None = None
        self._epoch = 0
        self._slept: dict[int, tuple[str, float]] = {}
        self._inside: dict[int, int] = {}

    def follow(self, guard: int) -> None:
        """Begin to look below a process."""
        self._guard = guard
        self._slept.clear()
        self._inside.clear()
        self.ask()

    def leave(self) -> None:
        """Look no more: the node was ended."""
        self._guard = None

    def ask(self) -> None:
        """Note that something may have come for them since they were last found quiet."""
        self._epoch = self.page.ask()

    def check(self) -> None:
        """Raise CannotShift when the clock of one of the processes is not moved."""
        for pid in self._below():
            if reason := untouched(pid, self._library, self.page.path):
                raise CannotShift(reason)

    def deadline(self) -> int | None:
        """Return the earliest deadline of a thread, nanoseconds of the shifted monotonic clock; None while one has
        something to do. NEVER when all wait for others."""
        earliest = NEVER
        slots = {slot.tid: slot for slot in self.page.slots()}
        now = time.monotonic()
        quiet = True
        for tid, place in self._threads():
            slot = slots.get(self._inner(tid, place))
            if slot is not None and slot.waits:
                if slot.seen >= self._epoch:
                    earliest = min(earliest, slot.deadline)
                elif _state(place) != _STOPPED:  # what is frozen will look when it thaws
                    quiet = False
            elif not self._sleeps(tid, place, now):
                quiet = False
        return earliest if quiet else None

    def _below(self) -> Iterator[int]:
        """Yield the processes that are the node's own: below the guard, and below an init of its own namespace."""
        if self._guard is None:
            return
        for pid in descendants(self._guard):
            if not _is_init(pid):
                yield pid

    def _threads(self) -> Iterator[tuple[int, str]]:
        if self._guard is None:
            return
        for pid in (self._guard, *descendants(self._guard)):  # the guard too: it may be about to signal them
            try:
                places = list(Path(f"/proc/{pid}/task").iterdir())
            except OSError:
                continue
            for place in places:
                yield int(place.name), str(place)

    def _inner(self, tid: int, place: str) -> int:
        """Return the thread's id as it knows it itself, in its own namespace."""
        found = self._inside.get(tid)
        if found is None:
            found = self._inside[tid] = _read(f"{place}/status", lambda text: _last(text, "NSpid:"), tid)
        return found

    def _sleeps(self, tid: int, place: str, now: float) -> bool:
        """Whether a thread has slept for the moment that it takes to believe it."""
        state = _state(place)
        ran = _read(f"{place}/schedstat", str, "")
        before, since = self._slept.get(tid, ("", now))
        if before != ran or state not in _ASLEEP:
            self._slept[tid] = (ran, now)
            return False
        return now - since >= self._moment


def calibrated(times: int = 40) -> float:
    """Return how long a thread must sleep to be believed: real seconds, several times what this machine is late at
    worst in waking one."""
    worst = 0.0
    for _ in range(times):
        began = time.monotonic()
        time.sleep(0.001)
        worst = max(worst, time.monotonic() - began - 0.001)
    return min(0.005 + 3 * worst, 0.25)


def _state(place: str) -> str:
    return _read(f"{place}/stat", lambda text: text.rpartition(")")[2].split()[0], "X")


def _is_init(pid: int) -> bool:
    return _read(
        f"/proc/{pid}/status", lambda text: text.partition("NSpid:")[2].partition("\n")[0].split()[-1] == "1", False
    )


def _last(text: str, key: str) -> int:
    return int(text.partition(key)[2].partition("\n")[0].split()[-1])


def _read(path: str, take: Callable[[str], T], otherwise: T) -> T:
    """Return what a file of /proc says; `otherwise` when the process has gone meanwhile."""
    try:
        return take(Path(path).read_text("ascii", "replace"))
    except (OSError, IndexError, ValueError):
        return otherwise
