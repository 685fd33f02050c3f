"""Write Parquet files bucketed by cell, in the layout of a Spark table `CLUSTERED BY (cell_id)`.

Spark then knows that the rows of a cell lie in one bucket, and joins by cell without a shuffle. It computes the bucket as
Murmur3 (x86, 32 bits, seed 42) of the eight octets of `cell_id`, modulo the number of buckets, and reads a file's bucket from
the end of its name. `write_layers` calls this in threads, while Java starts.
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


def bucket_numbers(cell_ids: Integers, buckets: int) -> Integers:
    """Return the bucket of each cell id, from 0 to `buckets` - 1, as Spark computes it."""
    octets = cell_ids.astype(np.uint64)
    state = np.full(len(cell_ids), _SEED, np.uint32)
    for word in (octets & np.uint64(0xFFFFFFFF), octets >> np.uint64(32)):
        state = _mix_word(state, word.astype(np.uint32))
    state ^= np.uint32(8)  # the length of the key in octets; what follows is Murmur3's last mixing
    state ^= state >> np.uint32(16)
    state *= np.uint32(0x85EBCA6B)
    state ^= state >> np.uint32(13)
    state *= np.uint32(0xC2B2AE35)
    state ^= state >> np.uint32(16)
    return np.mod(state.view(np.int32).astype(np.int64), buckets)


def _mix_word(state: _Words, word: _Words) -> _Words:
    """Return Murmur3's state after one more word of 32 bits."""
    word = _rotate_left(word * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    return _rotate_left(state ^ word, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _rotate_left(word: _Words, bits: int) -> _Words:
    """Return 32-bit words rotated to the left by this many bits."""
    return (word << np.uint32(bits)) | (word >> np.uint32(32 - bits))


def write_buckets(rows: pa.Table, folder: Path, writer: int, buckets: int) -> None:
    """Write rows, which have the column `cell_id`, as one Parquet file for each bucket that has any.

    `writer` is a number in the file names, which keeps the files of several calls for one folder apart. Rows must be sorted by
    `kind` where they have that column: each kind becomes a row group, so that a reader of one kind skips the others. An empty
    table becomes one file without rows, for bucket 0. The folder is created where it is missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    bucket_of_row = bucket_numbers(rows["cell_id"].to_numpy(), buckets)
    for bucket in np.unique(bucket_of_row) if len(bucket_of_row) else [0]:
        path = folder / f"part-{writer:05}_{bucket:05}.parquet"
        with pq.ParquetWriter(path, rows.schema, compression="zstd") as file:
            for group in _split_by_kind(rows.filter(pa.array(bucket_of_row == bucket)) if buckets > 1 else rows):
                file.write_table(group)


def _split_by_kind(rows: pa.Table) -> list[pa.Table]:
    """Return the rows cut into tables of adjacent rows of one kind; the whole table where it has no column `kind` or no rows."""
    if "kind" not in rows.column_names or not len(rows):
        return [rows]
    codes = rows["kind"].combine_chunks().dictionary_encode().indices.to_numpy()
    edges = [0, *(np.flatnonzero(codes[1:] != codes[:-1]) + 1).tolist(), len(rows)]
    return [rows.slice(start, end - start) for start, end in pairwise(edges)]
