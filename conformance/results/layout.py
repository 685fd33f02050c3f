"""Paths within a run directory, the slugs that name cells' files, and the errors of unusable run directories.

A *cell* is one scenario with one value for each of its axes, run with one candidate; a run writes a file for each.
A cell's *attachments folder* has a directory for each of its nodes, with logs and configuration. *Compressed* it is a ZIP file.
"""

import hashlib
import re
from pathlib import Path

RUN_FILE = "run.json"
FOOTER_FILE = "footer.json"
CELLS_FOLDER = "cells"
PLAIN_SUFFIX = ".jsonl"
"""The suffix of a cell's file while the cell runs, and of a cell that was cut short."""
GZIP_SUFFIX = ".jsonl.gz"
"""The suffix of a finished cell's file."""
LATE_FOLDER = "late"
"""The folder of the first attempts of cells that were run again because the harness had been late."""
_ARCHIVES_FOLDER = "nodes"
PARQUET_FOLDER = "parquet"

_READABLE_CHARACTERS = 80
"""The readable part of a slug; with the hash and a suffix this is well below any file system's limit."""
_UNSAFE = re.compile(r"[^A-Za-z0-9=_+]+")


def slug(nodeid: str) -> str:
    """Return the slug of a cell: the readable part of its node id, a dash, and 12 hex digits of the node id's SHA-256.

    The readable part is what follows the first `::`, or the whole node id without one, with each run of unsafe characters
    replaced by a dash, cut at 80 characters; `cell` where nothing is left.
    The slug names the cell's file and page. The 48 bits of the hash keep the slugs of different node ids apart.
    """
    name = nodeid.partition("::")[2] or nodeid
    readable = _UNSAFE.sub("-", name).strip("-")[:_READABLE_CHARACTERS].rstrip("-") or "cell"
    return f"{readable}-{hashlib.sha256(nodeid.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


def cell_file(run_dir: Path, slug: str, folder: str = CELLS_FOLDER) -> Path | None:
    """Return the file of the cell with this slug, the compressed one first; None where there is none.

    `folder` is `cells`, or `late` for first attempts of cells that were run again.
    """
    paths = (run_dir / folder / f"{slug}{suffix}" for suffix in (GZIP_SUFFIX, PLAIN_SUFFIX))
    return next((path for path in paths if path.is_file()), None)


def cell_files(run_dir: Path, folder: str = CELLS_FOLDER) -> tuple[Path, ...]:
    """Return the files of all cells in a folder of a run, sorted by slug; () where the folder does not exist.

    A run that was killed while it compressed a cell has two files of it: the compressed one, which is complete, is returned.
    """
    by_slug = {
        slug_of(path): path for suffix in (PLAIN_SUFFIX, GZIP_SUFFIX) for path in (run_dir / folder).glob(f"*{suffix}")
    }
    return tuple(by_slug[slug] for slug in sorted(by_slug))


def slug_of(path: Path) -> str:
    """Return the slug of the cell with this file: the file's name without suffixes."""
    return path.name.partition(".")[0]


def attachments_folder(cell_file: Path) -> Path:
    """Return the folder of the directories of the nodes of the cell with this file.

    It exists only while the directories are not compressed.
    """
    return cell_file.with_name(slug_of(cell_file))


def archive_path(attachments: Path) -> Path:
    """Return the path of the ZIP file that replaces a cell's attachments folder; it may not exist.

    A cell that ended well has one, and a first attempt in `late`. `attachments` is the path of that folder. ZIP files lie in a
    folder `nodes`, which no slug can equal, since each slug ends with a hash.
    """
    return attachments.parent / _ARCHIVES_FOLDER / f"{attachments.name}.zip"


class RunDirectoryError(Exception):
    """A run directory cannot be used; the message says what is wrong, as a rule with which file or directory."""


class SchemaTooNew(RunDirectoryError):
    """A file was written by a later version of the harness."""


class CellUnreadable(RunDirectoryError):
    """The header of a cell's file cannot be read, so the file's events belong to no known cell; `why` gives the reason."""

    def __init__(self, path: Path, why: str) -> None:
        """Make the error for the cell's file `path`; `why` says what is wrong with its header."""
        self.why = f"the cell's header cannot be read: {why}"
        super().__init__(f"{path}:1: {self.why}")
