"""Reading of run directories, including damaged ones.

A line that cannot be read is skipped and reported as a `Damage` with its file, number and reason. A cell's file without
a footer was cut short; its events and verdicts are returned like those of any other. Whatever reads a file raises OSError where
the machine ran out of a resource. A *cell* is one scenario with one value for each of its axes, run with one candidate.
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
    CELLS_FOLDER,
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
"""Octets from the end of a cell's file that contain its footer: `CellWriter.finish` limits the footer's length."""


EVENT_LINES = re.compile(rb'(?>\{"record":"event",[^\n]*\}\n)++')
"""Consecutive complete lines that begin like events; the lines are not parsed, so a damaged one may be among them."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A line that could not be read; its text is `file:line: why`."""

    path: Path
    line: int
    why: str

    def __str__(self) -> str:
        """Return the damage as text; of the path only the file's name."""
        return f"{self.path.name}:{self.line}: {self.why}"


@dataclass(frozen=True, slots=True)
class StoredCell:
    """A cell as read from its file; `footer` is None for a cell that was cut short."""

    path: Path
    header: CellHeader
    events: tuple[AnyEvent, ...]
    verdicts: tuple[Verdict, ...]
    footer: CellFooter | None
    damage: tuple[Damage, ...]
    unparsed: bytes = b""
    """The lines that `read_cell` was asked not to parse."""

    @property
    def cut_short(self) -> bool:
        """Whether the cell has no readable footer: the run ended before the cell did, or the file is damaged."""
        return self.footer is None

    @property
    def attachments(self) -> Path:
        """The folder of the nodes' logs and configuration; it exists only while they are not compressed."""
        return attachments_folder(self.path)

    @property
    def slug(self) -> str:
        """The name of the cell's file without suffixes; the column `cell` of tables."""
        return slug_of(self.path)


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run directory; `footer` is None for a run that was killed or has not ended. `files` are those of its cells."""

    path: Path
    header: RunHeader
    footer: RunFooter | None
    files: tuple[Path, ...]

    def cells(
        self, damage: list[Damage] | None = None, *, unparsed: re.Pattern[bytes] | None = None
    ) -> Iterator[StoredCell]:
        """Yield the cells, read one at a time, in the order of their slugs; `unparsed` is passed to `read_cell`.

        A cell without a readable header is skipped and appended to `damage`; without that list CellUnreadable is raised.
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
    """Headers and footers of the cells of a run; `files` counts all cells' files, including those in `damage`."""

    files: int
    ends: tuple[tuple[CellHeader, CellFooter | None], ...]
    damage: tuple[Damage, ...]


def read_header(run_dir: Path) -> RunHeader:
    """Return the header of a run, from `run.json`. Raises RunDirectoryError where it is missing or invalid, SchemaTooNew."""
    return _read_document(run_dir / RUN_FILE, RunHeader)


def read_run(run_dir: Path) -> StoredRun:
    """Return a run with its header and footer; the cells are read later. Raises RunDirectoryError, SchemaTooNew."""
    footer = run_dir / FOOTER_FILE
    return StoredRun(
        path=run_dir,
        header=read_header(run_dir),
        footer=_read_document(footer, RunFooter) if os.path.lexists(footer) else None,
        files=cell_files(run_dir),
    )


def read_cell(path: Path, *, unparsed: re.Pattern[bytes] | None = None) -> StoredCell:
    """Return the cell in a file; lines that cannot be read are in its `damage`.

    Whole lines, one or more, that the pattern `unparsed` matches from the beginning of a line are not parsed, which would take nine
    tenths of the time, but returned in `StoredCell.unparsed`. Raises CellUnreadable where the header cannot be read, SchemaTooNew;
    OSError where the machine ran out of a resource.
    """
    header: CellHeader | None = None
    events: list[AnyEvent] = []
    verdicts: list[Verdict] = []
    footer: CellFooter | None = None
    damage: list[Damage] = []
    unparsed_lines: list[bytes] = []
    for number, value in parse_lines(path, unparsed):
        if isinstance(value, bytes):
            unparsed_lines.append(value)
            continue
        if isinstance(value, Damage):
            damage.append(value)
            continue
        try:
            match value.pop("record", None):
                case "cell" if number == 1:
                    header = _validate_header(path, value)
                case "event":
                    events.append(EVENT_ADAPTER.validate_python(value))
                case "verdict":
                    verdicts.append(Verdict.model_validate(value))
                case "footer":
                    footer = CellFooter.model_validate(value)
                case name:
                    damage.append(Damage(path, number, f"unexpected kind of record: {str(name)[:40]!r}"))
        except ValidationError as error:
            damage.append(Damage(path, number, _error_text(error)))
    if header is None:
        missing = "it has no header line" if events or verdicts or footer or damage else "the file is empty"
        why = damage[0].why if damage and damage[0].line == 1 else missing
        raise CellUnreadable(path, why)
    return StoredCell(
        path=path,
        header=header,
        events=tuple(events),
        verdicts=tuple(verdicts),
        footer=footer,
        damage=tuple(damage),
        unparsed=b"".join(unparsed_lines),
    )


