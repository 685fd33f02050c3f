"""The warehouse: what is kept from one aggregation to the next.

`cells/` and `transactions/` hold the layers of all runs as Parquet, in a folder for each batch. A batch is the runs that one
aggregation added: a few large files, which cost far less to write and to read than small ones for each run. Adding runs
rewrites only batches that hold an older content of these runs. `summaries/` holds the rows of every table that is made of each
run on its own, in one small file for each table. `catalog.json` says which runs and batches there are. The catalog is written
last, and the next aggregation deletes folders and rows that it does not name: an interrupted aggregation adds no run, and a run
that it was to replace is missing until it is aggregated again.

A *layer* is one of the tables that Spark's queries read. A *table* is one that is published; its *summary* is the file in
`summaries/`. A *run* is given by its name. `aggregation` calls all this, while it holds the lock.
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
from conformance.results.exploration import Exploration
from conformance.results.fingerprints import sha256_of_json
from conformance.results.layout import RunDirectoryError, SchemaTooNew
from conformance.spark.ingest import IngestedRun
from conformance.spark.tables.table import Table

VERSION = 3
"""Version of the format of the catalog and the folders."""

LOCK_FILE = ".aggregating"
"""The file beside the warehouse that an aggregation holds locked while it writes."""

PARTITIONED_TABLES = ("cells", "transactions")
"""The layers that are kept, in a folder for each batch."""


class Catalog(BaseModel):
    """The content of `catalog.json`: which runs the warehouse has, with the hash of their content, and the explorations."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: int = VERSION
    layout: str = Field(description="hash of the schemas and queries that its tables were made with")
    runs: dict[str, IngestedRun] = {}
    batches: dict[str, tuple[str, ...]] = Field({}, description="the runs whose rows each batch's files hold")
    explorations: dict[str, Exploration] = Field({}, description="all explorations by name, each whole")

    def with_explorations(self, found: Mapping[str, Exploration]) -> "Catalog":
        """Return a copy of the catalog with explorations, by name, added; each replaces an earlier one of its name."""
        return self.model_copy(update={"explorations": {**self.explorations, **found}})


class _CatalogHead(BaseModel):
    """The part of a catalog that every version has."""

    version: int = 1
    layout: str


