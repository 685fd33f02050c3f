"""Where everything of a run lies, and how a node id becomes a file's name."""

import hashlib
import re
from pathlib import Path

RUN_FILE = "run.json"
FOOTER_FILE = "footer.json"
CELLS_FOLDER = "cells"
PLAIN_SUFFIX = ".jsonl"
"""The suffix of a cell's file while the cell runs, and of what was cut short."""
GZIP_SUFFIX = ".jsonl.gz"
"""The suffix of a finished cell's file."""
LATE_FOLDER = "late"
"""Where the first attempts of cells are kept that were run once more."""
_ARCHIVES = "nodes"
PARQUET_FOLDER = "parquet"

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


def cell_file(run_dir: Path, name: str, folder: str = CELLS_FOLDER) -> Path | None:
    """Return the file of the cell of that name (`slug`), compressed or plain; None when there is none."""
    places = (run_dir / folder / f"{name}{suffix}" for suffix in (GZIP_SUFFIX, PLAIN_SUFFIX))
    return next((place for place in places if place.is_file()), None)


def cell_files(run_dir: Path, folder: str = CELLS_FOLDER) -> tuple[Path, ...]:
    """Return the files of all cells of a run, sorted by name; none when the folder is not there.

    A run that was killed while it compressed a cell has it twice: then the compressed file counts, which is whole.
    """
    found = {
        slug_of(path): path for suffix in (PLAIN_SUFFIX, GZIP_SUFFIX) for path in (run_dir / folder).glob(f"*{suffix}")
    }
    return tuple(found[name] for name in sorted(found))


def slug_of(path: Path) -> str:
    """Return a cell's name, from the path of its file: the name without its suffixes."""
    return path.name.partition(".")[0]


def attachments_folder(path: Path) -> Path:
    """Return the folder of a cell's attachments, from the path of its file."""
    return path.with_name(slug_of(path))


def archive_path(attachments: Path) -> Path:
    """Return the ZIP file that takes the place of a folder of attachments; no folder of a cell has its folder's name."""
    return attachments.parent / _ARCHIVES / f"{attachments.name}.zip"


class RunDirectoryError(Exception):
    """A run directory cannot be used; the text names the file and says what to do."""


class SchemaTooNew(RunDirectoryError):
    """A file was written by a later version of the harness."""


class CellUnreadable(RunDirectoryError):
    """A cell's file has no header that can be read, so nothing is known of its events; `why` says what is there."""

    def __init__(self, path: Path, why: str) -> None:
        self.why = f"the cell's header cannot be read: {why}"
        super().__init__(f"{path}:1: {self.why}")
