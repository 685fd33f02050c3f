"""Which cells of a run get a page: those in which something was found, and those that are asked for."""

import hashlib
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from conformance.report.cell_view import CellView
from conformance.report.earlier_runs import EarlierOutcome, find_flaky_run
from conformance.results.schema import CellHeader
from conformance.verdicts.outcome import OK_OUTCOMES

_SAFE = re.compile(r"[^A-Za-z0-9_+=,@.-]")
_LONGEST = 200
"""Characters of one name: file systems take 255 octets."""


@dataclass(frozen=True, slots=True)
class PageSelection:
    """Pages of all cells, or besides those with a finding of the cells whose name, or node id, has one of `texts`."""

    every: bool = False
    texts: tuple[str, ...] = ()

    def includes(self, cell: CellView, past: Sequence[EarlierOutcome]) -> bool:
        """Whether a cell gets a page; one that ended otherwise before, with nothing changed, does."""
        if self.every or cell.outcome not in OK_OUTCOMES or cell.cut_short or cell.remarks:
            return True
        return find_flaky_run(cell.outcome, past) is not None or any(
            text in name for text in self.texts for name in (cell.name, cell.header.nodeid)
        )


def all_pages_command(run_dir: Path, out: Path) -> str:
    """Return the command that also makes the pages of cells in which all is well."""
    return shlex.join(["conformance", "report", str(run_dir), "--out", str(out), "--all"])


def file_stem(name: str) -> str:
    """Return a file's name for a candidate's: the name itself where it can be one, else with a hash, so that no two
    share one.
    """
    plain = re.sub(r"[^A-Za-z0-9._+-]+", "-", name).strip(".-")[:80]
    return plain if plain == name else f"{plain or 'candidate'}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def cell_page_path(header: CellHeader, taken: frozenset[str] | set[str] = frozenset()) -> str:
    """Return where a cell's page is, below the folder of all of them: `CANDIDATE/SCENARIO/AXIS=VALUE,AXIS=VALUE.html`.

    Nothing is cut: a name that is too long is several folders. `taken` are paths that other cells have: a scenario of
    the same id in another file gets the node id's hash behind its own. The path can stand in an address as it is.
    """
    axes = ",".join(f"{axis}={value}" for axis, value in header.axes.items())
    parts = [piece for part in (header.candidate, header.scenario, axes) if part for piece in _pieces(part)]
    path = f"{PurePosixPath(*parts)}.html"
    if path in taken:
        digest = hashlib.sha256(header.nodeid.encode("utf-8", "surrogatepass")).hexdigest()[:12]
        path = f"{path.removesuffix('.html')}~{digest}.html"
    return path


def _pieces(part: str) -> list[str]:
    """Return a part in names of folders; what no file system or address should see is written as `~` and its octets."""
    shown = _SAFE.sub(
        lambda found: "".join(f"~{octet:02X}" for octet in found[0].encode("utf-8", "surrogatepass")), part
    )
    pieces = [shown[start : start + _LONGEST] for start in range(0, len(shown), _LONGEST)]
    return [f"~2E{piece[1:]}" if piece.startswith(".") else piece for piece in pieces]
