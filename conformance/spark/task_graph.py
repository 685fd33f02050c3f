"""Run tasks that depend on each other, a few at a time.

`aggregation` defines Spark's views and queries the tables this way: a task defines one view or queries one table, and waits
for the tasks of the views that its query names. Spark plans each query in one thread, and while one is planned, the other
cores are free.
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
    """Return which of these names, those of views, occur as whole words in the SQL of a query.

    The query's task waits for these views. A word that only looks like one (a column's name) makes the task wait longer than
    needed, and has no other effect.
    """
    return frozenset(names) & frozenset(re.findall(r"\w+", query))


def run_tasks(tasks: Mapping[str, Task[T]]) -> dict[str, T]:
    """Run all tasks in threads, each after those that its `after` names, and return their results by name.

    Blocks until all have ended. At most `MAX_RUNNING` run at a time; of several that could start, the first in `tasks` starts.
    When a task raises, no further one starts, and its exception is raised after the running ones have ended. Raises
    graphlib.CycleError where tasks wait for each other, KeyError where `after` has a name that `tasks` lacks.
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
