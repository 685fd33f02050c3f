"""Which cells of a run get a page, and the paths of those pages. `site` writes them.

A *finding* is a verdict that is neither a pass nor not applicable; a *remark* is a pass although a `should` row is violated. A
cell is *flaky* if it passed in one run and failed in another, and nothing recorded differs between the two.
"""

import hashlib
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from conformance.report.cell_view import CellView
from conformance.report.earlier_runs import EarlierOutcome, find_flaky_outcome
from conformance.results.schema import CellHeader
from conformance.verdicts.outcome import OK_OUTCOMES

_UNSAFE = re.compile(r"[^A-Za-z0-9_+=,@.-]")
_MAX_NAME = 200
"""Characters of one file or folder name: file systems allow 255 octets."""


@dataclass(frozen=True, slots=True)
class PageSelection:
    """Selects all cells (`every`), or those with a finding and those whose name or node id contains one of `texts`.

    A cell with a remark, a flaky one, and one that was cut short count as having a finding.
    """

    every: bool = False
    texts: tuple[str, ...] = ()

    def includes(self, cell: CellView, earlier_outcomes: Sequence[EarlierOutcome]) -> bool:
        """Return whether a cell gets a page; its outcomes in earlier runs (`earlier_outcomes`) show whether it is flaky."""
        if self.every or cell.outcome not in OK_OUTCOMES or cell.cut_short or cell.remarks:
            return True
        return find_flaky_outcome(cell.outcome, earlier_outcomes) is not None or any(
            text in name for text in self.texts for name in (cell.name, cell.header.nodeid)
        )


def all_pages_command(run_dir: Path, out: Path) -> str:
    """Return the command, quoted for a shell, that writes the site of this run into `out` with a page for every cell."""
    return shlex.join(["conformance", "report", str(run_dir), "--out", str(out), "--all"])


def file_stem(name: str) -> str:
    """Return the file name, without suffix, for a candidate: its name where that is safe, else a safe part and a hash.

    Different candidates get different file names.
    """
    plain = re.sub(r"[^A-Za-z0-9._+-]+", "-", name).strip(".-")[:80]
    return plain if plain == name else f"{plain or 'candidate'}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def cell_page_path(header: CellHeader, taken: frozenset[str] | set[str] = frozenset()) -> str:
    """Return the path of a cell's page below the folder `cells`: `CANDIDATE/SCENARIO/AXIS=VALUE,AXIS=VALUE.html`.

    A name that is too long for the file system becomes several nested folders. A path that is in `taken` (a scenario with
    the same id in another file) gets the hash of the node id appended. The path needs no quoting in a URL.
    """
    axes = ",".join(f"{axis}={value}" for axis, value in header.axes.items())
    parts = [name for part in (header.candidate, header.scenario, axes) if part for name in _safe_names(part)]
    path = f"{PurePosixPath(*parts)}.html"
    if path in taken:
        digest = hashlib.sha256(header.nodeid.encode("utf-8", "surrogatepass")).hexdigest()[:12]
        path = f"{path.removesuffix('.html')}~{digest}.html"
    return path


def _safe_names(part: str) -> list[str]:
    """Return a part of a path as one or more safe names of at most `_MAX_NAME` characters, for nested folders.

    An unsafe character, and a dot at the beginning, becomes `~` and its octets in hex.
    """
    escaped = _UNSAFE.sub(
        lambda match: "".join(f"~{octet:02X}" for octet in match[0].encode("utf-8", "surrogatepass")), part
    )
    names = [escaped[start : start + _MAX_NAME] for start in range(0, len(escaped), _MAX_NAME)]
    return [f"~2E{name[1:]}" if name.startswith(".") else name for name in names]
