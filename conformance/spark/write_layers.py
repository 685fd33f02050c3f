"""Makes the layers of runs as files that Spark reads: some runs at a time, in threads, since Arrow holds no lock of Python's."""

import os
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from conformance.spark.buckets import write_buckets
from conformance.spark.build_layers import EVENTS, LAYERS, VERDICTS, build_layers, reject_cell_id_collisions
from conformance.spark.ingest import IngestedRun, read_tables
from conformance.spark.topologies import TOPOLOGY_SCHEMA, unique_topologies

AT_ONCE = 32 * 1024 * 1024
"""Octets of history that one file is made of, about: what is in memory at a time, in each thread."""
_COLUMNS = {"events": EVENTS, "verdicts": VERDICTS}


@dataclass(frozen=True, slots=True)
class LayerFiles:
    """Runs, by name, the folder for the files of their layers, and how many parts those have."""

    runs: Mapping[str, IngestedRun]
    folder: Path
    parts: int
    worlds: pa.Table = field(default_factory=TOPOLOGY_SCHEMA.empty_table)
    """The worlds of their cells, once they are made."""


def write_layers(making: LayerFiles) -> LayerFiles:
    """Write the files of all layers into a folder for each; return it all, with what could not be read of each run.

    Raises SchemaTooNew; RunDirectoryError for the rare case that two cells have one number.
    """
    if (
        making.parts == 1
    ):  # Arrow's own gives back to the machine what it takes again at once: half of its CPU in short use
        pa.set_memory_pool(pa.system_memory_pool())
    shutil.rmtree(making.folder, ignore_errors=True)
    runs: dict[str, IngestedRun] = {}
    cells, worlds = [], []
    portions = list(enumerate(_portions(making.runs)))
    with ThreadPoolExecutor(min(len(portions), os.cpu_count() or 1) or 1) as pool:
        for read, keys, found in pool.map(lambda one: _make(one[1], one[0], making), portions):
            runs |= read
            cells.append(keys)
            worlds += found.to_pylist()
    if cells:
        reject_cell_id_collisions(cells)
    return replace(making, runs=runs, worlds=unique_topologies(worlds))


def _portions(runs: Mapping[str, IngestedRun]) -> Iterator[dict[str, IngestedRun]]:
    """Yield runs, as many at a time as make one file."""
    portion: dict[str, IngestedRun] = {}
    for name, run in runs.items():
        portion[name] = run
        if sum(one.octets for one in portion.values()) >= AT_ONCE:
            yield portion
            portion = {}
    if portion:
        yield portion


def _make(
    runs: Mapping[str, IngestedRun], number: int, making: LayerFiles
) -> tuple[dict[str, IngestedRun], pa.Table, pa.Table]:
    read: dict[str, IngestedRun] = {}
    made: dict[str, list[pa.Table]] = {name: [] for name in (*LAYERS, "worlds")}
    for name, run in runs.items():
        read[name], tables = read_tables(run, _COLUMNS)
        for layer, rows in build_layers(name, tables).items():
            made[layer].append(rows)
    whole = {layer: pa.concat_tables(parts) for layer, parts in made.items()}
    worlds = whole.pop("worlds")
    if len(runs) > 1:
        whole["transactions"] = whole["transactions"].sort_by("kind")
    for layer, rows in whole.items():
        write_buckets(rows, making.folder / layer, number, making.parts)
    return read, whole["cells"].select(["cell_id", "run", "cell"]).combine_chunks(), worlds
