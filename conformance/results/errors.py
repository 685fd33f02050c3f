"""What can be wrong with a run directory as a whole; a damaged line is no error but is told (`reader.Damage`)."""

from pathlib import Path


class RunDirectoryError(Exception):
    """A run directory cannot be used; the text names the file and says what to do."""


class SchemaTooNew(RunDirectoryError):
    """A file was written by a later version of the harness."""


class CellUnreadable(RunDirectoryError):
    """A cell's file has no header that can be read, so nothing is known of its events; `why` says what is there."""

    def __init__(self, path: Path, why: str) -> None:
        self.why = f"the cell's header cannot be read: {why}"
        super().__init__(f"{path}:1: {self.why}")