@dataclass(frozen=True, slots=True)
class Warehouse:
    """The warehouse in a folder. A table's rows have a column `run`, the name of their run.

    A *summary* is the file with the rows of one table for all runs; a *batch* is the runs that one aggregation added.
    """

    path: Path

    @property
    def catalog_file(self) -> Path:
        """The path of `catalog.json`, which says which runs and batches the warehouse has; it may not exist."""
        return self.path / "catalog.json"

    def load_catalog(self, layout: str) -> Catalog:
        """Return the catalog; an empty one where there is none.

        `layout` is the hash of the program's present schemas and queries, which an empty catalog gets. For a warehouse of an older
        version or another hash the catalog is empty too; `remove_outdated` deletes its files. Raises SchemaTooNew for one of a
        later version, RunDirectoryError for a damaged catalog.
        """
        if self.catalog_file.is_file():
            octets = read_regular(self.catalog_file)
            try:
                head = _CatalogHead.model_validate_json(octets)
            except ValidationError as error:
                raise self._damage_error(self.catalog_file) from error
            if head.version > VERSION:
                raise SchemaTooNew(
                    f"{self.path}: the warehouse has version {head.version}, and this program reads versions up to {VERSION}; use "
                    "a later version of the program, or another --out"
                )
            if head.version == VERSION and head.layout == layout:
                try:
                    return Catalog.model_validate_json(octets)
                except ValidationError as error:
                    raise self._damage_error(self.catalog_file) from error
        return Catalog(layout=layout)

    def remove_outdated(self, catalog: Catalog) -> None:
        """Delete all files of the warehouse but those in `build_folder`, if it has another version or layout than `catalog`.

        `catalog` is what `load_catalog` returned. An interrupted deletion is completed by the next call, since the file that
        shows that the warehouse is outdated is deleted last.
        """
        if not self.catalog_file.is_file():
            return
        head = _CatalogHead.model_validate_json(read_regular(self.catalog_file))
        if (head.version, head.layout) == (VERSION, catalog.layout):
            return
        for entry in self.path.iterdir():
            if entry.is_dir() and entry != self.build_folder:
                shutil.rmtree(entry)
        self.catalog_file.unlink()

    @contextmanager
    def locked(self, notify: Callable[[str], None]) -> Iterator[None]:
        """Hold the lock of the warehouse and its output folder for the block.

        Blocks while another process holds the lock; `notify` gets a line about that. The lock ends with its process. On a file
        system without locks the block runs without one. The output folder and the lock's file are created, and stay.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with (self.path.parent / LOCK_FILE).open("wb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                notify(f"another aggregation writes into {self.path.parent}: waiting for its end")
                fcntl.flock(file, fcntl.LOCK_EX)
            except OSError as error:
                if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
                    raise
            yield

    def check_files(self) -> None:
        """Read every Parquet file of the warehouse. Raises RunDirectoryError for the first that is damaged."""
        for file in sorted(self.path.rglob("*.parquet")):
            try:
                pq.read_table(file, partitioning=None)
            except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
                raise self._damage_error(file) from error

    def _damage_error(self, file: Path) -> RunDirectoryError:
        """Return the error, to be raised, that names a file that cannot be read, and says what to do."""
        return RunDirectoryError(f"{file} is damaged: delete {self.path}, and aggregate all runs again")

    def save_catalog(self, catalog: Catalog) -> None:
        """Write `catalog.json`, in place of an earlier one, atomically; the warehouse's folder is created where it is missing."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_atomically(self.catalog_file, (catalog.model_dump_json(by_alias=True, indent=1) + "\n").encode())

    def remove_runs(self, catalog: Catalog, runs: Collection[str]) -> Catalog:
        """Remove runs, by name, and batches that an interrupted aggregation left; save and return the new catalog.

        Names that the warehouse lacks are ignored. The catalog is saved without the runs first, and again at the end. Only
        batches with rows of these runs are rewritten; a batch without further runs is deleted. Summaries are left to
        `merge_summary`.
        """
        remaining = catalog.model_copy(
            update={"runs": {name: run for name, run in catalog.runs.items() if name not in runs}}
        )
        self.save_catalog(remaining)
        batches: dict[str, tuple[str, ...]] = {}
        for batch, runs_of_batch in catalog.batches.items():
            stay = tuple(run for run in runs_of_batch if run in remaining.runs)
            if stay:
                batches[batch] = stay
            if len(stay) < len(runs_of_batch):
                for table in PARTITIONED_TABLES:
                    _keep_only_runs(self.batch_folder(table, batch), stay)
        for table in PARTITIONED_TABLES:
            for folder in (self.path / table).glob("batch=*"):
                if folder.name.removeprefix("batch=") not in batches:
                    shutil.rmtree(folder)
        remaining = remaining.model_copy(update={"batches": batches})
        self.save_catalog(remaining)
        return remaining

    def batch_folder(self, table: str, batch: str) -> Path:
        """Return the folder with the rows of one batch, in one of the layers `PARTITIONED_TABLES`; it may not exist."""
        return self.path / table / f"batch={batch}"

    @property
    def build_folder(self) -> Path:
        """The folder in which the layers of a new batch are built, in a folder for each layer; it may not exist."""
        return self.path / "adding"

    def move_built_files(self, batch: str) -> dict[str, Path]:
        """Move the layers that the warehouse keeps from `build_folder` to a new batch; return every layer's folder by its name.

        The layers that are not kept stay in `build_folder`.
        """
        folders = {folder.name: folder for folder in self.build_folder.iterdir()}
        for table in PARTITIONED_TABLES:
            target = self.batch_folder(table, batch)
            target.parent.mkdir(parents=True, exist_ok=True)
            folders[table] = folders[table].rename(target)
        return folders

    def delete_built_files(self) -> None:
        """Delete `build_folder` with the layers that only this aggregation used; a missing folder is not an error."""
        shutil.rmtree(self.build_folder, ignore_errors=True)

    def merge_summary(self, table: Table, rows: pa.Table, replaced: Collection[str], known: Iterable[str]) -> pa.Table:
        """Replace the rows of the runs `replaced` in a table's summary by `rows`; return the summary's rows of all runs.

        `replaced` and `known` are names of runs, `known` those of the catalog. Rows of runs that are not `known` are dropped: an
        interrupted aggregation left them. The file is written atomically, unless nothing changes in it.
        """
        before, rows = self._read_summary(table), table.conform(rows)
        stay = before.filter(
            pc.is_in(before["run"], value_set=pa.array(sorted(set(known) - set(replaced)), pa.string()))
        )
        if rows.num_rows == 0 and stay.num_rows == before.num_rows and self.summary_file(table).is_file():
            return before
        rows = table.conform(pa.concat_tables([stay, rows]))
        octets = io.BytesIO()
        pq.write_table(rows, octets, compression="zstd")
        self.summary_file(table).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self.summary_file(table), octets.getvalue())
        return rows

    def summary_file(self, table: Table) -> Path:
        """Return the path of a table's summary, which may not exist."""
        return self.path / "summaries" / f"{table.name}.parquet"

    def _read_summary(self, table: Table) -> pa.Table:
        """Return the rows of a table's summary; none where there is no file."""
        file = self.summary_file(table)
        return pq.read_table(file, schema=table.schema) if file.is_file() else table.schema.empty_table()


def batch_name(runs: Mapping[str, IngestedRun]) -> str:
    """Return the name of the batch of these runs: 16 hex digits of the hash of their names and contents."""
    return sha256_of_json({name: run.content_sha256 for name, run in runs.items()})[:16]


def _keep_only_runs(folder: Path, runs: Collection[str]) -> None:
    """Rewrite each Parquet file in the folder of a batch, atomically, with the rows of these runs only.

    A file without such rows stays, without rows.
    """
    stay = pa.array(sorted(runs), pa.string())
    for file in sorted(folder.glob("*.parquet")):
        with pq.ParquetFile(file) as opened:
            rows = opened.read()
        octets = io.BytesIO()
        pq.write_table(rows.filter(pc.is_in(rows["run"], value_set=stay)), octets, compression="zstd")
        write_atomically(file, octets.getvalue())
