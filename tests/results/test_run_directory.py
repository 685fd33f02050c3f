"""Cells and runs are read as they were written; damage is reported; lines written before a kill are kept."""

import json
import signal
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from conformance.results.layout import LATE_FOLDER, CellUnreadable, RunDirectoryError, SchemaTooNew, archive_path, slug
from conformance.results.reader import Damage, read_cell, read_cell_ends, read_run
from conformance.results.schema import CellFooter
from conformance.results.writer import CellWriter, begin_run, finish_run
from conformance.verdicts import Outcome
from tests.results.samples import EVENTS, VERDICTS, cell_header, run_header
from tests.results.stored import as_schema_1, plain, rewrite


def write_cell(
    run_dir: Path,
    nodeid: str = "a.scenario.yaml::one[x=1]",
    *,
    whole: bool = True,
    outcome: Outcome = Outcome.FAIL,
    cpu: float = 0.25,
) -> Path:
    with CellWriter(run_dir, cell_header(nodeid)) as writer:
        for event in EVENTS:
            writer.add_event(event)
        for verdict in VERDICTS:
            writer.write_verdict(verdict)
        if whole:
            writer.finish(outcome, "changed", wall_seconds=0.5, cpu_seconds=cpu, simulated_seconds=3600)
    return writer.path


def test_a_cell_is_read_as_it_was_written(tmp_path: Path) -> None:
    cell = read_cell(write_cell(tmp_path))
    assert cell.header == cell_header()
    assert cell.events == EVENTS
    assert cell.verdicts == VERDICTS
    assert cell.footer == CellFooter(
        outcome=Outcome.FAIL, sentence="changed", events=5, verdicts=2, wall_seconds=0.5, cpu_seconds=0.25,
        simulated_seconds=3600,
    )  # fmt: skip
    assert not cell.damage
    assert not cell.cut_short


def test_a_cell_without_a_footer_was_cut_short(tmp_path: Path) -> None:
    cell = read_cell(write_cell(tmp_path, whole=False))
    assert cell.cut_short
    assert (cell.events, cell.verdicts, cell.footer) == (EVENTS, VERDICTS, None)


@pytest.mark.parametrize("whole", [True, False], ids=["finished", "cut short"])
def test_a_stored_cell_is_not_overwritten(tmp_path: Path, *, whole: bool) -> None:
    path = write_cell(tmp_path, whole=whole)
    before = path.read_bytes()
    with pytest.raises(RunDirectoryError, match="run before"):
        write_cell(tmp_path)
    assert path.read_bytes() == before


def test_a_cell_has_an_attachment_folder_only_if_it_has_attachments(tmp_path: Path) -> None:
    with CellWriter(tmp_path, cell_header("none")) as none, CellWriter(tmp_path, cell_header("some")) as some:
        (some.attachments / "mbx1.log").write_text("started")
    assert not none.attachments.exists()
    assert (read_cell(some.path).attachments / "mbx1.log").read_text() == "started"


def test_damaged_lines_are_reported_with_their_line_number_and_skipped(tmp_path: Path) -> None:
    path = write_cell(tmp_path)
    lines = plain(path).splitlines(keepends=True)
    lines[2] = b'{"record":"event","kind":"command","n":1,\xff\n'
    lines[3] = b"[1, 2]\n"
    lines[4] = b'{"record":"event","kind":"delivered","n":"three"}\n'
    lines.insert(6, b'{"record":"cell"}\n')
    rewrite(path, b"".join(lines))
    cell = read_cell(path)
    assert [damage.line for damage in cell.damage] == [3, 4, 5, 7]
    assert [event.n for event in cell.events] == [0, 4]
    assert cell.verdicts == VERDICTS
    assert str(cell.damage[1]) == f"{path.name}:4: not a JSON object"
    assert cell.footer is not None


@pytest.mark.parametrize("octets", [1, 40, 400])
def test_an_incomplete_last_line_is_reported_and_the_others_are_read(tmp_path: Path, octets: int) -> None:
    path = write_cell(tmp_path)
    left = plain(path)[:-octets]
    rewrite(path, left)
    cell = read_cell(path)
    assert cell.cut_short
    whole = left.count(b"\n")
    assert (*cell.events, *cell.verdicts) == (*EVENTS, *VERDICTS)[: whole - 1]
    assert [damage.line for damage in cell.damage] == [whole + 1]
    assert "cut short" in cell.damage[0].why
    assert read_cell_ends(tmp_path).ends[0][1] is None


def test_a_cell_without_a_header_cannot_be_read_but_its_run_can(tmp_path: Path) -> None:
    begin_run(tmp_path, run_header(cells=2))
    write_cell(tmp_path)
    torn = write_cell(tmp_path, "b.scenario.yaml::two")
    torn.write_bytes(b"")
    with pytest.raises(CellUnreadable, match=":1: the cell's header"):
        read_cell(torn)
    whole = plain(write_cell(tmp_path / "other")).partition(b"\n")[2]
    (tmp_path / "headless.jsonl").write_bytes(whole)
    with pytest.raises(CellUnreadable, match="it has no header line"):
        read_cell(tmp_path / "headless.jsonl")
    run = read_run(tmp_path)
    damage: list[Damage] = []
    assert len(list(run.cells(damage))) == 1
    assert [one.path for one in damage] == [torn]
    with pytest.raises(CellUnreadable):
        list(run.cells())
    footer = finish_run(tmp_path, wall_seconds=2.0)
    assert (footer.cells, footer.cut_short, len(footer.damage)) == (2, 1, 1)


