"""Each report of `threads.yaml` is reproduced: its miniature breaks the row in its cell, in which the correct relay passes."""

import importlib
from pathlib import Path

import pytest

from conformance import paths
from conformance.candidates.assignment import Assignment
from conformance.candidates.description import Candidate
from conformance.candidates.lookup import reference_defects
from conformance.execute import judge
from conformance.judge.incremental import IncrementalJudge
from conformance.requirements.catalogue import catalogue
from conformance.requirements.threads import Thread, page, threads
from conformance.run.cell import CellRunner
from conformance.run.cell_loop import OWN_LOOP, run_without_loop
from conformance.run.settings import Settings
from conformance.scenarios.document import Cell
from conformance.scenarios.loader import read_corpus
from conformance.suite.baseline import read_baselines
from conformance.verdicts import Outcome, Verdict
from tests.docs.pages import ROOT
from tests.run.spooling import LOSES, REFUSES_FOR_GOOD

CELLS = {
    cell.id: cell
    for scenario in read_corpus(
        [
            paths.corpus() / "relay",
            *(paths.corpus() / "faults" / f"{name}.scenario.yaml" for name in ("disks", "relay")),
        ],
        paths.fixtures(),
    )
    for cell in scenario.cells("full", None)
}
CORRECT = {
    "tests.relays.threads": "tests.relays.relay:Relay",
    "tests.relays.extension_threads": "tests.relays.extended:ExtendedRelay",
    "tests.relays.security_threads": "tests.relays.secured:SecuredRelay",
}
"""The modules of miniatures, each with the correct relay from which they differ."""

SPOOLING = "spooling: "
SPOOLED = {
    **dict.fromkeys(LOSES, ("RL-ACK-01", "acknowledged-means-synced[messages=1]")),
    **dict.fromkeys(REFUSES_FOR_GOOD, ("RL-ACK-06", "no-room-at-a-write-is-refused-for-now[at-write=1]")),
}
"""The row that `tests/run/test_power_cut_mutants.py` sees broken by each of these servers, and the cell."""

SHOWN = sorted({(m, one.cell, one.row) for one in threads() if (m := one.miniature) and not m.startswith(SPOOLING)})


def relays(miniature: str) -> tuple[str, str]:
    """Return the factories of a miniature and of the correct relay from which it differs."""
    for module, correct in CORRECT.items():
        if hasattr(importlib.import_module(module), miniature):
            return f"{module}:{miniature}", correct
    raise LookupError(miniature)


def verdicts(cell: Cell, factory: str, directory: Path) -> tuple[Verdict, ...]:
    """Run a cell in virtual time with a relay of this package; return its verdicts."""
    is_plain = factory.startswith(("tests.relays.threads:", "tests.relays.relay:"))
    claims = ("relay", "lmtp-delivery", *(() if is_plain else ("dsn",)))
    candidate = Candidate(name="mini", kind="python", factory=factory, claims=claims, listeners=("frontend",))
    assignment, settings = Assignment(candidate), Settings(clock="virtual", should="fail")
    ran = run_without_loop(CellRunner(cell, assignment, settings, directory, IncrementalJudge()).run(OWN_LOOP))
    assert (ran.problem, ran.wrong_state) == ("", "")
    return judge(cell, assignment, settings, ran.events, complete=True)


@pytest.mark.parametrize(("correct", "cell"), sorted({(relays(miniature)[1], cell) for miniature, cell, _ in SHOWN}))
def test_the_correct_relay_passes(correct: str, cell: str, tmp_path: Path) -> None:
    found = verdicts(CELLS[cell], correct, tmp_path)
    rows = {row for miniature, one, row in SHOWN if (relays(miniature)[1], one) == (correct, cell)}
    assert rows <= {row for v in found if v.outcome is Outcome.PASS for row in v.requirements}
    assert [v.sentence for v in found if v.outcome not in (Outcome.PASS, Outcome.NOT_APPLICABLE)] == []


@pytest.mark.parametrize(("miniature", "cell", "row"), SHOWN)
def test_a_miniature_breaks_its_row(miniature: str, cell: str, row: str, tmp_path: Path) -> None:
    found = verdicts(CELLS[cell], relays(miniature)[0], tmp_path)
    assert row in {v.requirements[0] for v in found if v.outcome is Outcome.FAIL}


def test_every_row_about_relays_is_broken_by_a_miniature_or_by_a_real_server() -> None:
    rows = {row.id for row in catalogue().requirements if row.id.startswith("RL-")}
    baselines = read_baselines([str(ROOT / "fixtures" / "baselines")]).values()
    known = {failure.requirement for baseline in baselines for failure in baseline.known}
    assert rows
    assert rows - {one.row for one in threads() if one.miniature} - known == set()


@pytest.mark.parametrize("one", threads(), ids=lambda one: one.thread)
def test_a_thread_names_a_row_of_its_cell_and_no_defect_of_another_row(one: Thread) -> None:
    assert one.row in catalogue().ids
    assert one.row in CELLS[one.cell].requirements
    if one.miniature is not None and one.miniature.startswith(SPOOLING):
        assert SPOOLED[one.miniature.removeprefix(SPOOLING)] == (one.row, one.cell)
    assert one.defect is None or reference_defects()[one.defect].breaks == one.row


def test_no_thread_is_listed_twice() -> None:
    assert len({one.thread.casefold() for one in threads()}) == len(threads()) > 1


def test_the_page_of_threads_is_up_to_date() -> None:
    written = (ROOT / "docs" / "reproduces.md").read_text("utf-8")
    assert written == page(threads(), catalogue()), (
        "write it anew: python -m conformance.requirements.threads docs/reproduces.md"
    )
