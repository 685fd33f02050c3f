"""A mutant runs in a process of its own; it is killed by a violation or by a node that fails, and not by the harness."""

import pickle
import subprocess
import sys

import pytest

from conformance import paths
from conformance.candidates.description import REFERENCE
from conformance.mutants.operators import Site, find_sites
from conformance.mutants.trial import MutantResult
from conformance.scenarios.document import Cell
from conformance.scenarios.loader import read_corpus

ROOT = paths.reference()


@pytest.fixture(scope="module")
def cells() -> list[Cell]:
    corpus = read_corpus([paths.corpus() / "relay" / "relay.scenario.yaml"], paths.fixtures())
    return [cell for scenario in corpus for cell in scenario.cells("smoke", REFERENCE.own_timers)][:3]


def site(file: str, function: str, operator: str) -> Site:
    return next(
        one
        for one in find_sites((ROOT / file).read_text("utf-8"), file)
        if (one.function, one.operator) == (function, operator)
    )


def result_of(mutant: Site, cells: list[Cell]) -> tuple[MutantResult, str]:
    """Run a mutant in a new process: this one has imported the reference. Return its result, and the problem of its last cell."""
    done = subprocess.run(
        [sys.executable, "-c", RUN], input=pickle.dumps((mutant, cells)), capture_output=True, timeout=120, check=True,
        cwd=ROOT.parents[1],
    )  # fmt: skip
    result, problem = pickle.loads(done.stdout)  # noqa: S301  # of this test's own process
    assert isinstance(result, MutantResult)
    return result, problem


RUN = """
import pickle, sys
from conformance import paths
from conformance.mutants import trial
from conformance.mutants.loading import load_mutant
run_planned, problems = trial.run_planned, []

def run_and_note(*given):
    finished = run_planned(*given)
    problems.append(finished.ran.problem)
    return finished

trial.run_planned = run_and_note
mutant, cells = pickle.load(sys.stdin.buffer)
load_mutant(mutant, paths.reference())
result = trial.run_mutant(trial.MutantTrial(mutant, tuple(range(len(cells)))), cells, 1)
sys.stdout.buffer.write(pickle.dumps((result, problems[-1])))
"""


RUN_BUSY = """
import sys, time
from conformance import paths
from conformance.defects.trial import Trial
from conformance.mutants import trial
from conformance.mutants.operators import find_sites
from conformance.verdicts import Outcome

def run_busy(planned, seed, cpu_limit_s):
    assert cpu_limit_s == 1
    until = time.process_time() + float(sys.argv[1])
    while time.process_time() < until:
        pass
    return Trial(None, "", "", Outcome.PASS, (), "")

trial.CPU_LIMIT_S, trial.run_planned = 1, run_busy
root = paths.reference()
mutant = find_sites((root / "journal.py").read_text("utf-8"), "journal.py")[0]
print(next(trial.run_mutants([trial.MutantTrial(mutant, (0, 0, 0, 0))], [None], root, 1, 1)).outcome)
"""


@pytest.mark.long
@pytest.mark.parametrize(("seconds", "outcome"), [(0.7, "survived"), (30, "broken")])
def test_the_limit_of_processor_time_is_that_of_one_cell(seconds: float, outcome: str):
    done = subprocess.run(
        [sys.executable, "-c", RUN_BUSY, str(seconds)], capture_output=True, timeout=120, check=True,
        text=True, cwd=ROOT.parents[1],
    )  # fmt: skip
    assert done.stdout == f"{outcome}\n"


def test_a_mutant_that_accepts_and_keeps_nothing_is_killed_by_a_requirement(cells: list[Cell]):
    result, _ = result_of(site("queue/delivery.py", "Delivery._queue_attempts", "remove-call"), cells)
    assert (result.outcome, result.requirement) == ("killed", "RL-ACK-01")


@pytest.mark.long
def test_a_mutant_whose_change_no_cell_reaches_survives_all_cells(cells: list[Cell]):
    """It changes what a server does that has a journal, and no server of these cells has one."""
    assert len(cells) == 3
    assert {cell.topology.journal for cell in cells} == {None}
    result, _ = result_of(site("journal.py", "Journaling.send_report_if_due", "remove-call"), cells)
    assert (result.outcome, result.ran) == ("survived", len(cells))


def test_a_mutant_whose_node_never_becomes_ready_is_killed_without_a_requirement(cells: list[Cell]):
    file = "storage/database.py"
    sites = find_sites((ROOT / file).read_text("utf-8"), file)
    (mutant,) = [one for one in sites if one.id == f"{file}:Database._commit_transaction:change-comparison:2"]
    result, problem = result_of(mutant, cells)
    assert (result.outcome, result.check, result.requirement) == ("killed", "node", "")
    assert "these wait:\n  Task-1 in NodeSupervisor.start" in problem


@pytest.mark.long
def test_a_mutant_that_fails_at_a_command_is_killed_without_a_requirement():
    corpus = read_corpus([paths.corpus() / "boundary" / "crossing.scenario.yaml"], paths.fixtures())
    cells = [cell for scenario in corpus for cell in scenario.cells("smoke")]
    inspected = [cell for cell in cells if cell.scenario == "no-shadow-queue-holds-what-has-left"]
    mutant = site("routing/bifurcation.py", "Routing.next_hop_name_in_boundary", "negate-condition")
    result, problem = result_of(mutant, inspected[:1])
    assert (result.outcome, result.check, result.requirement) == ("killed", "node", "")
    assert problem.startswith("mbx2: inspect: AttributeError: ")


def test_a_mutant_whose_node_does_not_start_is_killed_without_a_requirement(cells: list[Cell]):
    result, problem = result_of(site("shadow/discard.py", "DiscardStatus.__init__", "remove-call"), cells)
    assert (result.outcome, result.check, result.requirement) == ("killed", "node", "")
    assert problem.startswith("mta1: start: AttributeError: ")


def test_a_mutant_that_cannot_be_imported_is_killed_without_a_requirement(cells: list[Cell]):
    mutant = site("config.py", "Transport._local_only_tries_no_remote_site", "negate-condition")
    result, problem = result_of(mutant, cells)
    assert (result.outcome, result.check, result.requirement) == ("killed", "node", "")
    assert problem.startswith("conformance.reference.node:create: import: ValidationError: ")
