"""A power cut keeps only synced files, no mount outlives the harness, and a disk that cannot be made says why."""

import asyncio
import os
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from conformance.candidates.lookup import find_candidate
from conformance.nodes.contract import NodeError
from conformance.nodes.disks import layer, loop
from conformance.nodes.disks.layer import Layer
from conformance.nodes.disks.loop import LoopDisk
from conformance.nodes.disks.node_disk import NodeDisk, unsupported_reason
from tests.nodes.disk_programs import content, disk_of, layered, on, on_loop, run, said

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
write("renamed-before", b"moves", sync=True)
write("deleted", b"goes", sync=True)
write("deleted-and-synced", b"is gone", sync=True)
os.unlink(os.path.join(sys.argv[1], "deleted-and-synced"))
sync_names(); sync_names("sub")
write("not-synced", b"never mind", sync=False)
write("synced", b" and more", sync=False, flags=os.O_APPEND | os.O_WRONLY)
os.unlink(os.path.join(sys.argv[1], "deleted"))
os.rename(os.path.join(sys.argv[1], "renamed-before"), os.path.join(sys.argv[1], "renamed-after"))
print("done", flush=True)
sys.stdin.read()
"""
AFTER_A_CUT = {"synced": "all of it", "sub/deep": "below", "renamed-before": "moves", "deleted": "goes"}
AFTER_A_KILL = {
    "synced": "all of it and more", "sub/deep": "below", "renamed-after": "moves", "not-synced": "never mind",
}  # fmt: skip


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


LISTS = "import os, sys; print(*sorted(set(os.listdir(sys.argv[1])) - {'lost+found'}))"


@pytest.mark.usefixtures("kind")
def test_files_from_before_the_first_start_count_as_synced_and_a_wiped_disk_is_empty(tmp_path: Path) -> None:
    async def test() -> None:
        disk = disk_of(tmp_path, "power-cut")
        (tmp_path / "data" / "folder").mkdir()
        (tmp_path / "data" / "folder" / "early").write_text("here")
        (tmp_path / "data" / "empty").touch()
        await disk.mount()
        await disk.cut_power()
        await disk.mount()
        assert content(disk, tmp_path) == {"folder/early": "here"}
        assert said(disk, LISTS, tmp_path) == "empty folder"
        (tmp_path / "data" / "empty").unlink()
        shutil.rmtree(tmp_path / "data" / "folder")
        await disk.wipe()
        await disk.mount()
        assert said(disk, LISTS, tmp_path) == ""
        await disk.cut_power()
        await disk.mount()
        assert said(disk, LISTS, tmp_path) == "", "a power cut does not bring the wiped files back"
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
    assert str(tmp_path) in mounts_of(psutil.Process(holder))
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
    assert [process.pid for process in psutil.process_iter() if str(tmp_path) in mounts_of(process)] == []


def mounts_of(process: psutil.Process) -> str:
    """Return the mounts that a process sees, '' if it has ended."""
    try:
        return Path(f"/proc/{process.pid}/mounts").read_text()
    except OSError:
        return ""


def devices() -> str:
    """Return the files behind all loop devices."""
    files = Path("/sys/block").glob("loop*/loop/backing_file")
    return "".join(file.read_text() for file in files)


def test_a_disk_that_cannot_be_made_has_a_reason_and_any_other_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
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
        == unsupported_reason(program, ["read-only"])
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
    assert unsupported_reason(other, ["full", "read-only"]) == unsupported_reason(program, ["full", "power-cut"]) == ""
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
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "server.py").write_text("print('found')\n", "utf-8")
    monkeypatch.chdir(tmp_path / "elsewhere")

    async def test() -> None:
        disk = LoopDisk("n", tmp_path / "data", tmp_path / "image")
        await disk.mount()
        try:
            assert disk.prefix[0] == "nsenter"
            words = [*disk.prefix, sys.executable, "server.py"]
            ran = await asyncio.to_thread(subprocess.run, words, capture_output=True, text=True, check=False)
        finally:
            await disk.close()
        assert ran.stdout == "found\n", ran.stderr

    run(test)
