"""Reads run directories, damaged ones too: a line that cannot be read is told with its place, counted, and skipped.

A cell's file without a footer was cut short; what it has until there is as good as any other.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from conformance.history.events import EVENT_ADAPTER, AnyEvent
from conformance.regular_files import read_regular
from conformance.results.compression import read_history
from conformance.results.layout import (
    FOOTER_FILE,
    RUN_FILE,
    CellUnreadable,
    RunDirectoryError,
    SchemaTooNew,
    attachments_folder,
    cell_files,
    slug_of,
)
from conformance.results.schema import SCHEMA, CellFooter, CellHeader, RunFooter, RunHeader
from conformance.shortage import shortage_of
from conformance.verdicts import Verdict

M = TypeVar("M", bound=BaseModel)

_TAIL = 64 * 1024
"""Octets from the end of a cell's file in which its footer is looked for; `writer.finish` keeps it shorter."""


EVENT_LINES = re.compile(rb'(?>\{"record":"event",[^\n]*\}\n)++')
"""Lines of events that follow one another, each with its end, as far as can be seen without reading them."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A line that could not be read. As text: `file:line: why`."""

    path: Path
    line: int
    why: str

    def __str__(self) -> str:
        return f"{self.path.name}:{self.line}: {self.why}"


@dataclass(frozen=True, slots=True)
class StoredCell:
    """A cell as it stands in its file."""

    path: Path
    header: CellHeader
    events: tuple[AnyEvent, ...]
    verdicts: tuple[Verdict, ...]
    footer: CellFooter | None
    damage: tuple[Damage, ...]
    unparsed: bytes = b""
    """The lines that were not read, as they stand."""

    @property
    def cut_short(self) -> bool:
        """Whether the run was ended, or the file damaged, before the cell's footer."""
        return self.footer is None

    @property
    def attachments(self) -> Path:
        """The folder of the cell's logs; it is there only when there are any, and they are not compressed."""
        return attachments_folder(self.path)

    @property
    def name(self) -> str:
        """What its file, its page and its rows in tables are named by."""
        return slug_of(self.path)


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run as it stands in its directory; `footer` is None when it was killed, or goes on."""

    path: Path
    header: RunHeader
    footer: RunFooter | None
    files: tuple[Path, ...]

    def cells(
        self, damage: list[Damage] | None = None, *, unparsed: re.Pattern[bytes] | None = None
    ) -> Iterator[StoredCell]:
        """Read the cells one by one, in the order of their files' names; for `unparsed` see read_cell.

        One without a header is told in `damage` and left out; with no list to tell it in, CellUnreadable is raised.
        Raises SchemaTooNew.
        """
        for path in self.files:
            try:
                yield read_cell(path, unparsed=unparsed)
            except CellUnreadable as error:
                if damage is None:
                    raise
                damage.append(Damage(path, 1, error.why))


@dataclass(frozen=True, slots=True)
class CellEnds:
    """Headers and footers of all cells of a run, without what is between."""

    files: int
    ends: tuple[tuple[CellHeader, CellFooter | None], ...]
    damage: tuple[Damage, ...]


def read_header(run_dir: Path) -> RunHeader:
    """Read `run.json`. Raises RunDirectoryError when it is not there or not right, SchemaTooNew."""
    return _document(run_dir / RUN_FILE, RunHeader)


def read_run(run_dir: Path) -> StoredRun:
    """Read what is known of a run as a whole. Raises RunDirectoryError, SchemaTooNew."""
    footer = run_dir / FOOTER_FILE
    return StoredRun(
        path=run_dir,
        header=read_header(run_dir),
        footer=_document(footer, RunFooter) if os.path.lexists(footer) else None,
        files=cell_files(run_dir),
    )


def read_cell(path: Path, *, unparsed: re.Pattern[bytes] | None = None) -> StoredCell:
    """Read a cell's file. Raises CellUnreadable when its header cannot be read, SchemaTooNew.

    Runs of lines that match `unparsed` are not read, and told as they stand: to read events is nine tenths of the work.
    """
    header: CellHeader | None = None
    events: list[AnyEvent] = []
    verdicts: list[Verdict] = []
    footer: CellFooter | None = None
    damage: list[Damage] = []
    unread: list[bytes] = []
    for number, value in parse_lines(path, unparsed):
        if isinstance(value, bytes):
            unread.append(value)
            continue
        if isinstance(value, Damage):
            damage.append(value)
            continue
        try:
            match value.pop("record", None):
                case "cell" if number == 1:
                    header = _cell_header(path, value)
                case "event":
                    events.append(EVENT_ADAPTER.validate_python(value))
                case "verdict":
                    verdicts.append(Verdict.model_validate(value))
                case "footer":
                    footer = CellFooter.model_validate(value)
                case name:
                    damage.append(Damage(path, number, f"no record of this kind can stand here: {str(name)[:40]!r}"))
        except ValidationError as error:
            damage.append(Damage(path, number, _told(error)))
    if header is None:
        why = damage[0].why if damage and damage[0].line == 1 else "the file is empty"
        raise CellUnreadable(path, why)
    return StoredCell(path, header, tuple(events), tuple(verdicts), footer, tuple(damage), b"".join(unread))


def read_cell_ends(run_dir: Path) -> CellEnds:
    """Parse only the first and the last line of each cell's file. Raises SchemaTooNew."""
    files = cell_files(run_dir)
    ends: list[tuple[CellHeader, CellFooter | None]] = []
    damage: list[Damage] = []
    for path in files:
        try:
            ends.append(read_cell_end(path))
        except CellUnreadable as error:
            damage.append(Damage(path, 1, error.why))
    return CellEnds(len(files), tuple(ends), tuple(damage))


