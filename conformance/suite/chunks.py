"""How xdist hands cells out when a worker may have several in flight: in chunks, each whole to one worker."""

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling


class ChunkScheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist is untyped
    """xdist's scheduling by scope, where a scope is a run of cells as long as may be in flight at once."""

    def __init__(self, config: pytest.Config, log: Any, cells: int) -> None:
        super().__init__(config, log)
        self._cells = cells
        self._places: dict[str, int] = {}

    def _split_scope(self, nodeid: str) -> str:
        """Return the chunk of a cell, by its place in the collection."""
        if not self._places:
            self._places = {name: place for place, name in enumerate(self.collection or ())}
        return f"cells {self._places[nodeid] // self._cells}"
