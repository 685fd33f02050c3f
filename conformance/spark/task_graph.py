"""Run tasks that depend on each other, a few at a time.

Spark plans each query in one thread, and while one is planned, the other cores are free.
"""

import re
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Generic, TypeVar

T = TypeVar("T")

MAX_RUNNING = 3
"""Tasks that run at the same time: while one query is planned, another computes."""


@dataclass(frozen=True, slots=True)
class Task(Generic[T]):
    """A function to call once the tasks named in `after` have ended."""

    run: Callable[[], T]
    after: frozenset[str] = frozenset()


def names_in_query(query: str, names: Collection[str]) -> frozenset[str]:
    """Return which of the names occur in a query as whole words.

    A name that occurs with another meaning makes a task wait longer than needed, and nothing worse.
    """
    return frozenset(names) & frozenset(re.findall(r"\w+", query))


def run_tasks(tasks: Mapping[str, Task[T]]) -> dict[str, T]:
    """Run all tasks in threads, each as soon as those before it have ended, and return their results by name.

    Blocks until all have ended. Of several that could start, the first in `tasks` does. Raises what a task raises, after the running ones
    have ended; graphlib.CycleError where tasks wait for each other.
    """
    order = {name: position for position, name in enumerate(tasks)}
    sorter = TopologicalSorter({name: task.after for name, task in tasks.items()})
    sorter.prepare()
    ready: list[str] = []
    running: dict[Future[T], str] = {}
    results: dict[str, T] = {}
    with ThreadPoolExecutor(MAX_RUNNING) as pool:
        while sorter.is_active():
            ready = sorted([*ready, *sorter.get_ready()], key=order.__getitem__)
            while ready and len(running) < MAX_RUNNING:
                name = ready.pop(0)
                running[pool.submit(tasks[name].run)] = name
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                name = running.pop(future)
                results[name] = future.result()
                sorter.done(name)
    return results
