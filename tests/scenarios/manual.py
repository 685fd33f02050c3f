"""Writes the reference tables of docs/writing-scenarios.md from the models: `python -m tests.scenarios.manual`."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from conformance import paths
from conformance.faults import FAULTS
from conformance.invariants import INVARIANTS
from conformance.scenarios.document import NEEDS, Document, FaultGrid
from conformance.scenarios.expectations import EXPECTATIONS, Copies, Expectation
from conformance.scenarios.fixtures import fixture_names, load_topology
from conformance.scenarios.messages import load_template
from conformance.scenarios.name_checks import PLACES
from conformance.scenarios.name_types import referenced_names
from conformance.scenarios.steps import ACTIONS
from conformance.scenarios.steps.nodes import Moment
from conformance.scenarios.steps.sending import Retry
from conformance.scenarios.steps.talking import Line
from conformance.scenarios.values import format_duration as duration
from conformance.topology import Topology

PAGE = Path(__file__).parents[2] / "docs" / "writing-scenarios.md"
BEGIN, END = "<!-- reference: made from the models -->", "<!-- end of the reference -->"

NAMED = {
    "message": "messages of an earlier step: `m` is all of them, `m#3` the third",
    "message or conversation": "messages of an earlier step, or a conversation",
    "message fixture": "name of a message",
    "server": "name of a server",
    "server or all": "names of servers, or `all`",
    "sender": "who connects: `outside`, `submission`, or a server",
    "party": "name of a party",
    "party or *": "name of a party; `*` is any",
    "sink": "name of a sink, or of a mailbox store (`mbx1-store`)",
    "hop": "name of a server or a sink",
    "fault": "name of a fault or a partition, or `all`",
    "label": "label of an earlier step",
    "conversation": "name of a `talk`",
    "database": "name of a mailbox database",
    "mailbox": "address of a mailbox",
}
"""What a field says that holds a name of some kind, where it has no words of its own."""


def page() -> str:
    """Return the page as it is, its reference made anew."""
    text = PAGE.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{''.join(reference())}{END}{after}"


def reference() -> Iterator[str]:
    """Yield the reference, piece by piece."""
    yield "### A scenario\n\n" + table(Document)
    yield "### Steps\n\n"
    for verb, model in sorted(ACTIONS.items()):
        short = f" Short: `{verb}: {model.short.upper()}` for `{model.short}`." if model.short else ""
        yield f"#### `{verb}`\n\n{paragraph(model)}{short}\n\n{table(model, referenced_names(model))}"
        if verb == "fault":
            yield "What it `does`:\n\n" + rows(
                ("kind", "what it does", "where", "also once it has passed"), kinds_of_faults()
            )
    yield "#### `parallel` and `repeat`\n\n"
    yield "`parallel: [STEP, ...]` does steps at the same time and ends when all have ended. "
    yield "`repeat: {times: N, steps: [STEP, ...]}` does steps one after another, N times.\n\n"
    yield "### Expectations\n\nEvery expectation can have, beside its own fields:\n\n" + table(Expectation)
    for verb, expectation in EXPECTATIONS.items():
        yield f"#### `{verb}`\n\n{paragraph(expectation)}\n\n{table(expectation, referenced_names(expectation), Expectation)}"
    yield "### Parts\n\n"
    parts: dict[str, type[BaseModel]] = {
        "a line of `talk`": Line,
        "`at` of a node's step": Moment,
        "`retry`": Retry,
        "`copies`": Copies,
    }
    for name, part in parts.items():
        yield f"#### {name}\n\n{paragraph(part)}\n\n{table(part)}"
    yield f"#### `faults`\n\n{paragraph(FaultGrid)}\n\n{table(FaultGrid)}"
    yield "### Names\n\n"
    yield f"Capabilities (`needs`): {listed(NEEDS)}.\n\n"
    yield f"Invariants (`waive`): {listed(INVARIANTS)}.\n\n"
    yield f"Places (`at` of a fault): {listed(sorted(PLACES))}.\n\n"
    yield "### Topologies\n\n" + rows(("name", "what it is"), topologies())
    yield "### Messages\n\n" + rows(("name", "what it is"), messages())


def kinds_of_faults() -> Iterator[tuple[str, ...]]:
    """Yield each kind of fault: its name, what it does, where it can strike, and whether with `heard` and `answered`."""
    for name, fault in FAULTS.items():
        places = ", ".join("a verb" if place == "verb" else place for place in fault.at)
        yield f"`{name}`", fault.about, places, "yes" if fault.after_unit else "no"


def topologies() -> Iterator[tuple[str, str]]:
    """Yield name and title of each topology."""
    for name in fixture_names(paths.fixtures() / "topologies"):
        topology: Topology = load_topology(paths.fixtures() / "topologies" / f"{name}.yaml")
        yield f"`{name}`", f"{topology.title} ({', '.join(topology.by_name)})"


def messages() -> Iterator[tuple[str, str]]:
    """Yield name and title of each message."""
    for name in fixture_names(paths.fixtures() / "messages"):
        yield f"`{name}`", load_template(name).title


def table(model: type[BaseModel], names: Mapping[str, str] | None = None, leave: type[BaseModel] | None = None) -> str:
    """Return the table of a model's fields, without those of another one; `names` says which fields hold names."""
    schema = model.model_json_schema(by_alias=True)
    left = set(leave.model_json_schema(by_alias=True)["properties"]) if leave else set()
    fields = [
        (
            f"`{name}`",
            kind(field),
            "must be given" if name in schema.get("required", ()) else default(field),
            field.get("description", "") or NAMED.get((names or {}).get(name, ""), ""),
        )
        for name, field in schema.get("properties", {}).items()
        if name not in left
    ]
    return rows(("field", "value", "default", "meaning"), fields) if fields else "No fields of its own.\n\n"


