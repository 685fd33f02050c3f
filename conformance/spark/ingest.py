"""Run directories into the warehouse's bronze tables: cells, verdicts, events as they were recorded, a partition a run.

A run's Parquet tables are taken where it has some that are not older than itself, else its cells' files, line by
line; lines that cannot be read are counted, told, and left out.
"""

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from pydantic import BaseModel, ConfigDict, Field
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from conformance.results.columns import FOOTER, TABLES
from conformance.results.content import content_of, stored_manifest
from conformance.results.errors import RunDirectoryError
from conformance.results.layout import CELLS, PARQUET, RUN_FILE
from conformance.results.reader import read_run
from conformance.results.schema import RunHeader
from conformance.results.writer import write_whole
from conformance.spark.schemas import CORRUPT, LINE_DDL, TABLE_DDL

BRONZE = tuple(TABLES)

_DENSITY = 20
"""Octets of a cell's file that became one of Parquet, about."""


class Ingested(BaseModel):
    """What the warehouse knows of one run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    content_sha256: str
    path: str
    header: RunHeader
    parquet: bool = Field(description="whether its Parquet tables were taken")
    octets: int = Field(description="size of its cells' files, about")
    damaged: int = Field(0, description="lines that could not be read")
    damage: tuple[str, ...] = Field((), description="some of them, as file: line")


class Catalog(BaseModel):
    """The warehouse's own file: which runs are in it, and what their content was."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    layout: str = Field(description="hash of the schemas and queries that its tables were made with")
    runs: dict[str, Ingested] = {}
    schemas: dict[str, str] = Field({}, description="of the tables that were made, in Spark's JSON")


@dataclass(frozen=True, slots=True)
class Warehouse:
    """The folder of all tables that are kept from one aggregation to the next."""

    path: Path

    @property
    def catalog_file(self) -> Path:
        """Where the catalog is; a run that is not in it is not in the warehouse, whatever files there are."""
        return self.path / "catalog.json"

    def table(self, name: str) -> str:
        """Return the path of a table."""
        return str(self.path / name)

    def load(self, layout: str) -> Catalog:
        """Return the catalog; an empty one when there is none, or of another layout: its tables are thrown away."""
        if self.catalog_file.is_file():
            if _Layout.model_validate_json(self.catalog_file.read_bytes()).layout == layout:
                return Catalog.model_validate_json(self.catalog_file.read_bytes())
            shutil.rmtree(self.path)
        return Catalog(layout=layout)

    def save(self, catalog: Catalog) -> None:
        """Write the catalog, whole or not at all."""
        write_whole(self.catalog_file, (catalog.model_dump_json(by_alias=True, indent=1) + "\n").encode())

    def forget(self, run: str, tables: Iterable[str]) -> None:
        """Delete a run's partitions, so that an interrupted aggregation leaves nothing of it behind."""
        for name in tables:
            for partition in (self.path / name).glob("run=*"):
                if unquote(partition.name.removeprefix("run=")) == run:
                    shutil.rmtree(partition)


class _Layout(BaseModel):
    layout: str


