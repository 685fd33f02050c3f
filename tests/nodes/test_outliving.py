"""Programs that try to outlive their run, and programs over their limits, with a cgroup and without."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from conformance.candidates.description import Candidate
from conformance.nodes import cgroups, guard
from conformance.nodes.contract import NodeConfiguration, NodeError
from conformance.nodes.exec_node import ExecNode
from conformance.nodes.places import PortLeases
from conformance.shortage import ResourceMonitor
from conformance.untrusted import tree
from tests.nodes import programs

pytestmark = pytest.mark.integration

MARK = "outliving-test-mark"
"""A word in the command line of every process of these programs; forked processes have it too."""


@pytest.fixture(params=["cgroup", "no cgroup"])
def group(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "no cgroup":
        monkeypatch.setattr(cgroups, "_parent", lambda: None)
    elif cgroups._parent() is None:
        pytest.skip("no cgroup with cgroup.kill can be made here")
    return str(request.param)


@pytest.fixture
def configuration() -> Iterator[NodeConfiguration]:
    leases = PortLeases()
    yield {"listeners": {"frontend": {"host": "127.0.0.1", "port": leases.lease()}}}
    leases.release()


@pytest.fixture(autouse=True)
def nothing_outlives(tmp_path: Path) -> Iterator[None]:
    yield
    tree.delete_tree(tmp_path / "mta1")  # deeper than pytest can delete
    assert left_after_10_s(tmp_path) == []
    assert psutil.Process().children(recursive=True) == []
    home = cgroups._parent()
    for directory in () if home is None else (home.main, *home.others):
        assert [path.name for path in directory.glob(f"conformance-{os.getpid()}-*")] == []


def left_after_10_s(directory: Path) -> list[psutil.Process]:
    """Wait at most 10 s for the end of all processes with a path below a directory in their command line; return the others."""
    deadline = time.monotonic() + 10
    while (left := marked(str(directory))) and time.monotonic() < deadline:
        psutil.wait_procs(left, timeout=0.1)
    return left


def marked(word: str) -> list[psutil.Process]:
    """Return the processes that have a word in their command line."""
    return [p for p in psutil.process_iter(["cmdline", "status"]) if word in " ".join(p.info["cmdline"] or ())]


def node_that(tmp_path: Path, deed: str, **changes: object) -> ExecNode:
    script = tmp_path / f"{MARK}.py"
    script.write_text(f"import os, signal, sys, time\n{deed}\n{programs.GREETS}")
    fields = {
        "name": "toy", "kind": "exec", "claims": ("relay",), "argv": ("{python}", "-S", str(script), "{config}"),
        "ready-within": 20, "stop-within": 5, **changes,
    }  # fmt: skip
    return ExecNode("mta1", Candidate.model_validate(fields), tmp_path / "mta1")


OUTLIVING = {
    "forks twice, in a session of its own": """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(3600)
    os._exit(0)
os.wait()
""",
    "hops from process to process": """
if os.fork() == 0:
    os.setsid()
    while True:
        if os.fork():
            os._exit(0)
""",
    "kills its guard": """
GUARD = os.getppid()
if os.fork() == 0:
    os.setsid()
    time.sleep(0.5)
    os.kill(GUARD, signal.SIGKILL)
    time.sleep(3600)
""",
    "ignores all signals": """
for number in set(range(1, 32)) - {9, 17, 19}:
    signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    time.sleep(3600)
""",
    "leaves zombies": """
for _ in range(300):
    if os.fork() == 0:
        if os.fork() == 0:
            os._exit(0)
        os._exit(0)
    os.wait()
""",
    "a chain of a hundred": """
PARENT = os.getppid()
for _ in range(100):
    if os.fork():
        break
else:
    time.sleep(3600)
if os.getppid() != PARENT:
    time.sleep(3600)
