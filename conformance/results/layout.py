"""Where everything of a run lies, and how a node id becomes a file's name."""

import hashlib
import re
from pathlib import Path

RUN_FILE = "run.json"
FOOTER_FILE = "footer.json"
CELLS = "cells"
LATE = "late"
"""Where the first attempts of cells are kept that were run once more."""
PARQUET = "parquet"

_READABLE = 80
"""Characters of the readable part: with the hash and a suffix well below any file system's limit."""
_UNSAFE = re.compile(r"[^A-Za-z0-9=_+]+")


def slug(nodeid: str) -> str:
    """Return the file name of a cell: what can be read of its node id, and twelve digits of its SHA-256.

    Deterministic; two node ids never share one, for all practical purposes (48 bits).
    """
    name = nodeid.partition("::")[2] or nodeid
    readable = _UNSAFE.sub("-", name).strip("-")[:_READABLE].rstrip("-") or "cell"
    return f"{readable}-{hashlib.sha256(nodeid.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


def cell_file(run_dir: Path, nodeid: str) -> Path:
    """Return the path of a cell's file."""
    return run_dir / CELLS / f"{slug(nodeid)}.jsonl"


def cell_files(run_dir: Path, folder: str = CELLS) -> tuple[Path, ...]:
    """Return the files of all cells of a run, sorted by name; none when the folder is not there."""
    return tuple(sorted((run_dir / folder).glob("*.jsonl")))
