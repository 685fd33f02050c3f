"""`conformance candidate new` and `check`: a description to begin with, and whether one holds what it says."""

import asyncio
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import typer

from conformance import candidates, paths
from conformance.candidates.assignment import Assignment, check_hosts
from conformance.candidates.cell_needs import with_probed_generations
from conformance.candidates.description import Candidate, CandidateError
from conformance.candidates.lookup import find_candidate, installable_candidates
from conformance.candidates.placeholders import unknown_placeholders
from conformance.clocks import default_clock, default_scale
from conformance.execute import judge, worst_sentence
from conformance.judge.incremental import IncrementalJudge
from conformance.nodes.contract import NodeError
from conformance.nodes.kinds import node_class
from conformance.run.applicability import inapplicable_reason
from conformance.run.cell import CellRunner, RecordedRun
from conformance.run.cell_loop import OWN_LOOP, SHARED_LOOP, CellLoop, run_without_loop
from conformance.run.settings import Settings
from conformance.scenarios.document import Cell
from conformance.scenarios.errors import unknown_name
from conformance.scenarios.loader import read_corpus
from conformance.suite.job_pool import JobPool
from conformance.verdicts import Outcome, worst_in_cell

PROBE = "probe-"
"""How the ids of fixtures/probes begin; the claim that each tries follows."""


State = Literal["ok", "missing", "not judged", "told"]
"""`not judged`: it was tried, and nothing can be said of it; `told`: it is no question, or nobody asked."""

_MARKS: dict[State, str] = {"ok": "ok", "missing": "MISSING", "not judged": "NOT JUDGED", "told": "-"}


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one question, and what there is to say."""

    what: str
    state: State
    words: str


def print_new() -> int:
    """Print a commented description."""
    typer.echo((Path(candidates.__file__).parent / "new.yaml").read_text("utf-8"), nl=False)
    return 0


def install(names: Sequence[str]) -> int:
    """Install mail servers that the harness describes, all of them or those named.

    Returns 2 for a name of none, 3 when one could not be installed.
    """
    shipped = paths.fixtures() / "candidates"
    known = [candidate.name for candidate in installable_candidates(shipped)]
    if wrong := [name for name in names if name not in known]:
        typer.echo(f"candidate install {wrong[0]}: {unknown_name('server', wrong[0], known)}", err=True)
        return 2
    if (bash := shutil.which("bash")) is None:
        typer.echo("candidate install: bash is missing", err=True)
        return 3
    ran = subprocess.run([bash, str(shipped / "install"), *names], check=False)  # noqa: S603  # our own script
    return 3 if ran.returncode else 0


def print_check(word: str, hosts: Sequence[str]) -> int:
    """Start a candidate, try every claim of it, and say what is missing.

    Returns 1 when anything is missing, 2 for a bad description, 3 when some claim could not be judged.
    """
    try:
        candidate = find_candidate(word, paths.fixtures() / "candidates")
        check_hosts([candidate], hosts)
    except CandidateError as error:
        typer.echo(str(error), err=True)
        return 2
    if unknown := list(unknown_placeholders(candidate)):
        typer.echo("\n".join(f"{word}: {problem}" for problem in unknown), err=True)
        return 2
    states: set[State] = set()
    for answer in check(candidate):
        typer.echo(f"{_MARKS[answer.state]:10} {answer.what}" + (f": {answer.words}" if answer.words else ""))
        states.add(answer.state)
    if "missing" in states:
        return 1
    return 3 if "not judged" in states else 0


def check(candidate: Candidate) -> Iterator[Answer]:
    """Ask a candidate everything that can be asked in a minute; what cannot be started is asked nothing more."""
    if missing := candidate.check_availability().missing:
        yield Answer("is there", "missing", missing)
        return
    try:
        yield Answer("version", "told", asyncio.run(node_class(candidate.kind).version(candidate)))
    except NodeError as error:
        yield Answer("version", "missing", f"the command 'version' failed: {error.reason}")
    probes = _probes()
    trials = [_Trial(candidate, claim, cell) for claim, cell in probes.items() if claim in candidate.claims]
    if trials and trials[0].claim == "relay":  # who does not even relay is asked nothing more
        answer = run_without_loop(trials.pop(0).answer(OWN_LOOP))
        yield answer
        if answer.state == "missing":
            return
    yield from _answers(trials, candidate.kind_definition.parallel_claims)
    for claim in probes:
        if claim not in candidate.claims:
            yield Answer(f"claim {claim}", "told", "not claimed: what needs it is not applicable")


def _probes() -> dict[str, Cell]:
    """Return the scenario that tries each claim, `relay` first."""
    scenarios = read_corpus([paths.fixtures() / "probes"], paths.fixtures())
    return {scenario.id.removeprefix(PROBE): scenario.cells("smoke")[0] for scenario in scenarios}


class _Trial:
    """One claim of a candidate, and the cell that tries it."""

    def __init__(self, candidate: Candidate, claim: str, cell: Cell) -> None:
        self.claim = claim
        clock = default_clock([candidate.features])
        self._settings = Settings(clock=clock, scale=default_scale(clock))
        self._assignment = Assignment(candidate)
        self._cell = with_probed_generations(cell, candidate, claim)

    async def answer(self, cell_loop: CellLoop) -> Answer:
        """Try it, alone or beside others."""
        if (refused := self._refused()) is not None:
            return refused
        with tempfile.TemporaryDirectory(prefix="conformance-check-") as directory:
            run = CellRunner(self._cell, self._assignment, self._settings, Path(directory), IncrementalJudge())
            ran = await run.run(cell_loop)
            return await cell_loop.call(self._judged, ran)

    def _refused(self) -> Answer | None:
        """Return why it cannot be tried, or None when it can."""
        if reason := inapplicable_reason(self._cell, self._assignment, self._settings):
            return Answer(f"claim {self.claim}", "not judged", f"it cannot be tried: {reason}")
        return None

    def _judged(self, ran: RecordedRun) -> Answer:
        verdicts = judge(self._cell, self._assignment, self._settings, ran.events, complete=ran.complete)
        outcome = Outcome.ERROR if ran.problem else worst_in_cell(verdict.outcome for verdict in verdicts)
        states: dict[Outcome, State] = {Outcome.PASS: "ok", Outcome.INCONCLUSIVE: "not judged"}
        return Answer(f"claim {self.claim}", states.get(outcome, "missing"), ran.problem or worst_sentence(verdicts))


def _answers(trials: Sequence[_Trial], most: int) -> Iterator[Answer]:
    """Try claims in their order, up to `most` at a time."""
    if most == 1:
        yield from (run_without_loop(trial.answer(OWN_LOOP)) for trial in trials)
        return
    with closing(
        JobPool([(trial.claim, partial(trial.answer, SHARED_LOOP)) for trial in trials], most, chunks=False)
    ) as flight:
        yield from (flight.result(trial.claim) for trial in trials)
