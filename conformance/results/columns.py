"""The columns of a run directory's tables (since schema 1), independent of who reads them: Arrow, Spark, or a person.

Names are those of the records. A field that means different things in different events (`line`, `refused`), or that
has no fixed shape (`topology`, `state`), is kept as text: as it is when it is one, else as JSON.
"""

from dataclasses import dataclass
from typing import Literal

Scalar = Literal["text", "whole", "number", "flag", "texts", "wholes", "json"]
"""`whole` has 64 bits, `number` is a double, `texts` and `wholes` are lists."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, and a scalar type or the columns of a structure."""

    name: str
    type: "Scalar | tuple[Column, ...]"


def _columns(**types: "Scalar | tuple[Column, ...]") -> tuple[Column, ...]:
    return tuple(Column(name, kind) for name, kind in types.items())


KEY = _columns(run="text", cell="text")
"""Whose row it is: the run's name, and the cell's file without its suffix."""

OPERATION = _columns(
    name="text",
    server="text",
    database="text",
    shadow_id="text",
    shadow_ids="texts",
    limit="whole",
    left="whole",
)

DIGEST = _columns(
    size="whole",
    sha256="text",
    body_sha256="text",
    stable_sha256="text",
    message_id="text",
    date="text",
    report="text",
    about="text",
    action="text",
    failed="texts",
)

EVENT = _columns(
    n="whole",
    t="number",
    kind="text",
    session="text",
    client="text",
    server="text",
    listener="text",
    reason="text",
    verb="text",
    line="json",
    operation=OPERATION,
    to="text",
    code="whole",
    enhanced="text",
    lines="texts",
    recipient="text",
    malformed="text",
    digest=DIGEST,
    by="text",
    how="text",
    fault="text",
    action="text",
    detail="text",
    links="texts",
    healed="flag",
    phase="text",
    path="text",
    label="text",
    message="text",
    message_id="text",
    sender="text",
    recipients="texts",
    protocol="text",
    attempt="whole",
    outcome="text",
    text="text",
    accepted="texts",
    refused="json",
    dot_sent="flag",
    sink="text",
    giver="text",
    conversation="text",
    exchanges="json",
    problem="text",
    node="text",
    changes="json",
    state="json",
    command="text",
    arguments="texts",
    failed="text",
    quiet="flag",
    waited="number",
    seconds="number",
)
"""All fields of all events."""

VERDICT = _columns(
    check="text",
    outcome="text",
    requirements="texts",
    sentence="text",
    expected="text",
    seen="text",
    evidence="wholes",
    occasions="whole",
    step="text",
    line="json",
    message="text",
    moment="number",
    reason="text",
    remark="flag",
)

HEADER = _columns(
    nodeid="text",
    scenario="text",
    title="text",
    path="text",
    line="json",
    axes="json",
    candidate="text",
    generations="texts",
    requirements="texts",
    scenario_sha256="text",
    candidate_sha256="text",
    environment_sha256="text",
    seed="whole",
    clock="text",
    scale="number",
    tolerance="number",
    started="text",
    repeat="text",
    topology="json",
    parameters="json",
    waive="json",
    own_timers="json",
    claims="texts",
    should="text",
)

FOOTER = _columns(
    outcome="text",
    sentence="text",
    events="whole",
    verdicts="whole",
    wall_seconds="number",
    cpu_seconds="number",
    simulated_seconds="number",
    known="text",
)

CELL = (*HEADER, *FOOTER)
"""A cell: its header and its footer; without an outcome it was cut short."""

TABLES = {"cells": (*KEY, *CELL), "verdicts": (*KEY, *VERDICT), "events": (*KEY, *EVENT)}
"""The tables of a run, by name."""
