"""The judge on recorded cells: the reference passes, and defects and altered histories fail with the right requirement."""

from pathlib import Path

from conformance import paths
from conformance.candidates.assignment import read_assignment
from conformance.history.events import AnyEvent, Delivered
from conformance.judge.cell import JudgeSettings, judge_cell
from conformance.judge.incremental import IncrementalJudge
from conformance.run.cell import CellRunner
from conformance.run.cell_loop import OWN_LOOP, run_without_loop
from conformance.run.settings import Settings
from conformance.scenarios.document import Cell
from conformance.scenarios.loader import read_scenarios
from conformance.trace.trace import Trace
from conformance.verdicts import Outcome, Verdict

SETTING = JudgeSettings("virtual", 0.0, frozenset({"relay", "shadow-2013", "duplicate-detection"}), complete=True)


def cell(name: str) -> Cell:
    files = (
        paths.corpus() / folder for folder in ("creation/inbound.scenario.yaml", "found/random-plans.scenario.yaml")
    )
    found = (scenario for file in files for scenario in read_scenarios(file, paths.fixtures()))
    return next(cell for scenario in found for cell in scenario.cells() if cell.id.startswith(name))


def history(name: str, candidate: str, directory: Path) -> tuple[AnyEvent, ...]:
    assignment = read_assignment(candidate, paths.fixtures() / "candidates")
    ran = run_without_loop(CellRunner(cell(name), assignment, Settings(), directory, IncrementalJudge()).run(OWN_LOOP))
    assert ran.problem == ""
    return ran.events


def failed(name: str, events: tuple[AnyEvent, ...]) -> list[Verdict]:
    return [verdict for verdict in judge_cell(cell(name), events, SETTING) if verdict.outcome is Outcome.FAIL]


def test_every_check_that_passes_in_an_inbound_cell_of_the_reference_had_an_occasion(tmp_path: Path):
    name = "inbound-acknowledgement-waits-for-the-shadow"
    verdicts = judge_cell(cell(name), history(name, "reference", tmp_path), SETTING)
    assert {v.outcome for v in verdicts} == {Outcome.PASS, Outcome.NOT_APPLICABLE}
    passed = {v.check for v in verdicts if v.outcome is Outcome.PASS}
    assert {"expect.shadow", "invariant.two-copies-at-acknowledgement"} <= passed
    assert all(v.occasions for v in verdicts if v.outcome is Outcome.PASS)


def test_an_acknowledgement_before_the_shadow_is_blamed_on_its_requirement(tmp_path: Path):
    name = "inbound-acknowledgement-waits-for-the-shadow"
    found = failed(name, history(name, "reference+acknowledges-before-shadow", tmp_path))
    caught = {v.check: v for v in found}
    assert {"expect.shadow", "invariant.two-copies-at-acknowledgement"} <= caught.keys()
    assert caught["expect.shadow"].requirements[0] == "SR-CRE-01"
    verdict = caught["invariant.two-copies-at-acknowledgement"]
    assert verdict.requirements[0] == "SR-CRE-01"
    assert verdict.evidence
    assert "mbx1 acknowledged it to outside with 250" in verdict.sentence


def test_what_a_server_is_given_after_it_has_sent_does_not_excuse_what_it_sent(tmp_path: Path):
    name = "two-copies-cross-each-other"
    events = history(name, "reference+shadow-alters-an-octet", tmp_path)
    (wrong,) = [v for v in failed(name, events) if v.check == "invariant.content-unchanged"]
    transactions = Trace(events).transactions
    (sent,) = [one for one in transactions if one.dot_n == wrong.evidence[0]]
    assert f"{sent.client} sent the shadow to {sent.server} with other content" in wrong.sentence
    after = [one for one in transactions if one.server == sent.client and (one.dot_n or 0) > wrong.evidence[0]]
    same = [one.digest and sent.digest and one.digest.stable_sha256 == sent.digest.stable_sha256 for one in after]
    assert same == [True], "it was given just what it had sent"


def test_a_history_without_a_delivery_is_a_loss(tmp_path: Path):
    name = "inbound-acknowledged-after-shadow"
    events = history(name, "reference", tmp_path)
    assert failed(name, events) == []
    without = tuple(event for event in events if not isinstance(event, Delivered))
    checks = {verdict.check for verdict in failed(name, without)}
    assert {"invariant.nothing-acknowledged-is-lost", "expect.mailbox"} <= checks


def test_a_shadow_outside_the_boundary_is_caught(tmp_path: Path):
    name = "inbound-acknowledged-after-shadow"
    one, events = cell(name), history(name, "reference", tmp_path)
    check = "invariant.shadow-inside-boundary"
    assert [v.outcome for v in judge_cell(one, events, SETTING) if v.check == check] == [Outcome.PASS]
    servers = tuple(s.model_copy(update={"dag": f"DAG-{s.name}"}) for s in one.topology.servers)
    split = one.model_copy(update={"topology": one.topology.model_copy(update={"servers": servers})})
    assert [v.outcome for v in judge_cell(split, events, SETTING) if v.check == check] == [Outcome.FAIL]
