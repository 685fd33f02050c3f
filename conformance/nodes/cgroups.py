"""A cgroup for each node, where the machine allows it: no process leaves it by forking, and one write kills all in it.

It needs a cgroup hierarchy of version 2 with `cgroup.kill` (Linux 5.14), and the right to make a group below that of
this process: as root, or where a manager has delegated it. The kernel enforces limits on processes and memory where
their controllers can be used there or in a hierarchy of version 1; elsewhere the guard counts.

The name of a group contains the process that made it (its id and start time). A group that was left by a harness that
was killed is removed by the next harness, with all processes in it.
"""

import functools
import itertools
import os
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from conformance.nodes.processes import kill_groups
from conformance.shortage import read_counter

_NUMBERS = itertools.count(1)
_NAME = re.compile(r"conformance-(\d+)-(\d+)-\d+")
_MAX_REMOVE_S = 10.0
"""Seconds until killed processes must have ended and their group can be removed."""
_INTERVAL_S = 0.01
"""Seconds between two attempts to remove a group."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a node may use: processes and threads, and octets of memory."""

    processes: int
    memory: int


@dataclass(frozen=True, slots=True)
class Cgroup:
    """The groups of one node: `main` is of version 2; `others`, of version 1, have the controllers that it lacks."""

    main: Path
    others: tuple[Path, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """The directories of all its groups."""
        return tuple(map(str, (self.main, *self.others)))

    def oom_kills(self) -> int | None:
        """Return how many processes of the group the kernel killed because it or the machine lacked memory.

        None where the kernel does not count them for this group alone.
        """
        files = (path / name for path in (self.main, *self.others) for name in ("memory.events", "memory.oom_control"))
        counts = [count for file in files if (count := read_counter(file, "oom_kill")) is not None]
        return sum(counts) if counts else None

    @property
    def join_prefix(self) -> list[str]:
        """The words before a command that have it run in the groups: a shell enters them, and exits with 126 if it cannot."""
        return ["/bin/sh", "-c", _JOIN_SCRIPT, "sh", *self.paths, "--"]

    def kill_and_remove(self) -> str:
        """Kill all processes in the groups and remove these; return the paths that could not be removed, '' when all are.

        Blocks for up to 10 s.
        """
        deadline = time.monotonic() + _MAX_REMOVE_S
        while True:
            kill_groups([str(self.main)])  # the others have the same processes
            left = [path for path in (self.main, *self.others) if not _remove(path)]
            if not left or time.monotonic() > deadline:
                return " ".join(map(str, left))
            time.sleep(_INTERVAL_S)  # no event comes when processes of another parent end


_JOIN_SCRIPT = 'while [ "$1" != -- ]; do echo 0 >"$1/cgroup.procs" || exit 126; shift; done; shift; exec "$@"'


def make_cgroup(limits: Limits) -> Cgroup | None:
    """Make the groups for a new start of a node, with its limits; None where this machine allows none.

    A limit is set only where the controller exists. The first call of a process also tries out what the machine allows, and
    removes what dead harnesses left, which may block for 10 s for each group.
    """
    parent = _parent()
    if parent is None:
        return None
    name = f"conformance-{os.getpid()}-{_start_time(os.getpid())}-{next(_NUMBERS)}"
    try:
        (parent.main / name).mkdir()
    except OSError:
        return None
    others = []
    for directory in parent.others:
        try:
            (directory / name).mkdir()
        except OSError:
            continue
        others.append(directory / name)
    group = Cgroup(parent.main / name, tuple(others))
    for path in (group.main, *others):
        for file, limit in (
            ("pids.max", limits.processes),
            ("memory.max", limits.memory),
            ("memory.limit_in_bytes", limits.memory),  # of version 1
        ):
            if (path / file).exists():
                (path / file).write_text(str(limit), "ascii")
    return group


@functools.cache
def _parent() -> Cgroup | None:
    """Return the groups of this process below which it can make others, after removing what dead harnesses left there.

    None where it cannot make, enter and kill a group of version 2. Later calls return the result of the first.
    """
    own = dict(_own_groups())
    main = own.pop("", None)
    if main is None or not _can_use(main, needs_kill=True):
        return None
    directories = dict.fromkeys(own[name] for name in ("pids", "memory") if name in own)
    others = tuple(directory for directory in directories if _can_use(directory, needs_kill=False))
    for directory in (main, *others):
        for group in directory.glob("conformance-*"):
            if _is_orphaned(group.name):
                Cgroup(group).kill_and_remove()
    return Cgroup(main, others)


def _own_groups() -> Iterator[tuple[str, Path]]:
    """Yield each controller (for version 2: '') with the directory of this process's group, where that is mounted here."""
    mounts: dict[str, Path] = {}
    for line in Path("/proc/self/mountinfo").read_text("utf-8").splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ")[:3]
        mount_point = Path(before.split(" ")[4])
        if kind == "cgroup2":
            mounts.setdefault("", mount_point)
        elif kind == "cgroup":
            mounts.update(dict.fromkeys(options.split(","), mount_point))
    for line in Path("/proc/self/cgroup").read_text("utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            if controller in mounts and (directory := mounts[controller] / path.lstrip("/")).is_dir():
                yield controller, directory


def _can_use(parent: Path, *, needs_kill: bool) -> bool:
    """Whether a group below `parent` can be made, entered and left, and killed if `needs_kill`; found out by trying it."""
    probe = parent / f"conformance-{os.getpid()}-{_start_time(os.getpid())}-0"
    try:
        probe.mkdir()
    except OSError:
        return False
    try:
        script = 'echo 0 >"$1/cgroup.procs" && echo 0 >"$2/cgroup.procs"'
        words = ["/bin/sh", "-c", script, "sh", str(probe), str(parent)]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False)  # noqa: S603  # ours
        return done.returncode == 0 and (not needs_kill or os.access(probe / "cgroup.kill", os.W_OK))
    finally:
        probe.rmdir()


def _remove(path: Path) -> bool:
    """Remove a group; return whether it is gone, which it is only when no process is in it."""
    try:
        path.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _is_orphaned(name: str) -> bool:
    """Whether the harness that made the group of this name has ended; False for a name of another form.

    The start time in the name tells that harness from a later process with the same id.
    """
    match = _NAME.fullmatch(name)
    return match is not None and _start_time(int(match[1])) != int(match[2])


def _start_time(pid: int) -> int:
    """Return when a process was started, in clock ticks since the machine was booted; 0 when there is no such process."""
    try:
        # The 22nd field (proc_pid_stat(5)). The second, the name in parentheses, may itself contain blanks and
        # parentheses.
        return int(Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[19])
    except (OSError, IndexError):
        return 0
