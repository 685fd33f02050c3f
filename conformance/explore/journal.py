"""The plans of an exploration that were run already, in `plans.jsonl` of its directory, so that another call goes on after them.

A line is written when a plan ends, in the order in which plans end. A line that was cut off by the end of the process is dropped. The
command `conformance explore` opens the journal before its first plan.
"""

from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from pydantic import TypeAdapter, ValidationError

from conformance.explore.trial import PlanResult
from conformance.results.atomic_write import read_whole_lines, write_atomically
from conformance.results.exploration import HEADER_FILE, ExplorationHeader, read_header
from conformance.results.layout import RunDirectoryError

_PLANS_FILE = "plans.jsonl"

_RESULT = TypeAdapter(PlanResult)


@dataclass(slots=True)
class Journal:
    """What is known of the plans of an exploration; a context manager that keeps the file open.

    `results` are those of earlier calls, by the name of the plan. `replaced` is whether the directory had the header of another
    exploration, whose plans are gone now.
    """

    directory: Path
    header: ExplorationHeader
    results: dict[str, PlanResult] = field(default_factory=dict)
    replaced: bool = False
    _file: BinaryIO | None = None

    @classmethod
    def open(cls, directory: Path, header: ExplorationHeader) -> "Journal":
        """Return the journal of a directory, with the plans that it has of this exploration; the file is not opened yet.

        Where the directory has no plans of this exploration, those of any other are removed, and the header is written. Else the
        header that the directory has is kept, with the exploration's name and the time at which it began. The directory is made if
        it is missing. Raises RunDirectoryError where files of an exploration cannot be read, SchemaTooNew for those of a later
        schema; OSError.
        """
        directory.mkdir(parents=True, exist_ok=True)
        earlier, plans = read_header(directory), directory / _PLANS_FILE
        journal = cls(directory, header)
        if earlier is not None and header.continues(earlier):
            journal.header = earlier
            journal.results = _read_plans(plans)
        else:
            journal.replaced = earlier is not None
            write_atomically(plans, b"")
            journal._write_header()
        return journal

    def add(self, result: PlanResult) -> None:
        """Append the result of a plan to the file, within the context manager; `results` stays as it is. Raises OSError."""
        assert self._file is not None, "the journal is not open"
        self._file.write(_RESULT.dump_json(result) + b"\n")
        self._file.flush()

    def note_too_costly(self, cells: tuple[str, ...]) -> None:
        """Write into the header which cells are not swept because their runs take too long. Raises OSError."""
        self.header = self.header.model_copy(update={"too_costly": cells})
        self._write_header()

    def end_call(self, seconds: float) -> None:
        """Add the real time in which this call has run plans to the header. Raises OSError."""
        self.header = self.header.model_copy(update={"seconds": round(self.header.seconds + seconds, 3)})
        self._write_header()

    def _write_header(self) -> None:
        """Write `header` into the directory, in place of what is there. Raises OSError."""
        text = self.header.model_dump_json(by_alias=True, indent=2)
        write_atomically(self.directory / HEADER_FILE, f"{text}\n".encode())

    def __enter__(self) -> "Journal":
        self._file = (self.directory / _PLANS_FILE).open("ab")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()


def _read_plans(path: Path) -> dict[str, PlanResult]:
    """Return the results in a file by the name of the plan, {} without the file, and cut off a last line that is not whole.

    Raises RunDirectoryError for a line that is damaged; OSError.
    """
    results = {}
    for number, line in enumerate(read_whole_lines(path), start=1):
        try:
            result = _RESULT.validate_json(line)
        except ValidationError as error:
            raise RunDirectoryError(
                f"{path}:{number} is damaged: delete the line, or choose another directory"
            ) from error
        results[result.name] = result
    return results
