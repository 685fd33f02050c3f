"""Draws a part of a list by a seed, the same part on every machine.

`conformance defects --sample` and `conformance mutants --sample` draw by it.
"""

import hashlib
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def draw(items: Sequence[T], number: int | None, seed: int, identify: Callable[[T], str]) -> list[T]:
    """Return `number` of the items in an order that the seed draws, all if there are fewer; for None all in their own order.

    `identify` returns an id that no other item has. A larger number draws the same items and more, and an item that is new or gone
    moves no other one.
    """
    if number is None:
        return list(items)
    return sorted(items, key=lambda item: hashlib.sha256(f"{seed}:{identify(item)}".encode()).digest())[:number]
