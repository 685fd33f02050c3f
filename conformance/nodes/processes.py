"""The processes below one: found, counted, signalled and killed, in time that is linear in their number.

A process that is to kill all below it must be a subreaper (prctl(2)): then what loses its parent becomes its child.
Only the standard library is imported: the guard uses this.
"""

import os
import signal
import time
from collections import deque
from collections.abc import Iterator, Sequence

KILLING = 10.0
"""Seconds after which a tree that cannot be killed (it waits for a device, or forks faster than it is killed) is left."""

_NEWS = 0.05
"""Seconds to wait for the end of a killed process before all are looked at again."""


def threads_of(pid: int) -> list[str]:
    """Return the ids of a process's threads; none when it has gone."""
    try:
        return os.listdir(f"/proc/{pid}/task")  # noqa: PTH208  # no pathlib: this runs in loops
    except OSError:
        return []


def descendants(pid: int) -> Iterator[int]:
    """Yield the process ids below `pid`, parents first; a child belongs to the thread that forked it."""
    waiting = deque([pid])
    while waiting:
        parent = waiting.popleft()
        for thread in threads_of(parent):
            try:
                with open(f"/proc/{parent}/task/{thread}/children", encoding="ascii") as children:  # noqa: PTH123
                    below = [int(child) for child in children.read().split()]
            except OSError:
                continue
            waiting.extend(below)
            yield from below


def memory_of(pid: int) -> int:
    """Return the octets of memory that a process shares with no file; 0 when it has gone."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as status:  # noqa: PTH123
            line = next((line for line in status if line.startswith("RssAnon:")), "RssAnon: 0 kB")
    except OSError:
        return 0
    return int(line.split()[1]) * 1024


def signal_tree(number: signal.Signals) -> None:
    """Signal everything below this process; what has gone meanwhile needs none."""
    for pid in list(descendants(os.getpid())):
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):  # it has become somebody else, by a setuid program
            continue


def reap() -> Iterator[tuple[int, int]]:
    """Reap every child that has ended; yield its id and its exit code (-n after signal n)."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, os.waitstatus_to_exitcode(status)


def kill_tree(cgroups: Sequence[str] = ()) -> dict[int, int]:
    """Kill everything below this process, and in these cgroups, and what it forks meanwhile; reap what is ours.

    Return the exit codes of the children that ended. It takes KILLING seconds at most.
    """
    codes: dict[int, int] = {}
    deadline = time.monotonic() + KILLING
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    try:
        while time.monotonic() < deadline:
            kill_groups(cgroups)
            signal_tree(signal.SIGKILL)
            codes |= dict(reap())
            if not _have_children():
                break
            signal.sigtimedwait({signal.SIGCHLD}, _NEWS)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return codes


def kill_groups(cgroups: Sequence[str]) -> None:
    """Kill everything in cgroups, as far as the kernel does it at once (cgroup.kill of version 2)."""
    for group in cgroups:
        try:
            with open(f"{group}/cgroup.kill", "w", encoding="ascii") as kill:  # noqa: PTH123
                kill.write("1")
        except OSError:  # it has gone, or it is one of version 1
            continue


def _have_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True
