"""What reads exports: tshark for captures, and the schema of trace events."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema

from conformance.history.events import Command, Connected, ConnectFailed, Content
from conformance.results.reader import StoredCell

MAX_TRACE_OCTETS = 5_000_000

_TIMED = {
    "ts": {"type": "integer", "minimum": 0},
    "pid": {"type": "integer"},
    "tid": {"type": "integer"},
    "name": {"type": "string", "minLength": 1},
}
_SCHEMA = {
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


def run_tshark(tshark: str, file: Path, *words: str) -> list[str]:
    """Return the lines that tshark prints for a capture."""
    ran = subprocess.run([tshark, "-r", str(file), *words], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def check_commands_and_replies(tshark: str, file: Path, cell: StoredCell) -> None:
    """Check that tshark finds no malformed frame and no lost segment, and reads the cell's commands of four letters as SMTP."""
    fields = ("_ws.malformed", "tcp.analysis.lost_segment", "tcp.len", "frame.protocols", "smtp.req.command")
    words = [word for field in fields for word in ("-e", field)]
    frames = [line.split("\t") for line in run_tshark(tshark, file, "-T", "fields", *words)]
    connects = sum(isinstance(event, Connected | ConnectFailed) for event in cell.events)
    assert bool(frames) == bool(connects), cell.slug
    bad = [f for f in frames if f[0] or f[1] or (f[2] != "0" and "smtp" not in f[3].split(":"))]
    assert bad == [], cell.slug
    seen = [command for frame in frames for command in frame[4].split(",") if command]
    assert seen == list(_commands_seen(cell)), cell.slug


def _commands_seen(cell: StoredCell) -> Iterator[str]:
    """Yield the verbs that Wireshark recognizes: those of four letters, and STARTTLS by its first four.

    After DATA it takes everything for content until a final dot, even if DATA was refused. Chunks have no final dot.
    """
    in_content: set[str] = set()
    last_verbs: dict[str, str] = {}
    for event in cell.events:
        if isinstance(event, Command):
            last_verbs[event.session] = event.verb
        match event:
            case Command(session=session, verb=verb) if session not in in_content:
                if len(verb) == 4 or verb == "STARTTLS":
                    yield verb[:4]
                if verb == "DATA":
                    in_content.add(session)
            case Content(session=session) if last_verbs[session] != "BDAT":
                in_content.discard(session)
            case _:
                pass


def read_trace(octets: bytes) -> list[dict[str, Any]]:
    """Return the events of a trace, which is valid by the schema."""
    document = json.loads(octets)
    jsonschema.validate(document, _SCHEMA)
    events: list[dict[str, Any]] = document["traceEvents"]
    return events
