"""Earlier runs: finding them, the outcomes of one cell in them, and whether that cell is flaky.

The *causes* of a change name what differs between the headers of a cell in two runs: candidate, suite, environment, settings.
A cell is *flaky* if it passed and failed without any of them. `site` and the command `report` call this.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from conformance.results.layout import RUN_FILE, CellUnreadable, RunDirectoryError, cell_file
from conformance.results.reader import read_cell_end, read_run
from conformance.results.schema import CellHeader, RunFooter, RunHeader
from conformance.verdicts import Outcome
from conformance.verdicts.changes import Cause, change_causes, is_flaky

MAX_RUNS = 20
"""The number of earlier runs that reports show, the latest ones."""


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """An earlier run that has ended."""

    path: Path
    header: RunHeader
    footer: RunFooter


@dataclass(frozen=True, slots=True)
class EarlierOutcome:
    """How a cell ended in an earlier run; `causes` names what was recorded as different in that run, if anything."""

    run: str
    outcome: Outcome
    causes: tuple[Cause, ...]


def find_earlier_runs(run_dir: Path, folder: Path, *, max_runs: int = MAX_RUNS) -> tuple[EarlierRun, ...]:
    """Return the runs in `folder` that ended before `run_dir` began and have one of its candidates, oldest first.

    Of more than `max_runs` the latest are returned. A run with the same name is left out. Directories in `folder` that are not
    runs, or cannot be read, are skipped. Raises RunDirectoryError where `run_dir` itself cannot be read.
    """
    header = read_run(run_dir).header
    names = {candidate.name for candidate in header.candidates}
    earlier = []
    for path in sorted(path.parent for path in folder.glob(f"*/{RUN_FILE}")):
        try:
            run = read_run(path)
        except RunDirectoryError:
            continue
        # A run without a footer has not ended. Times are ISO 8601 in UTC, so they compare as text.
        before = run.footer is not None and run.footer.finished <= header.started and run.header.run != header.run
        if before and run.footer is not None and names & {candidate.name for candidate in run.header.candidates}:
            earlier.append(EarlierRun(path, run.header, run.footer))
    return tuple(sorted(earlier, key=lambda run: (run.footer.finished, run.header.run))[-max_runs:])


def read_earlier_outcomes(earlier: Sequence[EarlierRun], slug: str, header: CellHeader) -> tuple[EarlierOutcome, ...]:
    """Return how the cell ended in each earlier run in which it has a readable footer, in the order of `earlier`.

    `slug` names the cell's file in every run; `header` is that of the present run, with which the earlier ones are
    compared. Raises SchemaTooNew.
    """
    outcomes = []
    for run in earlier:
        file = cell_file(run.path, slug)
        if file is None:
            continue
        try:
            earlier_header, footer = read_cell_end(file)
        except CellUnreadable:
            continue
        if footer is not None:
            causes = change_causes(earlier_header, header)
            outcomes.append(EarlierOutcome(run=run.header.run, outcome=footer.outcome, causes=causes))
    return tuple(outcomes)


def find_flaky_outcome(outcome: Outcome, earlier_outcomes: Sequence[EarlierOutcome]) -> EarlierOutcome | None:
    """Return the latest earlier outcome that differs from this one although nothing recorded does, or None.

    The two outcomes must be a pass and a failure (`is_flaky`).
    """
    return next((e for e in reversed(earlier_outcomes) if not e.causes and is_flaky((e.outcome, outcome))), None)
