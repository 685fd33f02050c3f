"""Turn the JSON columns of cells (topology, parameters, axes, waivers) into columns that queries can join with.

`build_layers` calls `extract_topologies`. Each distinct JSON text is parsed once, here and never in a query. Cells that share
topology and parameters share one row of the table of topologies, which they name by `topology_id`. A waiver is an invariant that
a scenario switches off, with its reason.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from conformance.parameters import effective_parameters
from conformance.results.fingerprints import sha256_of_json
from conformance.spark.dictionary_column import DictionaryColumn

PARAMETERS = {
    "enabled": "ShadowRedundancyEnabled",
    "mandatory": "RejectMessageOnShadowFailure",
    "preference": "ShadowMessagePreferenceSetting",
    "far_tries": "MaxRetriesForRemoteSiteShadow",
    "near_tries": "MaxRetriesForLocalSiteShadow",
    "retry": "MessageRetryInterval",
    "tracked": "DuplicateTrackingWindow",
    "hold": "SafetyNetHoldTime",
    "lifetime": "MessageExpirationTimeout",
    "span": "ShadowResubmitTimeSpan",
}
"""Field of a server in `TOPOLOGY_SCHEMA` -> transport parameter, of those that queries use; the values are texts."""

TEXT_MAP = pa.map_(pa.string(), pa.string())
_SERVER_FIELDS = ("generation", "role", "site", "boundary", *PARAMETERS)
TOPOLOGY_SCHEMA = pa.schema(
    {
        "topology_id": pa.int64(),
        "without_rights": pa.bool_(),
        "mailboxes": pa.list_(pa.string()),
        "servers": pa.map_(pa.string(), pa.struct(dict.fromkeys(_SERVER_FIELDS, pa.string()))),
    }
)
"""A topology with the parameters in force at the start of its cells.

`without_rights`: some pair of servers may not use XSHADOW. `servers` maps names to servers; the boundary of a server is its
DAG, else its site (SR-BND-01, SR-BND-02).
"""

JSON_COLUMNS = ("topology", "parameters", "waive", "axes")
"""The columns of cells that are JSON and are replaced here."""
CELL_COLUMNS_DDL = "`topology_id` BIGINT, `waived` ARRAY<STRING>, `axes` MAP<STRING, STRING>"
"""The columns that replace them, in Spark's DDL."""


class _Lenient(BaseModel):
    """A part of the JSON text of a topology; keys that are not read here are ignored."""

    model_config = ConfigDict(extra="ignore")


class _Server(_Lenient):
    """One server of a topology, with the parameters (`transport`) that were set for it alone."""

    name: str
    generation: str | None = None
    role: str | None = None
    site: str | None = None
    dag: str | None = None
    transport: dict[str, JsonValue] = {}


class _Mailbox(_Lenient):
    """One mailbox of a topology."""

    address: str


class _Right(_Lenient):
    """Whether one connector accepts XSHADOW from a peer, and whether it sends it."""

    accept: bool = Field(True, alias="accept-xshadow")
    send: bool = Field(True, alias="send-xshadow")


class _Topology(_Lenient):
    """What queries need of a topology; `transport` has the parameters set for all servers."""

    servers: tuple[_Server, ...] = ()
    mailboxes: tuple[_Mailbox, ...] = ()
    rights: tuple[_Right, ...] = ()
    transport: dict[str, JsonValue] = {}


_TOPOLOGY = TypeAdapter(_Topology)
_SERVER_PARAMETERS = TypeAdapter(dict[str, dict[str, JsonValue]])
_OBJECT = TypeAdapter(dict[str, JsonValue])


def extract_topologies(cells: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the table of cells with plain columns in place of its JSON columns, and the table of their topologies.

    `JSON_COLUMNS` are replaced by those of `CELL_COLUMNS_DDL`; `waived` has the names of the invariants that a cell waives,
    without the reasons.
    """
    topology, parameters = (DictionaryColumn.encode(cells[name]) for name in ("topology", "parameters"))
    # The distinct pairs of a topology and parameters, and for each cell the index of its pair.
    pairs, rows = np.unique(np.stack([topology.codes, parameters.codes], axis=1), axis=0, return_inverse=True)
    topology_texts, parameter_texts = (*topology.values, None), (*parameters.values, None)  # -1, null, is the last
    topologies = [_topology_row(topology_texts[first], parameter_texts[second]) for first, second in pairs]
    ids = [int(sha256_of_json(row)[:15], 16) for row in topologies]  # 60 bits: equal in all runs for equal rows
    columns = {
        "topology_id": pa.array(ids, pa.int64()).take(pa.array(rows.reshape(-1))),
        "waived": pa.array(
            [
                sorted(name.removeprefix("invariant.") for name in object_as_texts(text))
                for text in cells["waive"].to_pylist()
            ],
            pa.list_(pa.string()),
        ),
        "axes": maps_of_texts(cells["axes"]),
    }
    others = {name: cells[name] for name in cells.column_names if name not in JSON_COLUMNS}
    return pa.table({**others, **columns}), unique_topologies(
        {"topology_id": number, **row} for number, row in zip(ids, topologies, strict=True)
    )


def unique_topologies(rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Return rows of `TOPOLOGY_SCHEMA` as a table with one row for each `topology_id`."""
    return pa.Table.from_pylist([*{row["topology_id"]: row for row in rows}.values()], TOPOLOGY_SCHEMA)


def maps_of_texts(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return a column of JSON objects as maps of texts; a value that is not a text becomes its JSON, and null stays null.

    A text that is not a JSON object becomes an empty map.
    """
    encoded = DictionaryColumn.encode(column)
    maps = pa.array([*([*object_as_texts(text).items()] for text in encoded.values), None], TEXT_MAP)
    return maps.take(pa.array(np.where(encoded.codes < 0, len(encoded.values), encoded.codes)))


def object_as_texts(text: str | None) -> dict[str, str | None]:
    """Return the entries of a JSON object with each value as text; empty for None and for anything but an object."""
    return {name: _as_text(value) for name, value in (_parse(_OBJECT, text) or {}).items()}


def _topology_row(topology: str | None, parameters: str | None) -> dict[str, Any]:
    """Return a row of `TOPOLOGY_SCHEMA`, without its id, from the two JSON texts of a cell.

    A text that is None or does not fit counts as empty. Runs of 0.1.0 do not state the parameters of servers: these follow from
    the topology and the documented defaults then.
    """
    parsed = _parse(_TOPOLOGY, topology) or _Topology()
    stated = _parse(_SERVER_PARAMETERS, parameters) or {}
    servers = {}
    for server in parsed.servers:
        values = stated.get(server.name) or effective_parameters(parsed.transport, server.transport)
        servers[server.name] = {
            "generation": server.generation,
            "role": server.role,
            "site": server.site,
            "boundary": f"DAG {server.dag}" if server.dag is not None else server.site and f"site {server.site}",
            **{column: _as_text(values.get(name)) for column, name in PARAMETERS.items()},
        }
    return {
        "without_rights": not all(right.accept and right.send for right in parsed.rights),
        "mailboxes": [mailbox.address.lower() for mailbox in parsed.mailboxes],
        "servers": servers,
    }


def _parse(model: TypeAdapter[Any], text: str | None) -> Any:
    """Return what a JSON text holds; None for no text, and for one that does not fit the model."""
    try:
        return None if text is None else model.validate_json(text)
    except ValidationError:
        return None


def _as_text(value: JsonValue) -> str | None:
    """Return a text as it is, None as None, and any other value as JSON."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
