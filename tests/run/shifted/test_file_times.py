"""File times as a program with a shifted clock sees them."""

import os
import sys
from pathlib import Path

import pytest

from tests.run.shifted.shifted_process import HOUR, MARKS, run_shifted

pytestmark = MARKS


def test_file_times_set_by_the_kernel_follow_the_clock_and_times_set_by_a_program_are_kept(tmp_path: Path) -> None:
    """A time that the kernel set is shown as the shifted time at which it was set."""
    (tmp_path / "old").touch()
    os.utime(tmp_path / "old", (10**9, 10**9))
    program = f"""
import os, subprocess, time
from pathlib import Path
here = Path({str(tmp_path)!r})
def age(name, of="mtime"): return round(time.time() - getattr((here / name).stat(), "st_" + of))
(here / "first").touch()
time.sleep(3600)
(here / "second").touch()
os.utime(here / "old", None)
(here / "set").touch()
os.utime(here / "set", (time.time() + 600, time.time() + 600))
time.sleep(7200)
os.utime(here / "second", ns=(0, 12 * 10**9))
with open(here / "first") as file: by_handle = round(time.time() - os.fstat(file.fileno()).st_mtime)
print(age("first"), by_handle, age("old"), age("set"), (here / "second").stat().st_mtime)
print(age("old", "atime"), age("old", "ctime"), round(time.time() - (here / "first").lstat().st_mtime))
print(round(time.time() - float(subprocess.check_output(["stat", "--format=%Y", here / "first"]))))  # it calls statx
"""
    said, _ = run_shifted(tmp_path, sys.executable, "-c", program)
    first, by_handle, old, ahead, set_to, accessed, changed, by_link, by_statx = map(float, said.split())
    assert [first, by_handle, by_link, by_statx] == pytest.approx([3 * HOUR] * 4, abs=30)
    assert (old, ahead) == (pytest.approx(2 * HOUR, abs=30), pytest.approx(2 * HOUR - 600, abs=30))
    assert (accessed, changed) == (pytest.approx(2 * HOUR, abs=30), pytest.approx(2 * HOUR, abs=30))
    assert set_to == 12


def test_file_times_from_before_the_start_are_kept(tmp_path: Path) -> None:
    (tmp_path / "old").touch()
    os.utime(tmp_path / "old", (10**9, 10**9))
    changed = (tmp_path / "old").stat().st_ctime_ns  # set by the kernel, right before the start
    program = f"""
import os, time
time.sleep(3600)
found = os.stat({str(tmp_path / "old")!r})
print(found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns)
"""
    said, passed = run_shifted(tmp_path, sys.executable, "-c", program)
    assert passed >= HOUR, "the clock has jumped since"
    assert [*map(int, said.split())] == [10**18, 10**18, changed]
