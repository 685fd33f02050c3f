"""Finds, measures, signals and kills all processes below one, in time that is linear in their number.

A process that is to kill all below it must be a subreaper (prctl(2)): then a process that loses its parent becomes its
child. Only the standard library is imported, since the guard, which must start at once, uses this.
"""

import os
import signal
import time
from collections import deque
from collections.abc import Iterator, Sequence

MAX_KILL_S = 10.0
"""Seconds after which `kill_tree` gives up on a tree that waits for a device, or forks faster than it is killed."""

_MAX_CHILD_WAIT_S = 0.05
"""Seconds to wait for the end of a killed child before the tree is looked at again."""


def threads_of(pid: int) -> list[str]:
    """Return the ids of a process's threads; none when it has ended."""
    try:
        return os.listdir(f"/proc/{pid}/task")  # noqa: PTH208  # no pathlib: this runs in loops
    except OSError:
        return []


def descendants(pid: int) -> Iterator[int]:
    """Yield the ids of all processes below `pid`, without `pid` itself, parents first."""
    waiting = deque([pid])
    while waiting:
        parent = waiting.popleft()
        for thread in threads_of(parent):  # the kernel lists a child below the thread that forked it
            try:
                with open(f"/proc/{parent}/task/{thread}/children", encoding="ascii") as children:  # noqa: PTH123
                    below = [int(child) for child in children.read().split()]
            except OSError:
                continue
            waiting.extend(below)
            yield from below


def memory_of(pid: int) -> int:
    """Return the anonymous memory of a process in octets; 0 when it has ended."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as status:  # noqa: PTH123
            line = next((line for line in status if line.startswith("RssAnon:")), "RssAnon: 0 kB")
    except OSError:
        return 0
    return int(line.split()[1]) * 1024


def signal_tree(number: signal.Signals) -> None:
    """Send a signal to every process below this one; those that end meanwhile, or run as another user, are skipped."""
    for pid in list(descendants(os.getpid())):
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):  # a setuid program runs as another user
            continue


def reap() -> Iterator[tuple[int, int]]:
    """Reap every child that has ended; yield its process id and its exit code (-n after signal n). Does not block."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, os.waitstatus_to_exitcode(status)


def kill_tree(cgroups: Sequence[str] = ()) -> dict[int, int]:
    """Kill every process below this one and in these cgroups, and all that they fork meanwhile; reap all children.

    `cgroups` are the paths of their directories. Return the exit codes of the children by process id. It blocks for
    MAX_KILL_S seconds at most.
    """
    codes: dict[int, int] = {}
    deadline = time.monotonic() + MAX_KILL_S
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})  # sigtimedwait() takes only blocked signals
    try:
        while time.monotonic() < deadline:
            kill_groups(cgroups)
            signal_tree(signal.SIGKILL)
            codes |= dict(reap())
            if not _have_children():
                break
            signal.sigtimedwait({signal.SIGCHLD}, _MAX_CHILD_WAIT_S)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return codes


def kill_groups(cgroups: Sequence[str]) -> None:
    """Kill every process in these cgroups of version 2 by `cgroup.kill`; skip groups that have gone or are of version 1."""
    for group in cgroups:
        try:
            with open(f"{group}/cgroup.kill", "w", encoding="ascii") as kill:  # noqa: PTH123
                kill.write("1")
        except OSError:
            continue


def _have_children() -> bool:
    """Whether this process has a child, running or not reaped yet."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True
