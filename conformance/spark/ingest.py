"""Run directories as the pipeline sees them: which there are, and the cells, verdicts and events of each as a table.

A run's Parquet tables are taken where it has some that are whole and not older than itself, else its cells' files,
line by line; lines that cannot be read are counted, told, and left out.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field

from conformance.results.columns import TABLES
from conformance.results.layout import PARQUET_FOLDER, RUN_FILE, RunDirectoryError
from conformance.results.manifest import Manifest, compute_manifest, read_current_manifest, sha256_of_file
from conformance.results.parquet import arrow_schema, run_tables
from conformance.results.reader import read_run
from conformance.results.schema import RunHeader

_DENSITY = 20
"""Octets of a cell's lines that became one of Parquet, about."""
_LONGEST_PATH = 4096
"""Octets of a path, with its end, that a system call takes."""
_TOLD = 100
"""Damaged lines of a run that are told; all are counted."""


class IngestedRun(BaseModel):
    """What the warehouse knows of one run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    content_sha256: str
    path: str
    header: RunHeader
    parquet: bool = Field(description="whether its Parquet tables were taken")
    octets: int = Field(description="size of its cells' files, about")
    damaged: int = Field(0, description="lines and files that could not be read")
    damage: tuple[str, ...] = Field((), description="some of them, as file: line")


@dataclass(frozen=True, slots=True)
class ReadableRuns:
    """The runs that were found, by name, and what could not be read at all, in words."""

    runs: Mapping[str, IngestedRun]
    unreadable: tuple[str, ...]


def find_runs(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Return the run directories that are, or lie below, the paths; each once, sorted.

    Raises RunDirectoryError for a path without any.
    """
    found: set[Path] = set()
    for path in paths:
        below = set(_runs_below(path))
        if not below:
            raise RunDirectoryError(f"{path} is no run directory and has none below it (no {RUN_FILE})")
        found |= {one.resolve() for one in below}
    return tuple(sorted(found))


