"""Disks that are full, read-only, slow or failing, until they are healed."""

from pathlib import Path

import pytest

from tests.nodes.disk_programs import content, disk_of, layered, on_loop, run, said, trouble

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
        assert said(disk, TRIES, tmp_path) == "written"
        assert await disk.apply(trouble("read-only"), 0) == "Read-only file system"
        assert said(disk, TRIES, tmp_path) == "Read-only file system"
        assert disk.needs_restart_to_heal(trouble("read-only"))
        await disk.heal(trouble("read-only"))
        await disk.mount()
        assert said(disk, TRIES, tmp_path) == "written"
        assert content(disk, tmp_path) == {"new": "x" * 5000}
        assert not (tmp_path / "data" / "new").exists(), "it is on the disk"
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
        await disk.apply(SLOW, 0.001)  # from now on its syncs are counted anew
        said(disk, SYNC_FAILS, tmp_path)
        await disk.heal(failing)
        said(disk, SYNCS_THREE_TIMES, tmp_path)
        said(disk, SYNCS_THREE_TIMES, tmp_path)
        assert (disk.faults_met(SLOW), disk.faults_met(failing)) == ("6 slow syncs", "3 failed syncs")
        await disk.close()

    run(test)


SYNC_FAILS = "import os, sys\nf = open(sys.argv[1] + '/f', 'w')\ntry: os.fsync(f.fileno()); print('synced')\n" \
    "except OSError as e: print(os.strerror(e.errno))"  # fmt: skip


SYNCS = "import os, sys, time; f = open(sys.argv[1] + '/f', 'w'); t = time.monotonic(); os.fsync(f.fileno()); " \
    "print(time.monotonic() - t >= 0.5)"  # fmt: skip


@layered
def test_a_slow_sync_takes_at_least_the_configured_time(tmp_path: Path) -> None:
    async def test() -> None:
        disk = disk_of(tmp_path, "slow")
        await disk.mount()
        await disk.apply(SLOW, 0.5)
        assert said(disk, SYNCS, tmp_path) == "True"
        assert disk.faults_met(SLOW) == "1 slow syncs", "the time is that of the layer, and not of a slow machine"
        await disk.close()

    run(test)


WRITES_BY_STDIO = """
import ctypes, errno, os, sys
C = ctypes.CDLL(None, use_errno=True)
C.fopen.restype = ctypes.c_void_p
os.chdir(sys.argv[1])
def opened(name):
    file = ctypes.c_void_p(C.fopen(name, b"w"))
    C.fputs(b"x", file)
    return file
def outcome(result):
    return errno.errorcode[ctypes.get_errno()] if result else "written"
flushed = opened(b"flushed")
print(outcome(C.fflush(flushed)), "error" if C.ferror(flushed) else "no error", outcome(C.fclose(flushed)))
print(outcome(C.fclose(opened(b"closed"))))
"""


@layered
def test_a_full_disk_fails_the_flush_and_the_close_of_a_stream(tmp_path: Path) -> None:
    """stdio writes its buffer with calls that no library can replace; OpenSMTPD writes its messages so."""

    async def test() -> None:
        disk, full = disk_of(tmp_path, "full-at-write"), trouble("full", at_write=2)
        await disk.mount()
        await disk.apply(full, 0)
        assert said(disk, WRITES_BY_STDIO, tmp_path) == "written no error written\nENOSPC"
        assert said(disk, WRITES_BY_STDIO, tmp_path) == "ENOSPC error ENOSPC\nENOSPC"
        assert disk.faults_met(full) == "4 refused writes"
        assert content(disk, tmp_path) == {}
        await disk.heal(full)
        assert said(disk, WRITES_BY_STDIO, tmp_path) == "written no error written\nwritten"
        assert content(disk, tmp_path) == {"flushed": "x", "closed": "x"}
        await disk.close()

    run(test)
