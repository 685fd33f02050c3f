"""Disks that fail: a power cut keeps only synced files, a full disk refuses writes, and no mount outlives the harness."""

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from conformance.candidates.lookup import find_candidate
from conformance.nodes.contract import NodeError
from conformance.nodes.disks import layer, loop
from conformance.nodes.disks.layer import Layer
from conformance.nodes.disks.loop import LoopDisk
from conformance.nodes.disks.node_disk import NodeDisk, Trouble, unsupported_reason
from conformance.scenarios.steps.breaking import Disk

WRITES = """
import os, sys
def write(name, octets, *, sync, flags=os.O_CREAT | os.O_WRONLY):
    handle = os.open(os.path.join(sys.argv[1], name), flags, 0o600)
    os.write(handle, octets)
    if sync:
        os.fsync(handle)
    os.close(handle)
def sync_names(name=""):
    handle = os.open(os.path.join(sys.argv[1], name), os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)
os.mkdir(os.path.join(sys.argv[1], "sub"))
write("synced", b"all of it", sync=True)
write("sub/deep", b"below", sync=True)
write("renamed-before", b"x", sync=True)
write("deleted", b"x", sync=True)
write("deleted-and-synced", b"x", sync=True)
os.unlink(os.path.join(sys.argv[1], "deleted-and-synced"))
sync_names(); sync_names("sub")
write("not-synced", b"never mind", sync=False)
write("synced", b" and more", sync=False, flags=os.O_APPEND | os.O_WRONLY)
os.unlink(os.path.join(sys.argv[1], "deleted"))
os.rename(os.path.join(sys.argv[1], "renamed-before"), os.path.join(sys.argv[1], "renamed-after"))
print("done", flush=True)
sys.stdin.read()
"""
AFTER_A_CUT = {"synced": "all of it", "sub/deep": "below", "renamed-before": "x", "deleted": "x"}
AFTER_A_KILL = {
    "synced": "all of it and more", "sub/deep": "below", "renamed-after": "x", "not-synced": "never mind",
}  # fmt: skip

on_loop = pytest.mark.skipif(bool(loop.unavailable_reason()), reason=loop.unavailable_reason() or "-")
layered = pytest.mark.skipif(bool(layer.unavailable_reason()), reason=layer.unavailable_reason() or "-")


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(30):
            await test()

    asyncio.run(main())


def trouble(what: str, **more: object) -> Disk:
    return Disk.model_validate({"node": "n", "is": what, **more})


def disk_of(directory: Path, *troubles: Trouble) -> NodeDisk:
    (directory / "data").mkdir()
    return NodeDisk("n", directory, troubles)


def on(disk: NodeDisk, program: str, directory: Path) -> subprocess.Popen[str]:
    """Start a program on the disk; its argument is the data directory."""
    return subprocess.Popen(
        [*disk.prefix, sys.executable, "-c", program, str(directory / "data")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **({"LD_PRELOAD": str(disk.preload)} if disk.preload else {})},
    )


def said(disk: NodeDisk, program: str, directory: Path) -> str:
    out, _ = on(disk, program, directory).communicate()
    return out.strip()


def content(disk: NodeDisk, directory: Path) -> dict[str, str]:
    """Return the non-empty files on the disk: path and text."""
    program = (
        "import json, pathlib, sys; root = pathlib.Path(sys.argv[1]); print(json.dumps({str(p.relative_to(root)): "
        "p.read_text() for p in root.rglob('*') if p.is_file() and p.stat().st_size}))"
    )
    found: dict[str, str] = json.loads(said(disk, program, directory))
    return found


async def written(disk: NodeDisk, directory: Path) -> None:
    """Mount the disk, and kill a program after its writes."""
    await disk.mount()
    program = on(disk, WRITES, directory)
    assert program.stdout is not None
    assert await asyncio.to_thread(program.stdout.readline) == "done\n"
    program.kill()
    program.communicate()


@pytest.fixture(params=[pytest.param("loop", marks=on_loop), pytest.param("layer", marks=layered)])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "layer":
        monkeypatch.setattr(loop, "unavailable_reason", lambda: "needs root")
    return str(request.param)


