"""Shards are merged into one run; a run's Parquet tables and manifest agree with its files."""

import dataclasses
import json
from pathlib import Path
from typing import Any, get_args
from zipfile import ZipFile

import pyarrow.parquet as pq
import pytest

from conformance.history.events import AnyEvent
from conformance.history.values import Digest
from conformance.results import columns
from conformance.results.layout import RunDirectoryError, archive_path, slug_of
from conformance.results.manifest import compute_manifest, read_current_manifest
from conformance.results.merge import merge_runs
from conformance.results.parquet import write_parquet
from conformance.results.reader import read_run
from conformance.results.writer import CellWriter, begin_run, finish_run
from conformance.verdicts import Outcome, Verdict
from tests.results.samples import EVENTS, VERDICTS, cell_header, run_header
from tests.results.stored import as_schema_1, plain, rewrite


def events_of(nodeid: str) -> tuple[AnyEvent, ...]:
    """Return events that name the cell, so that those of another cell differ."""
    return (dataclasses.replace(EVENTS[0], client=f"client of {nodeid}"), *EVENTS[1:])


def verdicts_of(nodeid: str) -> tuple[Verdict, ...]:
    """Return verdicts that name the cell, so that those of another cell differ."""
    return tuple(verdict.model_copy(update={"sentence": f"about {nodeid}"}) for verdict in VERDICTS)


def make_run(
    run_dir: Path, *nodeids: str, seed: int = 1, outcome: Outcome = Outcome.PASS, started: str = "2026-01-02T03:04:05Z"
) -> Path:
    header = run_header(run_dir.name, cells=len(nodeids), seed=seed)
    begin_run(run_dir, header.model_copy(update={"started": started}))
    for nodeid in nodeids:
        with CellWriter(run_dir, cell_header(nodeid, run=run_dir.name)) as writer:
            for event in events_of(nodeid):
                writer.add_event(event)
            for verdict in verdicts_of(nodeid):
                writer.write_verdict(verdict)
            (writer.attachments / "mbx1.log").write_text(nodeid)
            writer.finish(outcome, "", wall_seconds=1, cpu_seconds=1, simulated_seconds=1)
    finish_run(run_dir, wall_seconds=len(nodeids))
    return run_dir


@pytest.mark.parametrize("order", [1, -1])
def test_shards_are_merged_into_one_run_in_any_order(tmp_path: Path, order: int) -> None:
    earlier = make_run(tmp_path / "s2", "a::3", started="2026-01-02T03:04:04Z")
    shards = [make_run(tmp_path / "s1", "a::1", "a::2"), earlier][::order]
    footer = merge_runs(shards, tmp_path / "all")
    run = read_run(tmp_path / "all")
    assert (footer.cells, footer.missing, footer.outcomes[Outcome.PASS], footer.wall_seconds) == (3, 0, 3, 2.0)
    assert (run.header.cells_planned, run.header.started) == (3, "2026-01-02T03:04:04Z")
    cells = {cell.header.nodeid: cell for cell in run.cells()}
    assert sorted(cells) == ["a::1", "a::2", "a::3"]
    for nodeid, cell in cells.items():
        assert cell.header.run == "all"
        assert (cell.events, cell.verdicts) == (events_of(nodeid), verdicts_of(nodeid))
        assert ZipFile(archive_path(cell.attachments)).read("mbx1.log") == nodeid.encode()


def test_runs_that_are_not_shards_of_one_run_are_not_merged(tmp_path: Path) -> None:
    one, other = make_run(tmp_path / "s1", "a::1"), make_run(tmp_path / "s2", "a::2")
    header = json.loads((other / "run.json").read_bytes())
    different = {"seed": 2, "clock": "real", "scale": 2.0, "grid": "full", "environment_sha256": "f" * 64}
    for name, value in different.items():
        assert header[name] != value
        (other / "run.json").write_text(json.dumps({**header, name: value}), "utf-8")
        with pytest.raises(RunDirectoryError, match=f"differ in {name}: they are not parts of one run"):
            merge_runs([one, other], tmp_path / "all")
    changed = {**header, "candidates": [{**header["candidates"][0], "sha256": "f" * 64}]}
    (other / "run.json").write_text(json.dumps(changed), "utf-8")
    with pytest.raises(RunDirectoryError, match="'reference' is not the one of that name in another run"):
        merge_runs([one, other], tmp_path / "all")
    with pytest.raises(RunDirectoryError, match="with different content"):
        merge_runs([one, make_run(tmp_path / "s3", "a::1", outcome=Outcome.FAIL)], tmp_path / "all3")
    with pytest.raises(RunDirectoryError, match="nothing to merge"):
        merge_runs([], tmp_path / "none")
    assert not [name for name in ("all", "all3", "none") if (tmp_path / name).exists()]
    (other / "run.json").write_text(json.dumps(header), "utf-8")
    assert merge_runs([one, other], tmp_path / "all").cells == 2, "as they were, they are shards of one run"


