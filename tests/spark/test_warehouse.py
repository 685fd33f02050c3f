"""The warehouse: its catalog, batches and summaries, what becomes of damaged ones, and its lock."""

import fcntl
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from conformance.results.layout import RunDirectoryError, SchemaTooNew
from conformance.spark.ingest import read_headers
from conformance.spark.tables.verdicts import MATRIX
from conformance.spark.warehouse import LOCK_FILE, PARTITIONED_TABLES, VERSION, Catalog, Warehouse
from tests.spark.synthetic import MadeCell, make_run


def test_a_warehouse_of_another_layout_is_deleted_but_for_what_is_being_built(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "warehouse")
    warehouse.save_catalog(warehouse.load_catalog("one"))
    batch = warehouse.batch_folder("cells", "b1")
    for folder in (batch, warehouse.build_folder / "cells", warehouse.path / "summaries"):
        folder.mkdir(parents=True)
    warehouse.remove_outdated(warehouse.load_catalog("one"))
    assert batch.is_dir(), "the layout is the same"
    assert warehouse.catalog_file.is_file()
    catalog = warehouse.load_catalog("two")
    assert (catalog.layout, catalog.runs) == ("two", {})
    assert batch.is_dir(), "loading deletes nothing"
    warehouse.remove_outdated(catalog)
    assert [path.name for path in warehouse.path.iterdir()] == [warehouse.build_folder.name]
    assert (warehouse.build_folder / "cells").is_dir()


def test_a_warehouse_of_a_later_version_is_refused_and_kept(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "warehouse")
    warehouse.save_catalog(warehouse.load_catalog("one").model_copy(update={"version": VERSION + 1}))
    (warehouse.path / "cells" / "batch=b1").mkdir(parents=True)
    before = warehouse.catalog_file.read_bytes()
    for layout in ("one", "two"):
        with pytest.raises(SchemaTooNew, match="use a later version"):
            warehouse.load_catalog(layout)
    assert warehouse.catalog_file.read_bytes() == before
    assert (warehouse.path / "cells" / "batch=b1").is_dir()


def test_removing_a_run_rewrites_its_batch_and_deletes_unfinished_batches(tmp_path: Path) -> None:
    found = read_headers([make_run(tmp_path / name, [MadeCell("fine")]) for name in ("a:b", "a", "c")]).runs
    warehouse = Warehouse(tmp_path / "warehouse")
    held = {"one": ("a", "a:b"), "two": ("c",), "cut-short": ()}
    for table in PARTITIONED_TABLES:
        for batch, runs in held.items():
            folder = warehouse.batch_folder(table, batch)
            folder.mkdir(parents=True)
            pq.write_table(pa.table({"run": pa.array([*runs, *runs], pa.string())}), folder / "part-0.parquet")
    before = (warehouse.batch_folder("cells", "two") / "part-0.parquet").stat().st_mtime_ns
    known = Catalog(layout="x", runs=dict(found), batches={name: held[name] for name in ("one", "two")})
    after = warehouse.remove_runs(known, {"a:b"})
    assert (set(after.runs), after.batches) == ({"a", "c"}, {"one": ("a",), "two": ("c",)})
    assert warehouse.load_catalog("x") == after
    for table in PARTITIONED_TABLES:
        assert sorted(path.name for path in (warehouse.path / table).iterdir()) == ["batch=one", "batch=two"]
        with pq.ParquetFile(warehouse.batch_folder(table, "one") / "part-0.parquet") as file:
            assert file.read()["run"].to_pylist() == ["a", "a"]
    assert (warehouse.batch_folder("cells", "two") / "part-0.parquet").stat().st_mtime_ns == before
    assert set(warehouse.remove_runs(after, {"a"}).batches) == {"two"}
    assert not warehouse.batch_folder("cells", "one").exists()


def test_a_summary_replaces_the_rows_of_its_run_only(tmp_path: Path) -> None:
    def rows(run: str, cells: int) -> pa.Table:
        return MATRIX.conform(
            pa.Table.from_pylist([{column.name: None for column in MATRIX.columns} | {"run": run, "cells": cells}])
        )

    warehouse = Warehouse(tmp_path)
    warehouse.merge_summary(MATRIX, rows("b", 1), {"b"}, {"b"})
    warehouse.merge_summary(MATRIX, rows("a", 2), {"a"}, {"a", "b"})
    again = warehouse.merge_summary(MATRIX, rows("a", 3), {"a"}, {"a", "b"})
    assert [(row["run"], row["cells"]) for row in again.to_pylist()] == [("a", 3), ("b", 1)]
    unknown = warehouse.merge_summary(MATRIX, MATRIX.schema.empty_table(), (), {"b"})
    assert unknown["run"].to_pylist() == ["b"]


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


@pytest.mark.parametrize(
    "name", ["summaries/runs.parquet", *(f"{one}/batch=b/part-0.parquet" for one in PARTITIONED_TABLES)]
)
def test_a_damaged_file_of_the_warehouse_is_named(tmp_path: Path, name: str):
    warehouse = Warehouse(tmp_path / "warehouse")
    file = warehouse.path / name
    file.parent.mkdir(parents=True)
    pq.write_table(pa.table({"run": ["a"] * 1000}), file)
    warehouse.check_files()
    file.write_bytes(file.read_bytes()[:-7])
    with pytest.raises(RunDirectoryError, match=rf"{name} is damaged: delete .*warehouse, and aggregate"):
        warehouse.check_files()


def waits_for_a_lock(process: int) -> bool:
    """Whether the kernel lists a process among those that wait for a lock: `1: -> FLOCK ADVISORY WRITE 1234 ...`."""
    lines = [line.split() for line in Path("/proc/locks").read_text("ascii").splitlines()]
    return any(words[1] == "->" and words[5] == str(process) for words in lines)


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
        line = second.stdout.readline()
        assert line == f"another aggregation writes into {tmp_path / 'out'}: waiting for its end\n"
        while not waits_for_a_lock(second.pid):
            assert second.poll() is None
    rest, _ = second.communicate()
    assert (rest, second.returncode) == ("in\n", 0)
    with (tmp_path / "out" / LOCK_FILE).open("rb") as file:  # it is no longer held
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
