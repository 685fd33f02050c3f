"""What the columns of tables are called on a page, and in which unit their numbers are. Files keep the columns' own names."""

from typing import Literal

Unit = Literal["", "s", "%"]

LABELS: dict[str, str] = {
    "action": "Kind of fault",
    "before": "Outcome before",
    "before_run": "Run before",
    "candidate_sha256": "Hash of the candidate",
    "cause": "What changed",
    "cells_planned": "Cells planned",
    "cpu_seconds": "CPU time",
    "cut_short": "Cut short",
    "damaged": "Damaged lines",
    "environment_sha256": "Hash of the environment",
    "event": "Event number",
    "filtered": "Part of the suite only",
    "first_event": "First delivery: event number",
    "first_t": "First delivery",
    "found": "Found by the queries",
    "harness": "Harness version",
    "high": "Failure rate, at most",
    "holder_site": "Site of the copy",
    "holders": "Servers with a copy",
    "inside_boundary": "Inside the boundary",
    "last_event": "Last delivery: event number",
    "last_t": "Last delivery",
    "least": "Quickest",
    "low": "Failure rate, at least",
    "message_id": "Message-ID",
    "mode": "Kind of copy",
    "moment": "When",
    "most": "Slowest",
    "nodeid": "Cell",
    "not_applicable": "Not applicable",
    "occasions": "Occasions to fail",
    "p50": "Half within",
    "p95": "95 % within",
    "p99": "99 % within",
    "pairs_possible": "Pairs possible",
    "pairs_reached": "Pairs reached",
    "path": "History",
    "primary_site": "Site of the primary",
    "rate": "Failure rate",
    "reached": "Share reached",
    "recorded": "Recorded verdict",
    "repeat": "Command that repeats it",
    "same_site": "One site",
    "scenario_sha256": "Hash of the scenario",
    "simulated_seconds": "Documented time",
    "standing": "Nothing changed since",
    "started": "Began (UTC)",
    "times": "Times fired",
    "wall_seconds": "Wall time",
}
"""The columns whose name is not their label already."""

_UNITS: dict[str, Unit] = {
    **dict.fromkeys(("wall_seconds", "cpu_seconds", "simulated_seconds", "moment", "first_t", "last_t"), "s"),
    **dict.fromkeys(("least", "p50", "p95", "p99", "most"), "s"),
    **dict.fromkeys(("rate", "low", "high", "reached"), "%"),
}


def label_of(name: str) -> str:
    """Return what a column is called on a page, with the unit of its numbers."""
    text = LABELS.get(name) or name.replace("_", " ").capitalize()
    unit = unit_of(name)
    return f"{text} ({unit})" if unit else text


def unit_of(name: str) -> Unit:
    """Return the unit that a column's numbers are shown in: `%` is of a share, which files have as 0 to 1."""
    return _UNITS.get(name, "")
