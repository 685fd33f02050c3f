"""Run directories as Spark sees them: the cells, verdicts and events of many runs, each as one table.

A run's Parquet tables are taken where it has some that are whole and not older than itself, else its cells' files,
line by line; lines that cannot be read are counted, told, and left out.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from conformance.regular import MOST
from conformance.results.columns import FOOTER, TABLES
from conformance.results.content import Manifest, content_of, sha256_of_file, stored_manifest
from conformance.results.errors import RunDirectoryError, SchemaTooNew
from conformance.results.layout import CELLS, PARQUET, RUN_FILE, cell_files
from conformance.results.parquet import arrow_schema
from conformance.results.reader import read_run
from conformance.results.schema import SCHEMA, RunHeader
from conformance.spark.schemas import CORRUPT, LINE_DDL, TABLE_DDL

_DENSITY = 20
"""Octets of a cell's lines that became one of Parquet, about."""
_LONGEST_PATH = 4096
"""Octets of a path, with its end, that a system call takes."""
_TOLD = 100
"""Damaged lines of a run that are told; all are counted."""


class Ingested(BaseModel):
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
class Found:
    """The runs that were found, by name, and what could not be read at all, in words."""

    runs: Mapping[str, Ingested]
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


def look_at(paths: Sequence[Path]) -> Found:
    """Read headers and hashes of runs. The same run twice (a copy) counts once.

    A run whose header cannot be read is told and left out. Raises RunDirectoryError when two different runs have one
    name, or none can be read; SchemaTooNew.
    """
    runs: dict[str, Ingested] = {}
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
    return Found(runs, tuple(unreadable))