@pytest.mark.usefixtures("kind")
def test_a_power_cut_loses_what_was_not_synced(tmp_path: Path) -> None:
    async def test() -> None:
        disk = disk_of(tmp_path, "power-cut")
        await written(disk, tmp_path)
        await disk.cut_power()
        await disk.mount()
        assert content(disk, tmp_path) == AFTER_A_CUT
        await disk.close()

    run(test)


@pytest.mark.usefixtures("kind")
def test_a_kill_without_a_power_cut_loses_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        disk = disk_of(tmp_path, "power-cut")
        await written(disk, tmp_path)
        await disk.mount()
        assert content(disk, tmp_path) == AFTER_A_KILL
        await disk.close()

    run(test)


@pytest.mark.usefixtures("kind")
def test_files_from_before_the_first_start_count_as_synced_and_a_wiped_disk_is_empty(tmp_path: Path) -> None:
    async def test() -> None:
        disk = disk_of(tmp_path, "power-cut")
        (tmp_path / "data" / "early").write_text("here")
        await disk.mount()
        await disk.cut_power()
        await disk.mount()
        assert content(disk, tmp_path) == {"early": "here"}
        (tmp_path / "data" / "early").unlink()
        await disk.wipe()
        await disk.mount()
        assert content(disk, tmp_path) == {}
        await disk.cut_power()
        await disk.mount()
        assert content(disk, tmp_path) == {}, "a power cut does not bring the wiped files back"
        await disk.close()

    run(test)


TRIES = "import os, sys, errno\ntry:\n    with open(sys.argv[1] + '/new', 'w') as f: f.write('x' * 5000)\n" \
    "    print('written')\nexcept OSError as e: print(os.strerror(e.errno))"  # fmt: skip


@on_loop
def test_a_full_disk_refuses_writes_until_it_is_healed(tmp_path: Path) -> None:
    async def test() -> None:
        disk = disk_of(tmp_path, "full")
        await disk.mount()
        assert await disk.apply(trouble("full"), 0) == "No space left on device"
        assert said(disk, TRIES, tmp_path) == "No space left on device"
        assert not disk.needs_restart_to_heal(trouble("full"))
        await disk.heal(trouble("full"))
        assert said(disk, TRIES, tmp_path) == "written"
        await disk.close()

    run(test)


HALF_SYNCED = "import os, sys\nfor n in range(40):\n    open(sys.argv[1] + f'/late{n}', 'wb').write(bytes(200_000))\nprint('written')"


@on_loop
@pytest.mark.parametrize("mounted", [True, False], ids=["healed-while-it-runs", "healed-while-it-is-down"])
def test_a_power_cut_leaves_a_full_disk_full_until_it_is_healed(tmp_path: Path, mounted: bool) -> None:
    async def test() -> None:
        disk = disk_of(tmp_path, "full", "power-cut")
        await disk.mount()
        assert said(disk, HALF_SYNCED, tmp_path) == "written"  # the room of these files is free again after the cut
        await disk.apply(trouble("full"), 0)
        await disk.cut_power()
        if mounted:
            await disk.mount()
            assert said(disk, TRIES, tmp_path) == "No space left on device"
        await disk.heal(trouble("full"))
        await disk.mount()
        assert said(disk, TRIES, tmp_path) == "written"
        await disk.close()

    run(test)


@on_loop
def test_a_power_cut_does_not_fill_a_healed_disk_again(tmp_path: Path) -> None:
    async def test() -> None:
        disk = disk_of(tmp_path, "full", "power-cut")
        await disk.mount()
        assert await disk.apply(trouble("full"), 0) == "No space left on device"
        await disk.heal(trouble("full"))
        await disk.cut_power()
        await disk.mount()
        assert said(disk, TRIES, tmp_path) == "written"
        await disk.close()

    run(test)


@on_loop
@pytest.mark.parametrize("first", ["full", "read-only"])
def test_a_disk_that_is_full_and_read_only_is_writable_when_both_are_healed(tmp_path: Path, first: str) -> None:
    async def test() -> None:
        disk = disk_of(tmp_path, "full", "read-only")
        await disk.mount()
        assert await disk.apply(trouble("full"), 0) == "No space left on device"
        assert await disk.apply(trouble("read-only"), 0) == "Read-only file system"
        await disk.heal(trouble(first))
        await disk.mount()
        left = {"full": "Read-only file system", "read-only": "No space left on device"}[first]
        assert said(disk, TRIES, tmp_path) == left
        await disk.heal(trouble("read-only" if first == "full" else "full"))
        await disk.mount()
        assert said(disk, TRIES, tmp_path) == "written"
        await disk.close()

    run(test)