""",
}

SHORT_LIVED = ("hops from process to process", "leaves zombies")
"""Deeds of which no process may be seen beside the server at a given moment."""


@pytest.mark.parametrize("deed", OUTLIVING)
def test_nothing_outlives_its_node(tmp_path: Path, configuration: NodeConfiguration, group: str, deed: str):
    async def steps() -> float:
        node = node_that(tmp_path, OUTLIVING[deed])
        try:
            await node.start(configuration)
            if deed == "kills its guard":
                await node._ended.wait()
            else:
                await asyncio.sleep(0.3)  # the deed goes on meanwhile
                below = [p for p in marked(str(tmp_path)) if not any("guard.py" in word for word in p.info["cmdline"])]
                assert len(below) >= (1 if deed in SHORT_LIVED else 2), "the server, and what it has left behind"
        finally:
            began = time.monotonic()
            await node.close()
        took = time.monotonic() - began
        assert left_after_10_s(tmp_path) == [], "before the end of this program's event loop, which ends its children"
        return took

    assert asyncio.run(steps()) < 20


@pytest.mark.parametrize("which", ["the guard", "the one above it"])
def test_if_one_of_two_guards_is_killed_the_other_kills_the_node(
    tmp_path: Path, configuration: NodeConfiguration, monkeypatch: pytest.MonkeyPatch, which: str
):
    monkeypatch.setattr(cgroups, "_parent", lambda: None)

    async def steps() -> None:
        node = node_that(tmp_path, "if os.fork() == 0:\n    os.setsid(); time.sleep(3600)\n")
        try:
            await node.start(configuration)
            process = node._process
            assert process is not None
            guards = {p.pid for p in marked(str(tmp_path)) if "guard.py" in " ".join(p.cmdline())}
            assert len(guards) == 2
            assert len([p for p in marked(str(tmp_path)) if "guard.py" not in " ".join(p.cmdline())]) == 2
            above = psutil.Process(process.pid)
            victim = above if which != "the guard" else above.children()[0]
            assert victim.pid in guards
            victim.kill()
            await node._ended.wait()
            deadline = time.monotonic() + 10
            while marked(str(tmp_path)) and time.monotonic() < deadline:
                await asyncio.sleep(0.05)  # there is no event for the end of a process that is not a child
            assert [p for p in marked(str(tmp_path)) if "guard.py" not in " ".join(p.cmdline())] == []
        finally:
            await node.close()

    asyncio.run(steps())


@pytest.mark.parametrize("writes", [False, True])
def test_a_guard_ends_although_another_process_can_write_to_its_log(tmp_path: Path, writes: bool):
    """The node gives the test its standard output: no end of the log comes when the node has been killed.

    `writes`: the test writes to it, without a pause, until no guard can read it.
    """

    def write(output: int) -> None:
        with contextlib.suppress(BrokenPipeError):
            while True:
                os.write(output, b"x" * 4096)

    given = str(tmp_path / "given")
    gives = (
        "import array, socket, time; s = socket.socket(socket.AF_UNIX); s.connect(" + repr(given) + ");"
        "s.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [1]))]); time.sleep(3600)"
    )
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(given)
        listening.listen()
        listening.settimeout(20)
        words = [sys.executable, "-S", "-E", guard.__file__, sys.executable, "-c", gives]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
            connection, _ = listening.accept()
            with connection:
                _, (output,), _, _ = socket.recv_fds(connection, 1, 1)
            writer = threading.Thread(target=write, args=(output,))
            try:
                if writes:
                    writer.start()
                assert process.stdin is not None
                process.stdin.close()
                assert process.wait(20) == 128 + signal.SIGKILL
            finally:
                process.kill()
                if writes:
                    writer.join()
                os.close(output)
    assert marked(given) == []


STOPS_ITS_GUARD = """
os.kill(os.getppid(), signal.SIGSTOP)
while open(f"/proc/{os.getppid()}/stat").read().rpartition(")")[2].split()[0] != "T":
    time.sleep(0.01)  # it does not start to listen before its guard is stopped
"""


def test_closing_a_node_with_a_stopped_guard_does_not_hang(
    tmp_path: Path, configuration: NodeConfiguration, group: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("conformance.nodes.exec_node._MAX_GUARD_EXIT_S", 1.0)

    async def steps() -> None:
        node = node_that(tmp_path, STOPS_ITS_GUARD)
        try:
            await node.start(configuration)
        finally:
            async with asyncio.timeout(20):
                await node.close()

    asyncio.run(steps())


ORPHANS = """
for number in range(300):
    if os.fork() == 0:
        parent = os.getpid()
        if os.fork() == 0 and number == 0:
            while os.getppid() == parent: time.sleep(0.001)
            print("adopted by", os.getppid(), flush=True)
        os._exit(0)
    os.wait()
