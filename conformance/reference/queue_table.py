"""The queues of a running node as a table, for people: `conformance queues NODE`."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

_HEAD = ("queue", "next hop", "messages", "oldest since")


def rows(state: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield one row for each queue of what `inspect` told."""
    for queue in state["queues"]:
        oldest = min((item["since"] for item in queue["items"]), default=None)
        since = "" if oldest is None else datetime.fromtimestamp(oldest, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        yield queue["queue"], queue["next_hop"], str(len(queue["items"])), since


def table(state: dict[str, Any]) -> str:
    """Return the table, with the database's id above it and the size of the delivered-to table below."""
    lines = [_HEAD, *rows(state)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEAD))]
    body = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([f"database {state['database']}", *body, f"delivered-to: {state['delivered_to']} rows"])
