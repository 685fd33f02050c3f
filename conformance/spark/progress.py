"""Says what goes on: a spinner on a terminal, a plain line per stage elsewhere."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console


class Progress:
    """Tells the stages of a job on a console, standard error by default."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)

    @contextmanager
    def stage(self, what: str) -> Iterator[None]:
        """Tell that a stage goes on, and when it has ended how long it took."""
        began = time.monotonic()
        if self._console.is_terminal:
            with self._console.status(what):
                yield
        else:
            yield
        self.note(f"{what}: {time.monotonic() - began:.1f} s")

    def note(self, what: str) -> None:
        """Tell something."""
        self._console.print(what, markup=False, highlight=False, soft_wrap=True)
