"""Columns of texts as numbers into a list of their different words: what is asked of each row is asked of each word once."""

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
    """A column: for each row the place of its word in `words`, -1 for null."""

    codes: Integers
    words: tuple[str, ...]

    @classmethod
    def of(cls, column: pa.ChunkedArray | pa.Array) -> "DictionaryColumn":
        """Return a column of texts so."""
        whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        encoded = whole.dictionary_encode()
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        return cls(codes, tuple(encoded.dictionary.to_pylist()))

    def where(self, holds: Callable[[str], bool]) -> Flags:
        """Return of each row whether something holds of its word; of null nothing does."""
        return np.array([*map(holds, self.words), False], bool)[self.codes]

    def among(self, words: Collection[str]) -> Flags:
        """Return of each row whether its word is one of these."""
        return self.where(words.__contains__)

    def of_rows(self, rows: Integers | Flags) -> "DictionaryColumn":
        """Return some of the rows."""
        return DictionaryColumn(self.codes[rows], self.words)

    def made(self, make: Callable[[str], str]) -> "DictionaryColumn":
        """Return the column with another word in each word's place; rows whose new words are the same share a code."""
        places: dict[str, int] = {}
        turned = [places.setdefault(make(word), len(places)) for word in self.words]
        return DictionaryColumn(np.array([*turned, -1], np.int64)[self.codes], tuple(places))

    def ranked(self) -> "DictionaryColumn":
        """Return the column with its words in order, so that codes compare as their words do."""
        order = sorted(range(len(self.words)), key=self.words.__getitem__)
        place = np.full(len(order) + 1, -1, np.int64)
        place[order] = np.arange(len(order))
        return DictionaryColumn(place[self.codes], tuple(self.words[one] for one in order))

    def arrow(self) -> pa.Array:
        """Return the texts."""
        return take_texts(self.codes, self.words)


def take_texts(codes: Integers, words: Collection[str]) -> pa.Array:
    """Return the words at these places; null at -1."""
    indices = pa.array(codes, pa.int64(), mask=codes < 0)
    return pa.array(list(words), pa.string()).take(indices)


def take_or_null(column: pa.Array, places: Integers) -> Any:
    """Return the values of a column at these places; null at -1."""
    return column.take(pa.array(places, pa.int64(), mask=places < 0))


def lists_by_owner(owners: Integers, codes: Integers, words: Collection[str], count: int) -> pa.Array:
    """Return a list of words for each of `count` owners; rows are in the order of their owners. No list is null."""
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(owners, minlength=count), out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), take_texts(codes, words))


def is_first_of_key(sorted_keys: Integers) -> Flags:
    """Return of each row whether it is the first with its key; equal keys lie together."""
    first = np.ones(len(sorted_keys), bool)
    first[1:] = sorted_keys[1:] != sorted_keys[:-1]
    return first


def find_sorted(keys: Integers, wanted: Integers) -> Integers:
    """Return where each wanted key stands first among sorted keys; -1 where it is not."""
    places = np.searchsorted(keys, wanted)
    inside = places < len(keys)
    inside[inside] = keys[places[inside]] == wanted[inside]
    return np.where(inside, places, -1)