def kind(schema: Mapping[str, Any]) -> str:
    """Return what a value may be, in words."""
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return {"Copies": "copies", "Moment": "moment", "FaultGrid": "fault grid", "JsonValue": "anything"}.get(
            name, name.lower()
        )
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in sorted(schema["enum"]))
    if "const" in schema:
        return f"`{schema['const']}`"
    if "anyOf" in schema:
        words = [kind(one) for one in schema["anyOf"] if one.get("type") != "null"]
        known: dict[tuple[str, ...], str] = {
            ("text like `^(\\d+(\\.\\d+)?(ms|s|m|h|d))+$`", "number"): "duration",
            ("text like `^\\d+\\s*(B|KB|MB)?$`", "whole number"): "size",
            ("text", "list of text"): "one or a list",
        }
        return known.get(tuple(words), " or ".join(words))
    match schema.get("type"):
        case "string" if schema.get("pattern") == "^[a-z][a-z0-9-]*$":
            return "label"
        case "string" if "pattern" in schema:
            return f"text like `{schema['pattern']}`"
        case "string":
            return "text"
        case "integer":
            return "whole number"
        case "number":
            return "number"
        case "boolean":
            return "yes, no"
        case "array" if "prefixItems" in schema:
            return "two of: " + kind(schema["prefixItems"][0])
        case "array":
            return "list of " + kind(schema.get("items", {}))
        case "object":
            return "mapping"
        case _:
            return "anything"


def default(field: Mapping[str, Any]) -> str:
    """Return a field's default as a file would write it; nothing for none."""
    value = field.get("default")
    if isinstance(value, float):
        return f"`{duration(value)}`"
    if value is None or value in ([], {}, ""):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "`" + re.sub(r"['\"]", "", str(value)) + "`"


def paragraph(model: type[BaseModel]) -> str:
    """Return a model's docstring as one paragraph."""
    return " ".join((model.__doc__ or "").split())


def listed(names: Any) -> str:
    """Return names as a list in a sentence."""
    return ", ".join(f"`{name}`" for name in names)


def rows(head: tuple[str, ...], lines: Any) -> str:
    """Return a Markdown table."""
    body = [head, ("---",) * len(head), *lines]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in body) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
