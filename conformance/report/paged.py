"""Which cells of a run get a page: those in which something was found, and those that are asked for."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from conformance.report.material import Material
from conformance.report.trend import Earlier, flaky
from conformance.verdicts.outcome import OK_OUTCOMES


@dataclass(frozen=True, slots=True)
class Paged:
    """Pages of all cells, or besides those with a finding of the cells whose name, or node id, has one of `texts`."""

    every: bool = False
    texts: tuple[str, ...] = ()

    def has(self, material: Material, past: Sequence[Earlier]) -> bool:
        """Whether a cell gets a page; one that ended otherwise before, with nothing changed, does."""
        if self.every or material.outcome not in OK_OUTCOMES or material.cut_short or material.remarks:
            return True
        return flaky(material.outcome, past) is not None or any(
            text in name for text in self.texts for name in (material.name, material.header.nodeid)
        )


def how_to_get_others(run_dir: Path, out: Path) -> str:
    """Return the command that also makes the pages of cells in which all is well."""
    return shlex.join(["conformance", "report", str(run_dir), "--out", str(out), "--all"])
