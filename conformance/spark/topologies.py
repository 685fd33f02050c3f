"""What a cell's header says of its world, made ready for queries: servers with their parameters, mailboxes, axes, waivers.

JSON is read here, each text once, and never in a query.
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
}
"""Column -> the parameter that queries ask for, as text."""

TEXT_MAP = pa.map_(pa.string(), pa.string())
_OF_A_SERVER = ("generation", "role", "site", "boundary", *PARAMETERS)
TOPOLOGY_SCHEMA = pa.schema(
    {
        "place": pa.int64(),
        "without_rights": pa.bool_(),
        "mailboxes": pa.list_(pa.string()),
        "servers": pa.map_(pa.string(), pa.struct(dict.fromkeys(_OF_A_SERVER, pa.string()))),
    }
)
"""Each world once, by its number: a thousand runs of one suite share theirs.

It has its servers by name, with the parameters in force at the start: a server's boundary is its DAG, else its site
(SR-BND-01, SR-BND-02).
"""

READ = ("topology", "parameters", "waive", "axes")
"""The columns of cells that are JSON, and are read here."""
DDL = "`world` BIGINT, `waived` ARRAY<STRING>, `axes` MAP<STRING, STRING>"
"""The columns that cells have instead, in Spark's words."""


class _Lenient(BaseModel):
    model_config = ConfigDict(extra="ignore")


class _Server(_Lenient):
    name: str
    generation: str | None = None
    role: str | None = None
    site: str | None = None
    dag: str | None = None
    transport: dict[str, JsonValue] = {}


class _Mailbox(_Lenient):
    address: str


class _Right(_Lenient):
    accept: bool = Field(True, alias="accept-xshadow")
    send: bool = Field(True, alias="send-xshadow")


class _Topology(_Lenient):
    servers: tuple[_Server, ...] = ()
    mailboxes: tuple[_Mailbox, ...] = ()
    rights: tuple[_Right, ...] = ()
    transport: dict[str, JsonValue] = {}


_TOPOLOGY = TypeAdapter(_Topology)
_STATED = TypeAdapter(dict[str, dict[str, JsonValue]])
_OBJECT = TypeAdapter(dict[str, JsonValue])


def extract_topologies(cells: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return cells with the columns of `DDL` instead of those of JSON, and their worlds. Worlds that are alike are one."""
    topology, parameters = DictionaryColumn.of(cells["topology"]), DictionaryColumn.of(cells["parameters"])
    pairs, rows = np.unique(np.stack([topology.codes, parameters.codes], axis=1), axis=0, return_inverse=True)
    worlds = [_world(_word(topology, one), _word(parameters, other)) for one, other in pairs]
    numbers = [int(sha256_of_json(world)[:15], 16) for world in worlds]
    columns = {
        "world": pa.array(numbers, pa.int64()).take(pa.array(rows.reshape(-1))),
        "waived": pa.array(
            [sorted(object_as_texts(text)) for text in cells["waive"].to_pylist()], pa.list_(pa.string())
        ),
        "axes": maps_of_texts(cells["axes"]),
    }
    kept = {name: cells[name] for name in cells.column_names if name not in READ}
    return pa.table({**kept, **columns}), unique_topologies(
        [{"place": n, **w} for n, w in zip(numbers, worlds, strict=True)]
    )


def unique_topologies(worlds: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Return worlds as a table, each once."""
    return pa.Table.from_pylist([*{world["place"]: world for world in worlds}.values()], TOPOLOGY_SCHEMA)


def maps_of_texts(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return JSON objects as maps of texts: of what is no text its JSON. Null stays null."""
    coded = DictionaryColumn.of(column)
    made = pa.array([*([*object_as_texts(text).items()] for text in coded.words), None], TEXT_MAP)
    return made.take(pa.array(np.where(coded.codes < 0, len(coded.words), coded.codes)))


def object_as_texts(text: str | None) -> dict[str, str | None]:
    """Return what a JSON object says, as texts; nothing of what is none."""
    return {name: _text(value) for name, value in (_read(_OBJECT, text) or {}).items()}


def _word(coded: DictionaryColumn, code: int) -> str | None:
    return None if code < 0 else coded.words[code]


def _world(topology: str | None, parameters: str | None) -> dict[str, Any]:
    """Return a world. Runs up to 0.1.0 state no parameters: theirs are what the topology sets, and the defaults."""
    read = _read(_TOPOLOGY, topology) or _Topology()
    stated = _read(_STATED, parameters) or {}
    servers = {}
    for one in read.servers:
        told = stated.get(one.name) or effective_parameters(read.transport, one.transport)
        servers[one.name] = {
            "generation": one.generation,
            "role": one.role,
            "site": one.site,
            "boundary": f"DAG {one.dag}" if one.dag is not None else one.site and f"site {one.site}",
            **{column: _text(told.get(name)) for column, name in PARAMETERS.items()},
        }
    return {
        "without_rights": not all(right.accept and right.send for right in read.rights),
        "mailboxes": [mailbox.address.lower() for mailbox in read.mailboxes],
        "servers": servers,
    }


def _read(kind: TypeAdapter[Any], text: str | None) -> Any:
    try:
        return None if text is None else kind.validate_json(text)
    except ValidationError:
        return None


def _text(value: JsonValue) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
