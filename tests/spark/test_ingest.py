"""Which runs an aggregation finds, and what it reads of them: damaged and planted files are reported, in bounded time."""

import os
import socket
from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from conformance.results import columns
from conformance.results.layout import RunDirectoryError
from conformance.results.manifest import read_current_manifest
from conformance.results.parquet import write_parquet
from conformance.spark.ingest import find_directories, read_headers, read_tables
from conformance.spark.topologies import extract_topologies
from tests.spark.synthetic import MadeCell, make_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return a run with Parquet tables."""
    made = make_run(tmp_path / "reports" / "r", [MadeCell("fine"), MadeCell("other")])
    write_parquet(made)
    return made


def test_fields_of_one_name_have_one_type_in_every_record() -> None:
    types: dict[str, set[object]] = {}
    every = [*columns.HEADER, *columns.FOOTER, *columns.EVENT, *columns.VERDICT]
    for column in every:
        types.setdefault(column.name, set()).add(column.type)
    assert len(types) < len(every), "records share names"
    assert {name: kinds for name, kinds in types.items() if len(kinds) > 1} == {}


def test_each_run_below_the_folders_is_found_once(tmp_path: Path) -> None:
    one = make_run(tmp_path / "all" / "one", [MadeCell("fine")])
    two = make_run(tmp_path / "all" / "deep" / "two", [MadeCell("fine")])
    assert find_directories([tmp_path, one]).runs == tuple(sorted([one.resolve(), two.resolve()]))
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunDirectoryError, match="not a run directory"):
        find_directories([tmp_path / "empty"])


def test_a_run_inside_another_run_is_not_found(run: Path):
    planted = run / "cells" / "x" / "mbx1" / "data"
    planted.mkdir(parents=True)
    (planted / "run.json").write_bytes((run / "run.json").read_bytes())
    (run.parent / "loop").symlink_to(run.parent)
    assert find_directories([run.parent]).runs == (run.resolve(),)


def test_a_run_is_found_beside_very_deep_folders(run: Path, tmp_path: Path):
    name = "deep" * 50
    folder = os.open(tmp_path / "reports", os.O_DIRECTORY)
    for _ in range(30):  # its path is longer than any system call takes
        os.mkdir(name, dir_fd=folder)  # noqa: PTH102
        below = os.open(name, os.O_DIRECTORY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)
    assert find_directories([run.parent]).runs == (run.resolve(),)


def test_two_runs_of_one_name_are_refused_and_a_copy_counts_once(tmp_path: Path) -> None:
    one = make_run(tmp_path / "a" / "run", [MadeCell("fine")])
    copy = make_run(tmp_path / "b" / "run", [MadeCell("fine")])
    other = make_run(tmp_path / "c" / "run", [MadeCell("fine")], seed=2)
    assert list(read_headers([one, copy]).runs) == ["run"]
    with pytest.raises(RunDirectoryError, match="different runs named 'run'"):
        read_headers([one, other])


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
    whole = read_headers([run]).runs["run"]
    assert whole.parquet
    before = {name: rows.to_pylist() for name, rows in read_tables(whole, {})[1].items()}
    (run / "parquet" / "events.parquet").write_bytes(b"PAR1 torn")
    found = read_headers([run]).runs["run"]
    assert not found.parquet
    assert found.damaged == 1
    assert found.damage[0].startswith("parquet/events.parquet: ")
    (run / "parquet" / "cells.parquet").unlink()
    (run / "parquet" / "verdicts.parquet").unlink()
    read, tables = read_tables(found, {})
    assert (read.damaged, read.damage) == (1, found.damage)
    assert {name: rows.to_pylist() for name, rows in tables.items()} == before


@pytest.mark.parametrize("name", columns.TABLES)
def test_a_flipped_bit_in_a_table_is_found_by_its_hash(run: Path, name: str):
    manifest = read_current_manifest(run)
    assert manifest is not None
    assert set(manifest.tables) == {"cells", "verdicts", "events"}
    (whole,) = read_headers([run]).runs.values()
    assert (whole.parquet, whole.damage) == (True, ())
    table = run / "parquet" / f"{name}.parquet"
    octets = bytearray(table.read_bytes())
    octets[len(octets) // 3] ^= 1
    table.write_bytes(octets)
    (found,) = read_headers([run]).runs.values()
    assert not found.parquet
    assert found.damage == (f"parquet/{name}.parquet: not the file that was written",)


@pytest.mark.parametrize("what", ["fifo", "directory", "device", "socket"])
def test_a_table_that_is_not_a_regular_file_is_not_read(run: Path, what: str, monkeypatch: pytest.MonkeyPatch):
    (whole,) = read_headers([run]).runs.values()
    assert (whole.parquet, whole.damage) == (True, ())
    table = run / "parquet" / "events.parquet"
    table.unlink()
    if what == "fifo":
        os.mkfifo(table)
    elif what == "directory":
        table.mkdir()
    elif what == "device":
        table.symlink_to("/dev/zero")
    else:
        monkeypatch.chdir(table.parent)  # the whole path is too long for an address
        with socket.socket(socket.AF_UNIX) as endpoint:
            endpoint.bind(table.name)
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


@pytest.mark.parametrize("stated", [False, True])
def test_a_cells_header_overrides_the_parameters_of_its_topology(stated: bool):
    topology = '{"servers": [{"name": "a", "site": "S", "transport": {"MessageRetryInterval": 5}}, {"name": "b", "dag": "D"}], "transport": {"RejectMessageOnShadowFailure": true}}'
    parameters = '{"a": {"MessageRetryInterval": 7}}' if stated else None
    cells = pa.table({
        "cell": ["one", "two"], "topology": [topology, "no JSON"], "parameters": [parameters, "{}"], "waive": ['{"invariant.x": "since"}', None], "axes": ['{"k": "v"}', None],
    })  # fmt: skip
    rows, topologies = extract_topologies(cells)
    one, two = rows.to_pylist()
    by_id = {topology["topology_id"]: topology for topology in topologies.to_pylist()}
    servers = dict(by_id[one["topology_id"]]["servers"])
    assert (servers["a"]["retry"], servers["a"]["mandatory"]) == (("7", None) if stated else ("5", "true"))
    assert (servers["b"]["retry"], servers["b"]["boundary"], servers["a"]["boundary"]) == ("60", "DAG D", "site S")
    assert (one["waived"], one["axes"], two["waived"], two["axes"]) == (["x"], [("k", "v")], [], None)
    assert by_id[two["topology_id"]]["servers"] == []
