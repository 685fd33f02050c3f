"""Says what goes on: a bar for each stage on a terminal, a plain line when a stage has ended elsewhere."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

if TYPE_CHECKING:
    from pyspark import SparkContext

_EVERY = 0.3
"""Seconds between two looks at what Spark has done."""


class Progress:
    """Tells the stages of a job on a console, standard error by default."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._place = 0
        self.stages = 0

    @contextmanager
    def stage(self, what: str, spark: "SparkContext | None" = None) -> Iterator[None]:
        """Tell that a stage goes on, how far Spark has come with it, and when it has ended how long it took."""
        self._place += 1
        where = f"[{self._place}/{self.stages}] " if self.stages else ""
        began = time.monotonic()
        if self._console.is_terminal:
            with self._bar(f"{where}{what}", spark):
                yield
        else:
            yield
        self.note(f"{where}{what}: {time.monotonic() - began:.1f} s")

    def note(self, what: str) -> None:
        """Tell something."""
        self._console.print(what, markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def _bar(self, what: str, spark: "SparkContext | None") -> Iterator[None]:
        text = TextColumn("{task.description}", markup=False)
        bars = Bars(SpinnerColumn(), text, BarColumn(), TimeElapsedColumn(), console=self._console, transient=True)
        over = threading.Event()
        with bars:
            bar = bars.add_task(what, total=None)

            def watch() -> None:
                while not over.wait(_EVERY):
                    done, total = tasks(spark)
                    bars.update(bar, completed=done, total=total or None)

            watcher = threading.Thread(target=watch, daemon=True)
            if spark is not None:
                watcher.start()
            try:
                yield
            finally:
                over.set()
                if spark is not None:
                    watcher.join()


def tasks(spark: "SparkContext | None") -> tuple[int, int]:
    """Return how many tasks of Spark's active stages are done, and how many there are."""
    if spark is None:
        return 0, 0
    look: Callable[[int], object] = spark.statusTracker().getStageInfo
    found = [info for one in spark.statusTracker().getActiveStageIds() if (info := look(one)) is not None]
    return sum(info.numCompletedTasks for info in found), sum(info.numTasks for info in found)  # type: ignore[attr-defined]
