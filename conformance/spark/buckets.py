"""Parquet files of rows by the bucket that their cell is in, as Spark itself would write them.

Spark then knows that rows of a cell lie together, and does not move them. Its number of a bucket is Murmur3 (x86, 32 bits,
seed 42) of the column's eight octets, modulo the number of buckets; it reads the number off the end of a file's name.
"""

from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from conformance.spark.dictionary_column import Integers

_SEED = 42
_Words = npt.NDArray[np.uint32]


def bucket_numbers(numbers: Integers, buckets: int) -> Integers:
    """Return the bucket of each number."""
    octets = numbers.astype(np.uint64)
    state = np.full(len(numbers), _SEED, np.uint32)
    for word in (octets & np.uint64(0xFFFFFFFF), octets >> np.uint64(32)):
        state = _mixed(state, word.astype(np.uint32))
    state ^= np.uint32(8)
    state ^= state >> np.uint32(16)
    state *= np.uint32(0x85EBCA6B)
    state ^= state >> np.uint32(13)
    state *= np.uint32(0xC2B2AE35)
    state ^= state >> np.uint32(16)
    return np.mod(state.view(np.int32).astype(np.int64), buckets)


def _mixed(state: _Words, word: _Words) -> _Words:
    word = _turned(word * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    return _turned(state ^ word, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _turned(word: _Words, by: int) -> _Words:
    return (word << np.uint32(by)) | (word >> np.uint32(32 - by))


def write_buckets(rows: pa.Table, folder: Path, number: int, buckets: int) -> None:
    """Write rows, which have the column `cell_id`, into one file for each bucket of which there are any.

    `number` tells this writer's files from those of others. Rows of each kind, where they have that column, are a group of
    rows of their own: a reader who wants one kind reads no other. An empty table is written as one file without rows.
    """
    folder.mkdir(parents=True, exist_ok=True)
    place = bucket_numbers(rows["cell_id"].to_numpy(), buckets)
    for bucket in np.unique(place) if len(place) else [0]:
        _write(
            rows.filter(pa.array(place == bucket)) if buckets > 1 else rows,
            folder / f"part-{number:05}_{bucket:05}.parquet",
        )


def _write(rows: pa.Table, path: Path) -> None:
    with pq.ParquetWriter(path, rows.schema, compression="zstd") as file:
        for group in _by_kind(rows):
            file.write_table(group)


def _by_kind(rows: pa.Table) -> list[pa.Table]:
    if "kind" not in rows.column_names or not len(rows):
        return [rows]
    codes = rows["kind"].combine_chunks().dictionary_encode().indices.to_numpy()
    edges = [0, *(np.flatnonzero(codes[1:] != codes[:-1]) + 1).tolist(), len(rows)]
    return [rows.slice(start, end - start) for start, end in pairwise(edges)]
