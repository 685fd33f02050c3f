"""A full or read-only disk: an error message, exit code 3, and finished cells and pages stay."""

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance import paths
from conformance.results.atomic_write import StagedFiles
from conformance.results.reader import read_run
from conformance.verdicts import Outcome
from tests.spark.synthetic import DEFECTS, MadeCell, make_run
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


@pytest.mark.long
@pytest.mark.parametrize(
    "more",
    [
        pytest.param((), id="one"),
        pytest.param(
            ("--cells", "4", "--clock", "scaled", "--scale", "60"), marks=pytest.mark.timed, id="side by side"
        ),
    ],
)
def test_a_run_on_a_full_disk_ends_with_an_error_and_keeps_finished_cells(
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
    passed = sum(
        marks.count(".") for marks in re.findall(r"^relay/relay\.scenario\.yaml (\S+)", ran.stdout, re.MULTILINE)
    )
    assert ended.count(Outcome.PASS) >= passed, "each cell that was reported as passed is kept"
    assert more or passed, "in virtual time no machine is too slow"


def test_a_read_only_disk_is_reported_before_anything_runs(tmp_path: Path, disk: Path):
    mount(disk, "size=1m,ro")
    ran = conformance_command("run", RELAY, "--run-dir", "disk/run", cwd=tmp_path)
    said = ran.stdout + ran.stderr
    assert ran.returncode == 3, said
    assert "the file system is read-only" in ran.stderr
    assert ran.stdout == "", "no cell was begun"
    assert "Traceback" not in said


@pytest.mark.long
def test_a_report_of_a_run_that_is_read_only_is_written_elsewhere(tmp_path: Path, disk: Path):
    mount(disk, "size=20m")
    ran = conformance_command("run", RELAY, "-k", "no-smuggling", "--run-dir", "disk/run", cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    report = conformance_command("report", "disk/run", "--out", "site", cwd=tmp_path)
    assert report.returncode == 0, report.stderr
    assert (tmp_path / "site" / "index.html").is_file()
    judged = conformance_command("judge", "disk/run", cwd=tmp_path)
    assert judged.returncode == 0, judged.stdout + judged.stderr


def content(folder: Path) -> dict[str, str]:
    """Return the hash of each file that a reader sees."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".aggregating")
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def fill_disk(place: Path, leave: int) -> Path:
    """Fill a disk but for `leave` octets, and return the file that fills it."""
    room = os.statvfs(place)
    file = place / "taken"
    file.write_bytes(b"x" * max(room.f_bavail * room.f_frsize - leave, 0))
    return file


def check_full_disk_error(*words: str, cwd: Path) -> None:
    ran = conformance_command(*words, cwd=cwd, timeout=900)
    said = ran.stdout + ran.stderr
    assert ran.returncode == 3, said[-3000:]
    assert "no space is left on the disk" in said
    assert "damaged" not in said.replace("0 damaged", ""), "what could not be written whole is no damage"
    assert "Traceback" not in said


def test_staged_files_replace_nothing_if_one_cannot_be_written(tmp_path: Path, disk: Path):
    mount(disk, "size=64k")
    (disk / "first").write_bytes(b"old")
    (disk / "gone").write_bytes(b"old")

    def both() -> None:
        with StagedFiles() as files:
            files.write(disk / "first", b"new")
            files.remove(disk / "gone")
            files.write(disk / "second", b"x" * 100_000)

    with pytest.raises(OSError, match="No space left"):
        both()
    assert {path.name: path.read_bytes() for path in disk.iterdir()} == {"first": b"old", "gone": b"old"}
    subprocess.run(["mount", "-o", "remount,size=1m", str(disk)], check=True)
    both()
    assert {path.name: path.read_bytes()[:3] for path in disk.iterdir()} == {"first": b"new", "second": b"xxx"}


@pytest.mark.parametrize("room", [4, 60, 200])  # KiB: for a few pages of a report of some 250
def test_a_report_on_a_full_disk_replaces_no_page(tmp_path: Path, disk: Path, room: int):
    mount(disk, "size=4m")
    for name in ("first", "second"):
        cells = [MadeCell(f"{name}-{n}", DEFECTS[n % 2]) for n in range(4)]
        make_run(tmp_path / name, cells)
    assert conformance_command("report", "first", "--out", "disk/site", cwd=tmp_path).returncode == 0
    before = content(disk / "site")
    file = fill_disk(disk, room * 1024)
    check_full_disk_error("report", "second", "--out", "disk/site", cwd=tmp_path)
    left = content(disk / "site")
    assert {name: left[name] for name in before} == before
    assert set(left) == set(before), "and nothing half-written lies beside them"
    file.unlink()
    assert conformance_command("report", "second", "--out", "disk/site", cwd=tmp_path).returncode == 0
    assert content(disk / "site")["index.html"] != before["index.html"]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("room", [4, 140, 300])  # KiB: the layers, the summaries, the tables or the page
def test_an_aggregation_on_a_full_disk_leaves_no_partial_tables(tmp_path: Path, disk: Path, room: int):
    mount(disk, "size=8m")
    make_run(tmp_path / "run", [MadeCell("fine"), MadeCell("bad", DEFECTS[0])])
    file = fill_disk(disk, room * 1024)
    check_full_disk_error("aggregate", "run", "--out", "disk/out", cwd=tmp_path)
    assert not list((disk / "out").glob("*.html")), "no page, and no table, of what is not all there"
    assert not (disk / "out/tables").is_dir() or not list((disk / "out/tables").iterdir())
    file.unlink()
    ran = conformance_command("aggregate", "run", "--out", "disk/out", cwd=tmp_path, timeout=900)
    assert ran.returncode == 0, ran.stderr
    assert json.loads((disk / "out/tables/runs.json").read_bytes())
