"""Hostile candidates get the right verdict within the time limits, leave nothing behind and affect no other cell."""

import json
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import psutil
import pytest

from conformance import paths
from conformance.candidates.assignment import Assignment
from conformance.candidates.description import Candidate
from conformance.execute import judge
from conformance.history.events import Attempt, Closed
from conformance.judge.incremental import IncrementalJudge
from conformance.results.layout import CELLS_FOLDER
from conformance.results.reader import read_run
from conformance.results.writer import event_json_line
from conformance.run.cell import CellRunner, RecordedRun
from conformance.run.cell_loop import OWN_LOOP, run_without_loop
from conformance.run.settings import Settings
from conformance.scenarios.document import Cell
from conformance.scenarios.loader import read_corpus
from conformance.verdicts import Outcome, Verdict, worst_in_cell
from tests.nodes.hostile import DEEDS, FLOODS, PHASES
from tests.suite.helpers import ROOT, conformance_command

RELAYED = """\
id: relayed
title: A message is passed on
requirements: [RL-ACK-01]
needs: [relay]
topology: relay
steps:
  - send: {as: m, to: victor@outside.test, via: mta1}
  - expect: {reply: {of: m, code: 250}}
  - expect: {delivered: {of: m, at: outside, copies: 1, within: 1m}}
"""


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """Fail a test that leaves a process or a listening socket."""
    listened = listening()
    yield
    assert psutil.Process().children(recursive=True) == []
    assert listening() <= listened


def listening() -> set[int]:
    """Return the ports that this process listens on."""
    return {c.laddr.port for c in psutil.Process().net_connections("tcp") if c.status == psutil.CONN_LISTEN}


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    (tmp_path / "relayed.scenario.yaml").write_text(RELAYED, "utf-8")
    return read_corpus([tmp_path / "relayed.scenario.yaml"], paths.fixtures())[0].cells("smoke")[0]


def judged(cell: Cell, misdeed: str, directory: Path) -> tuple[RecordedRun, dict[str, Verdict]]:
    """Run the cell in virtual time with a server of this misdeed; return the verdicts by their checks."""
    hostile = Candidate(
        name="hostile", kind="python", claims=("relay",), factory="tests.nodes.hostile:create", defect=misdeed,
        listeners=("frontend",),
    )  # fmt: skip
    assignment, settings = Assignment(hostile), Settings(clock="virtual")
    ran = run_without_loop(CellRunner(cell, assignment, settings, directory, IncrementalJudge()).run(OWN_LOOP))
    verdicts = judge(cell, assignment, settings, ran.events, complete=ran.problem == "")
    return ran, {verdict.check: verdict for verdict in verdicts}


def test_the_hostile_relay_without_a_misdeed_passes(cell: Cell, tmp_path: Path):
    ran, verdicts = judged(cell, "", tmp_path / "cell")
    assert ran.problem == ""
    assert worst_in_cell(verdict.outcome for verdict in verdicts.values()) is Outcome.PASS


@pytest.mark.parametrize("phase", ["connect", *PHASES])
def test_a_hanging_server_is_left_at_the_time_limit_and_judged(cell: Cell, tmp_path: Path, phase: str):
    ran, verdicts = judged(cell, f"hangs-at-{phase}", tmp_path / "cell")
    assert ran.problem == ""
    (attempt,) = [event for event in ran.events if isinstance(event, Attempt)]
    if phase == "QUIT":
        assert attempt.code == 250
        failed = {check for check, verdict in verdicts.items() if verdict.outcome is Outcome.FAIL}
        assert failed == {"model.RL-RPL-01"}, "the message passed, and QUIT was not answered"
        (closed,) = [event for event in ran.events if isinstance(event, Closed) and event.session == attempt.session]
        assert closed.by == "link"
        assert 300 <= closed.t <= 370
        return
    limit = {"DATA": 120, "dot": 600}.get(phase, 300)  # RFC 5321 4.5.3.2
    assert limit <= attempt.t <= limit + 10
    assert attempt.code is None
    assert verdicts["expect.reply"].outcome is Outcome.FAIL
    assert verdicts["expect.delivered"].outcome is (Outcome.PASS if phase == "dot" else Outcome.FAIL)
    assert verdicts["invariant.nothing-acknowledged-is-lost"].outcome is Outcome.NOT_APPLICABLE, (
        "nothing was acknowledged"
    )


@pytest.mark.parametrize("misdeed", FLOODS)
def test_a_server_that_floods_breaks_off_or_sends_garbage_does_not_pass_and_the_cell_completes(
    cell: Cell, tmp_path: Path, misdeed: str
):
    ran, verdicts = judged(cell, misdeed, tmp_path / "cell")
    assert ran.complete
    # A server that ends the session violates no requirement about replies, and has acknowledged nothing that it could lose.
    wanted = Outcome.INCONCLUSIVE if misdeed == "resets" else Outcome.FAIL
    assert worst_in_cell(verdict.outcome for verdict in verdicts.values()) is wanted
    assert verdicts["expect.delivered"].outcome is wanted


