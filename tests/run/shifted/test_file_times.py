"""The shifted clock, as a program sees it: files are as old as the clock says."""

import os
import sys
from pathlib import Path

import pytest

from tests.run.shifted.shifted_process import HOUR, MARKS, run_moved

pytestmark = MARKS


def test_files_are_as_old_as_the_clock_says(tmp_path: Path) -> None:
    """A stamp of the kernel is shown as of the moment in which it was made, one that was set stays, old ones too."""
    (tmp_path / "old").touch()
    os.utime(tmp_path / "old", (10**9, 10**9))
    program = f"""
import os, time
from pathlib import Path
here = Path({str(tmp_path)!r})
def age(name): return round(time.time() - (here / name).stat().st_mtime)
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
"""
    said, _ = run_moved(tmp_path, sys.executable, "-c", program)
    first, by_handle, old, ahead, set_to = map(float, said.split())
    assert (first, by_handle) == (pytest.approx(3 * HOUR, abs=30), pytest.approx(3 * HOUR, abs=30))
    assert (old, ahead) == (pytest.approx(2 * HOUR, abs=30), pytest.approx(2 * HOUR - 600, abs=30))
    assert set_to == 12


def test_files_that_were_there_before_stay_as_old_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "old").touch()
    os.utime(tmp_path / "old", (10**9, 10**9))
    program = f"import os, time; time.sleep(3600); print(os.stat({str(tmp_path / 'old')!r}).st_mtime)"
    assert float(run_moved(tmp_path, sys.executable, "-c", program)[0]) == 10**9
