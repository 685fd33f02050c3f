"""Writing of a run directory while the run goes on, so that a killed run leaves a directory that can be read.

`begin_run` links `run.json` into place: the first of several workers wins, the others compare their headers with it.
`CellWriter` appends a cell's header, events, verdicts and footer as lines of JSON to a plain file. `finish_run` sums the
footers up in `footer.json` when all workers have ended.

Events are collected and written by `flush`, which the run calls before time passes in the cell (on a clock of real time:
after each event). Lines are handed to the operating system but not synced to the disk. So a crash of the program loses at
most the events of one moment of virtual time; a crash of the machine may lose more.

A *cell* is one scenario with one value for each of its axes, run with one candidate. A finished cell's file is compressed. The
directories of its nodes, the servers under test, become a ZIP file where the cell passed or was not applicable; otherwise they stay,
because a person will read the logs.
"""

import json
import os
from collections import Counter
from datetime import UTC, datetime
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

from pydantic import BaseModel, TypeAdapter
from pydantic_core import SchemaSerializer, to_json

from conformance.history.events import AnyEvent, Event
from conformance.results.atomic_write import write_atomically
from conformance.results.compression import archive_attachments, compress_history
from conformance.results.layout import (
    CELLS_FOLDER,
    FOOTER_FILE,
    LATE_FOLDER,
    PLAIN_SUFFIX,
    RUN_FILE,
    RunDirectoryError,
    archive_path,
    attachments_folder,
    cell_file,
    slug,
)
from conformance.results.reader import read_cell_ends, read_header
from conformance.results.schema import CellFooter, CellHeader, RunFooter, RunHeader
from conformance.untrusted.tree import delete_tree
from conformance.verdicts import Outcome, Verdict
from conformance.verdicts.outcome import OK_OUTCOMES

_SAME_RUN = ("schema_number", "run", "seed", "clock", "scale", "grid", "candidates", "suite_sha256")
"""The fields of `run.json` in which all workers of one run agree."""

_MAX_SENTENCE = 4000
"""Characters of a sentence in a footer: `reader` looks for the footer in the last 64 KiB of a file."""
_FEW_CELLS = 16
"""Up to this number of cells, reading the cells' files is as fast as reading Parquet."""


class CellWriter:
    """A context manager that writes the file of one cell; the cell is cut short where the block ends without `finish`.

    `path` is that of the plain file, and after `finish` that of the compressed one. `attachments` is the folder for the
    directories of the cell's nodes; it is removed at the end where it is empty. `_unwritten` are the events since the
    last `flush`; `_events` and `_verdicts` count all for the footer.
    """

    def __init__(self, run_dir: Path, header: CellHeader) -> None:
        """Look whether the run directory has a file of this cell already; nothing is written before the block begins."""
        self.header = header
        name = slug(header.nodeid)
        self._existing_file = cell_file(run_dir, name)
        self.path = run_dir / CELLS_FOLDER / f"{name}{PLAIN_SUFFIX}"
        self.attachments = attachments_folder(self.path)
        self._unwritten: list[AnyEvent] = []
        self._events = 0
        self._verdicts = 0

    def __enter__(self) -> Self:
        """Create the file and the folder of attachments, write the header, and return this writer.

        Raises RunDirectoryError where the run has a file of this cell already.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.attachments.mkdir(exist_ok=True)
        try:
            if self._existing_file is not None:
                raise FileExistsError(self._existing_file)
            self._file = self.path.open("xb")
        except FileExistsError as error:
            raise RunDirectoryError(
                f"{self.path}: this cell was run before in this directory; use another directory"
            ) from error
        self._write(json_line(self.header))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write the collected events and close the file, unless `finish` did; remove an empty folder of attachments."""
        if not self._file.closed:
            try:
                self.flush()
            finally:
                self._file.close()
        if self.attachments.is_dir() and not any(self.attachments.iterdir()):
            self.attachments.rmdir()

    def add_event(self, event: AnyEvent) -> None:
        """Collect an event, which the next `flush` writes: writing the events of one moment together takes half the time."""
        self._unwritten.append(event)
        self._events += 1

    def write_verdict(self, verdict: Verdict) -> None:
        """Write the collected events, then a verdict: verdicts come after the events that they rest on."""
        self._write(json_line(verdict, "verdict"))
        self._verdicts += 1

    def finish(
        self,
        outcome: Outcome,
        sentence: str,
        *,
        wall_seconds: float,
        cpu_seconds: float,
        simulated_seconds: float,
        known: str = "",
    ) -> None:
        """Write the footer, close and compress the file; nothing can be written after that.

        The sentence is cut at 4,000 characters; the verdict that it comes from is not. `known` is the baseline's comment
        where every failure is known. The nodes' directories are compressed too where the cell passed or did not apply.
        """
        footer = CellFooter(
            outcome=outcome,
            sentence=sentence[:_MAX_SENTENCE],
            events=self._events,
            verdicts=self._verdicts,
            wall_seconds=round(wall_seconds, 6),
            cpu_seconds=round(cpu_seconds, 6),
            simulated_seconds=round(simulated_seconds, 6),
            known=known[:_MAX_SENTENCE] or None,
        )
        self._write(json_line(footer))
        self._file.close()
        self.path = compress_history(self.path)
        if outcome in OK_OUTCOMES and any(self.attachments.iterdir()):
            archive_attachments(self.attachments)

    def flush(self) -> None:
        """Write the collected events and hand them to the operating system."""
        unwritten, self._unwritten = self._unwritten, []
        self._file.writelines(map(event_json_line, unwritten))
        self._file.flush()

    def _write(self, line: bytes) -> None:
        """Write the collected events, then a line, and hand both to the operating system."""
        self.flush()
        self._file.write(line)
        self._file.flush()


