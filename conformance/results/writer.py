"""Writes a run directory as the run goes: what was written stays, also when the program is killed a moment later.

What a cell's file has got is handed to the operating system before any time passes in the cell, and in real time at once.
It is not forced to the disk: a crash of the program loses at most what happened in the same moment of virtual time, a crash
of the machine may lose more.
The file of a cell that has ended is compressed; so are the directories of its nodes when all went well.
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
    cell_files,
    slug,
)
from conformance.results.reader import read_cell_end, read_cell_ends, read_header
from conformance.results.schema import CellFooter, CellHeader, RunFooter, RunHeader
from conformance.untrusted.tree import delete_tree
from conformance.verdicts import Outcome, Verdict
from conformance.verdicts.outcome import OK_OUTCOMES

_SAME_RUN = ("schema_number", "run", "seed", "clock", "scale", "grid", "candidates", "suite_sha256")
"""What the headers of two workers of one run agree in."""

"""Of cells that ended so nobody looks for a node's log first: they are compressed too."""
_SENTENCE = 4000
_FEW_CELLS = 16
"""So many cells are read from their files as fast as from Parquet."""


class CellWriter:
    """The file of one cell, open from its header to its footer; leaving the context without `finish` cuts it short.

    `path` is where it is: a plain file, and once it was finished a compressed one.
    """

    def __init__(self, run_dir: Path, header: CellHeader) -> None:
        self.header = header
        name = slug(header.nodeid)
        self._before = cell_file(run_dir, name)
        self.path = run_dir / CELLS_FOLDER / f"{name}{PLAIN_SUFFIX}"
        self.attachments = attachments_folder(self.path)
        self._waiting: list[AnyEvent] = []
        self._events = 0
        self._verdicts = 0

    def __enter__(self) -> Self:
        """Create the file and write the header. Raises RunDirectoryError when the cell was run in this run already."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.attachments.mkdir(exist_ok=True)
        try:
            if self._before is not None:
                raise FileExistsError(self._before)
            self._file = self.path.open("xb")
        except FileExistsError as error:
            raise RunDirectoryError(f"{self.path}: this cell was run before in this directory; take another") from error
        self._write(json_line(self.header))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._file.closed:
            try:
                self.flush()
            finally:
                self._file.close()
        if self.attachments.is_dir() and not any(self.attachments.iterdir()):
            self.attachments.rmdir()

    def add_event(self, event: AnyEvent) -> None:
        """Take an event; the next `flush` writes it. Those of one moment written together take half the time."""
        self._waiting.append(event)
        self._events += 1

    def write_verdict(self, verdict: Verdict) -> None:
        """Write a verdict."""
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
        """Write the footer, and compress the file: the cell is whole, and nothing can be written any more.

        A sentence is cut at 4,000 characters; its verdict has all of it.
        """
        footer = CellFooter(
            outcome=outcome,
            sentence=sentence[:_SENTENCE],
            events=self._events,
            verdicts=self._verdicts,
            wall_seconds=round(wall_seconds, 6),
            cpu_seconds=round(cpu_seconds, 6),
            simulated_seconds=round(simulated_seconds, 6),
            known=known[:_SENTENCE] or None,
        )
        self._write(json_line(footer))
        self._file.close()
        self.path = compress_history(self.path)
        if outcome in OK_OUTCOMES and any(self.attachments.iterdir()):
            archive_attachments(self.attachments)

    def flush(self) -> None:
        """Write the events that wait, and hand all to the operating system."""
        waiting, self._waiting = self._waiting, []
        self._file.writelines(map(event_json_line, waiting))
        self._file.flush()

    def _write(self, line: bytes) -> None:
        self.flush()
        self._file.write(line)
        self._file.flush()


def move_first_attempt(run_dir: Path, nodeid: str) -> None:
    """Make room for a cell to be run once more: what its first attempt has left is kept in a folder of its own."""
    name = slug(nodeid)
    (run_dir / LATE_FOLDER).mkdir(exist_ok=True)
    for left in (run_dir / CELLS_FOLDER).glob(f"{name}*"):
        left.rename(run_dir / LATE_FOLDER / left.name)
    if (folder := run_dir / LATE_FOLDER / name).is_dir():
        archive_attachments(folder)
    elif (archive := archive_path(run_dir / CELLS_FOLDER / name)).is_file():
        target = archive_path(folder)
        target.parent.mkdir(exist_ok=True)
        archive.rename(target)


def json_line(record: BaseModel, name: str = "") -> bytes:
    """Return a record as one line of JSON; `name` becomes its `record` where the record has none of its own."""
    text = to_json(record, by_alias=True, exclude_none=True)
    return b'{"record":"%b",%b\n' % (name.encode(), text[1:]) if name else text + b"\n"


def event_json_line(event: AnyEvent) -> bytes:
    """Return an event as one line of JSON, as a part of which `record` comes first."""
    serializer = _serializer(type(event))  # type: ignore[arg-type]  # a class has a hash, whatever its objects have
    return b'{"record":"event",%b\n' % serializer.to_json(event, exclude_none=True)[1:]


@cache
def _serializer(kind: type[Event]) -> SchemaSerializer:
    """Return what makes JSON of events of a kind; the union's own would look for the kind of each."""
    return TypeAdapter(kind).serializer


