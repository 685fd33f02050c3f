"""The layer of transactions: of a run's events, a row for each exchange that means something. Far fewer rows than events.

A message is known by its `key`: its Message-ID, or its body's hash where it has none.
"""

import pyarrow as pa

from conformance.spark.topologies import TEXT_MAP

TRANSACTION_COLUMNS: dict[str, tuple[str, str]] = {
    "run": ("STRING", "the run's name"),
    "cell": ("STRING", "the cell's file without its suffix"),
    "cell_id": ("BIGINT", "a number that stands for both"),
    "kind": ("STRING", "`session`, `mail`, `discard`, `delivery`, `message`, `attempt` or `incident`"),
    "n": ("BIGINT", "number of the event that it began with"),
    "t": ("DOUBLE", "when that was: seconds of documented time since the cell began"),
    "session": ("STRING", "the connection it was seen on"),
    "client": ("STRING", "who connected; of a delivery the giver, of an incident the node or the first party"),
    "server": ("STRING", "who was connected to; of a delivery the sink"),
    "listener": ("STRING", "which door was dialled"),
    "number": ("BIGINT", "mail, discard: which one of its session, from 1"),
    "mode": (
        "STRING",
        "mail: `shadow` (a copy of 2013 and later), `tracked` (a 2010 sender keeps one) or `plain`; "
        "incident: the kind of its event, `stray-reply` of a reply that answers nothing",
    ),
    "sender": ("STRING", "the reverse-path"),
    "recipients": ("ARRAY<STRING>", "mail: accepted by RCPT, sorted; delivery: the one recipient"),
    "accepted": ("ARRAY<STRING>", "mail, attempt: those that the final reply was positive for"),
    "refused": ("ARRAY<STRING>", "mail: those refused for good, by RCPT or by the final reply"),
    "shadow_id": ("STRING", "mail: XSHADOW= of MAIL"),
    "message": ("STRING", "message, attempt: its name in the scenario"),
    "key": ("STRING", "what a message is known by: its Message-ID, else its body's hash"),
    "message_id": ("STRING", "the Message-ID"),
    "date": ("STRING", "the Date field"),
    "stable_sha256": ("STRING", "hash of the content without trace fields"),
    "report": ("STRING", "`delivery-status` or `journal`, where the message is one"),
    "about": ("STRING", "a report: the Message-ID of what it is about"),
    "size": ("BIGINT", "octets of the content"),
    "dot_n": ("BIGINT", "mail: number of the event of the final dot"),
    "dot_t": ("DOUBLE", "mail: when that was"),
    "reply_n": ("BIGINT", "mail: number of the last final reply; discard: of the answer"),
    "reply_t": ("DOUBLE", "mail, discard: when that was"),
    "code": ("BIGINT", "mail: the highest code of its final replies; attempt, incident: the reply's code"),
    "replies": ("BIGINT", "mail: how many final replies there were"),
    "limit": ("BIGINT", "discard: how many notifications were asked for"),
    "database": ("STRING", "discard: the queue database that answered"),
    "shadow_ids": ("ARRAY<STRING>", "discard: what may be discarded"),
    "left": ("BIGINT", "discard: how many were left to ask for"),
    "failed": ("ARRAY<STRING>", "delivery: of a report, the recipients whom it says that it failed for"),
    "action": ("STRING", "delivery: of a report, its Action field; incident: what was done or happened"),
    "fault": ("STRING", "incident: the fault's name"),
    "changes": ("MAP<STRING, STRING>", "incident: of `configured` what changed; nothing where it was refused"),
    "healed": ("BOOLEAN", "incident: of `fault-armed`, whether it was taken away"),
    "waited": ("DOUBLE", "incident: of `drained`, for how many seconds the transport was waited for"),
    "quiet": ("BOOLEAN", "incident: of `drained`, whether the transport became quiet"),
}
"""The layer's columns: type and meaning. A column that a kind of row has no use for is null."""

_ARROW = {
    "STRING": pa.string(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "ARRAY<STRING>": pa.list_(pa.string()),
    "MAP<STRING, STRING>": TEXT_MAP,
}

DDL = ", ".join(f"`{name}` {kind}" for name, (kind, _) in TRANSACTION_COLUMNS.items())
"""The layer's schema in Spark's DDL."""


def schema() -> pa.Schema:
    """Return the layer's schema in Arrow's terms."""
    return pa.schema([pa.field(name, _ARROW[kind]) for name, (kind, _) in TRANSACTION_COLUMNS.items()])
