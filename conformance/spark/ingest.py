"""Find the directories of runs and explorations, and read runs as Arrow tables: the cells, verdicts and events of each.

A run's own Parquet tables are read where they are as its manifest says; else the lines of its cells' files. The
manifest has the sizes of the cells' files that the tables were made of, a hash of the run's content, and hash and rows
of each table. Lines and files that cannot be read are counted, reported and left out: a run's *damage*. `aggregation` and
`write_layers` call this.
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
from conformance.results.exploration import EXPLORATION_FILE
from conformance.results.layout import PARQUET_FOLDER, RUN_FILE, RunDirectoryError
from conformance.results.manifest import Manifest, compute_manifest, read_current_manifest, sha256_of_file
from conformance.results.parquet import arrow_schema, run_tables
from conformance.results.reader import read_run
from conformance.results.schema import RunHeader

_COMPRESSION = 20
"""Octets of a cell's lines for each octet of Parquet, roughly."""
_MAX_PATH = 4096
"""Octets of a path, with its terminator, that a system call takes."""
_MAX_DAMAGE_KEPT = 100
"""Descriptions of damage that are kept for a run; all are counted."""


class IngestedRun(BaseModel):
    """A run directory, with what the warehouse needs to know about it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    content_sha256: str
    path: str
    header: RunHeader
    parquet: bool = Field(description="whether its Parquet tables are read")
    octets: int = Field(description="size of its cells' files, roughly")
    damaged: int = Field(0, description="lines and files that could not be read")
    damage: tuple[str, ...] = Field((), description="the first of them, as `file: line`")


@dataclass(frozen=True, slots=True)
class ReadableRuns:
    """The runs whose headers could be read, by name, and a message for each other run directory."""

    runs: Mapping[str, IngestedRun]
    unreadable: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FoundDirectories:
    """The directories of runs and of explorations, each once, resolved and sorted."""

    runs: tuple[Path, ...]
    explorations: tuple[Path, ...]


def find_directories(paths: Sequence[Path]) -> FoundDirectories:
    """Return the directories of runs and of explorations that are, or lie below, the paths.

    A directory counts by its file `run.json` or `exploration.json`. Raises RunDirectoryError for a path without any, OSError for
    one that does not exist.
    """
    found: dict[str, set[Path]] = {RUN_FILE: set(), EXPLORATION_FILE: set()}
    for path in paths:
        below = list(_directories_below(path))
        if not below:
            raise RunDirectoryError(
                f"{path} is not a run directory or that of an exploration, and has none below it "
                f"(no {RUN_FILE}, no {EXPLORATION_FILE})"
            )
        for directory, file in below:
            found[file].add(directory.resolve())
    return FoundDirectories(runs=tuple(sorted(found[RUN_FILE])), explorations=tuple(sorted(found[EXPLORATION_FILE])))


def _directories_below(path: Path) -> Iterator[tuple[Path, str]]:
    """Yield the directories of runs and explorations that a path is or has below it, each with the file that it is known by.

    They are not searched themselves, since nodes write into those of runs. No symbolic link is followed but the path itself.
    Folders that this user may not read, and paths that are too long to be used, are skipped.
    """
    folders = [path]
    while folders:
        folder = folders.pop()
        if file := next((name for name in (RUN_FILE, EXPLORATION_FILE) if (folder / name).is_file()), None):
            yield folder, file
            continue
        with suppress(PermissionError, NotADirectoryError), os.scandir(folder) as entries:
            children = [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
            folders += [child for child in children if len(os.fsencode(child / EXPLORATION_FILE)) < _MAX_PATH]


def read_headers(paths: Sequence[Path]) -> ReadableRuns:
    """Return the runs in these directories with their headers and content hashes; two copies of a run count once.

    A run without a readable header, or with one of a later program, becomes a message in `unreadable`. Raises RunDirectoryError
    where two different runs have the same name, or where every path became such a message; OSError.
    """
    runs: dict[str, IngestedRun] = {}
    unreadable: list[str] = []
    for path in paths:
        try:
            header = read_run(path).header
        except RunDirectoryError as error:
            unreadable.append(str(error))
            continue
        run = _inspect(path, header)
        known = runs.setdefault(header.run, run)
        if known.content_sha256 != run.content_sha256:
            raise RunDirectoryError(f"{known.path} and {path} are different runs named {header.run!r}: rename one")
    if unreadable and not runs:
        raise RunDirectoryError(unreadable[0])
    return ReadableRuns(runs, tuple(unreadable))


def _inspect(path: Path, header: RunHeader) -> IngestedRun:
    """Return a run with its content hash, after its Parquet tables were compared with their manifest.

    Without a manifest that fits the sizes of the run's files, or with a damaged table, all cells' files are read for the hash,
    and `parquet` is False: the run will be read from their lines. `damage` then has a message for each damaged table.
    """
    stored = read_current_manifest(path)
    damage = _damaged_tables(path, stored) if stored else ()
    if stored is None or damage:
        manifest = compute_manifest(path)
        return IngestedRun(
            content_sha256=manifest.content_sha256,
            path=str(path),
            header=header,
            parquet=False,
            octets=manifest.octets,
            damaged=len(damage),  # damaged lines are counted when they are read
            damage=damage,
        )
    return IngestedRun(
        content_sha256=stored.content_sha256,
        path=str(path),
        header=header,
        parquet=True,
        octets=_COMPRESSION * sum(_table_file(path, name).stat().st_size for name in TABLES),
        damaged=stored.damaged,
        damage=stored.damage,
    )


def _damaged_tables(path: Path, manifest: Manifest) -> tuple[str, ...]:
    """Return a message for each of a run's Parquet tables that is not as its manifest says.

    A hash or number of rows that the manifest lacks is not compared.
    """
    messages = []
    for name in TABLES:
        try:
            digest = sha256_of_file(_table_file(path, name))  # before pyarrow opens it: this refuses a pipe
            rows = pq.read_metadata(_table_file(path, name)).num_rows
        except (OSError, pa.ArrowInvalid) as error:
            messages.append(f"{PARQUET_FOLDER}/{name}.parquet: {ascii(str(error))[1:120]}")  # without the quote
            continue
        if digest != manifest.tables.get(name, digest):
            messages.append(f"{PARQUET_FOLDER}/{name}.parquet: not the file that was written")
        elif rows != manifest.rows.get(name, rows):
            messages.append(
                f"{PARQUET_FOLDER}/{name}.parquet: {rows} rows, not the {manifest.rows[name]} that were written"
            )
    return tuple(messages)


def check_tables(runs: Iterable[Path]) -> None:
    """Read the Parquet tables of these run directories completely. Raises RunDirectoryError for the first that is damaged.

    A missing table is not damage.
    """
    for run in runs:
        for name in TABLES:
            file = _table_file(run, name)
            if not file.is_file():
                continue
            try:
                pq.read_table(file, partitioning=None)
            except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
                raise RunDirectoryError(
                    f"{file} is damaged: delete {file.parent}, so that the run's cells are read line by line"
                ) from error


def _table_file(run: Path, name: str) -> Path:
    """Return the path of one of a run's own Parquet tables, which need not exist."""
    return run / PARQUET_FOLDER / f"{name}.parquet"


