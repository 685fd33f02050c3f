"""The layer's rows that stand in the events as they are: sessions, deliveries, messages, attempts and incidents."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from conformance.spark.dictionary_column import DictionaryColumn, Flags, Integers, take_or_null
from conformance.spark.topologies import maps_of_texts

_INCIDENTS = (
    "fault-armed", "fault-fired", "connect-failed", "node", "node-command", "configured", "talked", "drained",
)  # fmt: skip
_KINDS = {"connected": "session", "delivered": "delivery", "message": "message", "attempt": "attempt"}
"""What an event is a row of that is no incident."""
_STRAY = "stray-reply"
"""A reply that answers nothing: no command was open, or one other than QUIT was answered with 221."""

_FIELDS = ("n", "t", "session", "listener", "message", "code", "fault", "healed", "quiet")
_DIGEST = ("message_id", "date", "stable_sha256", "report", "about", "size")


def single_event_rows(events: pa.Table, cells: Integers) -> pa.Table:
    """Return a row for each event that is one by itself; `cells` is the cell's number of each event."""
    kind, how, to = (DictionaryColumn.of(events[name]) for name in ("kind", "how", "to"))
    code = pc.fill_null(events["code"], 0).to_numpy()
    answers_nothing, other = to.among([""]), to.where(lambda one: one != "QUIT")
    wanted = (
        kind.among((*_INCIDENTS, *_KINDS))
        | (kind.among(["reply"]) & ((code >= 400) | answers_nothing | ((code == 221) & other)))
        | (kind.among(["closed"]) & how.among(["reset", "secured"]))
    )
    stray = kind.among(["reply"]) & ((answers_nothing & (code != 421)) | (other & (code == 221)))
    rows = np.flatnonzero(wanted)
    stray = stray[rows]
    events, kind, cells = events.take(pa.array(rows)).combine_chunks(), kind.of_rows(rows), cells[rows]
    column = {name: events[name].combine_chunks() for name in events.column_names}
    here = np.arange(len(rows))
    of = {name: kind.among([name]) for name in ("delivered", "message", "attempt", "closed", "configured", "drained")}
    digest = {name: pc.struct_field(column["digest"], name) for name in (*_DIGEST, "body_sha256", "action", "failed")}
    action = _if(of["attempt"], column["outcome"], _if(of["closed"], column["how"], column["action"]))
    return pa.table(
        {
            "cell_id": cells,
            "kind": kind.made(lambda one: _KINDS.get(one, "incident")).arrow(),
            **{name: column[name] for name in _FIELDS},
            "client": _if(of["delivered"], column["giver"], pc.coalesce(column["node"], column["client"])),
            "server": _if(of["delivered"], column["sink"], column["server"]),
            "mode": _if(stray, pa.scalar(_STRAY), _if(kind.among(_KINDS), None, column["kind"])),
            "sender": column["sender"],
            "recipients": _recipients(column["recipient"], column["recipients"], of["delivered"], of["message"]),
            "accepted": take_or_null(column["accepted"], np.where(of["attempt"] & _taken(column), here, -1)),
            "failed": take_or_null(digest["failed"], np.where(of["delivered"], here, -1)),
            **{name: digest[name] for name in _DIGEST},
            "key": pc.coalesce(digest["message_id"], digest["body_sha256"]),
            "action": _if(of["delivered"], digest["action"], action),
            "changes": maps_of_texts(
                _if(
                    of["configured"] & column["refused"].is_null().to_numpy(zero_copy_only=False),
                    column["changes"],
                    None,
                )
            ),
            "waited": take_or_null(column["waited"], np.where(of["drained"], here, -1)),
        }
    )


def _if(flags: Flags, one: pa.Array | pa.Scalar | None, other: pa.Array | None) -> pa.Array:
    null = pa.scalar(None, pa.string())
    return pc.if_else(pa.array(flags), null if one is None else one, null if other is None else other)


def _taken(column: dict[str, pa.Array]) -> Flags:
    """Whether an attempt ended with a positive reply to the final dot."""
    code = pc.fill_null(column["code"], 0).to_numpy(zero_copy_only=False)
    dot = pc.fill_null(column["dot_sent"], False).to_numpy(zero_copy_only=False)
    taken: Flags = dot & (code >= 200) & (code < 300) & DictionaryColumn.of(column["outcome"]).among(["answered"])
    return taken


def _recipients(one: pa.Array, several: pa.Array, delivered: Flags, made: Flags) -> pa.Array:
    """Return the recipient of a delivery as a list, and the recipients of a message; null elsewhere."""
    count = len(one)
    single = pa.ListArray.from_arrays(pa.array(np.arange(count + 1, dtype=np.int32)), one)
    places = np.where(delivered, np.arange(count), np.where(made, np.arange(count) + count, -1))
    return take_or_null(pa.concat_arrays([single, several]), places)
