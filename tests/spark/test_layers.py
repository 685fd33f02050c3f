"""The layers: Arrow builds the same rows as SQL queries do, in the buckets that Spark expects."""

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from conformance.results.layout import PARQUET_FOLDER, RunDirectoryError
from conformance.results.parquet import write_parquet
from conformance.spark.buckets import bucket_numbers, write_buckets
from conformance.spark.build_layers import LAYERS, build_layers, code_hash, reject_cell_id_collisions
from conformance.spark.ingest import IngestedRun, read_headers, read_tables
from conformance.spark.schemas import TRANSACTION_COLUMNS
from conformance.spark.topologies import JSON_COLUMNS
from conformance.spark.write_layers import LayerFiles, write_layers
from tests.spark.synthetic import DEFECTS, MadeCell, make_run

STORED = Path(__file__).parents[1] / "compat" / "0.1.0" / "run"


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cells = [MadeCell(name, name, excused=excused) for name in DEFECTS for excused in (False, True)]
    made = {cell.name: cell for cell in cells}.values()
    others = [MadeCell("fine"), MadeCell("cut", cut=True), MadeCell("remarked", remark=True)]
    run = make_run(tmp_path_factory.mktemp("runs") / "planted", [*made, *others])
    write_parquet(run)
    return run


def layers(path: Path) -> dict[str, pa.Table]:
    (run,) = read_headers([path]).runs.values()
    return build_layers(run.header.run, read_tables(run, {})[1])


def ordered(rows: pa.Table, columns: list[str]) -> list[dict[str, Any]]:
    return sorted(rows.select(columns).to_pylist(), key=lambda row: (row["cell"], row["n"], row["kind"]))


def as_stored(cells: pa.Table) -> dict[str, dict[str, Any]]:
    """Return the columns of cells that are in the run's own table too, by the cell's name."""
    made_later = {"cell_id", "topology_id", "waived", *JSON_COLUMNS}
    rows = cells.select([name for name in sorted(cells.column_names) if name not in made_later]).to_pylist()
    return {row["cell"]: row for row in rows}


def verdicts_by_cell(tables: dict[str, pa.Table]) -> list[tuple[str, dict[str, Any]]]:
    """Return each recorded verdict with the name of its cell instead of the cell's id, which either side makes itself."""
    cells = dict(zip(*(tables["cells"][name].to_pylist() for name in ("cell_id", "cell")), strict=True))
    rows = [(cells[row.pop("cell_id")], row) for row in tables["recorded_verdicts"].to_pylist()]
    return sorted(rows, key=lambda pair: (pair[0], pair[1]["check"], repr(sorted(pair[1].items()))))


