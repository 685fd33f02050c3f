"""Trials that run cells: the unbroken reference passes where a broken one is caught, in every process of the pool."""

import itertools
import signal
import subprocess
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from conformance import forked_process, paths, shortage
from conformance.defects import trial
from conformance.defects.plan import PlannedTrial, active_defects, plan_trials
from conformance.defects.trial import run_trials
from conformance.requirements.catalogue import catalogue
from conformance.scenarios.document import Cell
from conformance.scenarios.loader import read_scenarios
from conformance.verdicts import Outcome
from tests.suite.helpers import command, environment

DEFECT = "acknowledges-before-shadow"


@pytest.fixture(scope="module")
def cells() -> list[Cell]:
    found = read_scenarios(paths.corpus() / "creation" / "inbound.scenario.yaml", paths.fixtures())
    return [cell for scenario in found for cell in scenario.cells("smoke")][:4]


def test_a_defect_is_caught_where_the_unbroken_reference_passes(cells: list[Cell]):
    defects = [defect for defect in active_defects() if defect.name == DEFECT]
    planned = plan_trials(defects, cells)
    trials = list(run_trials(planned, seed=1, jobs=2))
    assert [(one.defect, one.cell) for one in trials] == [(one.defect, one.cell.id) for one in planned]
    sound = {one.cell: one.outcome for one in trials if one.defect is None}
    broken = [one for one in trials if one.defect == DEFECT]
    assert broken
    assert {(one.outcome, sound[one.cell]) for one in broken} == {(Outcome.FAIL, Outcome.PASS)}
    assert set(sound.values()) == {Outcome.PASS}
    assert all("SR-CRE-01" in {blame.requirement for blame in one.blames} for one in broken)


@pytest.mark.parametrize(
    ("file", "scenario", "defect", "row"),
    [
        ("maintenance/promotion", "a-frozen-primary-holds-nothing-up", "holds-promoted-mail-until-its-shadow-is-made", "SR-OUT-05"),
        ("relay/sizes", "sizes-at-the-limit", "refuses-at-the-size-limit", "RL-CNT-02"),
        ("relay/sizes", "sizes-at-the-limit", "takes-an-octet-too-many", "RL-CNT-02"),
        ("relay/sizes", "sizes-at-the-limit-between-servers", "trace-fields-count", "RL-ACK-04"),
        ("timeouts/sessions", "idle-limit-as-configured", "ends-an-idle-session-late", "SR-TMO-06"),
    ],
)  # fmt: skip
def test_a_former_error_of_the_reference_is_caught_and_the_reference_passes(
    file: str, scenario: str, defect: str, row: str
):
    found = read_scenarios(paths.corpus() / f"{file}.scenario.yaml", paths.fixtures())
    cells = next(one for one in found if one.id == scenario).cells("smoke")
    (broken,) = [one for one in active_defects() if one.name == defect]
    trials = [trial.run_trial(one, seed=1) for one in plan_trials([broken], cells)]
    assert {one.outcome for one in trials if one.defect is None} == {Outcome.PASS}
    blamed = {one.blames[0].requirement for one in trials if one.defect == defect and one.blames}
    assert blamed == {row}


def test_a_trial_of_a_defect_that_breaks_a_should_row_fails():
    (broken,) = [one for one in active_defects() if one.name == "takes-local-only-with-remote-attempts"]
    assert catalogue()[broken.breaks].level == "should"
    found = read_scenarios(paths.corpus() / "configuration" / "refusals.scenario.yaml", paths.fixtures())
    cells = next(one for one in found if one.id == "local-only-with-remote-attempts").cells("smoke")
    (wrong,) = [one for one in cells if one.axes["remote-attempts"] == "1"]
    ended = trial.run_trial(PlannedTrial(broken.name, wrong), seed=1)
    assert (ended.outcome, ended.blames[0].requirement) == (Outcome.FAIL, broken.breaks)


@pytest.mark.long
def test_trials_have_the_same_results_with_one_process_and_with_two(cells: list[Cell]):
    defects = [defect for defect in active_defects() if defect.name == DEFECT]
    planned = plan_trials(defects, cells)
    assert len(planned) > 4, "a process gets four at a time"
    assert list(run_trials(planned, seed=1, jobs=1)) == list(run_trials(planned, seed=1, jobs=2))


def test_an_out_of_memory_kill_elsewhere_does_not_excuse_a_defect_as_another_shortage_does(
    cells: list[Cell], monkeypatch: pytest.MonkeyPatch
):
    defects = [defect for defect in active_defects() if defect.name == DEFECT]
    (broken, *_) = [one for one in plan_trials(defects, cells) if one.defect == DEFECT]
    for counter, outcome in (("vmstat", Outcome.FAIL), ("pids.events", Outcome.INCONCLUSIVE)):
        grown = itertools.count()
        monkeypatch.setattr(
            shortage, "_count", lambda path, name=counter, grown=grown: next(grown) if path.name == name else 0
        )
        assert trial.run_trial(broken, seed=1).outcome is outcome, counter
        assert next(grown) > 1


@pytest.mark.parametrize("clean_up", ["raises another", "raises nothing", "raises the same"])
def test_a_trial_over_its_cpu_limit_is_an_error_whatever_its_clean_up_raises(
    clean_up: str, cells: list[Cell], monkeypatch: pytest.MonkeyPatch
):
    async def busy(*_: object) -> None:
        try:
            while True:
                pass
        except trial.CpuLimitExceeded:
            if clean_up == "raises another":
                raise KeyError(39) from None
            if clean_up == "raises the same":
                raise

    monkeypatch.setattr(trial, "CPU_LIMIT_S", 0.1)
    monkeypatch.setattr(trial.CellRunner, "run", busy)
    ended = trial.run_trial(plan_trials(active_defects()[:1], cells[:1])[0], seed=1)
    assert ended.outcome is Outcome.ERROR
    assert ended.sentence.startswith("broken off after 0.1 s")
    assert ended.blames == ()


@pytest.mark.long
@pytest.mark.integration
def test_worker_processes_end_when_the_command_is_killed(tmp_path: Path):
    jobs = 2
    with subprocess.Popen(command("defects", "--jobs", str(jobs)), cwd=tmp_path, env=environment()) as table:
        parent = psutil.Process(table.pid)
        workers: list[psutil.Process] = []
        # until they run trials: one that has only begun would notice by itself that its parent is gone
        while table.poll() is None and sum(one.cpu_times().user > 0.1 for one in workers) < jobs:
            workers = parent.children()
            time.sleep(0.01)
        table.kill()
    assert len(workers) == jobs
    _, alive = psutil.wait_procs(workers, timeout=60)
    assert alive == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_is_handled_after_all_trials_have_been_submitted(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
):
    submitted: list[bool] = []

    class Interrupted(ProcessPoolExecutor):
        def submit(self, *arguments: Any, **options: Any) -> Any:
            signal.raise_signal(number)
            submitted.append(True)
            return super().submit(*arguments, **options)

    monkeypatch.setattr(forked_process, "ProcessPoolExecutor", Interrupted)
    before = signal.signal(number, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            list(run_trials([None] * 9, seed=1, jobs=1))  # type: ignore[list-item]  # none of them can be run
        assert len(submitted) == 3, "they are submitted four at a time"
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, before)
