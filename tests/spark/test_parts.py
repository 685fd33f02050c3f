"""What needs no Spark: schemas, options, the page, the exports, and the Java that is found."""

import csv
import json
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from conformance.results import columns
from conformance.results.layout import RunDirectoryError, SchemaTooNew
from conformance.spark.aggregation import parse_fail_on
from conformance.spark.export import export_table
from conformance.spark.find_java import JavaMissing, find_java_home
from conformance.spark.generate_docs import update_page
from conformance.spark.ingest import find_runs, read_headers
from conformance.spark.session import BadSetting, parse_settings
from conformance.spark.tables.verdicts import MATRIX
from conformance.spark.warehouse import PARTITIONED_TABLES, VERSION, Catalog, Warehouse
from tests.spark.synthetic import MadeCell, make_run


def test_fields_of_one_name_have_one_type_in_every_record() -> None:
    types: dict[str, set[object]] = {}
    for group in (columns.HEADER, columns.FOOTER, columns.EVENT, columns.VERDICT):
        for column in group:
            types.setdefault(column.name, set()).add(column.type)
    assert {name: kinds for name, kinds in types.items() if len(kinds) > 1} == {}


def test_fail_on_accepts_known_words_only() -> None:
    assert parse_fail_on(" flaky,regression") == {"flaky", "regression"}
    assert parse_fail_on("") == frozenset()
    with pytest.raises(ValueError, match="--fail-on losses: choose from regression, flaky, disagreement"):
        parse_fail_on("flaky,losses")


def test_a_setting_is_a_spark_key_and_its_value() -> None:
    assert parse_settings(["spark.a=b=c", "spark.x="]) == {"spark.a": "b=c", "spark.x": ""}
    for bad in ("spark.a", "a=secret"):
        with pytest.raises(BadSetting, match=r"write spark\.something=value") as caught:
            parse_settings([bad])
        assert "secret" not in str(caught.value)


def test_each_run_below_the_folders_is_found_once(tmp_path: Path) -> None:
    one = make_run(tmp_path / "all" / "one", [MadeCell("fine")])
    two = make_run(tmp_path / "all" / "deep" / "two", [MadeCell("fine")])
    assert find_runs([tmp_path, one]) == tuple(sorted([one.resolve(), two.resolve()]))
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunDirectoryError, match="not a run directory"):
        find_runs([tmp_path / "empty"])


def test_two_runs_of_one_name_are_refused_and_a_copy_counts_once(tmp_path: Path) -> None:
    one = make_run(tmp_path / "a" / "run", [MadeCell("fine")])
    copy = make_run(tmp_path / "b" / "run", [MadeCell("fine")])
    other = make_run(tmp_path / "c" / "run", [MadeCell("fine")], seed=2)
    assert list(read_headers([one, copy]).runs) == ["run"]
    with pytest.raises(RunDirectoryError, match="different runs named 'run'"):
        read_headers([one, other])


def test_a_warehouse_of_another_layout_is_deleted(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "warehouse")
    (warehouse.path / "cells" / "batch=b1").mkdir(parents=True)
    warehouse.save_catalog(warehouse.load_catalog("one"))
    assert warehouse.load_catalog("one").runs == {}
    assert warehouse.path.exists()
    assert warehouse.load_catalog("two").layout == "two"
    assert not warehouse.path.exists()


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


def test_json_and_csv_hold_the_same_rows_and_no_formulas(tmp_path: Path) -> None:
    rows = [{"a": "=cmd()", "b": 1, "c": None}, {"a": 'x,"y"\n', "b": 2, "c": True}]
    export_table(pa.Table.from_pylist(rows), tmp_path, "t")
    assert json.loads((tmp_path / "t.json").read_text()) == rows
    with (tmp_path / "t.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [["a", "b", "c"], ["'=cmd()", "1", ""], ['x,"y"\n', "2", "True"]]


def test_the_generated_tables_of_the_data_page_are_up_to_date() -> None:
    page = (Path(__file__).parents[2] / "docs" / "data.md").read_text("utf-8")
    assert update_page(page) == page


def test_a_table_drops_unknown_columns_and_requires_its_own() -> None:
    rows = [{name.name: None for name in MATRIX.columns} | {"run": "r", "more": 1}]
    assert MATRIX.conform(pa.Table.from_pylist(rows)).schema == MATRIX.schema
    with pytest.raises(KeyError):
        MATRIX.conform(pa.table({"run": ["r"]}))


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


def test_a_warehouse_of_a_later_version_is_refused_and_kept(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "warehouse")
    warehouse.save_catalog(warehouse.load_catalog("one").model_copy(update={"version": VERSION + 1}))
    with pytest.raises(SchemaTooNew, match="use a later version"):
        warehouse.load_catalog("one")
    assert warehouse.catalog_file.exists()


def test_a_run_without_a_readable_header_is_reported_and_left_out(tmp_path: Path) -> None:
    good = make_run(tmp_path / "good", [MadeCell("fine")])
    bad = make_run(tmp_path / "bad", [MadeCell("fine")])
    (bad / "run.json").write_text('{"run":')
    found = read_headers([bad, good])
    assert list(found.runs) == ["good"]
    assert "bad/run.json" in found.unreadable[0]
    with pytest.raises(RunDirectoryError):
        read_headers([bad])


def test_damaged_parquet_is_reported_and_the_lines_are_read_instead(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [MadeCell(f"c{n}") for n in range(17)])
    assert read_headers([run]).runs["run"].parquet
    (run / "parquet" / "events.parquet").write_bytes(b"PAR1 torn")
    found = read_headers([run]).runs["run"]
    assert not found.parquet
    assert found.damaged == 1
    assert found.damage[0].startswith("parquet/events.parquet: ")


def fake_java(home: Path, version: int, modules: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        "#!/bin/sh\ncase $1 in\n"
        f"-version) echo 'openjdk version \"{version}.0.1\"' >&2;;\n"
        f"--list-modules) echo '{modules}';;\n"
        '*) printf "%s\\n" "$@";;\nesac\n'
    )
    java.chmod(0o755)
    return java


def test_a_suitable_java_of_the_user_is_used_as_it_is(tmp_path: Path) -> None:
    fake_java(tmp_path / "own", 21, "jdk.incubator.vector@21")
    assert find_java_home({"JAVA_HOME": str(tmp_path / "own")}, tmp_path / "cache") == tmp_path / "own"
    assert not (tmp_path / "cache").exists()


def test_a_java_without_the_vector_module_gets_a_launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conformance.spark.find_java._bundled_java", lambda: None)
    fake_java(tmp_path / "my own", 25, "java.base@25")
    home = find_java_home({"PATH": str(tmp_path / "my own" / "bin")}, tmp_path / "cache")
    words = ["--add-modules=jdk.incubator.vector", "-cp", "a b", "--add-opens=java.base/java.nio=ALL-UNNAMED", "$HOME"]
    done = subprocess.run([home / "bin" / "java", "-x", *words], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["-x", *words[1:]]


def test_the_error_without_a_java_says_how_to_install_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conformance.spark.find_java._bundled_java", lambda: None)
    fake_java(tmp_path / "old", 11, "")
    with pytest.raises(JavaMissing, match=r"Java 17 or later: JAVA_HOME=.*old is not suitable; pip install"):
        find_java_home({"JAVA_HOME": str(tmp_path / "old"), "PATH": str(tmp_path / "old" / "bin")}, tmp_path)
