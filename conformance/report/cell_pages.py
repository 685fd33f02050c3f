"""Which cells of a run get a page: those in which something was found, and those that are asked for."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from conformance.report.cell_view import CellView
from conformance.report.earlier_runs import EarlierOutcome, find_flaky_run
from conformance.verdicts.outcome import OK_OUTCOMES


@dataclass(frozen=True, slots=True)
class PageSelection:
    """Pages of all cells, or besides those with a finding of the cells whose name, or node id, has one of `texts`."""

    every: bool = False
    texts: tuple[str, ...] = ()

    def has(self, material: CellView, past: Sequence[EarlierOutcome]) -> bool:
        """Whether a cell gets a page; one that ended otherwise before, with nothing changed, does."""
        if self.every or material.outcome not in OK_OUTCOMES or material.cut_short or material.remarks:
            return True
        return find_flaky_run(material.outcome, past) is not None or any(
            text in name for text in self.texts for name in (material.name, material.header.nodeid)
        )


def all_pages_command(run_dir: Path, out: Path) -> str:
    """Return the command that also makes the pages of cells in which all is well."""
    return shlex.join(["conformance", "report", str(run_dir), "--out", str(out), "--all"])
