"""How long the programs of a cell's nodes waited for a processor: what they do late then is the machine's fault.

Real time goes on while a program that could run is given no core, because the machine has too much to do. The harness's
own loop may be in time all the while, so its lateness does not show it. The kernel counts the wait of each thread
(`schedstat`, proc(5)). The waits of a node's processes are added, since each may have waited for the one before; of
several threads of a process the longest wait counts.
"""

from collections.abc import Callable, Mapping

from conformance.nodes.processes import descendants, threads_of

_NS = 1e9


class RunDelay:
    """Reads the kernel's counters; `guards` returns for each node that runs the process above its programs."""

    def __init__(self, guards: Callable[[], Mapping[str, int]]) -> None:
        self._guards = guards
        self._counters: dict[tuple[int, int], float] = {}

    def waited(self) -> tuple[float, str]:
        """Return the longest wait of a node since this was last asked, in real seconds, and the node's name; (0.0, "")
        when none waited. What a process waited that has ended meanwhile is not known."""
        counters: dict[tuple[int, int], float] = {}
        worst = (0.0, "")
        for node, guard in self._guards().items():
            total = 0.0
            for process in descendants(guard):
                delays = {(process, thread): delay for thread, delay in _delays(process)}
                total += max((delay - self._counters.get(key, 0.0) for key, delay in delays.items()), default=0.0)
                counters |= delays
            if total > worst[0]:
                worst = (total, node)
        self._counters = counters
        return worst


def _delays(process: int) -> list[tuple[int, float]]:
    """Return for each thread of a process how long it has waited for a processor in its life, real seconds; nothing of
    one that has ended, or where the kernel does not count."""
    found = []
    for thread in threads_of(process):
        try:
            with open(f"/proc/{process}/task/{thread}/schedstat", "rb") as counters:  # noqa: PTH123
                found.append((int(thread), int(counters.read().split()[1]) / _NS))
        except (OSError, IndexError):
            continue
    return found
