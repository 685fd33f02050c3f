"""Text columns as integer codes into a list of distinct values, so that a predicate runs once per value, not once per row.

The modules that build the layers (`exchanges`, `single_events`, `topologies`) work on whole columns with these. `Flags` is an
array of booleans, `Integers` one of numbers; in an array of codes or row indices -1 stands for null.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class DictionaryColumn:
    """A text column: for each row the index of its value in `values`, -1 for null.

    A list that is indexed by codes ends with the result for null, since -1 is the index of its last item.
    """

    codes: Integers
    values: tuple[str, ...]

    @classmethod
    def encode(cls, column: pa.ChunkedArray | pa.Array) -> "DictionaryColumn":
        """Return an Arrow column of texts as codes and distinct values."""
        array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        encoded = array.dictionary_encode()
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        return cls(codes, tuple(encoded.dictionary.to_pylist()))

    def matches(self, predicate: Callable[[str], bool]) -> Flags:
        """Return for each row whether the predicate holds for its text; False for null.

        The predicate is called once for each distinct value.
        """
        return np.array([*map(predicate, self.values), False], bool)[self.codes]

    def is_in(self, values: Collection[str]) -> Flags:
        """Return for each row whether its value is one of these; False for null."""
        return self.matches(values.__contains__)

    def take(self, rows: Integers | Flags) -> "DictionaryColumn":
        """Return the column with only these rows, given as indices or as a mask."""
        return DictionaryColumn(self.codes[rows], self.values)

    def map_values(self, convert: Callable[[str], str]) -> "DictionaryColumn":
        """Return the column with each value converted; values that become equal get one code, nulls stay null."""
        new_codes: dict[str, int] = {}
        mapping = [new_codes.setdefault(convert(value), len(new_codes)) for value in self.values]
        return DictionaryColumn(np.array([*mapping, -1], np.int64)[self.codes], tuple(new_codes))

    def with_sorted_values(self) -> "DictionaryColumn":
        """Return the same column with its values sorted, so that comparing codes compares values."""
        order = sorted(range(len(self.values)), key=self.values.__getitem__)
        new_codes = np.full(len(order) + 1, -1, np.int64)
        new_codes[order] = np.arange(len(order))
        return DictionaryColumn(new_codes[self.codes], tuple(self.values[code] for code in order))

    def to_arrow(self) -> pa.Array:
        """Return the column as an Arrow array of texts."""
        return take_texts(self.codes, self.values)


def take_texts(codes: Integers, values: Collection[str]) -> pa.Array:
    """Return the value at each code as an Arrow array; null for -1."""
    indices = pa.array(codes, pa.int64(), mask=codes < 0)
    return pa.array(list(values), pa.string()).take(indices)


def take_or_null(column: pa.Array, rows: Integers) -> Any:
    """Return the column's values at these row indices; null for -1."""
    return column.take(pa.array(rows, pa.int64(), mask=rows < 0))


def lists_by_owner(owners: Integers, codes: Integers, values: Collection[str], count: int) -> pa.Array:
    """Return one list of texts for each owner from 0 to `count` - 1, empty where an owner has no rows.

    `owners` is sorted and runs parallel to `codes`, the index of each row's text in `values`.
    """
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(owners, minlength=count), out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), take_texts(codes, values))


def is_first_of_key(grouped_keys: Integers) -> Flags:
    """Return for each row whether it is the first one with its key; rows of equal keys must be adjacent."""
    first = np.ones(len(grouped_keys), bool)
    first[1:] = grouped_keys[1:] != grouped_keys[:-1]
    return first


def group_starts(grouped_keys: Integers) -> Integers:
    """Return for each row the index of the first row with its key; rows of equal keys must be adjacent."""
    first = np.flatnonzero(is_first_of_key(grouped_keys))
    return np.repeat(first, np.diff(np.append(first, len(grouped_keys))))


def find_sorted(sorted_keys: Integers, wanted: Integers) -> Integers:
    """Return the index of each wanted key's first occurrence among the sorted keys; -1 where the key is missing."""
    indices = np.searchsorted(sorted_keys, wanted)
    inside = indices < len(sorted_keys)
    inside[inside] = sorted_keys[indices[inside]] == wanted[inside]
    return np.where(inside, indices, -1)