"""


def test_zombies_are_reaped_while_the_node_runs(tmp_path: Path, configuration: NodeConfiguration, group: str):
    guards: set[int] = set()

    async def steps() -> int:
        node = node_that(tmp_path, ORPHANS)
        try:
            await node.start(configuration)
            guards.update(p.pid for p in marked(str(tmp_path)) if guard.__file__ in p.info["cmdline"])
            for _ in range(100):
                zombies = [p for p in psutil.Process().children(recursive=True) if p.status() == psutil.STATUS_ZOMBIE]
                if not zombies:
                    break
                await asyncio.sleep(0.05)  # the guard reaps when a signal wakes it
            assert not node._ended.is_set()
            return len(zombies)
        finally:
            await node.close()

    assert asyncio.run(steps()) == 0
    adopted_by = (tmp_path / "mta1" / "node.log").read_text().partition("adopted by ")[2].split()
    assert int(adopted_by[0]) in guards, "orphans are children of a guard, so their zombies would have been seen"


BEYOND = {
    "processes": (
        "\nwhile True:\n    try:\n        if os.fork() == 0: time.sleep(3600)\n    except OSError: time.sleep(0.05)\n",
        {"process-limit": 60},
        "killed: it had more than 60 processes and threads",
    ),
    "threads": (
        "\nimport threading\ntry:\n    for _ in range(100):\n"
        "        threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()\n"
        "except RuntimeError:\n    pass\ntime.sleep(3600)\n",
        {"process-limit": 60},
        "killed: it had more than 60 processes and threads",
    ),
    "memory": (
        "\nheld = []\nwhile True:\n    held.append(b'x' * 2**20); time.sleep(0.002)\n",
        {"memory-limit": 2**27},
        "killed: it used more than 134217728 octets of memory",
    ),
    "its directory": (
        "\nfor n in range(10**9):\n    open(f'{os.path.dirname(sys.argv[1])}/data/{n}', 'wb').write(b'x' * 65536)\n",
        {"directory-limit": 2**22},
        "killed: its directory grew beyond 4194304 octets",
    ),
    "files without content": (
        "\nfor n in range(20000):\n    open(f'{os.path.dirname(sys.argv[1])}/data/{n}', 'w').close()\ntime.sleep(3600)\n",
        {"directory-limit": 2**22},
        "killed: its directory grew beyond 4194304 octets",
    ),
    "a deep directory": (
        "\nimport os.path\nos.chdir(os.path.dirname(sys.argv[1]) + '/data')\n"
        "for n in range(3000):\n    os.mkdir('d' * 200); os.chdir('d' * 200)\ntime.sleep(3600)\n",
        {"directory-limit": 2**20},
        "killed: its directory grew beyond 1048576 octets",
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("what", BEYOND)
def test_a_node_over_a_limit_is_killed_and_the_error_is_its_own(
    tmp_path: Path, configuration: NodeConfiguration, group: str, what: str
):
    deed, limits, said = BEYOND[what]
    before = ResourceMonitor(tmp_path)

    async def steps() -> None:
        node = node_that(tmp_path, deed, **limits)
        try:
            await node.start(configuration)
        finally:
            await node.close()

    with pytest.raises(NodeError) as error:
        asyncio.run(steps())
    assert error.value.reason == f"it exited with exit code 120: {said}"
    assert before.explanation_of(error.value.reason) == "", "not for lack of a resource of the machine"
    quoted = "Cannot allocate memory"
    assert before.explanation_of(quoted), "without a limit of its own that would be the machine's"
    assert before.explanation_of(f"{error.value.reason}: {quoted}") == ""


def test_a_flooded_log_is_truncated_and_the_node_goes_on(tmp_path: Path, configuration: NodeConfiguration, group: str):
    flood = "\nfor _ in range(200):\n    os.write(1, b'x' * 65536)\n"

    async def steps() -> int:
        node = node_that(tmp_path, flood, **{"log-limit": 65536})
        try:
            await node.start(configuration)
            return await node.stop()
        finally:
            await node.close()

    assert asyncio.run(steps()) == 0
    assert 65536 <= (tmp_path / "mta1" / "node.log").stat().st_size < 66_000


def test_cgroups_of_a_killed_harness_are_removed_by_the_next_one():
    home = cgroups._parent()
    if home is None:
        pytest.skip("no cgroup with cgroup.kill can be made here")
    directories = home.main, *home.others
    used_again = f"conformance-{os.getpid()}-1"  # the id of a harness that was started at another time
    names = [f"{owner}-{number}" for owner in ("conformance-999999-1", used_again) for number in (1, 2)]
    left = [directory / name for name in names for directory in directories]
    name = f"conformance-{os.getpid()}-{cgroups._start_time(os.getpid())}-999"
    own = [directory / name for directory in directories]
    for group in (*left, *own):
        group.mkdir()
    with subprocess.Popen(["sleep", "60"]) as lasting:
        (left[0] / "cgroup.procs").write_text(str(lasting.pid))
        cgroups._parent.cache_clear()
        assert cgroups._parent() is not None
    assert lasting.returncode == -signal.SIGKILL, "it was in a group of the killed harness"
    assert not any(group.exists() for group in left)
    for group in own:
        group.rmdir()  # that of a harness that runs was left alone
