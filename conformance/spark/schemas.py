"""The schemas of what the pipeline reads and builds: a run's Parquet tables, and the layer of transactions.

The layer has a row for each exchange or event of a run that queries ask for, far fewer rows than events. A message is known by
its `key`: its Message-ID, or its body's hash where it has none.
"""

import pyarrow as pa

from conformance.results.columns import TABLES, Column
from conformance.spark.topologies import TEXT_MAP

_SPARK_TYPES = {
    "text": "STRING",
    "json": "STRING",
    "whole": "BIGINT",
    "number": "DOUBLE",
    "flag": "BOOLEAN",
    "texts": "ARRAY<STRING>",
    "wholes": "ARRAY<BIGINT>",
}


def spark_type(column: Column) -> str:
    """Return the type of a column of a run's table in Spark's DDL; a tuple of columns becomes a struct of them."""
    if isinstance(column.type, tuple):
        return "STRUCT<" + ", ".join(f"`{inner.name}`: {spark_type(inner)}" for inner in column.type) + ">"
    return _SPARK_TYPES[column.type]


def spark_ddl(columns: tuple[Column, ...]) -> str:
    """Return columns of a run's table as a schema in Spark's DDL: names with types, separated by commas."""
    return ", ".join(f"`{column.name}` {spark_type(column)}" for column in columns)


RUN_TABLES_DDL = {name: spark_ddl(columns) for name, columns in TABLES.items()}
"""The schema of each Parquet table of a run."""

TRANSACTION_COLUMNS: dict[str, tuple[str, str]] = {
    "run": ("STRING", "the run's name"),
    "cell": ("STRING", "the cell's file without its suffix"),
    "cell_id": ("BIGINT", "a number for the pair of them, which joins use"),
    "kind": ("STRING", "`session`, `mail`, `discard`, `delivery`, `message`, `attempt` or `incident`"),
    "n": ("BIGINT", "number of the first event"),
    "t": ("DOUBLE", "time of that event: seconds of documented time since the cell began"),
    "session": ("STRING", "the connection"),
    "client": (
        "STRING",
        "the party that connected; delivery: the party that handed the message over; incident: the node or the first party",
    ),
    "server": ("STRING", "the party that was connected to; delivery: the sink"),
    "listener": ("STRING", "the listener that was connected to"),
    "number": ("BIGINT", "mail, discard: its number in the session, from 1"),
    "mode": (
        "STRING",
        "mail: `shadow` (a copy of 2013 and later), `tracked` (a 2010 sender keeps one) or `plain`; "
        "incident: the kind of its event, or `stray-reply` for a reply without a command",
    ),
    "sender": ("STRING", "the reverse-path"),
    "recipients": ("ARRAY<STRING>", "mail: accepted by RCPT, sorted; delivery: the one recipient"),
    "accepted": ("ARRAY<STRING>", "mail, attempt: recipients that the final reply accepted"),
    "refused": ("ARRAY<STRING>", "mail: recipients refused for good, by the reply to RCPT or the final reply"),
    "unreported": ("ARRAY<STRING>", "mail: accepted by RCPT with a NOTIFY that asks for no report of failures, sorted"),
    "shadow_id": ("STRING", "mail: XSHADOW= of MAIL"),
    "message": ("STRING", "message, attempt: the message's name in the scenario"),
    "key": ("STRING", "identifies a message: its Message-ID, else its body's hash"),
    "message_id": ("STRING", "the Message-ID"),
    "date": ("STRING", "the Date field"),
    "stable_sha256": ("STRING", "hash of the content without trace fields"),
    "report": ("STRING", "`delivery-status` or `journal`, where the message is one"),
    "about": ("STRING", "of a report: the Message-ID of the message that it reports on"),
    "size": ("BIGINT", "octets of the content"),
    "dot_n": ("BIGINT", "mail: number of the event of the final dot"),
    "dot_t": ("DOUBLE", "mail: time of the final dot"),
    "reply_n": ("BIGINT", "mail: number of the last final reply; discard: of the answer"),
    "reply_t": ("DOUBLE", "mail, discard: time of that reply"),
    "code": ("BIGINT", "mail: the highest code of its final replies; attempt, incident: the reply's code"),
    "rcpts": ("BIGINT", "mail: how many RCPT commands were accepted; two may name one recipient"),
    "replies": ("BIGINT", "mail: how many final replies there were"),
    "limit": ("BIGINT", "discard: how many notifications were asked for"),
    "database": ("STRING", "discard: the queue database that answered"),
    "shadow_ids": ("ARRAY<STRING>", "discard: the shadow ids that may be discarded"),
    "left": ("BIGINT", "discard: how many notifications remained"),
    "failed": ("ARRAY<STRING>", "mail, delivery of a report: the recipients that it reports as failed"),
    "action": ("STRING", "mail, delivery of a report: its Action field; incident: what was done or happened"),
    "fault": ("STRING", "incident: the fault's name"),
    "changes": (
        "MAP<STRING, STRING>",
        "incident `configured`: the parameters that changed; null where the change was refused",
    ),
    "healed": ("BOOLEAN", "incident `fault-armed`: whether the fault was removed"),
    "waited": ("DOUBLE", "incident `drained`: seconds that the harness waited for the transport to become quiet"),
    "quiet": ("BOOLEAN", "incident `drained`: whether the transport became quiet"),
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

TRANSACTIONS_DDL = ", ".join(f"`{name}` {kind}" for name, (kind, _) in TRANSACTION_COLUMNS.items())
"""The layer's schema in Spark's DDL."""


def transactions_schema() -> pa.Schema:
    """Return the Arrow schema of the layer of transactions."""
    return pa.schema([pa.field(name, _ARROW[kind]) for name, (kind, _) in TRANSACTION_COLUMNS.items()])
