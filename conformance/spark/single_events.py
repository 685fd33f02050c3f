"""Build the transactions layer's rows that each stand for one event: sessions, deliveries, messages, attempts and incidents.

`build_layers` calls `single_event_rows`; `exchanges` builds the layer's other rows. An *incident* is an event that may excuse
a failure or explain one: a fault, a refusal, something done to a node. A *stray reply* is one that no command asked for.
Events are the rows of a run's own table `events`; a column of them is null where the kind of event has no such field.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from conformance.spark.dictionary_column import DictionaryColumn, Flags, Integers, take_or_null
from conformance.spark.topologies import maps_of_texts

_INCIDENTS = (
    "fault-armed", "fault-fired", "connect-failed", "node", "node-command", "configured", "talked", "drained",
)  # fmt: skip
"""The kinds of event that are incidents in any case; some replies and closed sessions are too."""
_KINDS = {"connected": "session", "delivered": "delivery", "message": "message", "attempt": "attempt"}
"""Kind of event -> kind of row, of the events that are not incidents."""
_STRAY_REPLY = "stray-reply"
"""The mode of a reply without a command: none was open, or a command other than QUIT was answered with 221.

421 without a command is not one: it may come at any time.
"""

_FIELDS = ("n", "t", "session", "listener", "message", "code", "fault", "healed", "quiet")
_DIGEST_FIELDS = ("message_id", "date", "stable_sha256", "report", "about", "size")


def single_event_rows(events: pa.Table, cell_ids: Integers) -> pa.Table:
    """Return a row for each event that is a session, delivery, message, attempt or incident, in the order of the events.

    The columns are those of `schemas.TRANSACTION_COLUMNS` that such rows have. `cell_ids` has the id of each event's cell.
    Incidents are the kinds in `_INCIDENTS` (faults, failed connections, what was done to nodes), replies of 400 and above,
    replies without a command, 221 to anything but QUIT, and ends of sessions by a reset or by the change to TLS.
    """
    kind, how, verb = (DictionaryColumn.encode(events[name]) for name in ("kind", "how", "to"))
    code = pc.fill_null(events["code"], 0).to_numpy()
    # `verb` is the verb that a reply answers, '' without a command.
    is_reply, no_verb, not_quit = kind.is_in(["reply"]), verb.is_in([""]), verb.matches(lambda text: text != "QUIT")
    wanted = (
        kind.is_in((*_INCIDENTS, *_KINDS))
        | (is_reply & ((code >= 400) | no_verb | ((code == 221) & not_quit)))
        | (kind.is_in(["closed"]) & how.is_in(["reset", "secured"]))
    )
    is_stray = is_reply & ((no_verb & (code != 421)) | (not_quit & (code == 221)))
    rows = np.flatnonzero(wanted)
    is_stray = is_stray[rows]
    events, kind, cell_ids = events.take(pa.array(rows)).combine_chunks(), kind.take(rows), cell_ids[rows]
    column = {name: events[name].combine_chunks() for name in events.column_names}
    row_numbers = np.arange(len(rows))
    is_kind = {
        name: kind.is_in([name]) for name in ("delivered", "message", "attempt", "closed", "configured", "drained")
    }
    digest = {
        name: pc.struct_field(column["digest"], name) for name in (*_DIGEST_FIELDS, "body_sha256", "action", "failed")
    }
    action = _choose(is_kind["attempt"], column["outcome"], _choose(is_kind["closed"], column["how"], column["action"]))
    # `refused` says why a node refused a configuration; null: it took it.
    was_configured = is_kind["configured"] & column["refused"].is_null().to_numpy(zero_copy_only=False)
    return pa.table(
        {
            "cell_id": cell_ids,
            "kind": kind.map_values(lambda name: _KINDS.get(name, "incident")).to_arrow(),
            **{name: column[name] for name in _FIELDS},
            "client": _choose(is_kind["delivered"], column["giver"], pc.coalesce(column["node"], column["client"])),
            "server": _choose(is_kind["delivered"], column["sink"], column["server"]),
            "mode": _choose(is_stray, pa.scalar(_STRAY_REPLY), _choose(kind.is_in(_KINDS), None, column["kind"])),
            "sender": column["sender"],
            "recipients": _recipient_lists(
                column["recipient"], column["recipients"], is_kind["delivered"], is_kind["message"]
            ),
            "accepted": take_or_null(
                column["accepted"], np.where(is_kind["attempt"] & _was_accepted(column), row_numbers, -1)
            ),
            "failed": take_or_null(digest["failed"], np.where(is_kind["delivered"], row_numbers, -1)),
            **{name: digest[name] for name in _DIGEST_FIELDS},
            "key": pc.coalesce(digest["message_id"], digest["body_sha256"]),
            "action": _choose(is_kind["delivered"], digest["action"], action),
            "changes": maps_of_texts(_choose(was_configured, column["changes"], None)),
            "waited": take_or_null(column["waited"], np.where(is_kind["drained"], row_numbers, -1)),
        }
    )


def _choose(flags: Flags, if_true: pa.Array | pa.Scalar | None, if_false: pa.Array | None) -> pa.Array:
    """Return for each row the text of `if_true` where its flag is set, else the text of `if_false`.

    Both are a column of texts, or None for nulls; `if_true` may also be one text for all rows.
    """
    null = pa.scalar(None, pa.string())
    return pc.if_else(pa.array(flags), null if if_true is None else if_true, null if if_false is None else if_false)


def _was_accepted(column: dict[str, pa.Array]) -> Flags:
    """Return for each event whether it is a sender's attempt that ended with a positive reply to the final dot.

    `column` has the columns of the events by name. False for an event of another kind.
    """
    code = pc.fill_null(column["code"], 0).to_numpy(zero_copy_only=False)
    dot_sent = pc.fill_null(column["dot_sent"], False).to_numpy(zero_copy_only=False)
    answered = DictionaryColumn.encode(column["outcome"]).is_in(["answered"])
    accepted: Flags = dot_sent & (code >= 200) & (code < 300) & answered
    return accepted


def _recipient_lists(recipient: pa.Array, recipients: pa.Array, is_delivery: Flags, is_message: Flags) -> pa.Array:
    """Return a delivery's one recipient as a list, a message's recipients as they are, and null for other rows."""
    count = len(recipient)
    single = pa.ListArray.from_arrays(pa.array(np.arange(count + 1, dtype=np.int32)), recipient)
    indices = np.where(is_delivery, np.arange(count), np.where(is_message, np.arange(count) + count, -1))
    return take_or_null(pa.concat_arrays([single, recipients]), indices)