def _runs_below(path: Path) -> Iterator[Path]:
    """Yield the run directories that a path is or has below it.

    Nothing is looked for in a run: what lies there a node may have written. No link is followed but the path itself.
    """
    folders = [path]
    while folders:
        folder = folders.pop()
        if (folder / RUN_FILE).is_file():
            yield folder
            continue
        with suppress(PermissionError, NotADirectoryError), os.scandir(folder) as entries:
            below = [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
            folders += [one for one in below if len(os.fsencode(one / RUN_FILE)) < _LONGEST_PATH]


def read_headers(paths: Sequence[Path]) -> ReadableRuns:
    """Read headers and hashes of runs. The same run twice (a copy) counts once.

    A run whose header cannot be read is told and left out. Raises RunDirectoryError when two different runs have one
    name, or none can be read; SchemaTooNew.
    """
    runs: dict[str, IngestedRun] = {}
    unreadable: list[str] = []
    for path in paths:
        try:
            header = read_run(path).header
        except RunDirectoryError as error:
            unreadable.append(str(error))
            continue
        found = _look(path, header)
        known = runs.setdefault(header.run, found)
        if known.content_sha256 != found.content_sha256:
            raise RunDirectoryError(f"{known.path} and {path} are different runs named {header.run!r}: rename one")
    if unreadable and not runs:
        raise RunDirectoryError(unreadable[0])
    return ReadableRuns(runs, tuple(unreadable))


def _look(path: Path, header: RunHeader) -> IngestedRun:
    stored = read_current_manifest(path)
    trouble = _trouble(path, stored) if stored else ()
    if stored is None or trouble:
        manifest = compute_manifest(path)
        return IngestedRun(
            content_sha256=manifest.content_sha256,
            path=str(path),
            header=header,
            parquet=False,
            octets=manifest.octets,
            damaged=len(trouble),  # what is wrong with its lines is told when they are read
            damage=trouble,
        )
    return IngestedRun(
        content_sha256=stored.content_sha256,
        path=str(path),
        header=header,
        parquet=True,
        octets=_DENSITY * sum(_table(path, name).stat().st_size for name in TABLES),
        damaged=stored.damaged,
        damage=stored.damage,
    )


def _trouble(path: Path, stored: Manifest) -> tuple[str, ...]:
    """Return which of a run's Parquet tables are not what its manifest says."""
    told = []
    for name in TABLES:
        try:
            found = sha256_of_file(_table(path, name))  # first: it takes no pipe for a file
            rows = pq.read_metadata(_table(path, name)).num_rows
        except (OSError, pa.ArrowInvalid) as error:
            told.append(f"{PARQUET_FOLDER}/{name}.parquet: {ascii(str(error))[1:120]}")
            continue
        if found != stored.tables.get(name, found):
            told.append(f"{PARQUET_FOLDER}/{name}.parquet: not the file that was written")
        elif rows != stored.rows.get(name, rows):
            told.append(f"{PARQUET_FOLDER}/{name}.parquet: {rows} rows, not the {stored.rows[name]} that were written")
    return tuple(told)


def check_tables(runs: Iterable[Path]) -> None:
    """Read the Parquet tables of runs. Raises RunDirectoryError for the first that is damaged."""
    for run in runs:
        for name in TABLES:
            file = _table(run, name)
            if not file.is_file():
                continue
            try:
                pq.read_table(file, partitioning=None)
            except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
                raise RunDirectoryError(
                    f"{file} is damaged: delete {file.parent}, and the lines of the run's cells are read"
                ) from error


def _table(path: Path, name: str) -> Path:
    return path / PARQUET_FOLDER / f"{name}.parquet"


def read_tables(run: IngestedRun, columns: Mapping[str, Sequence[str]]) -> tuple[IngestedRun, dict[str, pa.Table]]:
    """Return a run's tables `cells`, `verdicts` and `events`, and the run with what could not be read of it.

    Of its Parquet tables only these columns are read; those that are not named here are read whole. Raises SchemaTooNew when a
    cell's file is of a newer schema.
    """
    path = Path(run.path)
    if run.parquet:
        return run, {name: _read(_table(path, name), name, columns.get(name)) for name in TABLES}
    made, damage = run_tables(path)
    told = tuple(str(one) for one in damage)
    found = {"damaged": run.damaged + len(told), "damage": (*run.damage, *told)[:_TOLD]}
    return run.model_copy(update=found), made


def _read(path: Path, name: str, columns: Sequence[str] | None) -> pa.Table:
    """Return a table; a column that has come since it was written is null."""
    fields = [field for field in arrow_schema(TABLES[name]) if columns is None or field.name in columns]
    return pq.read_table(path, schema=pa.schema(fields), partitioning=None)


def escape_glob(path: Path) -> str:
    """Return a path as Spark must be told it: what it takes for a pattern elsewhere means itself."""
    return "".join(f"\\{one}" if one in "[]{}*?\\" else one for one in str(path))


def run_rows(runs: Mapping[str, IngestedRun]) -> pa.Table:
    """Return a row for each run: what its header says, and how much of it could not be read."""
    texts = {name: pa.string() for name in ("run", "started", "harness", "clock")}
    schema = pa.schema(
        {
            **texts,
            **dict.fromkeys(("seed", "cells_planned", "schema_number", "damaged"), pa.int64()),
            "filtered": pa.bool_(),
        }
    )
    rows = [run.header.model_dump(include=set(schema.names)) | {"damaged": run.damaged} for run in runs.values()]
    return pa.Table.from_pylist(rows, schema)


def candidate_rows(runs: Mapping[str, IngestedRun]) -> pa.Table:
    """Return a row for each run and candidate in it, with what it claims."""
    schema = pa.schema({"run": pa.string(), "candidate": pa.string(), "claims": pa.list_(pa.string())})
    rows = [
        {"run": name, "candidate": one.name, "claims": list(one.claims)}
        for name, run in runs.items()
        for one in run.header.candidates
    ]
    return pa.Table.from_pylist(rows, schema)