def read_cell_end(path: Path) -> tuple[CellHeader, CellFooter | None]:
    """Parse only the first and the last line of a cell's file. Raises CellUnreadable, SchemaTooNew."""
    octets, trouble = read_history(path)
    if trouble and not octets:
        raise CellUnreadable(path, trouble)
    first, tail = octets.partition(b"\n")[0], octets[-_TAIL:]
    try:
        return _cell_header(path, _plain(_parsed(first))), _footer(tail)
    except ValueError as error:
        raise CellUnreadable(path, _told(error)) from error


def parse_lines(
    path: Path, unparsed: re.Pattern[bytes] | None = None
) -> Iterator[tuple[int, dict[str, Any] | Damage | bytes]]:
    """Yield each line of a file with its number from 1: a JSON object, or in which way it is none.

    A run of lines that matches `unparsed` is yielded as it stands, with the number of its first. Where a compressed file is
    damaged, what can be had of it comes first.
    """
    octets, trouble = read_history(path)
    start, number = 0, 1
    while start < len(octets):
        if unparsed is not None and (run := unparsed.match(octets, start)) is not None:
            yield number, run[0]
            number += run[0].count(b"\n")
            start = run.end()
            continue
        end = octets.find(b"\n", start) + 1 or len(octets)
        yield number, _object(path, number, octets[start:end])
        start, number = end, number + 1
    if trouble:
        yield number, Damage(path, number, trouble)


def _object(path: Path, number: int, line: bytes) -> dict[str, Any] | Damage:
    if not line.endswith(b"\n"):
        return Damage(path, number, f"the last line was cut short after {len(line)} octets")
    try:
        value = _parsed(line)
    except ValueError as error:
        return Damage(path, number, f"no JSON: {_told(error)}")
    return value if isinstance(value, dict) else Damage(path, number, "no JSON object")


def _parsed(octets: bytes) -> object:
    """Return a JSON value. Raises ValueError, also for NaN and infinity, which are no JSON and no times."""
    return from_json(octets, allow_inf_nan=False)


def _plain(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("no JSON object")  # noqa: TRY004  # what a file holds is a value, whatever its type
    return value


def _cell_header(path: Path, value: dict[str, Any]) -> CellHeader:
    _refuse_newer(path, value)
    return CellHeader.model_validate(value)


def _footer(tail: bytes) -> CellFooter | None:
    """Return the footer that a file's last octets end with; None where the cell was cut short."""
    last = tail.rstrip(b"\n").rpartition(b"\n")[2]
    try:
        return CellFooter.model_validate_json(last) if tail.endswith(b"\n") else None
    except ValidationError:
        return None


def _document(path: Path, model: type[M]) -> M:
    try:
        value = _plain(_parsed(read_regular(path)))
        _refuse_newer(path, value)
        return model.model_validate(value)
    except FileNotFoundError:
        raise RunDirectoryError(f"{path.parent} is no run directory: it has no {path.name}") from None
    except OSError as error:
        if shortage_of(error):
            raise
        raise RunDirectoryError(f"{path}: it cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise RunDirectoryError(f"{path}: {_told(error)}") from error


def _refuse_newer(path: Path, value: dict[str, Any]) -> None:
    number = value.get("schema")
    if isinstance(number, int) and number > SCHEMA:
        raise SchemaTooNew(
            f"{path}: written with schema {number}, and this version reads up to {SCHEMA}; use a later version"
        )


def _told(error: ValueError) -> str:
    """Return an error in one line, without the values that it is about: those may be hostile."""
    if isinstance(error, ValidationError):
        parts = [f"{'.'.join(map(str, one['loc']))[:80]}: {one['msg']}" for one in error.errors(include_input=False)]
        return "; ".join(parts[:3])[:300]
    return ascii(str(error))[1:-1][:200]