def find_runs(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Return the run directories that are, or lie below, the paths; each once, sorted.

    Raises RunDirectoryError for a path without any.
    """
    found: set[Path] = set()
    for path in paths:
        below = {path} if (path / RUN_FILE).is_file() else {file.parent for file in path.rglob(RUN_FILE)}
        if not below:
            raise RunDirectoryError(f"{path} is no run directory and has none below it (no {RUN_FILE})")
        found |= {one.resolve() for one in below}
    return tuple(sorted(found))


def look_at(paths: Sequence[Path]) -> dict[str, Ingested]:
    """Read headers and hashes of runs, by name.

    The same run twice (a copy) counts once. Raises RunDirectoryError when two different runs have one name, or one
    cannot be read; SchemaTooNew.
    """
    runs: dict[str, Ingested] = {}
    for path in paths:
        header = read_run(path).header
        stored = stored_manifest(path)
        manifest = stored or content_of(path)
        found = Ingested(
            content_sha256=manifest.content_sha256,
            path=str(path),
            header=header,
            parquet=stored is not None,
            octets=_DENSITY * _parquet_octets(path) if stored else sum(manifest.sizes.values()),
            damaged=manifest.damaged,
        )
        known = runs.setdefault(header.run, found)
        if known.content_sha256 != found.content_sha256:
            raise RunDirectoryError(f"{known.path} and {path} are different runs named {header.run!r}: rename one")
    return runs


def _parquet_octets(path: Path) -> int:
    return sum(file.stat().st_size for file in (path / PARQUET).glob("*.parquet"))


def ingest(session: SparkSession, runs: dict[str, Ingested], warehouse: Warehouse) -> dict[str, Ingested]:
    """Write the bronze partitions of runs and return them, with what was found damaged."""
    stored = [run for run in runs.values() if run.parquet]
    loose = [run for run in runs.values() if not run.parquet]
    if stored:
        for name in BRONZE:
            files = [f"{run.path}/{PARQUET}/{name}.parquet" for run in stored]
            write_partitions(session.read.schema(TABLE_DDL[name]).parquet(*files), warehouse, name)
    told: dict[str, tuple[str, ...]] = {}
    for run in loose:
        told[run.header.run] = _ingest_lines(session, run, warehouse)
    return {
        name: run.model_copy(update={"damaged": len(told[name]), "damage": told[name][:100]}) if name in told else run
        for name, run in runs.items()
    }


def write_partitions(rows: DataFrame, warehouse: Warehouse, name: str) -> None:
    """Write rows into a table, replacing the partitions of the runs that they belong to."""
    rows.write.mode("overwrite").partitionBy("run").option("compression", "zstd").parquet(warehouse.table(name))


def _ingest_lines(session: SparkSession, run: Ingested, warehouse: Warehouse) -> tuple[str, ...]:
    """Write one run from its cells' files, and return which lines could not be read."""
    folder = Path(run.path) / CELLS
    if not any(folder.glob("*.jsonl")):
        return ()
    lines = (
        session.read.schema(LINE_DDL)
        .option("mode", "PERMISSIVE")
        .option("columnNameOfCorruptRecord", CORRUPT)
        .option("pathGlobFilter", "*.jsonl")
        .option("recursiveFileLookup", "true")  # else a cell's folder, named `..=..`, is taken for a partition
        .json(str(folder))
        .withColumn("run", f.lit(run.header.run))
        .withColumn("cell", f.regexp_extract("_metadata.file_name", r"^(.*)\.jsonl$", 1))
        .cache()
    )
    good = lines.where(f"{CORRUPT} IS NULL")
    for record, name in (("event", "events"), ("verdict", "verdicts")):
        columns = [column.name for column in TABLES[name]]
        write_partitions(good.where(f.col("record") == record).select(*columns), warehouse, name)
    write_partitions(_cells(good), warehouse, "cells")
    bad = lines.where(f"{CORRUPT} IS NOT NULL OR record IS NULL").select(
        "cell", f.left(CORRUPT, f.lit(80)).alias("text")
    )
    told = tuple(f"{row.cell}.jsonl: {ascii(row.text)[1:-1]}" for row in bad.orderBy("cell", "text").collect())
    lines.unpersist()
    return told


def _cells(lines: DataFrame) -> DataFrame:
    """Put header and footer of each cell into one row."""
    footer_names = tuple(column.name for column in FOOTER)
    keys = ("run", "cell")
    wanted = [column.name for column in TABLES["cells"]]
    headers = lines.where("record = 'cell'").select(*[name for name in wanted if name not in footer_names])
    footers = lines.where("record = 'footer'").select(*keys, *footer_names)
    return headers.join(footers, on=list(keys), how="left").select(*wanted)
