"""Exploration: which plans a sweep makes, what they find in a wrong server, and the file that is left."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conformance import paths
from conformance.candidates.assignment import Assignment
from conformance.candidates.description import REFERENCE
from conformance.commands.corpus import print_problems
from conformance.commands.explore import _first_cells, explore
from conformance.explore import campaign
from conformance.explore.campaign import Campaign
from conformance.explore.documents import read_cell
from conformance.explore.injections import NODE_KINDS, Injection, injections_at
from conformance.explore.points import find_points, representatives
from conformance.explore.sweep import ObservedCell, Plan, sweep, without_faults
from conformance.explore.trial import PlanResult, Violation, run_plan
from conformance.run.applicability import inapplicable_reason
from conformance.run.settings import Settings
from conformance.scenarios.document import Cell
from conformance.scenarios.loader import read_corpus
from conformance.scenarios.steps.breaking import Fault
from conformance.scenarios.steps.nodes import Kill
from conformance.scenarios.steps.sending import Send
from conformance.suite.selection import SelectionError

SCENARIO = "alone-in-its-boundary"
SETTINGS = Settings(clock="virtual", seed=1, should="fail")


def cell_of(name: str) -> Cell:
    (scenario,) = [one for one in read_corpus([paths.corpus()], paths.fixtures()) if one.id == name]
    return scenario.cells()[0]


def exploration(out: Path, capsys: pytest.CaptureFixture[str], **options: Any) -> tuple[int, dict[str, Any]]:
    usual: dict[str, Any] = {
        "candidate": "reference", "plans": None, "duration": None, "seed": 1, "jobs": 1, "as_json": True,
    }  # fmt: skip
    code = explore([SCENARIO], out=out, **usual | options)
    return code, json.loads(capsys.readouterr().out)


def test_a_sweep_tries_each_fault_at_each_point_and_says_what_it_leaves_out() -> None:
    cell = without_faults(cell_of(SCENARIO))
    run = run_plan(Plan("base", cell), Assignment(REFERENCE), SETTINGS)
    observed = ObservedCell.from_run(cell, run.events)
    made = sweep(observed, lambda plan, fault: inapplicable_reason(plan.cell, Assignment(REFERENCE), SETTINGS))
    servers = frozenset(cell.topology.by_name)
    assert made.enumerated == sum(len(list(injections_at(point, servers))) for _, point in observed.points)
    tried = [injection for _, injection in made.plans.entries]
    enumerated = [one for point in representatives(observed.points) for one in injections_at(point, servers)]
    assert tried == [
        one
        for one, reason in enumerated
        if not reason
        and (not one.node or (one.kind != "without power" and one.point.n >= observed.last_use_of(one.node)))
    ]
    of_nodes = [kind for kind in NODE_KINDS if kind != "without power"]
    assert {(one.node, one.kind) for one in tried if one.node} == {
        (node, kind) for node in servers for kind in of_nodes
    }
    places = {injection.point.place for injection in tried}
    assert {"connect", "greeting", "EHLO", "LHLO", "MAIL", "RCPT", "DATA", "body", "dot", "QUIT"} <= places
    kinds = {step.action.does for plan in made.plans for step in plan.cell.steps if isinstance(step.action, Fault)}
    assert {"drop", "reset", "stall", "refuse", "replace", "answer", "cut"} == kinds
    assert any(isinstance(step.action, Kill) for plan in made.plans for step in plan.cell.steps)
    assert len({plan.name for plan in made.plans}) == len(made.plans)
    assert made.pruned["reset before the unit passes: as drop"] > 0
    (no_disk,) = [reason for reason in made.pruned if "a disk of its own" in reason]  # power cuts
    killed = [one for one in tried if one.kind == "killed"]
    assert made.pruned[no_disk] == len(killed) > 0


@pytest.mark.long
def test_each_fault_at_each_point_is_a_plan_or_left_out_for_a_reason() -> None:
    cell = without_faults(cell_of("each-message-once"))
    (send,) = [step for step in cell.steps if isinstance(step.action, Send)]
    many = send.model_copy(update={"action": send.action.model_copy(update={"count": 6})})
    run = run_plan(Plan("base", cell.model_copy(update={"steps": (many,)})), Assignment(REFERENCE), SETTINGS)
    points = find_points(run.events, cell.topology)
    made = sweep(ObservedCell(cell, points))
    servers = frozenset(cell.topology.by_name)
    assert made.enumerated == sum(len(list(injections_at(point, servers))) for _, point in points)
    alike = set(points) - {(name, point) for name, point in points if point in set(representatives(points))}
    assert len(alike) > 0
    left_out = made.pruned["another point of the same class is tried"]
    assert left_out == sum(len(list(injections_at(point, servers))) for _, point in alike)


def test_of_a_class_the_first_two_and_the_last_point_are_tried() -> None:
    cell = without_faults(cell_of("each-message-once"))
    (send,) = [step for step in cell.steps if isinstance(step.action, Send)]
    many = send.model_copy(update={"action": send.action.model_copy(update={"count": 6})})
    run = run_plan(Plan("base", cell.model_copy(update={"steps": (many,)})), Assignment(REFERENCE), SETTINGS)
    points = find_points(run.events, cell.topology)
    tried = [injection.point for _, injection in sweep(ObservedCell(cell, points)).plans.entries]
    assert {one.nth for one in tried if (one.client, one.place) == ("outside", "dot")} == {1, 2, 6}


@pytest.mark.long
def test_the_reference_withstands_sixty_drawn_faults_of_a_short_scenario(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = exploration(tmp_path, capsys, plans=60)
    assert (code, found["findings"]) == (0, [])
    assert found["outcomes"] == {"sound": 60}
    assert found["fired"] == 60


@pytest.mark.long
def test_a_wrong_server_is_found_and_the_file_of_the_finding_repeats_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = exploration(tmp_path, capsys, plans=80, candidate="reference+forgets-its-queue-on-restart")
    assert code == 1
    lost = next(
        one for one in found["findings"] if one["requirement"] in ("RL-ACK-01", "RL-RTY-01")
    )  # it is lost, and not tried
    path, original = tmp_path / lost["file"], tmp_path / lost["original"]
    assert print_problems([tmp_path]) == 0
    assert lost["plan"] in original.read_text("utf-8")
    assert lost["size"] == {"steps": 2, "faults": 1, "messages": 1, "servers": 1}
    assert lost["original_size"]["steps"] == len(read_cell(original, paths.fixtures()).steps) > 2
    assert path.read_text("utf-8").startswith("# Found by: conformance explore, with --seed 1")
    cell = read_cell(path, paths.fixtures())
    assert len(cell.steps) <= 3
    wrong = Assignment(REFERENCE.model_copy(update={"defect": "forgets-its-queue-on-restart"}))
    assert lost["check"] in {one.check for one in run_plan(Plan("again", cell), wrong, SETTINGS).result.violations}
    assert run_plan(Plan("sound", cell), Assignment(REFERENCE), SETTINGS).result.outcome == "sound"


def test_an_interrupted_reduction_keeps_every_finding_as_it_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan("plan", cell_of(SCENARIO))
    violations = [Violation(check=check, requirement="RL-ACK-01", sentence="lost") for check in ("a", "b")]
    found = Campaign(
        {n: PlanResult(name="plan", outcome="violated", violations=(one,)) for n, one in enumerate(violations)}
    )
    tries, printed = 0, list[str]()

    def interrupted(plan: Plan, fails: Callable[[Plan], bool], max_runs: int) -> Plan:
        nonlocal tries
        tries += 1
        raise KeyboardInterrupt

    monkeypatch.setattr(campaign, "shrink", interrupted)
    findings = campaign.reduce_findings(found, [plan, plan], Assignment(REFERENCE), SETTINGS, printed.append)
    assert [(finding.violation, finding.reduced) for finding in findings] == [(one, plan) for one in violations]
    assert (tries, printed[-1]) == (1, "interrupted: the rest is kept as it was found")


def test_an_interruption_while_a_plan_is_drawn_again_keeps_the_findings_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = Plan("plan", cell_of(SCENARIO))
    violations = [Violation(check=check, requirement="RL-ACK-01", sentence="lost") for check in ("a", "b", "c")]
    found = Campaign(
        {n: PlanResult(name="plan", outcome="violated", violations=(one,)) for n, one in enumerate(violations)}
    )
    drawn: list[int] = []

    class Drawn(list[Plan]):
        """Plans of which the second is interrupted as it is drawn."""

        def __getitem__(self, number: Any) -> Any:
            drawn.append(number)
            if number == 1:
                raise KeyboardInterrupt
            return plan

    printed = list[str]()
    monkeypatch.setattr(campaign, "shrink", lambda plan, fails, max_runs: plan)
    findings = campaign.reduce_findings(found, Drawn([plan] * 3), Assignment(REFERENCE), SETTINGS, printed.append)
    assert [finding.violation for finding in findings] == violations[:1]
    assert drawn == [0, 1]
    assert printed[-1].startswith("interrupted: the rest is left out")


@pytest.mark.long
def test_the_summary_does_not_depend_on_the_number_of_processes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = (exploration(tmp_path / str(jobs), capsys, plans=12, jobs=jobs) for jobs in (1, 2))
    assert one == two
    assert json.loads((tmp_path / "1" / "exploration.json").read_text("utf-8")) == one[1]


def test_an_unknown_scenario_is_an_input_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for names in (["no-such"], [SCENARIO, "no-such"]):
        code = explore(names, candidate="reference", plans=1, duration=None, seed=1, jobs=1, out=tmp_path, as_json=True)
        assert code == 2
        assert capsys.readouterr().err.startswith("no-such: no scenario 'no-such'")
        assert list(tmp_path.iterdir()) == []


def test_a_name_with_values_of_axes_chooses_the_first_cell_that_has_them() -> None:
    (first,) = _first_cells([SCENARIO])
    (second,) = _first_cells([f"{SCENARIO}[reject=no]"])
    assert [cell.axes["reject"] for cell in (first, second)] == ["default", "no"]
    assert _first_cells([f"{SCENARIO}[reject=no,via=submission]", SCENARIO]) == [first]
    with pytest.raises(SelectionError, match=rf"^{SCENARIO}\[reject=x\]: no value of the axis 'reject': 'x'"):
        _first_cells([f"{SCENARIO}[reject=x]"])


@pytest.mark.long
def test_points_of_two_listeners_have_plans_of_their_own() -> None:
    cell = without_faults(cell_of("resubmitted-to-the-new-active-copy"))
    run = run_plan(Plan("base", cell), Assignment(REFERENCE), SETTINGS)
    observed = ObservedCell.from_run(cell, run.events)
    (first,) = [p for _, p in observed.points if p.text == "mbx1>mbx2.delivery dot 1"]
    assert first.nth_of_any > 1  # a moment counts those of `transport` too
    killed = Injection(first, "killed", "mbx2").arm("")
    assert isinstance(killed, Kill)
    assert killed.at is not None
    assert killed.at.nth == first.nth_of_any
    names = [plan.name for plan in sweep(observed).plans]
    assert len(set(names)) == len(names)
    for link in ("mbx1>mbx2", "mbx1>mbx2.delivery"):
        assert f"{cell.id}: {link} dot 1 before drop" in names