def test_the_same_cell_in_two_shards_counts_once(tmp_path: Path) -> None:
    footer = merge_runs([make_run(tmp_path / "s1", "a::1"), make_run(tmp_path / "s2", "a::1")], tmp_path / "all")
    assert (footer.cells, footer.outcomes[Outcome.PASS], footer.missing) == (1, 1, 0)
    (cell,) = read_run(tmp_path / "all").cells()
    assert (cell.events, cell.verdicts) == (events_of("a::1"), verdicts_of("a::1"))
    assert ZipFile(archive_path(cell.attachments)).namelist() == ["mbx1.log"]


def test_parquet_tables_hold_the_values_of_the_histories(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path / "r", "a::1", "a::2")
    manifest = write_parquet(run_dir)
    assert manifest.rows == {"cells": 2, "verdicts": 4, "events": 10}
    tables: dict[str, list[dict[str, Any]]] = {
        name: pq.read_table(run_dir / "parquet" / f"{name}.parquet").to_pylist() for name in columns.TABLES
    }
    for row, event in zip(tables["events"], (*events_of("a::1"), *events_of("a::2")), strict=True):
        for field in dataclasses.fields(event):
            value = getattr(event, field.name)
            if isinstance(value, Digest):
                value = json.loads(json.dumps(dataclasses.asdict(value)))
                assert {name: row["digest"][name] for name in value} == value
            else:
                assert row[field.name] == (list(value) if isinstance(value, tuple) else value), (event, field.name)
        assert row["kind"] == event.kind
    for row, verdict in zip(tables["verdicts"], (*verdicts_of("a::1"), *verdicts_of("a::2")), strict=True):
        stated = verdict.model_dump(mode="json")
        assert {name: row[name] for name in stated} == stated
    stored = list(read_run(run_dir).cells())
    for row, cell in zip(tables["cells"], stored, strict=True):
        assert (row["run"], row["cell"]) == ("r", cell.slug)
        assert cell.footer is not None
        stated = cell.header.model_dump(mode="json") | cell.footer.model_dump(mode="json")
        assert (stated["axes"], stated["topology"], stated["wall_seconds"]) == ({"x": "1"}, cell.header.topology, 1.0)
        for column in columns.CELL:
            value = row[column.name]
            is_json = column.type == "json" and value is not None
            assert (json.loads(value) if is_json else value) == stated[column.name], column.name
    for name in ("verdicts", "events"):
        count = len(tables[name]) // 2
        assert [row["cell"] for row in tables[name]] == [cell.slug for cell in stored for _ in range(count)], name


@pytest.mark.parametrize(
    ("sound", "damaged"),
    [(b'"line":"MAIL', b'"line":7,"spoilt":"MAIL'), (b'"session":"s1","verb"', b'"session":["s1"],"verb"')],
    ids=["an-unknown-field", "a-field-of-another-type"],
)
def test_a_damaged_event_is_left_out_of_the_tables_and_listed_as_damage(
    tmp_path: Path, sound: bytes, damaged: bytes
) -> None:
    run_dir = make_run(tmp_path / "r", "a::1", "a::2")
    write_parquet(run_dir)
    before = pq.read_table(run_dir / "parquet" / "events.parquet").to_pylist()
    path = min((run_dir / "cells").glob("*.jsonl.gz"))
    octets = plain(path)
    assert octets.count(sound) == 1
    rewrite(path, octets.replace(sound, damaged))
    manifest = write_parquet(run_dir)
    line = octets[: octets.index(sound)].count(b"\n") + 1
    assert (manifest.damaged, manifest.damage[0].split(": ")[0]) == (1, f"{path.name}:{line}")
    after = pq.read_table(run_dir / "parquet" / "events.parquet").to_pylist()
    assert after == [row for row in before if (row["cell"], row["n"]) != (slug_of(path), line - 2)]


