"""Traces of stored cells: valid trace events, and the slices and moments in them."""

import json
from typing import Any

import jsonschema
import pytest

from conformance.export.perfetto import as_perfetto
from conformance.history.events import Connected, Delivered
from conformance.results.reader import StoredCell

pytestmark = pytest.mark.integration

_TIMED = {
    "ts": {"type": "integer", "minimum": 0},
    "pid": {"type": "integer"},
    "tid": {"type": "integer"},
    "name": {"type": "string", "minLength": 1},
}
SCHEMA = {
    "type": "object",
    "required": ["traceEvents"],
    "properties": {
        "traceEvents": {
            "type": "array",
            "items": {
                "oneOf": [
                    {"properties": {"ph": {"const": "X"}, "dur": {"type": "integer", "minimum": 0}, **_TIMED}, "required": ["ph", "dur", "ts", "pid", "tid", "name"]},
                    {"properties": {"ph": {"const": "i"}, "s": {"enum": ["t"]}, **_TIMED}, "required": ["ph", "s", "ts", "pid", "tid", "name"]},
                    {"properties": {"ph": {"enum": ["b", "e"]}, "cat": {"type": "string"}, "id": {"type": "string"}, **_TIMED}, "required": ["ph", "cat", "id", "ts", "pid", "name"]},
                    {"properties": {"ph": {"const": "M"}, "name": {"enum": ["process_name", "thread_name"]}, "args": {"required": ["name"]}}, "required": ["ph", "pid", "name", "args"]},
                ]
            },
        }
    },
}  # fmt: skip
"""The rules of the Trace Event Format for complete, instant, asynchronous and metadata events."""


def trace(cell: StoredCell) -> list[dict[str, Any]]:
    """Return the events of a cell's trace, which is valid by the schema."""
    document = json.loads(as_perfetto(cell))
    jsonschema.validate(document, SCHEMA)
    events: list[dict[str, Any]] = document["traceEvents"]
    return events


def test_every_trace_is_valid_and_every_slice_ends(cells: list[StoredCell]):
    for cell in cells:
        open_slices: dict[tuple[str, str], int] = {}
        for event in trace(cell):
            if event["ph"] == "b":
                assert (event["cat"], event["id"]) not in open_slices, cell.slug
                open_slices[event["cat"], event["id"]] = event["ts"]
            elif event["ph"] == "e":
                assert open_slices.pop((event["cat"], event["id"])) <= event["ts"]
        assert not open_slices


def test_a_trace_shows_sessions_deliveries_copies_and_failures(cells: list[StoredCell]):
    wrong = next(
        cell
        for cell in cells
        if "acknowledges-before-shadow" in cell.slug and cell.footer and cell.footer.outcome == "fail"
    )
    events = trace(wrong)
    names = [event["name"] for event in events]
    deliveries = [event for event in wrong.events if isinstance(event, Delivered)]
    assert sum(name.startswith("delivered to") for name in names) == len(deliveries) > 0
    assert any(name.startswith("copy ") for name in names)
    assert any(name.startswith("fail: SR-") for name in names)
    sessions = {event.session for event in wrong.events if isinstance(event, Connected)}
    assert {event["id"] for event in events if event.get("cat") == "session"} & sessions
    parties = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert {event.client for event in wrong.events if isinstance(event, Connected)} <= parties


def test_uneventful_sessions_are_merged_into_one_slice(cells: list[StoredCell]):
    cell = max(cells, key=lambda cell: len(cell.events))
    sessions = sum(isinstance(event, Connected) for event in cell.events)
    slices = sum(event.get("cat") == "session" and event["ph"] == "b" for event in trace(cell))
    merged = sum(
        int(e["name"].rsplit(": ")[-1].split()[0]) - 1
        for e in trace(cell)
        if e["name"].endswith(" sessions") and e["ph"] == "b"
    )
    assert merged > 0
    assert slices + merged == sessions