def read_tables(run: IngestedRun, columns: Mapping[str, Sequence[str]]) -> tuple[IngestedRun, dict[str, pa.Table]]:
    """Return the run, with any damaged lines that were found, and its tables `cells`, `verdicts` and `events` by name.

    `columns` has, by table, the columns to read from a Parquet table; a table that it does not name is read whole.
    Tables made of the cells' lines have all columns. Raises SchemaTooNew where a cell's file is of a later schema.
    """
    path = Path(run.path)
    if run.parquet:
        return run, {name: _read_parquet(_table_file(path, name), name, columns.get(name)) for name in TABLES}
    tables, damage = run_tables(path)
    damage_kept = (*run.damage, *map(str, damage))[:_MAX_DAMAGE_KEPT]
    return run.model_copy(update={"damaged": run.damaged + len(damage), "damage": damage_kept}), tables


def _read_parquet(file: Path, name: str, columns: Sequence[str] | None) -> pa.Table:
    """Return one of a run's tables, `name`, from its file, with those of the current schema's columns that `columns` names.

    None: with all of them. A column that was added to the schema after the file was written is null.
    """
    fields = [field for field in arrow_schema(TABLES[name]) if columns is None or field.name in columns]
    return pq.read_table(file, schema=pa.schema(fields), partitioning=None)


def escape_glob(path: Path) -> str:
    """Return a path for Spark, which reads paths as glob patterns, with each special character escaped."""
    return "".join(f"\\{char}" if char in "[]{}*?\\" else char for char in str(path))


def run_rows(runs: Mapping[str, IngestedRun]) -> pa.Table:
    """Return a row for each run, for the view `runs`: fields of its header, and `damaged`, a number of lines."""
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
    """Return a row for each run and candidate in it, for the view `candidates`: kind, version, description's hash, claims."""
    texts = {name: pa.string() for name in ("run", "candidate", "kind", "version", "candidate_sha256")}
    schema = pa.schema({**texts, "claims": pa.list_(pa.string())})
    rows = [
        {
            "run": name,
            "candidate": candidate.name,
            "kind": candidate.kind,
            "version": candidate.version,
            "candidate_sha256": candidate.sha256,
            "claims": list(candidate.claims),
        }
        for name, run in runs.items()
        for candidate in run.header.candidates
    ]
    return pa.Table.from_pylist(rows, schema)