@on_loop
def test_a_healed_read_only_disk_is_writable_after_it_is_mounted_again(tmp_path: Path) -> None:
    async def test() -> None:
        disk = disk_of(tmp_path, "read-only")
        await disk.mount()
        assert await disk.apply(trouble("read-only"), 0) == "Read-only file system"
        assert said(disk, TRIES, tmp_path) == "Read-only file system"
        assert disk.needs_restart_to_heal(trouble("read-only"))
        await disk.heal(trouble("read-only"))
        await disk.mount()
        assert said(disk, TRIES, tmp_path) == "written"
        await disk.close()

    run(test)


SYNCS_THREE_TIMES = """
import os, sys
directory = os.open(sys.argv[1], os.O_RDONLY)
file = os.open(sys.argv[1] + '/f', os.O_CREAT | os.O_WRONLY)
os.write(file, b"x")
os.fsync(file); os.fdatasync(file); os.fsync(directory)
"""


SLOW = trouble("slow", lasting="1s")


@layered
def test_a_slow_disk_counts_its_slow_syncs(tmp_path: Path) -> None:
    async def test() -> None:
        disk = disk_of(tmp_path, "slow")
        await disk.mount()
        said(disk, SYNCS_THREE_TIMES, tmp_path)
        assert disk.faults_met(SLOW) == "", "it is not slow yet"
        await disk.apply(SLOW, 0.001)
        assert disk.faults_met(SLOW) == ""
        said(disk, SYNCS_THREE_TIMES, tmp_path)
        assert disk.faults_met(SLOW) == "3 slow syncs"
        await disk.heal(SLOW)
        said(disk, SYNCS_THREE_TIMES, tmp_path)
        assert disk.faults_met(SLOW) == "3 slow syncs", "it is not slow any more"
        await disk.close()

    run(test)


@layered
def test_healing_one_of_two_troubles_leaves_the_other_and_its_count(tmp_path: Path) -> None:
    async def test() -> None:
        disk, failing = disk_of(tmp_path, "slow", "failing-syncs"), trouble("failing-syncs")
        await disk.mount()
        await disk.apply(SLOW, 0.001)
        said(disk, SYNCS_THREE_TIMES, tmp_path)
        await disk.apply(failing, 0)
        said(disk, SYNC_FAILS, tmp_path)
        assert (disk.faults_met(SLOW), disk.faults_met(failing)) == ("3 slow syncs", "1 failed syncs")
        await disk.heal(SLOW)
        assert said(disk, SYNC_FAILS, tmp_path) == "Input/output error"
        assert (disk.faults_met(SLOW), disk.faults_met(failing)) == ("3 slow syncs", "2 failed syncs")
        await disk.close()

    run(test)


SYNC_FAILS = "import os, sys\nf = open(sys.argv[1] + '/f', 'w')\ntry: os.fsync(f.fileno()); print('synced')\n" \
    "except OSError as e: print(os.strerror(e.errno))"  # fmt: skip


SYNCS = "import os, sys, time; f = open(sys.argv[1] + '/f', 'w'); t = time.monotonic(); os.fsync(f.fileno()); " \
    "print(time.monotonic() - t >= 0.05)"  # fmt: skip


@layered
def test_a_slow_sync_takes_at_least_the_configured_time(tmp_path: Path) -> None:
    async def test() -> None:
        disk = disk_of(tmp_path, "slow")
        await disk.mount()
        await disk.apply(trouble("slow", lasting="1s"), 0.05)
        assert said(disk, SYNCS, tmp_path) == "True"
        await disk.close()

    run(test)


