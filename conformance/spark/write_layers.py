"""Build the layers of runs and write them as files that Spark reads, several groups of runs at a time.

A *layer* is one of the tables that Spark's queries read: cells, transactions, recorded verdicts (`build_layers`). The rows of
a layer are distributed over *buckets* by their cell (`buckets`). `aggregation` calls `write_layers` in a thread, while Java
starts. Threads suffice here too, since Arrow releases Python's global lock.
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from conformance.spark.buckets import write_buckets
from conformance.spark.build_layers import (
    EVENT_COLUMNS,
    LAYERS,
    VERDICT_COLUMNS,
    build_layers,
    reject_cell_id_collisions,
)
from conformance.spark.ingest import IngestedRun, read_tables
from conformance.spark.topologies import TOPOLOGY_SCHEMA, unique_topologies

OCTETS_PER_GROUP = 32 * 1024 * 1024
"""Octets of history, roughly, that a thread builds at a time and holds in memory."""
_COLUMNS_TO_READ = {"events": EVENT_COLUMNS, "verdicts": VERDICT_COLUMNS}


@dataclass(frozen=True, slots=True)
class LayerFiles:
    """The layers of runs as bucketed Parquet files, in a folder for each layer below `folder`.

    `runs` are the runs by name. `buckets` is into how many buckets cells are distributed, 1 for a small history.
    """

    runs: Mapping[str, IngestedRun]
    folder: Path
    buckets: int
    topologies: pa.Table = field(default_factory=TOPOLOGY_SCHEMA.empty_table)
    """The topologies of their cells; empty until the files are written."""


def write_layers(planned: LayerFiles) -> LayerFiles:
    """Write the files of all layers, in place of what the folder held; block until all are written.

    Returns `planned` with the topologies of the cells, and with each run's damage added: what could not be read of it. Without
    runs the folder is only deleted. With one bucket Arrow's memory pool is changed, for the whole process. Raises SchemaTooNew,
    OSError; RunDirectoryError for the rare case that two cells have the same id.
    """
    if planned.buckets == 1:  # Arrow's own pool returns memory that is taken again at once: half the CPU of a short use
        pa.set_memory_pool(pa.system_memory_pool())
    shutil.rmtree(planned.folder, ignore_errors=True)
    runs: dict[str, IngestedRun] = {}
    cells, topologies = [], []
    groups = list(enumerate(_groups(planned.runs)))
    with ThreadPoolExecutor(min(len(groups), os.cpu_count() or 1) or 1) as pool:
        for read, cells_of_group, found in pool.map(lambda group: _write_group(group[1], group[0], planned), groups):
            runs |= read
            cells.append(cells_of_group)
            topologies += found.to_pylist()
    if cells:
        reject_cell_id_collisions(cells)
    return replace(planned, runs=runs, topologies=unique_topologies(topologies))


def _groups(runs: Mapping[str, IngestedRun]) -> Iterator[dict[str, IngestedRun]]:
    """Yield the runs, by name, in groups, each closed as soon as its octets reach `OCTETS_PER_GROUP`; the last may be smaller."""
    group: dict[str, IngestedRun] = {}
    for name, run in runs.items():
        group[name] = run
        if sum(member.octets for member in group.values()) >= OCTETS_PER_GROUP:
            yield group
            group = {}
    if group:
        yield group


def _write_group(
    runs: Mapping[str, IngestedRun], number: int, planned: LayerFiles
) -> tuple[dict[str, IngestedRun], pa.Table, pa.Table]:
    """Build the layers of a group of runs, and write them where `planned` says; `number` is a part of the files' names.

    Returns the runs with their damage added, a table of their cells' ids and names, and the table of the cells' topologies.
    """
    read: dict[str, IngestedRun] = {}
    built: dict[str, list[pa.Table]] = {name: [] for name in (*LAYERS, "topologies")}
    for name, run in runs.items():
        read[name], tables = read_tables(run, _COLUMNS_TO_READ)
        for layer, rows in build_layers(name, tables).items():
            built[layer].append(rows)
    layers = {layer: pa.concat_tables(tables) for layer, tables in built.items()}
    topologies = layers.pop("topologies")
    if len(runs) > 1:  # each run's rows are sorted by kind, as `write_buckets` needs them
        layers["transactions"] = layers["transactions"].sort_by("kind")
    for layer, rows in layers.items():
        write_buckets(rows, planned.folder / layer, number, planned.buckets)
    return read, layers["cells"].select(["cell_id", "run", "cell"]).combine_chunks(), topologies
