"""Does steps that build on each other, some at a time: Spark plans each query in one thread, and while it plans one, cores are free."""

import re
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Generic, TypeVar

T = TypeVar("T")

MAX_RUNNING = 3
"""Steps in flight: while one is planned, another computes."""


@dataclass(frozen=True, slots=True)
class Task(Generic[T]):
    """Something to do, after the steps of these names."""

    do: Callable[[], T]
    after: frozenset[str] = frozenset()


def names_in_query(query: str, names: Collection[str]) -> frozenset[str]:
    """Return which of these names a query has, as whole words: of more than it needs it only waits for too much."""
    return frozenset(names) & frozenset(re.findall(r"\w+", query))


def run_tasks(steps: Mapping[str, Task[T]]) -> dict[str, T]:
    """Do all steps, each as soon as those before it are done, of several the first named first; return what each gave.

    Raises what a step raises, when those that had begun have ended; graphlib.CycleError where steps wait for each other.
    """
    order = {name: place for place, name in enumerate(steps)}
    sorter = TopologicalSorter({name: step.after for name, step in steps.items()})
    sorter.prepare()
    ready: list[str] = []
    under_way: dict[Future[T], str] = {}
    results: dict[str, T] = {}
    with ThreadPoolExecutor(MAX_RUNNING) as pool:
        while sorter.is_active():
            ready = sorted([*ready, *sorter.get_ready()], key=order.__getitem__)
            while ready and len(under_way) < MAX_RUNNING:
                name = ready.pop(0)
                under_way[pool.submit(steps[name].do)] = name
            for one in wait(under_way, return_when=FIRST_COMPLETED).done:
                name = under_way.pop(one)
                results[name] = one.result()
                sorter.done(name)
    return results