HOLDS = """
import asyncio, sys
from pathlib import Path
from conformance.candidates.description import Candidate
from conformance.nodes.disks.node_disk import NodeDisk
from conformance.nodes.exec_node import ExecNode
from conformance.nodes.places import PortLeases
from tests.nodes.programs import GREETS
async def main():
    directory = Path(sys.argv[1])
    disk = NodeDisk("n", directory, ["power-cut"])
    candidate = Candidate(name="n", kind="exec", claims=("relay",), argv=("{python}", "-c", GREETS, "{config}"))
    node = ExecNode("n", candidate, directory, disk=disk)
    await node.start({"listeners": {"frontend": {"host": "127.0.0.1", "port": PortLeases().lease()}}})
    print(disk._loop._holder.pid, node._process.pid, flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


@on_loop
def test_no_mount_and_no_loop_device_outlives_a_run_that_is_killed(tmp_path: Path) -> None:
    harness = subprocess.Popen([sys.executable, "-c", HOLDS, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert harness.stdout is not None
    holder, node = (int(word) for word in harness.stdout.readline().split())
    assert str(tmp_path) in Path(f"/proc/{holder}/mounts").read_text()
    assert Path(f"/proc/{holder}/ns/mnt").readlink() == Path(f"/proc/{node}/ns/mnt").readlink()
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()
    assert str(tmp_path / "disk" / "image") in devices()
    ended = [os.pidfd_open(pid) for pid in (holder, node)]
    os.kill(harness.pid, signal.SIGKILL)
    harness.communicate()
    for handle in ended:
        assert select.select([handle], [], [], 20)[0]
        os.close(handle)
    assert str(tmp_path / "disk" / "image") not in devices()


def devices() -> str:
    """Return the files behind all loop devices."""
    files = Path("/sys/block").glob("loop*/loop/backing_file")
    return "".join(file.read_text() for file in files)


def test_a_disk_that_cannot_be_made_is_reported_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    in_process, program = find_candidate("reference", Path()), find_candidate("exec:reference", Path())
    other = program.model_copy(update={"name": "other"})
    assert unsupported_reason(in_process, ["power-cut"]).endswith("(kind exec)")
    assert unsupported_reason(in_process, []) == ""
    monkeypatch.setattr(loop, "unavailable_reason", lambda: "needs root")
    monkeypatch.setattr(layer, "unavailable_reason", lambda: "")
    assert (
        unsupported_reason(program, ["power-cut", "slow"])
        == unsupported_reason(other, ["power-cut", "slow"], "layer")
        == ""
    )
    assert (
        unsupported_reason(other, ["power-cut"])
        == unsupported_reason(program, ["full"])
        == unsupported_reason(program, ["full"], "layer")
        == "needs root"
    )
    assert (
        unsupported_reason(program, ["power-cut"], "loop")
        == unsupported_reason(other, ["power-cut", "full"], "layer")
        == "needs root"
    )
    assert unsupported_reason(other, ["slow", "failing-syncs", "full-at-write", "power-cut-by-posix"]) == ""
    assert (
        unsupported_reason(other, ["full", "power-cut-by-posix"])
        == "a file system of its own keeps more than POSIX promises"
    )
    monkeypatch.setattr(layer, "unavailable_reason", lambda: "needs cc")
    assert (
        unsupported_reason(program, ["power-cut"])
        == unsupported_reason(other, ["slow"])
        == unsupported_reason(other, ["power-cut-by-posix"])
        == "needs cc"
    )
    monkeypatch.setattr(loop, "unavailable_reason", lambda: "")
    assert unsupported_reason(program, ["power-cut"]) == unsupported_reason(other, ["power-cut"], "loop") == ""
    assert unsupported_reason(other, ["power-cut"], "layer") == "needs cc"


def test_a_layer_without_a_log_of_syncs_cannot_cut_power(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="no log of what was synced"):
        Layer("n", tmp_path, tmp_path / "disk", logs_syncs=False).cut_power()


def test_a_disk_that_is_not_mounted_cannot_be_filled(tmp_path: Path) -> None:
    async def test() -> None:
        with pytest.raises(NodeError, match="not mounted"):
            await LoopDisk("n", tmp_path, tmp_path / "image").fill()

    run(test)


@on_loop
def test_a_command_on_a_loop_disk_starts_in_the_same_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A description may name its program by a relative path, and not only in cells without disk troubles."""
    (tmp_path / "data").mkdir()
    (tmp_path / "server.py").write_text("print('found')\n", "utf-8")
    monkeypatch.chdir(tmp_path)

    async def test() -> None:
        disk = LoopDisk("n", tmp_path / "data", tmp_path / "image")
        await disk.mount()
        try:
            words = [*disk.prefix, sys.executable, "server.py"]
            ran = await asyncio.to_thread(subprocess.run, words, capture_output=True, text=True, check=False)
        finally:
            await disk.close()
        assert ran.stdout == "found\n", ran.stderr

    run(test)
