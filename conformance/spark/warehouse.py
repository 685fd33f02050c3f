"""What is kept from one aggregation to the next: two tables with a partition for each batch of runs, and summaries.

`cells` and `transactions` are Spark's. The runs that one aggregation adds are a batch: a few large files, which cost
far less to write and to read than a few small ones for each run. Adding runs touches no batch that is there, unless
one of them takes its own place. `summaries` holds the rows of every table that is made of each run on its own: small,
one file a table. The catalog is written last: what it does not name is not there, so that an interrupted aggregation
is as if it had never been.
"""

import errno
import fcntl
import io
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from conformance.regular_files import read_regular
from conformance.results.atomic_write import write_atomically
from conformance.results.fingerprints import sha256_of_json
from conformance.results.layout import RunDirectoryError, SchemaTooNew
from conformance.spark.ingest import IngestedRun
from conformance.spark.tables.table import Table

VERSION = 3
"""The number of the warehouse's own schema: that of its catalog and folders."""

LOCK_FILE = ".aggregating"
"""The file beside the warehouse that its one writer holds locked."""

PARTITIONED_TABLES = ("cells", "transactions")


class Catalog(BaseModel):
    """The warehouse's own file: which runs are in it, and what their content was."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: int = VERSION
    layout: str = Field(description="hash of the schemas and queries that its tables were made with")
    runs: dict[str, IngestedRun] = {}
    batches: dict[str, tuple[str, ...]] = Field({}, description="the runs whose rows each batch's files hold")


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
            octets = read_regular(self.catalog_file)
            try:
                head = _Head.model_validate_json(octets)
            except ValidationError as error:
                raise self._damaged(self.catalog_file) from error
            if head.version > VERSION:
                raise SchemaTooNew(
                    f"{self.path}: a warehouse of version {head.version}, and this program knows up to {VERSION}; use "
                    "a later version of it, or another --out"
                )
            if head.version == VERSION and head.layout == layout:
                try:
                    return Catalog.model_validate_json(octets)
                except ValidationError as error:
                    raise self._damaged(self.catalog_file) from error
            shutil.rmtree(self.path)
        return Catalog(layout=layout)

    @contextmanager
    def locked(self, tell: Callable[[str], None]) -> Iterator[None]:
        """Let nobody else write into the warehouse, and what is made of it, meanwhile. Waits for whoever does, and tells.

        The lock ends with the process that holds it. Where the file system has no locks, there is none.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with (self.path.parent / LOCK_FILE).open("wb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                tell(f"another aggregation writes into {self.path.parent}: waiting for its end")
                fcntl.flock(file, fcntl.LOCK_EX)
            except OSError as error:
                if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
                    raise
            yield

    def check(self) -> None:
        """Read every Parquet file that is kept. Raises RunDirectoryError for the first that is damaged."""
        for file in sorted(self.path.rglob("*.parquet")):
            try:
                pq.read_table(file, partitioning=None)
            except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
                raise self._damaged(file) from error

    def _damaged(self, file: Path) -> RunDirectoryError:
        return RunDirectoryError(f"{file} is damaged: delete {self.path}, and aggregate all runs again")

    def save(self, catalog: Catalog) -> None:
        """Write the catalog, whole or not at all."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_atomically(self.catalog_file, (catalog.model_dump_json(by_alias=True, indent=1) + "\n").encode())

    def remove_runs(self, catalog: Catalog, runs: Collection[str]) -> Catalog:
        """Take runs out, and whatever an interrupted aggregation left; return the catalog as it is written then.

        Batches of other runs stay as they are; of one that has some of these the files are written anew, without them.
        """
        kept = catalog.model_copy(
            update={"runs": {name: run for name, run in catalog.runs.items() if name not in runs}}
        )
        self.save(kept)
        batches: dict[str, tuple[str, ...]] = {}
        for batch, held in catalog.batches.items():
            stay = tuple(run for run in held if run in kept.runs)
            if stay:
                batches[batch] = stay
            if len(stay) < len(held):
                for name in PARTITIONED_TABLES:
                    _only(self.batch(name, batch), stay)
        for name in PARTITIONED_TABLES:
            for folder in (self.path / name).glob("batch=*"):
                if folder.name.removeprefix("batch=") not in batches:
                    shutil.rmtree(folder)
        kept = kept.model_copy(update={"batches": batches})
        self.save(kept)
        return kept

    def batch(self, name: str, batch: str) -> Path:
        """Return the folder of a table's rows of one batch."""
        return self.path / name / f"batch={batch}"

    @property
    def adding(self) -> Path:
        """Return the folder in which the layers of a batch are made, before any batch that is there is touched."""
        return self.path / "adding"

    def move_built_files(self, batch: str) -> dict[str, Path]:
        """Put what was made in `adding` where a batch's rows are; return the folder of each layer, by its name.

        What is no table of the warehouse's stays in `adding`.
        """
        folders = {folder.name: folder for folder in self.adding.iterdir()}
        for name in PARTITIONED_TABLES:
            target = self.batch(name, batch)
            target.parent.mkdir(parents=True, exist_ok=True)
            folders[name] = folders[name].rename(target)
        return folders

    def clear(self) -> None:
        """Throw away what was made for one aggregation only."""
        shutil.rmtree(self.adding, ignore_errors=True)

    def merge(self, table: Table, rows: pa.Table, replaced: Collection[str], known: Iterable[str]) -> pa.Table:
        """Put the rows of some runs into a table's summaries, in place of what those runs had, and return all of them.

        Rows of runs that are not `known` are none of the warehouse's, and go.
        """
        before, rows = self._summaries(table), table.shaped(rows)
        stay = before.filter(
            pc.is_in(before["run"], value_set=pa.array(sorted(set(known) - set(replaced)), pa.string()))
        )
        if rows.num_rows == 0 and stay.num_rows == before.num_rows and self.summary(table).is_file():
            return before
        rows = table.shaped(pa.concat_tables([stay, rows]))
        octets = io.BytesIO()
        pq.write_table(rows, octets, compression="zstd")
        self.summary(table).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self.summary(table), octets.getvalue())
        return rows

    def summary(self, table: Table) -> Path:
        """Return where a table's summaries are."""
        return self.path / "summaries" / f"{table.name}.parquet"

    def _summaries(self, table: Table) -> pa.Table:
        file = self.summary(table)
        return pq.read_table(file, schema=table.schema) if file.is_file() else table.schema.empty_table()


def batch_name(runs: Mapping[str, IngestedRun]) -> str:
    """Return the name of a batch: the same for the same runs with the same content."""
    return sha256_of_json({name: run.content_sha256 for name, run in runs.items()})[:16]


def _only(folder: Path, runs: Collection[str]) -> None:
    """Let the files of a batch hold the rows of these runs, and no others."""
    stay = pa.array(sorted(runs), pa.string())
    for file in sorted(folder.glob("*.parquet")):
        with pq.ParquetFile(file) as held:
            rows = held.read()
        octets = io.BytesIO()
        pq.write_table(rows.filter(pc.is_in(rows["run"], value_set=stay)), octets, compression="zstd")
        write_atomically(file, octets.getvalue())
