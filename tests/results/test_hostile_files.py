"""Run directories with entries that are not regular files, or hold more than they seem to: reported, in bounded time and memory."""

import gzip
import os
import socket
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from conformance import regular_files
from conformance.results import compression
from conformance.results.layout import CellUnreadable, RunDirectoryError
from conformance.results.manifest import compute_manifest, read_current_manifest
from conformance.results.parquet import write_parquet
from conformance.results.reader import read_cell, read_cell_end, read_cell_ends, read_run
from conformance.results.writer import CellWriter, begin_run, finish_run
from conformance.verdicts import Outcome
from tests.results.samples import EVENTS, cell_header, run_header

NOT_REGULAR = ("fifo", "directory", "loop", "device", "nowhere", "socket")


def make_entry(kind: str, path: Path) -> None:
    """Make an entry of this kind, which is not a regular file, where a file is expected."""
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "directory":
            path.mkdir()
        case "loop":
            path.symlink_to(path.name)
        case "device":
            path.symlink_to("/dev/zero")
        case "nowhere":
            path.symlink_to("nothing")
        case _:
            with socket.socket(socket.AF_UNIX) as endpoint:
                endpoint.bind(str(path))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of one whole cell."""
    begin_run(tmp_path / "r", run_header(cells=2))
    with CellWriter(tmp_path / "r", cell_header()) as writer:
        for event in EVENTS:
            writer.add_event(event)
        writer.finish(Outcome.PASS, "", wall_seconds=0, cpu_seconds=0, simulated_seconds=0)
    return tmp_path / "r"


@pytest.mark.parametrize("kind", NOT_REGULAR)
@pytest.mark.parametrize("name", ["run.json", "footer.json"])
def test_a_run_whose_document_is_not_a_regular_file_is_refused(run: Path, name: str, kind: str):
    assert len(read_run(run).files) == 1
    (run / name).unlink(missing_ok=True)
    make_entry(kind, run / name)
    with pytest.raises(RunDirectoryError, match=name):
        read_run(run)


@pytest.mark.parametrize("kind", NOT_REGULAR)
@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
def test_a_cell_that_is_not_a_regular_file_hides_no_other_cell(run: Path, suffix: str, kind: str):
    path = run / "cells" / f"other{suffix}"
    make_entry(kind, path)
    with pytest.raises(CellUnreadable, match="cannot be read"):
        read_cell(path)
    with pytest.raises(CellUnreadable, match="cannot be read"):
        read_cell_end(path)
    damage = []
    assert len(list(read_run(run).cells(damage))) == 1
    assert [one.path for one in damage] == [path]
    assert len(read_cell_ends(run).ends) == 1
    assert compute_manifest(run).damaged == 1
    footer = finish_run(run, wall_seconds=1)
    assert footer.cells == 2
    assert footer.cut_short == 1
    assert len(footer.damage) == 1


@pytest.mark.parametrize("kind", NOT_REGULAR)
def test_a_manifest_that_is_not_a_regular_file_counts_as_missing(run: Path, kind: str):
    write_parquet(run)
    assert read_current_manifest(run) is not None
    (run / "parquet" / "manifest.json").unlink()
    make_entry(kind, run / "parquet" / "manifest.json")
    assert read_current_manifest(run) is None


def test_a_history_that_unpacks_to_more_than_the_limit_is_cut_and_reported(run: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compression, "MAX_OCTETS", 10_000)
    path = next((run / "cells").glob("*.gz"))
    whole = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(whole + b"\n" * 50_000_000))
    octets, trouble = compression.read_history(path)
    assert len(octets) == 10_000
    assert octets.startswith(whole)
    assert trouble == "the compressed file holds more than 10000 octets"
    assert read_cell(path).damage[-1].why == trouble


def test_a_history_of_many_gzip_members_is_unpacked_in_linear_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "x.jsonl.gz"
    member, count = gzip.compress(b"{}\n", mtime=0), 40_000
    path.write_bytes(member * count)
    unpacked_sizes = []
    real = compression.zlib.decompressobj

    class Counting:
        def __init__(self, window_bits: int) -> None:
            self._real = real(window_bits)

        def decompress(self, octets: bytes) -> bytes:
            unpacked_sizes.append(len(octets))
            return self._real.decompress(octets)

        def __getattr__(self, name: str) -> object:
            return getattr(self._real, name)

    monkeypatch.setattr(compression.zlib, "decompressobj", Counting)
    octets, trouble = compression.read_history(path)
    assert (octets, trouble) == (b"{}\n" * count, "")
    size = path.stat().st_size
    assert size <= sum(unpacked_sizes) < 30 * size  # 64 KiB for each member would be 2,000 times its size


def test_a_file_that_is_too_large_is_refused(tmp_path: Path):
    path = tmp_path / "large"
    path.write_bytes(b"x" * 11)
    assert regular_files.read_regular(path, 11) == b"x" * 11
    with pytest.raises(OSError, match="at most 10 octets are read"):
        regular_files.read_regular(path, 10)


@pytest.mark.parametrize(
    "evil",
    [
        *(b"NaN", b"Infinity", b"-Infinity", b"1e999", b"1e308", b"-1e308", b"9" * 5000),
        *(b"[" * 100_000, b'"\\ud800"', b"null", b"{}", b'"soon"', b'"0.001"', b"true", b"1.1e12", b"-1.1e12"),
    ],
)
def test_a_time_that_is_not_json_or_not_a_usable_number_is_damage(run: Path, evil: bytes):
    path = next((run / "cells").glob("*.gz"))
    lines = gzip.decompress(path.read_bytes()).split(b"\n")
    lines[2] = lines[2].replace(b'"t":0.001', b'"t":' + evil)
    path.write_bytes(gzip.compress(b"\n".join(lines)))
    cell = read_cell(path)
    assert [one.line for one in cell.damage] == [3]
    assert len(str(cell.damage[0])) < 500
    assert cell.events == tuple(event for event in EVENTS if event.n != 1)


def test_a_number_too_large_for_its_column_is_damage_and_other_rows_are_written(run: Path):
    path = next((run / "cells").glob("*.gz"))
    lines = gzip.decompress(path.read_bytes()).split(b"\n")
    lines[3] = lines[3].replace(b'"code":250', b'"code":' + b"9" * 30)
    assert b"999" in lines[3]
    path.write_bytes(gzip.compress(b"\n".join(lines)))
    manifest = write_parquet(run)
    assert (manifest.rows["events"], manifest.damaged) == (len(EVENTS) - 1, 1)
    assert "a record that fits no row of events" in manifest.damage[0]
    written = pq.read_table(run / "parquet" / "events.parquet")["n"].to_pylist()
    assert written == [event.n for event in EVENTS if event.n != 2]
