"""`conformance candidate new`, `install` and `check`: a description to start from, and whether a server does what it claims.

Each claim is tried by running one cell, whose scenario is in fixtures/probes. A candidate that does not even relay is not tried
any further.
"""

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

_PROBE_PREFIX = "probe-"
"""The id of a probe's scenario is this and the claim that it tries."""

CheckState = Literal["ok", "missing", "not judged", "information"]
"""`not judged`: the trial gave no answer; `information`: nothing was tried."""

_MARKS: dict[CheckState, str] = {"ok": "ok", "missing": "MISSING", "not judged": "NOT JUDGED", "information": "-"}


@dataclass(frozen=True, slots=True)
class CheckLine:
    """One line that `candidate check` prints: what was checked, how it ended, and an explanation or ""."""

    subject: str
    state: CheckState
    detail: str


def print_new() -> int:
    """Print a commented description to start from, and return 0."""
    typer.echo((Path(candidates.__file__).parent / "new.yaml").read_text("utf-8"), nl=False)
    return 0


def install(names: Sequence[str]) -> int:
    """Install the named mail servers of fixtures/candidates, all without names. Downloads them, and can take minutes.

    Returns 2 for an unknown name, 3 when a server could not be installed or bash is missing, else 0.
    """
    shipped = paths.fixtures() / "candidates"
    known = [candidate.name for candidate in installable_candidates(shipped)]
    if wrong := [name for name in names if name not in known]:
        typer.echo(f"candidate install {wrong[0]}: {unknown_name('server', wrong[0], known)}", err=True)
        return 2
    if (bash := shutil.which("bash")) is None:
        typer.echo("candidate install: bash is missing", err=True)
        return 3
    installed = subprocess.run([bash, str(shipped / "install"), *names], check=False)  # noqa: S603  # our own script
    return 3 if installed.returncode else 0


def print_check(word: str, hosts: Sequence[str]) -> int:
    """Start the candidate that a word names, try each of its claims, and print the results as they come.

    The word is what `--candidate` takes: a name, or the path of a description. `hosts` are the hosts other than this
    one that it may be on. Returns 1 when something is missing, 2 for a description with errors, 3 when a claim could
    not be judged, else 0. Blocks while cells run.
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
    states: set[CheckState] = set()
    for line in check(candidate):
        typer.echo(f"{_MARKS[line.state]:10} {line.subject}" + (f": {line.detail}" if line.detail else ""))
        states.add(line.state)
    if "missing" in states:
        return 1
    return 3 if "not judged" in states else 0


def check(candidate: Candidate) -> Iterator[CheckLine]:
    """Check a candidate's version and claims, and yield a line for each; also for what it does not claim.

    Missing programs give the only line. Ends after the claim `relay` when that is missing. Blocks between the lines: each claim is
    tried by running a cell.
    """
    if missing := candidate.check_availability().missing:
        yield CheckLine("installed", state="missing", detail=missing)
        return
    try:
        yield CheckLine(
            "version", state="information", detail=asyncio.run(node_class(candidate.kind).version(candidate))
        )
    except NodeError as error:
        yield CheckLine("version", state="missing", detail=f"the command 'version' failed: {error.reason}")
    probes = read_probes()
    trials = [_ClaimTrial(candidate, claim, cell) for claim, cell in probes.items() if claim in candidate.claims]
    if trials and trials[0].claim == "relay":  # `relay` is the first probe, and no other claim can be tried without it
        line = run_without_loop(trials.pop(0).run(OWN_LOOP))
        yield line
        if line.state == "missing":
            return
    # Several at a time where the kind starts a server of its own for each: such servers mostly wait.
    yield from _run_all(trials, candidate.kind_definition.parallel_claims)
    for claim in probes:
        if claim not in candidate.claims:
            yield CheckLine(
                f"claim {claim}", state="information", detail="not claimed: scenarios that need it are not applicable"
            )


def read_probes() -> dict[str, Cell]:
    """Return the cell that tries each claim, by the claim, in the order of the probes; `relay` comes first."""
    scenarios = read_corpus([paths.fixtures() / "probes"], paths.fixtures())
    return {scenario.id.removeprefix(_PROBE_PREFIX): scenario.cells("smoke")[0] for scenario in scenarios}


class _ClaimTrial:
    """A claim of a candidate, and the cell that tries it."""

    def __init__(self, candidate: Candidate, claim: str, cell: Cell) -> None:
        self.claim = claim
        clock = default_clock([candidate.features])
        self._settings = Settings(clock=clock, scale=default_scale(clock))
        self._assignment = Assignment(candidate)
        # A claim may belong to some generations of servers only: the cell's servers become such.
        self._cell = with_probed_generations(cell, candidate, claim)

    async def run(self, cell_loop: CellLoop) -> CheckLine:
        """Run the cell in a temporary directory, judge it, and return the line to print about the claim.

        `cell_loop` says where: `OWN_LOOP` on a new event loop, so that this blocks and never suspends; `SHARED_LOOP` on the
        caller's, with the judgement in a thread. A cell that does not apply to the candidate gives "not judged".
        """
        if reason := inapplicable_reason(self._cell, self._assignment, self._settings):
            return CheckLine(f"claim {self.claim}", state="not judged", detail=f"it cannot be tried: {reason}")
        with tempfile.TemporaryDirectory(prefix="conformance-check-") as directory:
            runner = CellRunner(self._cell, self._assignment, self._settings, Path(directory), IncrementalJudge())
            recorded = await runner.run(cell_loop)
            return await cell_loop.call(self._judge, recorded)

    def _judge(self, recorded: RecordedRun) -> CheckLine:
        """Return the result of the claim from the verdicts on what was recorded.

        A run that broke (`problem`) counts as missing, as does any outcome but pass and inconclusive.
        """
        verdicts = judge(self._cell, self._assignment, self._settings, recorded.events, complete=recorded.complete)
        outcome = Outcome.ERROR if recorded.problem else worst_in_cell(verdict.outcome for verdict in verdicts)
        states: dict[Outcome, CheckState] = {Outcome.PASS: "ok", Outcome.INCONCLUSIVE: "not judged"}
        return CheckLine(
            f"claim {self.claim}",
            state=states.get(outcome, "missing"),
            detail=recorded.problem or worst_sentence(verdicts),
        )


def _run_all(trials: Sequence[_ClaimTrial], limit: int) -> Iterator[CheckLine]:
    """Try claims, up to `limit` at a time, and yield the results in the order of the claims.

    With a limit of 1 each runs in this thread, on an event loop of its own, when its result is asked for; else all run on the loop of
    a pool's thread, and those that have not ended are cancelled when the iteration is closed. Raises what a trial raises.
    """
    if limit == 1:
        yield from (run_without_loop(trial.run(OWN_LOOP)) for trial in trials)
        return
    with closing(
        JobPool([(trial.claim, partial(trial.run, SHARED_LOOP)) for trial in trials], limit, chunks=False)
    ) as pool:
        yield from (pool.result(trial.claim) for trial in trials)
