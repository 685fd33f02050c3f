"""What the files of a site are called."""

import hashlib
import re
from pathlib import PurePosixPath

from conformance.results.schema import CellHeader

_SAFE = re.compile(r"[^A-Za-z0-9_+=,@.-]")
_LONGEST = 200
"""Characters of one name: file systems take 255 octets."""


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
