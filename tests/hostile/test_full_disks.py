"""A disk that is full, or read-only: a sentence, exit code 3, and what has ended stays."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance import paths
from conformance.results.reader import read_run
from conformance.verdicts import Outcome
from tests.suite.helpers import conformance_command

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(os.geteuid() != 0, reason="a disk of its own needs root to mount it"),
]

RELAY = str(paths.corpus() / "relay" / "relay.scenario.yaml")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A directory that may be mounted on; what is mounted is gone afterwards."""
    place = tmp_path / "disk"
    place.mkdir()
    yield place
    if os.path.ismount(place):
        subprocess.run(["umount", str(place)], check=True)


def mount(place: Path, options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(place)], check=True)


@pytest.mark.parametrize(
    "more", [(), ("--cells", "4", "--clock", "scaled", "--scale", "60")], ids=["one", "side by side"]
)
def test_a_disk_that_becomes_full_ends_in_a_sentence_and_what_has_ended_stays(
    tmp_path: Path, disk: Path, more: tuple[str, ...]
):
    mount(disk, "size=160k")
    ran = conformance_command(
        "run", RELAY, "-k", "no-smuggling or killed", "--run-dir", "disk/run", *more, cwd=tmp_path
    )
    said = ran.stdout + ran.stderr
    assert ran.returncode == 3, said[-3000:]
    assert "no space is left on the disk" in said
    assert "Traceback" not in said
    assert "INTERNALERROR" not in said
    ended = [cell.footer.outcome for cell in read_run(disk / "run").cells([]) if cell.footer is not None]
    assert ended
    assert more or Outcome.PASS in ended, "in virtual time no machine is too slow"


def test_a_disk_that_is_read_only_is_told_before_anything_runs(tmp_path: Path, disk: Path):
    mount(disk, "size=1m,ro")
    ran = conformance_command("run", RELAY, "--run-dir", "disk/run", cwd=tmp_path)
    said = ran.stdout + ran.stderr
    assert ran.returncode == 3, said
    assert "the file system is read-only" in said
    assert "INTERNALERROR" not in said
    assert "Traceback" not in said


def test_a_report_of_a_run_that_is_read_only_is_written_elsewhere(tmp_path: Path, disk: Path):
    mount(disk, "size=20m")
    ran = conformance_command("run", RELAY, "-k", "no-smuggling", "--run-dir", "disk/run", cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    told = conformance_command("report", "disk/run", "--out", "site", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert (tmp_path / "site" / "index.html").is_file()
    judged = conformance_command("judge", "disk/run", cwd=tmp_path)
    assert judged.returncode == 0, judged.stdout + judged.stderr
