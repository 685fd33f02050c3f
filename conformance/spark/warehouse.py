"""What is kept from one aggregation to the next: two tables with a partition for each run, and its summaries.

`cells` and `transactions` are Spark's; adding a run writes its partition and touches no other. `summaries` holds the
rows of every table that is made of each run on its own: small, one file a table. The catalog is written last: what it
does not name is not there, so that an interrupted aggregation is as if it had never been.
"""

import io
import shutil
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field
from pyspark.sql import DataFrame

from conformance.results.errors import SchemaTooNew
from conformance.results.whole import write_whole
from conformance.spark.ingest import Ingested
from conformance.spark.tables.table import Table

VERSION = 2
"""The number of the warehouse's own schema: that of its catalog and folders."""

PARTITIONED = ("cells", "transactions")


class Catalog(BaseModel):
    """The warehouse's own file: which runs are in it, and what their content was."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: int = VERSION
    layout: str = Field(description="hash of the schemas and queries that its tables were made with")
    runs: dict[str, Ingested] = {}


class _Head(BaseModel):
    version: int = 1
    layout: str


@dataclass(frozen=True, slots=True)
class Warehouse:
    """The folder of all that is kept."""

    path: Path

    @property
    def catalog_file(self) -> Path:
        """Where the catalog is."""
        return self.path / "catalog.json"

    def load(self, layout: str) -> Catalog:
        """Return the catalog; an empty one when there is none, or of another layout: its tables are thrown away.

        Raises SchemaTooNew for a warehouse of a later version.
        """
        if self.catalog_file.is_file():
            octets = self.catalog_file.read_bytes()
            head = _Head.model_validate_json(octets)
            if head.version > VERSION:
                raise SchemaTooNew(
                    f"{self.path}: a warehouse of version {head.version}, and this program knows up to {VERSION}; use "
                    "a later version of it, or another --out"
                )
            if head.version == VERSION and head.layout == layout:
                return Catalog.model_validate_json(octets)
            shutil.rmtree(self.path)
        return Catalog(layout=layout)

    def save(self, catalog: Catalog) -> None:
        """Write the catalog, whole or not at all."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_whole(self.catalog_file, (catalog.model_dump_json(by_alias=True, indent=1) + "\n").encode())

    def forget(self, runs: Collection[str]) -> None:
        """Delete runs' partitions, whatever an interrupted aggregation left of them."""
        for name in PARTITIONED:
            for partition in (self.path / name).glob("run=*"):
                if unquote(partition.name.removeprefix("run=")) in runs:
                    shutil.rmtree(partition)

    def add(self, name: str, rows: DataFrame) -> None:
        """Write rows of runs into a partitioned table: few files for each run, and of no other run any."""
        rows.write.mode("append").partitionBy("run").option("compression", "zstd").parquet(str(self.path / name))

    def merge(self, table: Table, rows: pa.Table, replaced: Collection[str], known: Iterable[str]) -> pa.Table:
        """Put the rows of some runs into a table's summaries, in place of what those runs had, and return all of them.

        Rows of runs that are not `known` are none of the warehouse's, and go.
        """
        file = self.summary(table)
        rows = table.shaped(rows)
        if file.is_file():
            before = pq.read_table(file, schema=table.schema)
            stay = pa.array(sorted(set(known) - set(replaced)), pa.string())
            before = before.filter(pc.is_in(before["run"], value_set=stay))
            rows = table.shaped(pa.concat_tables([before, rows]))
        octets = io.BytesIO()
        pq.write_table(rows, octets, compression="zstd")
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, octets.getvalue())
        return rows

    def summary(self, table: Table) -> Path:
        """Return where a table's summaries are."""
        return self.path / "summaries" / f"{table.name}.parquet"