def delete_run(run_dir: Path) -> None:
    """Delete a run directory that holds a run, or what a run that was killed at its start has left; anything else stays.

    `run.json` goes last: what is left when this is killed is a run still. Raises RunDirectoryError for what cannot be deleted.
    """
    if holds_run(run_dir) or is_unstarted_run(run_dir):
        delete_run_content(run_dir)
        run_dir.rmdir()


def delete_run_content(run_dir: Path) -> None:
    """Delete what `remove_run` deletes, but for the directory itself, which somebody may hold locked."""
    if not holds_run(run_dir) and not is_unstarted_run(run_dir):
        return
    for path in sorted(run_dir.iterdir(), key=lambda path: path.name == RUN_FILE):
        if not delete_tree(path):
            raise RunDirectoryError(f"{path} cannot be deleted")


def holds_run(run_dir: Path) -> bool:
    """Whether there is a run in a directory."""
    return os.path.lexists(run_dir / RUN_FILE)


def is_unstarted_run(run_dir: Path) -> bool:
    """Whether a directory holds nothing but what a run makes before it has its `run.json`."""
    if not run_dir.is_dir() or holds_run(run_dir):
        return False
    left = list(run_dir.iterdir())
    own = (CELLS_FOLDER, "allure-results")
    return bool(left) and all(
        path.name.startswith(f".{RUN_FILE}.") or (path.name in own and path.is_dir() and not any(path.iterdir()))
        for path in left
    )


def begin_run(run_dir: Path, header: RunHeader) -> RunHeader:
    """Write `run.json` and return the header that holds; of several workers of one run the first one's does.

    Raises RunDirectoryError when the directory holds another run, or the same one finished.
    """
    (run_dir / CELLS_FOLDER).mkdir(parents=True, exist_ok=True)
    target = run_dir / RUN_FILE
    scratch = run_dir / f".{RUN_FILE}.{os.getpid()}"
    scratch.write_bytes(_pretty(header))
    try:
        os.link(scratch, target)  # fails when it is there, whole or not at all when it is not
    except FileExistsError:
        present = read_header(run_dir)
        differs = [name for name in _SAME_RUN if getattr(present, name) != getattr(header, name)]
        if differs or (run_dir / FOOTER_FILE).exists():
            raise RunDirectoryError(
                f"{run_dir} holds another run ({present.started}); take another directory"
            ) from None
        return present
    finally:
        scratch.unlink()
    return header


def finish_run(run_dir: Path, *, wall_seconds: float, interrupted: bool = False) -> RunFooter:
    """Sum the cells' files up in `footer.json`, once all workers have ended, and return it.

    `wall_seconds` is how long the run took. What cannot be read is told in the footer, and counts as cut short. Where
    pyarrow is installed, a run of more than a few cells gets its Parquet tables too.
    Raises RunDirectoryError when there is no run in the directory.
    """
    header = read_header(run_dir)
    cells = read_cell_ends(run_dir)
    whole = [footer for _, footer in cells.ends if footer is not None]
    counts = Counter(footer.outcome for footer in whole)
    wall = max(wall_seconds, 1e-9)
    footer = RunFooter(
        finished=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        outcomes={outcome: counts[outcome] for outcome in Outcome},
        cells=cells.files,
        cut_short=cells.files - len(whole),
        missing=max(header.cells_planned - cells.files, 0),
        wall_seconds=round(wall_seconds, 3),
        cells_per_second=round(len(whole) / wall, 3),
        simulated_per_wall_second=round(sum(one.simulated_seconds for one in whole) / wall, 3),
        cpu_per_cell=round(sum(one.cpu_seconds for one in whole) / len(whole), 6) if whole else 0.0,
        interrupted=interrupted,
        again=tuple(read_cell_end(path)[0].nodeid for path in cell_files(run_dir, LATE_FOLDER)),
        damage=tuple(str(damage) for damage in cells.damage),
    )
    write_atomically(run_dir / FOOTER_FILE, _pretty(footer))
    if cells.files > _FEW_CELLS and find_spec("pyarrow"):
        from conformance.results.parquet import write_parquet  # a second to load, and optional

        write_parquet(run_dir)
    return footer


def _pretty(record: BaseModel) -> bytes:
    value = record.model_dump(mode="json", by_alias=True)
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()
