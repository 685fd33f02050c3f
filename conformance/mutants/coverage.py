"""Which cells execute each line of the reference: a mutant is tried in these only.

The sound reference runs every cell once, in virtual time, under coverage.py, which records the lines of each cell as a context.
A cell's cost is the processor time of that run.
"""

import multiprocessing
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from conformance.defects.plan import PlannedTrial
from conformance.defects.trial import FinishedTrial, judge_finished, run_planned
from conformance.scenarios.document import Cell
from conformance.verdicts.outcome import OK_OUTCOMES


@dataclass(slots=True)
class Covered:
    """The lines that cells execute: file below `root` -> line -> numbers of the cells; and the cost of each cell in seconds."""

    lines: dict[str, dict[int, list[int]]] = field(default_factory=dict)
    costs: dict[int, float] = field(default_factory=dict)

    def cells_of(self, file: str, line: int) -> list[int]:
        """Return the numbers of the cells that execute a line, in order; [] for none."""
        return self.lines.get(file, {}).get(line, [])

    def add(self, other: "Covered") -> None:
        """Add what another process has found."""
        for file, lines in other.lines.items():
            own = self.lines.setdefault(file, {})
            for line, numbers in lines.items():
                own[line] = sorted({*own.get(line, []), *numbers})
        self.costs |= other.costs


def find_covered(cells: Sequence[Cell], root: Path, seed: int, jobs: int) -> Covered:
    """Run all cells on the sound reference below `root`, `jobs` at a time, and return the lines that they execute. Blocks.

    A cell that the reference does not pass, or that is not applicable, is left out.
    """
    covered = Covered()
    _CELLS[:] = cells
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        shares = [(range(number, len(cells), jobs * 4), root, seed) for number in range(jobs * 4)]
        for found in pool.imap_unordered(_cover_share, shares, chunksize=1):
            covered.add(found)
    return covered


_CELLS: list[Cell] = []
"""The cells of the call in hand; forked processes get their numbers, since a cell is slow to pickle."""


def _cover_share(share: tuple[range, Path, int]) -> Covered:
    """Run some of the cells under coverage.py; called in a forked process."""
    from coverage import Coverage  # not installed with the package itself

    numbers, root, seed = share
    covered = Covered(lines=defaultdict(dict))
    recorder = Coverage(data_file=None, include=[f"{root}/*"], config_file=False, messages=False)
    recorder.start()
    try:
        for number in numbers:
            recorder.switch_context(str(number))
            began = time.process_time()
            finished = run_planned(PlannedTrial(None, _CELLS[number]), seed)
            cost = time.process_time() - began
            if isinstance(finished, FinishedTrial) and judge_finished(finished).outcome in OK_OUTCOMES:
                covered.costs[number] = cost
    finally:
        recorder.stop()
    data = recorder.get_data()
    for path in data.measured_files():
        lines = {
            line: sorted(int(number) for number in contexts if number and int(number) in covered.costs)
            for line, contexts in data.contexts_by_lineno(path).items()
        }
        covered.lines[Path(path).relative_to(root).as_posix()] = lines
    return covered
