"""Report the stages of an aggregation: on a terminal a progress bar for the current one, and a line for each that has ended.

`aggregation` names its stages, such as `looking at the runs`. Spark has stages of its own, which are parts of a query and
consist of tasks; `count_tasks` counts these.
"""

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

_POLL_S = 0.3
"""Interval at which Spark is asked how many tasks have ended."""


class Progress:
    """Prints the stages of an aggregation to a console, standard error by default."""

    def __init__(self, console: Console | None = None) -> None:
        """Print to `console`, standard error by default. Stages are not numbered until `stages` is set."""
        self._console = console or Console(stderr=True)
        self._started = 0
        """How many stages have begun."""
        self.stages = 0
        """How many stages there will be; 0: not known, stages are not numbered."""

    @contextmanager
    def stage(self, title: str, spark: "SparkContext | None" = None) -> Iterator[None]:
        """Show a stage while the block runs; then print a line with its title and seconds, unless the block raises.

        Only a terminal gets a bar meanwhile. With `spark` the bar shows which share of Spark's tasks has ended, else only that
        time passes. The title gets the prefix `[2/6]` where `stages` is set.
        """
        self._started += 1
        number = f"[{self._started}/{self.stages}] " if self.stages else ""
        began = time.monotonic()
        if self._console.is_terminal:
            with self._bar(f"{number}{title}", spark):
                yield
        else:
            yield
        self.note(f"{number}{title}: {time.monotonic() - began:.1f} s")

    def note(self, text: str) -> None:
        """Print a text as it is: Rich neither reads markup in it nor breaks its lines."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def _bar(self, title: str, spark: "SparkContext | None") -> Iterator[None]:
        """Show a progress bar while the block runs, and remove it afterwards.

        With `spark` a thread updates it from the number of Spark's ended tasks; without, it has no end.
        """
        text = TextColumn("{task.description}", markup=False)
        bars = Bars(SpinnerColumn(), text, BarColumn(), TimeElapsedColumn(), console=self._console, transient=True)
        ended = threading.Event()
        with bars:
            bar = bars.add_task(title, total=None)

            def poll() -> None:
                """Update the bar every `_POLL_S` seconds until the block has ended; runs in the thread."""
                while not ended.wait(_POLL_S):
                    completed, total = count_tasks(spark)
                    bars.update(bar, completed=completed, total=total or None)

            poller = threading.Thread(target=poll, daemon=True)
            if spark is not None:
                poller.start()
            try:
                yield
            finally:
                ended.set()
                if spark is not None:
                    poller.join()


def count_tasks(spark: "SparkContext | None") -> tuple[int, int]:
    """Return how many tasks of the stages that Spark runs now have ended, and how many there are; (0, 0) without Spark.

    A stage that ends while it is looked at is left out.
    """
    if spark is None:
        return 0, 0
    tracker = spark.statusTracker()
    stage_info: Callable[[int], object] = tracker.getStageInfo
    stages = [info for stage in tracker.getActiveStageIds() if (info := stage_info(stage)) is not None]
    return sum(info.numCompletedTasks for info in stages), sum(info.numTasks for info in stages)  # type: ignore[attr-defined]