def test_a_first_attempt_without_a_header_is_a_damage_of_the_run(tmp_path: Path) -> None:
    begin_run(tmp_path, run_header())
    late = tmp_path / LATE_FOLDER
    late.mkdir()
    write_cell(tmp_path).rename(late / "whole.jsonl.gz")
    (late / "torn.jsonl").write_bytes(b"")
    write_cell(tmp_path)
    footer = finish_run(tmp_path, wall_seconds=2.0)
    assert (len(footer.again), footer.cells, footer.cut_short) == (1, 1, 0)
    assert [line.startswith("torn.jsonl:1: ") for line in footer.damage] == [True]


@pytest.mark.parametrize("file", ["run.json", "footer.json", "cell"])
def test_a_newer_schema_is_refused(tmp_path: Path, file: str) -> None:
    begin_run(tmp_path, run_header())
    cell = write_cell(tmp_path)
    finish_run(tmp_path, wall_seconds=1)
    path = cell if file == "cell" else tmp_path / file
    first, newline, rest = plain(path).partition(b"\n") if file == "cell" else (path.read_bytes(), b"", b"")
    value = json.loads(first)
    value["schema"] = 3
    rewrite(path, json.dumps(value).encode() + newline + rest)
    with pytest.raises(SchemaTooNew, match=r"schema 3.*up to 2"):
        list(read_run(tmp_path).cells())
    if file == "cell":
        with pytest.raises(SchemaTooNew, match=r"schema 3.*up to 2"):
            read_cell_ends(tmp_path)


def test_a_folder_that_is_not_a_run_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match="is not a run directory"):
        read_run(tmp_path)
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(RunDirectoryError, match=r"run\.json: .*Field required"):
        read_run(tmp_path)


def test_the_footer_of_a_run_summarizes_its_cells(tmp_path: Path) -> None:
    begin_run(tmp_path, run_header(cells=4))
    write_cell(tmp_path, "a::one")
    write_cell(tmp_path, "a::two", outcome=Outcome.PASS, cpu=1.25)
    write_cell(tmp_path, "a::three", whole=False)
    footer = finish_run(tmp_path, wall_seconds=4.0, interrupted=True)
    assert footer == read_run(tmp_path).footer
    assert footer.outcomes == {**dict.fromkeys(Outcome, 0), Outcome.FAIL: 1, Outcome.PASS: 1}
    assert (footer.cells, footer.cut_short, footer.missing, footer.interrupted) == (3, 1, 1, True)
    assert (footer.cells_per_second, footer.simulated_per_wall_second, footer.cpu_per_cell) == (0.5, 1800.0, 0.75)


def test_workers_of_one_run_share_a_header_and_another_run_is_refused(tmp_path: Path) -> None:
    first = begin_run(tmp_path, run_header())
    later = run_header().model_copy(update={"started": "2026-01-02T03:04:09Z"})
    assert begin_run(tmp_path, later) == first == read_run(tmp_path).header
    candidate = first.candidates[0].model_copy(update={"sha256": "f" * 64})
    other = {"run": "r2", "seed": 2, "clock": "real", "scale": 2.0, "grid": "full", "candidates": (candidate,)}
    for name, value in {**other, "suite_sha256": "6" * 64}.items():
        assert getattr(first, name) != value
        with pytest.raises(RunDirectoryError, match="use another directory"):
            begin_run(tmp_path, later.model_copy(update={name: value}))
    assert read_run(tmp_path).header == first
    finish_run(tmp_path, wall_seconds=1)
    with pytest.raises(RunDirectoryError, match="use another directory"):
        begin_run(tmp_path, later)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cells", "footer.json", "run.json"]