def test_the_layers_equal_those_of_the_sql_queries(planted: Path, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    from benchmarks.in_duckdb import MACROS, translated
    from benchmarks.layers_in_sql import layers as in_sql

    (tmp_path / "stored").mkdir()
    (tmp_path / "stored" / "run.json").write_bytes((STORED / "run.json").read_bytes())
    (tmp_path / "stored" / "cells").symlink_to(STORED / "cells")
    write_parquet(tmp_path / "stored")
    for path, kinds in ((planted, 6), (tmp_path / "stored", 7)):
        made = layers(path)
        with duckdb.connect() as database:
            database.execute(MACROS)
            for table in ("cells", "verdicts", "events"):
                file = str(path / PARQUET_FOLDER / f"{table}.parquet")
                database.execute(f"CREATE VIEW raw_{table} AS FROM read_parquet([{file!r}])")
            for name, query in in_sql().items():
                database.execute(f"CREATE VIEW {name} AS {translated(query)}")
            found = {name: database.sql(f"FROM {name}").to_arrow_table() for name in LAYERS}
        columns = [name for name in TRANSACTION_COLUMNS if name != "cell_id"]
        assert ordered(made["transactions"], columns) == ordered(found["transactions"], columns)
        assert len(set(made["transactions"]["kind"].to_pylist())) >= kinds
        assert as_stored(made["cells"]) == as_stored(found["cells"])
        assert verdicts_by_cell(made) == verdicts_by_cell(found)


def test_lines_and_parquet_give_the_same_layers(planted: Path) -> None:
    (run,) = read_headers([planted]).runs.values()
    assert run.parquet
    stored = build_layers("r", read_tables(run, {})[1])
    loose = build_layers("r", read_tables(run.model_copy(update={"parquet": False}), {})[1])
    assert {name: rows.to_pylist() for name, rows in stored.items()} == {
        name: rows.to_pylist() for name, rows in loose.items()
    }


def test_pipelined_replies_are_paired_with_their_own_commands() -> None:
    """Two transactions of one session, pipelined: one recipient is refused; the second names one twice, and ends with a 5yz."""
    said: list[dict[str, Any]] = [
        {"kind": "connected", "client": "c", "server": "s", "listener": "door"},
        {"kind": "command", "verb": "MAIL", "line": "MAIL FROM:<A@x>"},
        {"kind": "command", "verb": "RCPT", "line": "RCPT TO:<b@x>"},
        {"kind": "command", "verb": "RCPT", "line": "rcpt to: <c@x> orcpt=rfc822;c@x notify=Success,delay"},
        {"kind": "reply", "to": "MAIL", "code": 250},
        {"kind": "reply", "to": "RCPT", "code": 550},
        {"kind": "reply", "to": "RCPT", "code": 250},
        {"kind": "content", "digest": {"body_sha256": "one"}},
        {"kind": "reply", "to": "CONTENT", "code": 250},
        {"kind": "command", "verb": "MAIL", "line": "MAIL FROM:<>"},
        {"kind": "reply", "to": "MAIL", "code": 250},
        {"kind": "command", "verb": "RCPT", "line": "RCPT TO:<d@x> NOTIFY=SUCCESS,FAILURE"},
        {"kind": "reply", "to": "RCPT", "code": 250},
        {"kind": "command", "verb": "RCPT", "line": "RCPT TO:<d@x> NOTIFY=SUCCESS,FAILURE"},
        {"kind": "reply", "to": "RCPT", "code": 250},
        {"kind": "content", "digest": {"message_id": "two", "body_sha256": "x"}},
        {"kind": "reply", "to": "CONTENT", "code": 554},
    ]
    from conformance.results.columns import TABLES
    from conformance.results.parquet import arrow_schema
    from conformance.spark.exchanges import exchange_rows

    rows = [{"cell": "c", "session": "1", "n": n, "t": float(n), **one} for n, one in enumerate(said)]
    events = pa.Table.from_pylist(rows, arrow_schema(TABLES["events"]))
    names = [
        "n",
        "number",
        "sender",
        "recipients",
        "rcpts",
        "unreported",
        "accepted",
        "refused",
        "key",
        "code",
        "reply_n",
        "client",
    ]
    made = exchange_rows(events, np.zeros(len(rows), np.int64)).select(names).to_pylist()
    assert [list(one.values()) for one in made] == [
        [1, 1, "A@x", ["c@x"], 1, ["c@x"], ["c@x"], ["b@x"], "one", 250, 8, "c"],
        [9, 2, "", ["d@x"], 2, [], [], ["d@x"], "two", 554, 16, "c"],
    ]


def test_two_cells_with_the_same_id_are_refused() -> None:
    rows = {"cell_id": [1, 2], "run": ["r", "r"], "cell": ["a", "b"]}
    reject_cell_id_collisions([pa.table(rows)])
    with pytest.raises(RunDirectoryError, match="r/a and r/b have the same id"):
        reject_cell_id_collisions([pa.table(rows | {"cell_id": [2, 2]})])
    other = pa.table({"cell_id": [3, 1], "run": ["s", "s"], "cell": ["c", "d"]})
    with pytest.raises(RunDirectoryError, match="r/a and s/d have the same id"):
        reject_cell_id_collisions([pa.table(rows), other])


def test_a_cells_bucket_is_that_of_sparks_hash() -> None:
    """Spark says: SELECT hash(1L), hash(-1L), hash(1234567890123456789L)."""
    said = np.array(SPARK_SAYS, np.int64)
    for buckets in (1 << 31, 1000, 7, 1):  # a power of two alone would not tell a signed hash from an unsigned one
        made = bucket_numbers(np.array([1, -1, 1234567890123456789]), buckets)
        assert made.tolist() == np.mod(said, buckets).tolist()


SPARK_SAYS = (-1712319331, -939490007, -2017768400)


def test_each_kind_of_row_has_its_own_row_group(tmp_path: Path) -> None:
    rows = pa.table({"cell_id": [1, 1, 1], "kind": ["a", "a", "b"]})
    write_buckets(rows, tmp_path / "one", 0, 1)
    (path,) = (tmp_path / "one").iterdir()
    with pq.ParquetFile(path) as file:
        assert [file.read_row_group(n)["kind"].to_pylist() for n in range(file.num_row_groups)] == [["a", "a"], ["b"]]
    cells = list(range(40))
    kinds = [(kind, cell) for kind in ("a", "b", "c") for cell in cells]
    several = pa.table({"cell_id": [cell for _, cell in kinds], "kind": [kind for kind, _ in kinds]})
    write_buckets(several, tmp_path / "several", 0, 4)
    numbers = bucket_numbers(np.array(cells), 4).tolist()
    files = sorted((tmp_path / "several").iterdir())
    assert len(files) == 4
    for bucket, path in enumerate(files):
        within = [cell for cell in cells if numbers[cell] == bucket]
        with pq.ParquetFile(path) as file:
            groups = [file.read_row_group(n).to_pydict() for n in range(file.num_row_groups)]
        assert groups == [{"cell_id": within, "kind": [kind] * len(within)} for kind in ("a", "b", "c")]
    write_buckets(rows.slice(0, 0), tmp_path / "none", 0, 4)
    (path,) = (tmp_path / "none").iterdir()
    assert pq.read_table(path, partitioning=None).num_rows == 0


def test_layers_of_a_damaged_run_are_written_and_its_damage_reported(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [MadeCell("fine"), MadeCell("torn", cut=True)], whole=False)
    (run / "cells" / "alien-000000000000.jsonl").write_text("garbage\n")
    found: dict[str, IngestedRun] = dict(read_headers([run]).runs)
    made = write_layers(LayerFiles(found, tmp_path / "made", 1)).runs["run"]
    assert (found["run"].damaged, made.damaged) == (0, 1)
    assert made.damage[0].startswith("alien-000000000000.jsonl:1: ")
    ids = {name: pq.read_table(tmp_path / "made" / name, partitioning=None)["cell_id"].to_pylist() for name in LAYERS}
    assert len(ids["cells"]) == 2
    assert set(ids["transactions"]) == set(ids["recorded_verdicts"]) == set(ids["cells"])
    assert len(ids["recorded_verdicts"]) == 2 * len(DEFECTS)


def test_only_what_the_code_does_counts_for_its_hash() -> None:
    source = (
        '"""A module."""\nLIMIT = 3\n"""The limit."""\n\ndef f(x):\n    """Return it."""\n    return x + "a"  # why\n'
        'class C:\n    """A class."""\n    n = 5\n    """A number."""\n    def m(self):\n        """A method."""\n        return 1\n'
        'async def g():\n    """Wait."""\n    return 2\n'
    )
    same = (
        'LIMIT = (3)\ndef f(x):\n    """Other."""\n    return x + "a"\n'
        "class C:\n    n = 5  # a number\n    def m(self):\n        return 1\n"
        'async def g():\n    """Other."""\n    return 2\n'
    )

    def hash_of(source: str) -> str:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(inspect, "getsource", lambda module: source)
            return code_hash()

    assert hash_of(source) == hash_of(same)
    for done, other in (
        ('"a"', '"b"'),
        ("LIMIT = 3", "LIMIT = 4"),
        ("n = 5", "n = 6"),
        ("return 1", "return 3"),
        ("return 2", "return 3"),
    ):
        assert hash_of(source) != hash_of(source.replace(done, other)), done