def test_events_of_a_cell_without_a_header_are_left_out(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path / "r", "a::1", "a::2")
    first, second = sorted((run_dir / "cells").glob("*.jsonl.gz"))
    rewrite(first, b"no header\n" + plain(first).partition(b"\n")[2])
    assert write_parquet(run_dir).rows == {"cells": 1, "verdicts": 2, "events": 5}
    events = pq.read_table(run_dir / "parquet" / "events.parquet")
    assert events["cell"].to_pylist() == [slug_of(second)] * 5


def test_a_manifest_of_tables_older_than_the_histories_is_not_used(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path / "r", "a::1")
    assert read_current_manifest(run_dir) is None
    manifest = write_parquet(run_dir)
    assert read_current_manifest(run_dir) == manifest
    assert manifest.content_sha256 == compute_manifest(run_dir).content_sha256
    path = next((run_dir / "cells").glob("*.jsonl.gz"))
    rewrite(path, plain(path) + b"{}\n")
    assert read_current_manifest(run_dir) is None
    assert manifest.content_sha256 != compute_manifest(run_dir).content_sha256


def test_shards_of_schema_1_are_merged_with_shards_of_schema_2(tmp_path: Path) -> None:
    old, new = make_run(tmp_path / "s1", "a::1", "a::2"), make_run(tmp_path / "s2", "a::2", "a::3")
    as_schema_1(old)
    merge_runs([old, new], tmp_path / "all")
    run = read_run(tmp_path / "all")
    assert run.header.schema_number == 2
    assert [path.suffix for path in run.files] == [".gz"] * 3
    found = {cell.header.nodeid: (cell.events, cell.verdicts) for cell in run.cells()}
    assert found == {nodeid: (events_of(nodeid), verdicts_of(nodeid)) for nodeid in ("a::1", "a::2", "a::3")}


def test_the_content_hash_of_a_run_does_not_depend_on_compression(tmp_path: Path) -> None:
    run_dir = make_run(tmp_path / "r", "a::1")
    before = compute_manifest(run_dir)
    (path,) = (run_dir / "cells").glob("*.jsonl.gz")
    path.with_suffix("").write_bytes(plain(path))
    path.unlink()
    after = compute_manifest(run_dir)
    assert (after.content_sha256, after.octets) == (before.content_sha256, before.octets)
    assert after.sizes != before.sizes


def test_a_column_has_the_type_of_its_annotation_and_json_where_records_differ_or_have_no_structure() -> None:
    types = {column.name: column.type for column in (*columns.CELL, *columns.VERDICT, *columns.EVENT)}
    named = {
        "whole": "seed events verdicts occasions n code attempt", "flag": "remark healed dot_sent quiet",
        "number": "scale tolerance wall_seconds cpu_seconds simulated_seconds moment t waited seconds",
        "texts": "generations requirements claims lines links recipients accepted arguments", "wholes": "evidence",
        "json": "line refused axes topology parameters waive own_timers exchanges changes state",
    }  # fmt: skip
    expected = {name: kind for kind, names in named.items() for name in names.split()}
    structs = {name: {column.name: column.type for column in types.pop(name)} for name in ("digest", "operation")}
    assert types == {**dict.fromkeys(types, "text"), **expected}
    assert len(set(types) - set(expected)) > 40
    digest, operation = structs["digest"], structs["operation"]
    names = ("size", "sha256", "failed", "eight_bit")
    assert [digest[name] for name in names] == ["whole", "text", "texts", "flag"]
    assert [operation[name] for name in ("name", "shadow_ids", "limit")] == ["text", "texts", "whole"]


def test_every_field_of_every_event_has_a_column() -> None:
    kinds = get_args(get_args(AnyEvent)[0])
    fields = {field.name for kind in kinds for field in dataclasses.fields(kind)}
    assert fields == {column.name for column in columns.TABLES["events"]} - {"run", "cell"}
