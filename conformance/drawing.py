"""Draws a part of a list by a seed, the same part on every machine."""

import hashlib
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def draw(items: Sequence[T], number: int | None, seed: int, identify: Callable[[T], str]) -> list[T]:
    """Return `number` of the items, or all of them if it is None; `identify` returns an id that no other item has.

    A larger number draws the same items and more, and an item that is new or gone changes no other draw.
    """
    if number is None:
        return list(items)
    return sorted(items, key=lambda item: hashlib.sha256(f"{seed}:{identify(item)}".encode()).digest())[:number]
