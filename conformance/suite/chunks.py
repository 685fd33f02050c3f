"""Scheduling for xdist with `--cells N`: each worker gets chunks of N consecutive cells, which it runs concurrently.

A *cell* is one item of pytest. A module of its own, since importing xdist takes time, and only this needs it.
"""

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling


class ChunkScheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist is untyped
    """xdist's scheduling by scope; a scope is a chunk of `cells` consecutive items of the collection.

    xdist calls `_split_scope` and gives all items of one scope to one worker; `collection` has their node ids.
    """

    def __init__(self, config: pytest.Config, log: Any, cells: int) -> None:
        super().__init__(config, log)
        self._cells = cells
        self._positions: dict[str, int] = {}

    def _split_scope(self, nodeid: str) -> str:
        """Return the name of an item's chunk, by the item's position in the collection."""
        if not self._positions:
            self._positions = {name: position for position, name in enumerate(self.collection or ())}
        return f"cells {self._positions[nodeid] // self._cells}"