def read_cell_ends(run_dir: Path, folder: str = CELLS_FOLDER) -> CellEnds:
    """Return the header and footer of each cell in a folder of a run; the lines between are not parsed. Raises SchemaTooNew.

    A cell without a readable header becomes a damage.
    """
    files = cell_files(run_dir, folder)
    ends: list[tuple[CellHeader, CellFooter | None]] = []
    damage: list[Damage] = []
    for path in files:
        try:
            ends.append(read_cell_end(path))
        except CellUnreadable as error:
            damage.append(Damage(path, 1, error.why))
    return CellEnds(files=len(files), ends=tuple(ends), damage=tuple(damage))


def read_cell_end(path: Path) -> tuple[CellHeader, CellFooter | None]:
    """Return the header of a cell's file and its footer; the footer is None for a cell that was cut short.

    The lines between are not parsed. Raises CellUnreadable where the header cannot be read, SchemaTooNew.
    """
    octets, problem = read_history(path)
    if problem and not octets:
        raise CellUnreadable(path, problem)
    first, tail = octets.partition(b"\n")[0], octets[-_TAIL:]
    try:
        return _validate_header(path, _json_object(_parse_json(first))), _parse_footer(tail)
    except ValueError as error:
        raise CellUnreadable(path, _error_text(error)) from error


def parse_lines(
    path: Path, unparsed: re.Pattern[bytes] | None = None
) -> Iterator[tuple[int, dict[str, Any] | Damage | bytes]]:
    """Yield each line of a cell's file with its number from 1: its JSON object, or the Damage that prevents reading it.

    Consecutive lines that match `unparsed` are yielded together as bytes, with the number of the first. A file that cannot be
    read or unpacked to its end gives a Damage after the lines that could be read; an empty file gives nothing.
    """
    octets, problem = read_history(path)
    start, number = 0, 1
    while start < len(octets):
        if unparsed is not None and (match := unparsed.match(octets, start)) is not None:
            yield number, match[0]
            number += match[0].count(b"\n")
            start = match.end()
            continue
        end = octets.find(b"\n", start) + 1 or len(octets)
        yield number, _parse_line(path, number, octets[start:end])
        start, number = end, number + 1
    if problem:
        yield number, Damage(path, number, problem)


def _parse_line(path: Path, number: int, line: bytes) -> dict[str, Any] | Damage:
    """Return the JSON object of a line, or why the line has none: it lacks its end, or is not a JSON object."""
    if not line.endswith(b"\n"):
        return Damage(path, number, f"the last line was cut short after {len(line)} octets")
    try:
        value = _parse_json(line)
    except ValueError as error:
        return Damage(path, number, f"not JSON: {_error_text(error)}")
    return value if isinstance(value, dict) else Damage(path, number, "not a JSON object")


def _parse_json(octets: bytes) -> object:
    """Return a JSON value. Raises ValueError, also for NaN and infinity, which JSON excludes."""
    return from_json(octets, allow_inf_nan=False)


def _json_object(value: object) -> dict[str, Any]:
    """Return a JSON value unchanged if it is an object. Raises ValueError for any other."""
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004  # callers handle one error for any bad content
    return value


def _validate_header(path: Path, value: dict[str, Any]) -> CellHeader:
    """Return a cell's header from its JSON object. Raises SchemaTooNew, and ValidationError (a ValueError)."""
    _refuse_newer(path, value)
    return CellHeader.model_validate(value)


def _parse_footer(tail: bytes) -> CellFooter | None:
    """Return the footer in the last line of a file's last octets, or None where that line is not a complete footer.

    A line without its end was cut short, even where it can be parsed.
    """
    last = tail.rstrip(b"\n").rpartition(b"\n")[2]
    try:
        return CellFooter.model_validate_json(last) if tail.endswith(b"\n") else None
    except ValidationError:
        return None


def _read_document(path: Path, model: type[M]) -> M:
    """Return the record of this class in a JSON file that has one record.

    Raises RunDirectoryError where the file is missing or damaged, SchemaTooNew for a later schema; OSError where the machine ran
    out of a resource.
    """
    try:
        value = _json_object(_parse_json(read_regular(path)))
        _refuse_newer(path, value)
        return model.model_validate(value)
    except FileNotFoundError:
        raise RunDirectoryError(f"{path.parent} is not a run directory: it has no {path.name}") from None
    except OSError as error:
        if shortage_of(error):
            raise
        raise RunDirectoryError(f"{path}: it cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise RunDirectoryError(f"{path}: {_error_text(error)}") from error


def _refuse_newer(path: Path, value: dict[str, Any]) -> None:
    """Raise SchemaTooNew where a record (`value`) is of a later schema than this version reads; `path` is for the message.

    A number that is missing or not whole is not refused here.
    """
    number = value.get("schema")
    if isinstance(number, int) and number > SCHEMA:
        raise SchemaTooNew(
            f"{path}: written with schema {number}, and this version reads up to {SCHEMA}; use a later version"
        )


def _error_text(error: ValueError) -> str:
    """Return an error in one line of at most 300 characters, without the offending values: those may be hostile."""
    if isinstance(error, ValidationError):
        parts = [f"{'.'.join(map(str, e['loc']))[:80]}: {e['msg']}" for e in error.errors(include_input=False)]
        return "; ".join(parts[:3])[:300]
    return ascii(str(error))[1:-1][:200]
