"""`conformance candidate new` and `check`: a description to begin with, and whether one holds what it says."""

import asyncio
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import typer

from conformance import candidates, paths
from conformance.candidates.cast import Cast
from conformance.candidates.description import Candidate, CandidateError
from conformance.candidates.grammar import find
from conformance.candidates.presence import look_for
from conformance.execute import headline, judge
from conformance.judge.verdicts import Outcome, worst
from conformance.judge.waiting import Waiting
from conformance.nodes.contract import NodeError
from conformance.nodes.version import detect_version
from conformance.run.cell import run_cell
from conformance.run.settings import Settings
from conformance.scenarios.document import Cell
from conformance.scenarios.loader import read_corpus

PROBE = "probe-"
"""How the ids of fixtures/probes begin; the claim that each tries follows."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one question: whether all is well (None: nobody asked), and what there is to say."""

    what: str
    well: bool | None
    words: str


def print_new() -> int:
    """Print a commented description."""
    typer.echo((Path(candidates.__file__).parent / "new.yaml").read_text("utf-8"), nl=False)
    return 0


def print_check(word: str) -> int:
    """Start a candidate, try every claim of it, and say what is missing: 1 when anything is, 2 for a bad description."""
    try:
        candidate = find(word, paths.fixtures() / "candidates")
    except CandidateError as error:
        typer.echo(str(error), err=True)
        return 2
    well = True
    for answer in check(candidate):
        mark = {True: "ok", False: "MISSING", None: "-"}[answer.well]
        typer.echo(f"{mark:8} {answer.what}" + (f": {answer.words}" if answer.words else ""))
        well = well and answer.well is not False
    return 0 if well else 1


def check(candidate: Candidate) -> Iterator[Answer]:
    """Ask a candidate everything that can be asked in a minute; what cannot be started is asked nothing more."""
    if missing := look_for(candidate).missing:
        yield Answer("is there", False, missing)
        return
    try:
        yield Answer("version", None, asyncio.run(detect_version(candidate)))
    except NodeError as error:
        yield Answer("version", False, error.reason)
    probes = _probes()
    for claim, cell in probes.items():
        if claim in candidate.claims:
            answer = _try(claim, candidate, cell)
            yield answer
            if claim == "relay" and not answer.well:
                return
    for claim in candidate.claims:
        if claim not in probes:
            yield Answer(f"claim {claim}", None, "judged by scenarios only")
    for claim in probes:
        if claim not in candidate.claims:
            yield Answer(f"claim {claim}", None, "not claimed: what needs it is not applicable")


def _probes() -> dict[str, Cell]:
    """Return the scenario that tries each claim, `relay` first."""
    scenarios = read_corpus([paths.fixtures() / "probes"], paths.fixtures())
    return {scenario.id.removeprefix(PROBE): scenario.cells("smoke")[0] for scenario in scenarios}


def _try(claim: str, candidate: Candidate, cell: Cell) -> Answer:
    in_process = candidate.kind == "python"
    settings = Settings(clock="virtual") if in_process else Settings(clock="scaled", scale=60.0)
    cast = Cast(candidate)
    with tempfile.TemporaryDirectory(prefix="conformance-check-") as directory:
        ran = run_cell(cell, cast, settings, Path(directory), lambda event: None, Waiting())
        verdicts = judge(cell, cast, settings, ran.events, complete=ran.problem == "")
        outcome = Outcome.ERROR if ran.problem else worst(verdict.outcome for verdict in verdicts)
    return Answer(f"claim {claim}", outcome is Outcome.PASS, ran.problem or headline(verdicts))
