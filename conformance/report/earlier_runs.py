"""The runs before: how many of their cells ended how, how one cell ended in each of them, and whether it is flaky."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from conformance.results.layout import RUN_FILE, CellUnreadable, RunDirectoryError, cell_file
from conformance.results.reader import read_cell_end, read_run
from conformance.results.schema import CellHeader, RunFooter, RunHeader
from conformance.verdicts import Outcome
from conformance.verdicts.changes import Cause, change_causes, is_flaky

MAX_RUNS = 20
"""So many earlier runs are looked at, the latest of them."""


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """An earlier run that came to its end."""

    path: Path
    header: RunHeader
    footer: RunFooter


@dataclass(frozen=True, slots=True)
class EarlierOutcome:
    """How a cell ended in an earlier run; `causes` is what was different there, nothing when nothing recorded was."""

    run: str
    outcome: Outcome
    causes: tuple[Cause, ...]


def find_earlier_runs(run_dir: Path, folder: Path, *, most: int = MAX_RUNS) -> tuple[EarlierRun, ...]:
    """Return the runs in `folder` that ended before `run_dir` began and judged one of its candidates, oldest first.

    What is no run directory, or cannot be read, is passed over: it is not what was asked for. Raises RunDirectoryError
    for `run_dir` itself.
    """
    own = read_run(run_dir).header
    names = {one.name for one in own.candidates}
    found = []
    for place in sorted(path.parent for path in folder.glob(f"*/{RUN_FILE}")):
        try:
            run = read_run(place)
        except RunDirectoryError:
            continue
        before = run.footer is not None and run.footer.finished <= own.started and run.header.run != own.run
        if before and run.footer is not None and names & {one.name for one in run.header.candidates}:
            found.append(EarlierRun(place, run.header, run.footer))
    return tuple(sorted(found, key=lambda past: (past.footer.finished, past.header.run))[-most:])


def earlier_outcomes(earlier: Sequence[EarlierRun], slug: str, header: CellHeader) -> tuple[EarlierOutcome, ...]:
    """Return how the cell ended in the runs before, as far as it was in them and came to its end."""
    found = []
    for past in earlier:
        file = cell_file(past.path, slug)
        if file is None:
            continue
        try:
            was, footer = read_cell_end(file)
        except CellUnreadable:
            continue
        if footer is not None:
            found.append(EarlierOutcome(past.header.run, footer.outcome, change_causes(was, header)))
    return tuple(found)


def find_flaky_run(outcome: Outcome, past: Sequence[EarlierOutcome]) -> EarlierOutcome | None:
    """Return the latest run that shows the cell to be flaky, or None."""
    return next((one for one in reversed(past) if not one.causes and is_flaky((one.outcome, outcome))), None)