def test_flushed_events_survive_a_kill(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib\n"
        "from conformance.results.writer import CellWriter\n"
        "from tests.results.samples import EVENTS, cell_header\n"
        f"with CellWriter(pathlib.Path({str(tmp_path)!r}), cell_header()) as writer:\n"
        "    for event in EVENTS[:3]: writer.add_event(event)\n"
        "    writer.flush()\n"
        "    print('written', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"written\n"
        process.send_signal(signal.SIGKILL)
    cell = read_cell(next((tmp_path / "cells").glob("*.jsonl")))
    assert cell.events == EVENTS[:3]
    assert cell.cut_short
    assert not cell.damage


def test_a_finished_cell_is_compressed_and_an_unfinished_one_is_plain(tmp_path: Path) -> None:
    with CellWriter(tmp_path, cell_header()) as writer:
        for event in EVENTS:
            writer.add_event(event)
        writer.flush()
        unfinished = writer.path
        assert unfinished.name.endswith(".jsonl")
        assert read_cell(unfinished).events == EVENTS
        writer.finish(Outcome.PASS, "", wall_seconds=1, cpu_seconds=1, simulated_seconds=1)
    assert [path.name for path in (tmp_path / "cells").iterdir()] == [f"{unfinished.name}.gz"]
    assert read_cell(writer.path).events == EVENTS
    lines = subprocess.run(["gzip", "-dc", writer.path], capture_output=True, check=True).stdout.splitlines()
    assert json.loads(lines[0])["schema"] == 2
    assert json.loads(lines[-1])["record"] == "footer"


def test_a_run_of_schema_1_is_read(tmp_path: Path) -> None:
    begin_run(tmp_path, run_header())
    path = write_cell(tmp_path)
    finish_run(tmp_path, wall_seconds=1)
    now = list(read_run(tmp_path).cells())
    as_schema_1(tmp_path)
    run = read_run(tmp_path)
    (cell,) = run.cells()
    assert (run.header.schema_number, cell.header.schema_number) == (1, 1)
    assert cell.path == path.with_suffix("")
    assert cell.header.model_copy(update={"schema_number": 2}) == now[0].header
    assert (cell.events, cell.verdicts, cell.footer) == (now[0].events, now[0].verdicts, now[0].footer)
    assert read_cell_ends(tmp_path).ends[0][1] == cell.footer


def test_a_cell_whose_compression_was_interrupted_is_read_once(tmp_path: Path) -> None:
    begin_run(tmp_path, run_header())
    path = write_cell(tmp_path)
    path.with_suffix("").write_bytes(plain(path)[:-10])
    path.with_name(".half.jsonl.gz.1234").write_bytes(b"half")
    (cell,) = read_run(tmp_path).cells()
    assert (cell.path, cell.cut_short) == (path, False)
    assert read_cell_ends(tmp_path).files == 1


def test_the_events_before_the_cut_in_a_compressed_file_are_read(tmp_path: Path) -> None:
    begin_run(tmp_path, run_header())
    path = write_cell(tmp_path)
    octets = path.read_bytes()
    path.write_bytes(octets[:-12])
    cell = read_cell(path)
    assert (cell.events, cell.cut_short) == (EVENTS, True)
    assert cell.damage[-1].why == "the compressed file was cut short"
    counts = []
    for cut in range(len(octets) // 2, len(octets), 16):
        path.write_bytes(octets[:cut])
        cell = read_cell(path)
        left = zlib.decompressobj(wbits=31).decompress(octets[:cut]).split(b"\n")[:-1]
        count = sum(line.startswith(b'{"record":"event"') for line in left)
        assert (cell.events, cell.cut_short) == (EVENTS[:count], True)
        counts.append(count)
    assert counts == sorted(counts)
    assert counts[0] < counts[-1] == len(EVENTS), "the first cuts leave a part of the events"
    path.write_bytes(octets[:40])
    with pytest.raises(CellUnreadable):
        read_cell(path)
    assert finish_run(tmp_path, wall_seconds=1).cut_short == 1


def test_a_file_that_is_not_gzip_is_reported_as_damaged(tmp_path: Path) -> None:
    path = write_cell(tmp_path)
    path.write_bytes(b"no gzip")
    with pytest.raises(CellUnreadable, match="the compressed file is damaged"):
        read_cell(path)


@pytest.mark.parametrize("outcome", list(Outcome))
def test_node_directories_are_archived_unless_the_cell_failed_or_was_not_judged(
    tmp_path: Path, outcome: Outcome
) -> None:
    with CellWriter(tmp_path, cell_header()) as writer:
        (writer.attachments / "mbx1").mkdir()
        (writer.attachments / "mbx1" / "node.log").write_text("started")
        writer.finish(outcome, "", wall_seconds=1, cpu_seconds=1, simulated_seconds=1)
    if outcome in (Outcome.PASS, Outcome.NOT_APPLICABLE):
        with zipfile.ZipFile(archive_path(writer.attachments)) as archive:
            assert archive.read("mbx1/node.log") == b"started"
        assert not writer.attachments.exists()
    else:
        assert (writer.attachments / "mbx1" / "node.log").read_text() == "started"
        assert not archive_path(writer.attachments).exists()


@given(st.text(min_size=1), st.text(min_size=1))
@example("a::" + "x" * 500, "a::" + "x" * 501)
@example("a::one/two", "a::one two")
def test_slugs_are_safe_bounded_and_different_for_different_cells(one: str, other: str) -> None:
    name = slug(one)
    assert len(name) <= 93
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789=_+-")
    assert name == slug(one)
    assert (one == other) == (name == slug(other))


def test_a_slug_begins_with_the_scenario_and_its_axes() -> None:
    """The file is named otherwise than the scenario, and there are two axes."""
    name = slug("scenarios/creation/inbound.scenario.yaml::waits[messages=20,via=mbx1]")
    assert name.startswith("waits-messages=20-via=mbx1-")
