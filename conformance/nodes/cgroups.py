"""A cgroup for each node, where one can be had: no process leaves it by forking, and one write kills all that is in it.

It needs a cgroup hierarchy of version 2 with `cgroup.kill` (Linux 5.14), in which this process may make a group below its
own: as root, or where a manager has delegated it. Limits on processes and memory are the kernel's where their controllers
can be used there, or in a hierarchy of version 1; elsewhere the guard counts.

Groups are named by the harness that made them. One that was left by a harness that was killed is removed, with what runs in
it, by the next one.
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
_REMOVING = 10.0
"""Seconds in which killed processes have to be gone."""
_PAUSE = 0.01


@dataclass(frozen=True, slots=True)
class Limits:
    """What a node may have: processes and threads, and octets of memory."""

    processes: int
    memory: int


@dataclass(frozen=True, slots=True)
class Cgroup:
    """The groups of a node: `main` is of version 2; others are of version 1, and have controllers."""

    main: Path
    others: tuple[Path, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """Their paths."""
        return tuple(map(str, (self.main, *self.others)))

    def oom_kills(self) -> int | None:
        """Return how many of its processes the kernel has killed for want of memory, in it or on the machine; None where
        that is not counted for it alone."""
        files = (path / name for path in (self.main, *self.others) for name in ("memory.events", "memory.oom_control"))
        counted = [count for file in files if (count := read_counter(file, "oom_kill")) is not None]
        return sum(counted) if counted else None

    @property
    def joining(self) -> list[str]:
        """The words before a command that is to be in it."""
        return ["/bin/sh", "-c", _JOIN, "sh", *self.all, "--"]

    def end(self) -> str:
        """Kill all that is in it and remove it; return what could not be, '' when all is gone. It takes 10 s at most."""
        deadline = time.monotonic() + _REMOVING
        while True:
            kill_groups([str(self.main)])
            left = [path for path in (self.main, *self.others) if not _removed(path)]
            if not left or time.monotonic() > deadline:
                return " ".join(map(str, left))
            time.sleep(_PAUSE)  # no event comes of the end of another's children


_JOIN = 'while [ "$1" != -- ]; do echo 0 >"$1/cgroup.procs" || exit 126; shift; done; shift; exec "$@"'


def make(limits: Limits) -> Cgroup | None:
    """Make a cgroup for a node; None where none can be had."""
    home = _home()
    if home is None:
        return None
    name = f"conformance-{os.getpid()}-{_started(os.getpid())}-{next(_NUMBERS)}"
    try:
        (home.main / name).mkdir()
    except OSError:
        return None
    others = []
    for place in home.others:
        try:
            (place / name).mkdir()
        except OSError:
            continue
        others.append(place / name)
    group = Cgroup(home.main / name, tuple(others))
    for path in (group.main, *others):
        for file, limit in (
            ("pids.max", limits.processes),
            ("memory.max", limits.memory),
            ("memory.limit_in_bytes", limits.memory),
        ):
            if (path / file).exists():
                (path / file).write_text(str(limit), "ascii")
    return group


@functools.cache
def _home() -> Cgroup | None:
    """Return the groups that this process is in, below which it can make others; what others have left is removed."""
    own = dict(_own_groups())
    main = own.pop("", None)
    if main is None or not _can_join(main, kills=True):
        return None
    places = dict.fromkeys(own[name] for name in ("pids", "memory") if name in own)
    others = tuple(place for place in places if _can_join(place, kills=False))
    for place in (main, *others):
        for left in place.glob("conformance-*"):
            if _is_left(left.name):
                Cgroup(left).end()
    return Cgroup(main, others)


def _own_groups() -> Iterator[tuple[str, Path]]:
    """Yield each controller ('' of version 2) and the directory of the group of it that this process is in."""
    mounts: dict[str, Path] = {}
    for line in Path("/proc/self/mountinfo").read_text("utf-8").splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ")[:3]
        where = Path(before.split(" ")[4])
        if kind == "cgroup2":
            mounts.setdefault("", where)
        elif kind == "cgroup":
            mounts.update(dict.fromkeys(options.split(","), where))
    for line in Path("/proc/self/cgroup").read_text("utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            if controller in mounts and (place := mounts[controller] / path.lstrip("/")).is_dir():
                yield controller, place


def _can_join(home: Path, *, kills: bool) -> bool:
    """Whether a group can be made there, entered and left again, and (`kills`) be killed; it is tried."""
    probe = home / f"conformance-{os.getpid()}-{_started(os.getpid())}-0"
    try:
        probe.mkdir()
    except OSError:
        return False
    try:
        words = ["/bin/sh", "-c", 'echo 0 >"$1/cgroup.procs" && echo 0 >"$2/cgroup.procs"', "sh", str(probe), str(home)]
        tried = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False)  # noqa: S603  # ours
        return tried.returncode == 0 and (not kills or os.access(probe / "cgroup.kill", os.W_OK))
    finally:
        probe.rmdir()


def _removed(path: Path) -> bool:
    """Whether a group is gone; it goes when nothing is in it."""
    try:
        path.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _is_left(name: str) -> bool:
    """Whether the harness that made a group has ended."""
    found = _NAME.fullmatch(name)
    return found is not None and _started(int(found[1])) != int(found[2])


def _started(pid: int) -> int:
    """Return when a process was started, in ticks since the machine was; 0 when there is none."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[19])
    except (OSError, IndexError):
        return 0