def move_first_attempt(run_dir: Path, nodeid: str) -> None:
    """Move the files of a cell from `cells/` to `late/`, so that the cell can be run again.

    The folder `late` is created; a cell without files is not an error. The directories of its nodes become a ZIP file. A cell
    that ended well has its ZIP file already; the folder of another is compressed after the move.
    """
    name = slug(nodeid)
    (run_dir / LATE_FOLDER).mkdir(exist_ok=True)
    for path in (run_dir / CELLS_FOLDER).glob(f"{name}*"):
        path.rename(run_dir / LATE_FOLDER / path.name)
    if (folder := run_dir / LATE_FOLDER / name).is_dir():
        archive_attachments(folder)
    elif (archive := archive_path(run_dir / CELLS_FOLDER / name)).is_file():
        target = archive_path(folder)
        target.parent.mkdir(exist_ok=True)
        archive.rename(target)


def json_line(record: BaseModel, name: str = "") -> bytes:
    """Return a record as one line of JSON, with a leading field `record` of this name unless the name is ''.

    The name is '' for a record that has that field itself. Fields that are None are left out.
    """
    text = to_json(record, by_alias=True, exclude_none=True)
    return b'{"record":"%b",%b\n' % (name.encode(), text[1:]) if name else text + b"\n"


def event_json_line(event: AnyEvent) -> bytes:
    """Return an event as one line of JSON, with the leading field `"record":"event"`; fields that are None are left out."""
    serializer = _serializer(type(event))  # type: ignore[arg-type]  # a class has a hash, whatever its objects have
    return b'{"record":"event",%b\n' % serializer.to_json(event, exclude_none=True)[1:]


@cache
def _serializer(kind: type[Event]) -> SchemaSerializer:
    """Return the serializer of a class of events, made once: that of the union `AnyEvent` would determine each event's class."""
    return TypeAdapter(kind).serializer


def delete_run(run_dir: Path) -> None:
    """Delete a directory that holds a run (`holds_run`) or the start of one (`is_unstarted_run`); any other stays.

    `run.json` is deleted last: a directory whose deletion was interrupted still counts as a run and can be deleted again.
    Raises RunDirectoryError for a file that cannot be deleted.
    """
    if holds_run(run_dir) or is_unstarted_run(run_dir):
        delete_run_content(run_dir)
        run_dir.rmdir()


def delete_run_content(run_dir: Path) -> None:
    """Delete the files that `delete_run` deletes, but not the directory itself, which a process may hold locked.

    Raises RunDirectoryError for a file that cannot be deleted. Nothing is done to a directory that is not a run's.
    """
    if not holds_run(run_dir) and not is_unstarted_run(run_dir):
        return
    for path in sorted(run_dir.iterdir(), key=lambda path: path.name == RUN_FILE):
        if not delete_tree(path):
            raise RunDirectoryError(f"{path} cannot be deleted")


