"""Runs and warehouses that are damaged or planted, before Spark is started: told by their file, in bounded time."""

import csv
import fcntl
import io
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from conformance.results.layout import RunDirectoryError
from conformance.results.manifest import read_current_manifest
from conformance.results.parquet import write_parquet
from conformance.spark.export import export_table
from conformance.spark.ingest import find_runs, read_headers, read_tables
from conformance.spark.warehouse import LOCK_FILE, Catalog, Warehouse
from tests.spark.synthetic import MadeCell, make_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with Parquet tables."""
    made = make_run(tmp_path / "reports" / "r", [MadeCell("fine"), MadeCell("other")])
    write_parquet(made)
    return made


def test_a_run_inside_another_run_is_not_found(run: Path):
    planted = run / "cells" / "x" / "mbx1" / "data"
    planted.mkdir(parents=True)
    (planted / "run.json").write_bytes((run / "run.json").read_bytes())
    (run.parent / "loop").symlink_to(run.parent)
    assert find_runs([run.parent]) == (run.resolve(),)


def test_runs_are_found_beside_very_deep_folders(run: Path, tmp_path: Path):
    name = "deep" * 50
    folder = os.open(tmp_path / "reports", os.O_DIRECTORY)
    for _ in range(30):  # its path is longer than any system call takes
        os.mkdir(name, dir_fd=folder)  # noqa: PTH102
        below = os.open(name, os.O_DIRECTORY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)
    assert find_runs([run.parent]) == (run.resolve(),)


def test_a_flipped_bit_in_a_table_is_found_by_its_hash(run: Path):
    manifest = read_current_manifest(run)
    assert manifest is not None
    assert set(manifest.tables) == {"cells", "verdicts", "events"}
    table = run / "parquet" / "events.parquet"
    octets = bytearray(table.read_bytes())
    octets[len(octets) // 3] ^= 1
    table.write_bytes(octets)
    (found,) = read_headers([run]).runs.values()
    assert not found.parquet
    assert found.damage == ("parquet/events.parquet: not the file that was written",)


@pytest.mark.parametrize("what", ["fifo", "directory", "device", "socket"])
def test_a_table_that_is_not_a_regular_file_is_not_read(run: Path, what: str):
    table = run / "parquet" / "events.parquet"
    table.unlink()
    if what == "fifo":
        os.mkfifo(table)
    elif what == "directory":
        table.mkdir()
    else:
        table.symlink_to("/dev/zero" if what == "device" else "nothing")
    (found,) = read_headers([run]).runs.values()
    assert not found.parquet
    assert found.damage[0].startswith("parquet/events.parquet: ")


def test_only_regular_cell_files_are_read(run: Path):
    cells = run / "cells"
    os.mkfifo(cells / "pipe.jsonl")
    (cells / "device.jsonl").symlink_to("/dev/zero")
    (cells / "x.jsonl.gz").mkdir()
    planted = cells / "x" / "mbx1"
    planted.mkdir(parents=True)
    (planted / "forged.jsonl").write_text('{"record":"verdict"}\n', "utf-8")
    (found,) = read_headers([run]).runs.values()
    assert not found.parquet
    read, tables = read_tables(found, {})
    names = tables["cells"]["cell"].to_pylist()
    assert len(names) == 2
    assert {name.partition("-")[0] for name in names} == {"fine", "other"}
    assert set(tables["verdicts"]["cell"].to_pylist()) == set(names)
    assert {one.partition(":")[0] for one in read.damage} == {"pipe.jsonl", "device.jsonl", "x.jsonl.gz"}


@pytest.mark.parametrize("octets", [b"", b"{", b"[]", b'{"layout": 5}', b"\xff", b"[" * 100_000])
def test_the_error_about_a_damaged_catalog_says_what_to_do(tmp_path: Path, octets: bytes):
    warehouse = Warehouse(tmp_path / "warehouse")
    warehouse.path.mkdir()
    warehouse.catalog_file.write_bytes(octets)
    with pytest.raises(
        RunDirectoryError, match=r"catalog\.json is damaged: delete .*warehouse, and aggregate all runs"
    ):
        warehouse.load_catalog("layout")
    warehouse.save_catalog(Catalog(layout="layout"))
    assert warehouse.load_catalog("layout") == Catalog(layout="layout")


def test_a_damaged_file_of_the_warehouse_is_named(tmp_path: Path):
    warehouse = Warehouse(tmp_path / "warehouse")
    file = warehouse.path / "summaries" / "runs.parquet"
    file.parent.mkdir(parents=True)
    pq.write_table(pa.table({"run": ["a"] * 1000}), file)
    warehouse.check_files()
    file.write_bytes(file.read_bytes()[:-7])
    with pytest.raises(RunDirectoryError, match=r"runs\.parquet is damaged: delete .*warehouse, and aggregate"):
        warehouse.check_files()


def test_a_second_aggregation_into_one_folder_waits_and_says_so(tmp_path: Path):
    program = (
        "import sys; from pathlib import Path; from conformance.spark.warehouse import Warehouse\n"
        "with Warehouse(Path(sys.argv[1])).locked(lambda text: print(text, flush=True)):\n    print('in', flush=True)"
    )
    warehouse = Warehouse(tmp_path / "out" / "warehouse")
    with warehouse.locked(lambda text: pytest.fail(text)):
        words = [sys.executable, "-c", program, str(warehouse.path)]
        second = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert second.stdout is not None
        told = second.stdout.readline()
        assert told == f"another aggregation writes into {tmp_path / 'out'}: waiting for its end\n"
        assert second.poll() is None
    rest, _ = second.communicate()
    assert (rest, second.returncode) == ("in\n", 0)
    with (tmp_path / "out" / LOCK_FILE).open("rb") as file:  # nobody holds it any more
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


EVIL = [
    "=1+1",
    "+1",
    "-1",
    "@x",
    "\t=1",
    "\r=1",
    "\n=1",
    "\uff1d1+1",
    "\uff0b1",
    "\uff0d1",
    "\uff20x",
    "a;=1+1",
    "a|@x",
]


def test_no_field_is_a_formula_with_any_delimiter(tmp_path: Path):
    texts = [*EVIL, "plain", "a-b", "x=1", 'say "=1"', "a,=1"]
    rows = export_table(pa.table({"text": texts, "number": list(range(len(texts)))}), tmp_path, "t")
    assert [row["text"] for row in rows] == texts
    content = (tmp_path / "t.csv").read_text("utf-8")
    read = [row[0] for row in csv.reader(io.StringIO(content, newline=""))][1:]
    assert read[len(EVIL) :] == texts[len(EVIL) :]
    start = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
    assert not [text for text in read if text.startswith(start)]
    for delimiter in ";|":  # a spreadsheet of another country, or one that was told so
        fields = [one for row in csv.reader(io.StringIO(content, newline=""), delimiter=delimiter) for one in row]
        assert not [field for field in fields if field.startswith(start)]