def test_a_flood_does_not_fill_the_history(cell: Cell, tmp_path: Path):
    for misdeed in ("endless-line", "endless-reply", "unasked-replies"):
        ran, verdicts = judged(cell, misdeed, tmp_path / misdeed)
        assert verdicts["expect.delivered"].outcome is Outcome.FAIL, "it was a flood"
        assert sum(len(event_json_line(event)) for event in ran.events) < 100_000


def test_a_server_that_never_closes_its_sessions_passes(cell: Cell, tmp_path: Path):
    ran, verdicts = judged(cell, "never-closes", tmp_path / "cell")
    assert ran.problem == ""
    assert worst_in_cell(verdict.outcome for verdict in verdicts.values()) is Outcome.PASS
    assert "link" in {event.by for event in ran.events if isinstance(event, Closed)}, (
        "the harness closed what it left open"
    )


STOPPED = (
    RELAYED.replace("id: relayed", "id: stopped")
    + """\
  - advance: 1m
  - stop: mta1
  - start: mta1
"""
)

PROGRAMS = ("", "ignores-sigterm", *DEEDS)


def describe(directory: Path, misdeed: str) -> str:
    """Write the description of a program with this misdeed; return its file's name."""
    description = {
        "name": misdeed or "good",
        "kind": "exec",
        "claims": ["relay"],
        "listeners": ["frontend"],
        "argv": ["{python}", "-m", "tests.nodes.hostile", "{config}", misdeed],
        "environment": {"PYTHONPATH": str(ROOT)},
        "stop-within": 1 if misdeed == "ignores-sigterm" else 30,
        "log-limit": 65536,
        "directory-limit": 2**23,
    }
    name = f"{misdeed or 'good'}.yaml"
    (directory / name).write_text(json.dumps(description), "utf-8")  # JSON is YAML
    return name


@pytest.mark.long
@pytest.mark.timed
@pytest.mark.integration
def test_misbehaving_programs_affect_neither_each_other_nor_the_machine(tmp_path: Path):
    (tmp_path / "stopped.scenario.yaml").write_text(STOPPED, "utf-8")
    (tmp_path / "tmp").mkdir()
    words = [word for misdeed in PROGRAMS for word in ("--candidate", describe(tmp_path, misdeed))]
    ran = conformance_command(
        "run", "stopped.scenario.yaml", *words, "--cells", str(len(PROGRAMS)), "--clock", "scaled", "--scale", "60",
        "--run-dir", "run", cwd=tmp_path, TMPDIR=str(tmp_path / "tmp"),
    )  # fmt: skip
    cells = {cell.header.candidate: cell for cell in read_run(tmp_path / "run").cells([])}
    outcomes = {name: cell.footer.outcome for name, cell in cells.items() if cell.footer is not None}
    assert outcomes == {
        "good": Outcome.PASS,
        "ignores-sigterm": Outcome.ERROR,
        "forks-and-dies": Outcome.INCONCLUSIVE,  # it died before it acknowledged anything
        "fills-its-disk": Outcome.INCONCLUSIVE,
        "prints-megabytes": Outcome.PASS,
    }, ran.stdout
    assert ran.returncode == (1 if Outcome.FAIL in outcomes.values() else 3), ran.stdout
    said = {name: " ".join(verdict.sentence for verdict in cell.verdicts) for name, cell in cells.items()}
    assert "did not exit within 1 s of SIGTERM" in said["ignores-sigterm"]
    assert "exited unexpectedly: it exited on its own with exit code 7" in said["forks-and-dies"]
    assert "killed: its directory grew beyond 8388608 octets" in said["fills-its-disk"]
    assert "\x1b[2J" not in ran.stdout

    for archive in (tmp_path / "run" / CELLS_FOLDER).rglob("*.zip"):  # of the cells that passed
        ZipFile(archive).extractall(tmp_path / "run" / CELLS_FOLDER / archive.stem)
    nodes = {path.parent: json.loads(path.read_text("utf-8")) for path in (tmp_path / "run").rglob("node.json")}
    counted = [place for place in nodes if place.is_relative_to(tmp_path / "run" / CELLS_FOLDER)]
    assert len(counted) == len(PROGRAMS), "kept nodes of first attempts, which lag invalidated, are not counted"
    (loud,) = [place for place in counted if "prints-megabytes" in str(place)]
    assert 60_000 < (loud / "node.log").stat().st_size < 66_000, "the limit, and the line that says so"
    assert [place for place in nodes if (place / "data").exists()] == []
    assert list((tmp_path / "tmp").iterdir()) == []
    leased = {door["port"] for node in nodes.values() for door in node["listeners"].values()}
    listened = {c.laddr.port for c in psutil.net_connections("tcp") if c.status == psutil.CONN_LISTEN}
    assert not leased & listened
    assert [p.pid for p in psutil.process_iter(["cmdline"]) if str(tmp_path) in " ".join(p.info["cmdline"] or ())] == []
