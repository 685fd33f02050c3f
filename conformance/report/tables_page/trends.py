"""How each candidate went from run to run, as points of small plots: the share that failed, and the latency."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WIDTH, HEIGHT = 360, 80
"""Of a plot's area, in the picture's own units."""
RUNS = 200
"""The newest runs that a plot shows."""


@dataclass(frozen=True, slots=True)
class Trend:
    """One candidate's line: what it is of, its points as an SVG polyline has them, its ends as numbers."""

    candidate: str
    what: str
    points: str
    runs: int
    first: float
    last: float
    least: float
    most: float


def trends(rows: Mapping[str, list[dict[str, Any]]]) -> list[Trend]:
    """Return the lines of all candidates that have at least two runs, by candidate; `rows` are those of the tables."""
    order = {row["run"]: place for place, row in enumerate(rows["runs"])}
    found = []
    for what, values in (("failed, % of judged cells", _failed(rows["matrix"])), ("p95, s", _slow(rows["latency"]))):
        lines: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for (run, candidate), value in values.items():
            lines[candidate].append((order[run], value))
        found += [
            _trend(candidate, what, [value for _, value in sorted(line)][-RUNS:])
            for candidate, line in lines.items()
            if len(line) > 1
        ]
    return sorted(found, key=lambda one: (one.candidate, one.what))


def _failed(matrix: Sequence[dict[str, Any]]) -> dict[tuple[str, str], float]:
    passed: dict[tuple[str, str], int] = defaultdict(int)
    failed: dict[tuple[str, str], int] = defaultdict(int)
    for row in matrix:
        passed[row["run"], row["candidate"]] += row["passed"]
        failed[row["run"], row["candidate"]] += row["failed"]
    return {key: 100 * failed[key] / (failed[key] + passed[key]) for key in passed if failed[key] + passed[key]}


def _slow(latency: Sequence[dict[str, Any]]) -> dict[tuple[str, str], float]:
    """Return for each run and candidate the p95 of its slowest scenario."""
    slowest: dict[tuple[str, str], float] = {}
    for row in latency:
        if row["p95"] is not None:
            key = row["run"], row["candidate"]
            slowest[key] = max(slowest.get(key, row["p95"]), row["p95"])
    return slowest


def _trend(candidate: str, what: str, values: list[float]) -> Trend:
    least, most = min(values), max(values)
    span = most - least or 1.0
    points = " ".join(
        f"{place * WIDTH / (len(values) - 1):.1f},{HEIGHT - (value - least) / span * HEIGHT:.1f}"
        for place, value in enumerate(values)
    )
    return Trend(candidate, what, points, len(values), values[0], values[-1], least, most)