def holds_run(run_dir: Path) -> bool:
    """Return whether a directory has a `run.json`, even one that is a broken link."""
    return os.path.lexists(run_dir / RUN_FILE)


def is_unstarted_run(run_dir: Path) -> bool:
    """Return whether a directory has files or folders, and all of them are those that a run makes before its `run.json`.

    These are the hidden file that becomes `run.json`, and the folders `cells` and `allure-results` while they are empty. False
    for an empty directory, for one that does not exist, and for one with a `run.json`.
    """
    if not run_dir.is_dir() or holds_run(run_dir):
        return False
    paths = list(run_dir.iterdir())
    folders = (CELLS_FOLDER, "allure-results")
    return bool(paths) and all(
        path.name.startswith(f".{RUN_FILE}.") or (path.name in folders and path.is_dir() and not any(path.iterdir()))
        for path in paths
    )


def begin_run(run_dir: Path, header: RunHeader) -> RunHeader:
    """Write `run.json` and return its header; of several workers of one run, all get the header of the first.

    The directory and its folder `cells` are created where they are missing. Raises RunDirectoryError where the directory holds
    another run, or this run has ended.
    """
    (run_dir / CELLS_FOLDER).mkdir(parents=True, exist_ok=True)
    target = run_dir / RUN_FILE
    scratch = run_dir / f".{RUN_FILE}.{os.getpid()}"
    scratch.write_bytes(_indented_json(header))
    try:
        os.link(scratch, target)  # atomic: fails where the file exists, else creates it complete
    except FileExistsError:
        present = read_header(run_dir)
        differs = [name for name in _SAME_RUN if getattr(present, name) != getattr(header, name)]
        if differs or (run_dir / FOOTER_FILE).exists():
            raise RunDirectoryError(f"{run_dir} holds another run ({present.started}); use another directory") from None
        return present
    finally:
        scratch.unlink()
    return header


def finish_run(run_dir: Path, *, wall_seconds: float, interrupted: bool = False) -> RunFooter:
    """Write `footer.json`, the totals of the cells' footers, and return it; to be called when all workers have ended.

    `wall_seconds` is the duration of the run; `interrupted` says that it ended before its last cell. Cells that cannot
    be read are listed in the footer's `damage` and count as cut short. Where pyarrow is installed, a run of more than
    16 cells gets its Parquet tables too. Raises RunDirectoryError where the directory holds no run.
    """
    header = read_header(run_dir)
    cells, late = read_cell_ends(run_dir), read_cell_ends(run_dir, LATE_FOLDER)
    footers = [footer for _, footer in cells.ends if footer is not None]
    counts = Counter(footer.outcome for footer in footers)
    wall = max(wall_seconds, 1e-9)
    run_footer = RunFooter(
        finished=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        outcomes={outcome: counts[outcome] for outcome in Outcome},
        cells=cells.files,
        cut_short=cells.files - len(footers),
        missing=max(header.cells_planned - cells.files, 0),
        wall_seconds=round(wall_seconds, 3),
        cells_per_second=round(len(footers) / wall, 3),
        simulated_per_wall_second=round(sum(footer.simulated_seconds for footer in footers) / wall, 3),
        cpu_per_cell=round(sum(footer.cpu_seconds for footer in footers) / len(footers), 6) if footers else 0.0,
        interrupted=interrupted,
        again=tuple(header.nodeid for header, _ in late.ends),
        damage=tuple(str(damage) for damage in (*cells.damage, *late.damage)),
    )
    write_atomically(run_dir / FOOTER_FILE, _indented_json(run_footer))
    if cells.files > _FEW_CELLS and find_spec("pyarrow"):
        from conformance.results.parquet import write_parquet  # optional, and importing pyarrow takes a second

        write_parquet(run_dir)
    return run_footer


def _indented_json(record: BaseModel) -> bytes:
    """Return a record as JSON for a file that people read; fields without a value are null."""
    value = record.model_dump(mode="json", by_alias=True)
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()
