"""Each hostile peer is judged in bounded time and space, and leaves no process, socket, file or thread."""

import threading
import time
from pathlib import Path

import psutil
import pytest

from conformance import paths
from conformance.candidates.assignment import Assignment
from conformance.candidates.description import Candidate
from conformance.execute import judge
from conformance.judge.incremental import IncrementalJudge
from conformance.results.writer import event_json_line
from conformance.run.cell import CellRunner, RecordedRun
from conformance.run.cell_loop import OWN_LOOP, run_without_loop
from conformance.run.settings import Settings
from conformance.scenarios.loader import read_corpus
from conformance.verdicts import Outcome, Verdict, worst_in_cell
from tests.hostile.peers import PEERS
from tests.nodes.test_hostile import RELAYED, listening

PASSES = frozenset(
    (
        "answers QUIT with a flood",  # it has done its work before
        "refuses EHLO for ever",  # HELO does as well (RFC 5321 4.1.1.1)
        "offers extensions with control characters", "offers SIZE with 400 digits", "answers with NULs within a reply",
        "answers with octets that are no UTF-8",  # nothing depends on the text of these replies
    )
)  # fmt: skip
"""Peers that pass on the message and acknowledge it as they should, whatever else they say."""


def judged(peer: str, folder: Path) -> tuple[RecordedRun, tuple[Verdict, ...]]:
    """Run a cell with a peer in this process, and return its record and the verdicts on it."""
    (folder / "relayed.scenario.yaml").write_text(RELAYED, "utf-8")
    cell = read_corpus([folder / "relayed.scenario.yaml"], paths.fixtures())[0].cells("smoke")[0]
    hostile = Candidate(
        name="hostile", kind="python", claims=("relay",), factory="tests.hostile.peers:create",
        defect=peer.replace(" ", "_"), listeners=("frontend",),
    )  # fmt: skip
    assignment, settings = Assignment(hostile), Settings(clock="virtual")
    ran = run_without_loop(CellRunner(cell, assignment, settings, folder / "cell", IncrementalJudge()).run(OWN_LOOP))
    return ran, judge(cell, assignment, settings, ran.events, complete=ran.complete)


@pytest.fixture(scope="module")
def _warm(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Run a first cell: a process keeps its directory in memory open from its first cell on."""
    judged("refuses EHLO for ever", tmp_path_factory.mktemp("first"))


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.usefixtures("_warm")
def test_a_hostile_peer_is_judged_in_time_and_leaks_nothing(peer: str, tmp_path: Path):
    listened, files, threads = listening(), psutil.Process().num_fds(), threading.active_count()
    began = time.monotonic()
    ran, verdicts = judged(peer, tmp_path)
    assert time.monotonic() - began < 60
    outcome = Outcome.ERROR if ran.problem else worst_in_cell(verdict.outcome for verdict in verdicts)
    starts = not peer.startswith(("greets with HTTP", "greets with SSH", "greets with a TLS", "says nothing at the gr"))
    assert (outcome is Outcome.PASS) == (peer in PASSES)
    if starts and "greeting" not in PEERS[peer].phase:
        assert not ran.problem, ran.problem
        assert "harness.judge" not in {verdict.check for verdict in verdicts if verdict.outcome is Outcome.ERROR}
    assert sum(len(event_json_line(event)) for event in ran.events) < 200_000, "a flood does not fill the history"
    assert psutil.Process().children(recursive=True) == []
    assert listening() <= listened
    assert psutil.Process().num_fds() <= files
    assert threading.active_count() <= threads