def _look(path: Path, header: RunHeader) -> Ingested:
    stored = stored_manifest(path)
    trouble = _trouble(path, stored) if stored else ()
    if stored is None or trouble:
        manifest = content_of(path)
        return Ingested(
            content_sha256=manifest.content_sha256,
            path=str(path),
            header=header,
            parquet=False,
            octets=manifest.octets,
            damaged=len(trouble) + manifest.damaged,
            damage=(*trouble, *manifest.damage)[:_TOLD],
        )
    return Ingested(
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
            told.append(f"{PARQUET}/{name}.parquet: {ascii(str(error))[1:120]}")
            continue
        if found != stored.tables.get(name, found):
            told.append(f"{PARQUET}/{name}.parquet: not the file that was written")
        elif rows != stored.rows.get(name, rows):
            told.append(f"{PARQUET}/{name}.parquet: {rows} rows, not the {stored.rows[name]} that were written")
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
    return path / PARQUET / f"{name}.parquet"


@contextmanager
def reading(session: SparkSession, runs: Mapping[str, Ingested]) -> Iterator[dict[str, DataFrame]]:
    """Give the tables `cells`, `verdicts`, `events` of runs.

    Where any is read line by line, `damage` has a row for each line that is left out.

    Raises SchemaTooNew when a cell's file is of a newer schema.
    """
    stored = [Path(run.path) for run in runs.values() if run.parquet]
    tables = {
        name: session.read.schema(TABLE_DDL[name]).parquet(*(literal(_table(path, name)) for path in stored))
        if stored
        else session.createDataFrame(arrow_schema(columns).empty_table())
        for name, columns in TABLES.items()
    }
    loose = {name: Path(run.path) for name, run in runs.items() if not run.parquet and line_files(Path(run.path))}
    if not loose:
        yield tables
        return
    lines = _lines(session, loose).persist()
    try:
        _refuse_newer(lines)
        good = lines.where(f"{CORRUPT} IS NULL")
        for record, name in (("event", "events"), ("verdict", "verdicts")):
            columns = [column.name for column in TABLES[name]]
            tables[name] = tables[name].unionByName(good.where(f.col("record") == record).select(*columns))
        tables["cells"] = tables["cells"].unionByName(_cells(good))
        bad = lines.where(f"{CORRUPT} IS NOT NULL OR record IS NULL")
        yield {**tables, "damage": bad.select("run", "file", f.left(CORRUPT, f.lit(80)).alias("text"))}
    finally:
        lines.unpersist()


def literal(path: Path) -> str:
    """Return a path as Spark must be told it: what it takes for a pattern elsewhere means itself."""
    return "".join(f"\\{one}" if one in "[]{}*?\\" else one for one in str(path))


def _lines(session: SparkSession, loose: Mapping[str, Path]) -> DataFrame:
    """Return every line of runs' cells' files, with the run and the cell that it is of."""
    at = [(name, str(run / CELLS)) for name, run in loose.items()]
    folders = session.createDataFrame(at, "run STRING, at STRING")
    # A row's path comes as an URI: decoded it is `file:/a/b`, and the folder ends where the file's name begins.
    path = f.expr("url_decode(replace(_metadata.file_path, '+', '%2B'))")
    return (
        session.read.schema(LINE_DDL)
        .option("mode", "PERMISSIVE")
        .option("columnNameOfCorruptRecord", CORRUPT)
        .option("ignoreCorruptFiles", "true")  # what stands before the damage is read; `content_of` has counted it
        .json([place for run in loose.values() for place in line_files(run)])
        .withColumn("file", f.col("_metadata.file_name"))
        .withColumn("cell", f.regexp_extract("file", r"^([^.]*)", 1))
        .withColumn("at", f.regexp_extract(path, r"^file:/*(/.*)/[^/]*$", 1))
        .join(f.broadcast(folders), "at")
        .drop("at")
    )


def line_files(run: Path) -> list[str]:
    """Return where the lines of a run's cells are: its files, by name.

    Not the folder: below it are the nodes' own folders, with whatever they wrote. A pipe or a device would never end.
    """
    found = (file for file in cell_files(run) if file.is_file() and file.stat().st_size <= MOST)
    return [literal(file) for file in found]


def _refuse_newer(lines: DataFrame) -> None:
    newer = lines.where((f.col("record") == "cell") & (f.col("schema") > SCHEMA)).select("run", "file", "schema")
    if found := newer.head(1):
        raise SchemaTooNew(
            f"{found[0].run}: {CELLS}/{found[0].file}: written with schema {found[0].schema}, and this version "
            f"reads up to {SCHEMA}; use a later version"
        )


def _cells(lines: DataFrame) -> DataFrame:
    """Put header and footer of each cell into one row."""
    footer_names = tuple(column.name for column in FOOTER)
    keys = ("run", "cell")
    wanted = [column.name for column in TABLES["cells"]]
    headers = lines.where("record = 'cell'").select(*[name for name in wanted if name not in footer_names])
    footers = lines.where("record = 'footer'").select(*keys, *footer_names)
    return headers.join(footers, on=list(keys), how="left").select(*wanted)


def with_damage(runs: Mapping[str, Ingested], damage: Sequence[tuple[str, str, str]]) -> dict[str, Ingested]:
    """Return runs with the lines that were left out of them."""
    told: dict[str, list[str]] = {}
    for run, file, text in sorted(damage):
        told.setdefault(run, []).append(f"{file}: {ascii(text)[1:-1]}")
    return {
        name: run.model_copy(
            update={
                "damaged": run.damaged + len(told.get(name, ())),
                "damage": (*run.damage, *told.get(name, ()))[:_TOLD],
            }
        )
        for name, run in runs.items()
    }


def run_rows(runs: Mapping[str, Ingested]) -> pa.Table:
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


def candidate_rows(runs: Mapping[str, Ingested]) -> pa.Table:
    """Return a row for each run and candidate in it, with what it claims."""
    schema = pa.schema({"run": pa.string(), "candidate": pa.string(), "claims": pa.list_(pa.string())})
    rows = [
        {"run": name, "candidate": one.name, "claims": list(one.claims)}
        for name, run in runs.items()
        for one in run.header.candidates
    ]
    return pa.Table.from_pylist(rows, schema)
