"""The layers as queries over runs' own tables `cells`, `verdicts` and `events`: what `conformance.spark` makes outside of Spark.

Written for an engine of SQL, and on their own: what DuckDB makes of them must be what the pipeline makes of the same runs.
"""

from conformance.spark.schemas import TRANSACTION_COLUMNS

CELLS = "SELECT xxhash64(run, cell) AS cell_id, * FROM raw_cells"
"""The cells, each with a number that stands for its run and its name: one number is joined sooner than two texts."""

RECORDED = """
SELECT xxhash64(run, cell) AS cell_id, check, outcome, occasions, requirements, coalesce(remark, false) AS remark,
       CASE WHEN outcome = 'fail' OR remark THEN named_struct('message', message, 'moment', moment, 'sentence', sentence,
         'event', try_element_at(evidence, 1)) END AS failure
FROM raw_verdicts
"""
"""The recorded verdicts, with that number. The details are kept of failures and remarks only."""

SAID = r"""
SELECT xxhash64(run, cell) AS cell_id, session, n, t, code,
       CASE WHEN kind = 'command' AND verb IN ('MAIL', 'RCPT') THEN verb
            WHEN kind = 'command' THEN 'query'
            WHEN kind <> 'reply' THEN kind
            WHEN operation.name = 'discard-list' OR to LIKE 'XQ%' THEN 'listed'
            WHEN to IN ('MAIL', 'RCPT', 'CONTENT') THEN 'to ' || to
            ELSE 'other' END AS what,
       CASE WHEN verb IN ('MAIL', 'RCPT') THEN regexp_extract(line, '(?i)(?:FROM|TO):\\s*<([^>]*)>', 1)
            WHEN kind = 'reply' THEN recipient END AS address,
       CASE WHEN verb = 'RCPT' THEN upper(regexp_extract(line, '(?i)>.* NOTIFY=(\\S*)', 1)) END AS notify,
       CASE WHEN kind = 'reply' AND operation.name IN ('request-shadow', 'track-shadow')
            THEN operation.name END AS handshake,
       CASE WHEN kind = 'connected'
            THEN named_struct('client', client, 'server', server, 'listener', listener) END AS parties,
       CASE WHEN operation.name IS NOT NULL THEN named_struct(
         'shadow_id', operation.shadow_id, 'database', operation.database, 'shadow_ids', operation.shadow_ids,
         'limit', operation.limit, 'left', operation.left) END AS operation,
       CASE WHEN kind = 'content' THEN named_struct(
         'n', n, 't', t, 'key', coalesce(digest.message_id, digest.body_sha256), 'message_id', digest.message_id,
         'stable_sha256', digest.stable_sha256, 'report', digest.report, 'about', digest.about,
         'action', digest.action, 'failed', digest.failed, 'size', digest.size) END AS content
FROM raw_events
WHERE session IS NOT NULL
  AND (kind IN ('connected', 'content')
    OR kind = 'command' AND (verb IN ('MAIL', 'RCPT') OR operation.name = 'query-discard')
    OR kind = 'reply' AND (to IN ('MAIL', 'RCPT', 'CONTENT') OR to LIKE 'XQ%'
                           OR operation.name IN ('request-shadow', 'track-shadow', 'discard-list')))
"""
"""What passed in sessions that belongs to a mail transaction or to a discard exchange.

It has few columns, and what only some rows have is one of them: these are most of all rows, and they are moved, sorted
and gathered.
"""

_NUMBERED = """
SELECT *,
       CASE what WHEN 'listed' THEN count_if(what = 'listed') OVER passed
                 WHEN 'query' THEN count_if(what = 'query') OVER passed
                 WHEN 'MAIL' THEN count_if(what = 'MAIL') OVER passed
                 WHEN 'RCPT' THEN count_if(what = 'MAIL') OVER passed
                 WHEN 'content' THEN count_if(what = 'MAIL') OVER passed
                 ELSE count_if(what = 'to MAIL') OVER passed END AS number,
       what IN ('listed', 'query') AS discard,
       last(handshake, true) OVER passed AS agreed, first(parties) OVER passed AS both
FROM (SELECT *, xxhash64(cell_id, session) AS place FROM said)
WINDOW passed AS (PARTITION BY place, cell_id, session ORDER BY n
                  ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
"""
"""Replies come in the order of the commands, also when those were pipelined: the n-th answers the n-th.

`place` only makes sorting cheap: texts that begin alike are slow to compare, numbers are not.
"""

_GATHERED = f"""
SELECT cell_id, session, discard, number, any_value(both) AS parties,
       any_value(struct(n, t, address, operation.shadow_id, agreed AS handshake, operation.limit))
         FILTER (WHERE what IN ('MAIL', 'query')) AS begun,
       any_value(content) FILTER (WHERE what = 'content') AS content,
       array_sort(collect_list(struct(n, address, notify)) FILTER (WHERE what = 'RCPT')) AS asked,
       array_sort(collect_list(struct(n, code)) FILTER (WHERE what = 'to RCPT')) AS said,
       array_sort(collect_list(struct(n, t, code, address AS recipient)) FILTER (WHERE what = 'to CONTENT')) AS finals,
       any_value(struct(n, t, operation.database, operation.shadow_ids, operation.left))
         FILTER (WHERE what = 'listed') AS listed
FROM ({_NUMBERED})
WHERE what IN ('MAIL', 'RCPT', 'query', 'content', 'listed', 'to RCPT', 'to CONTENT')
GROUP BY cell_id, session, discard, number
"""  # made of constants

_ANSWERED = f"""
SELECT cell_id, session, number, parties, begun, content, finals, discard, listed,
       zip_with(asked, said, (a, s) -> named_struct('address', a.address, 'notify', a.notify, 'code', s.code))
         AS envelope,
       array_max(transform(finals, one -> one.code)) AS code,
       exists(finals, one -> one.recipient IS NOT NULL) AS each
FROM ({_GATHERED}) WHERE begun IS NOT NULL
"""
"""`each`: a final reply for each recipient (RFC 2033)."""

_ENVELOPED = f"""
SELECT *,
       array_sort(array_distinct(transform(filter(envelope, one -> one.code BETWEEN 200 AND 299), one -> one.address)))
         AS taken,
       array_sort(array_distinct(transform(
         filter(envelope, one -> one.code BETWEEN 200 AND 299 AND one.notify <> '' AND NOT one.notify LIKE '%FAILURE%'),
         one -> one.address))) AS unreported,
       transform(filter(envelope, one -> one.code >= 500), one -> one.address) AS turned_away
FROM ({_ANSWERED})
"""

_MAIL = {
    "kind": "'mail'",
    "n": "begun.n",
    "t": "begun.t",
    "session": "session",
    "client": "parties.client",
    "server": "parties.server",
    "listener": "parties.listener",
    "number": "number",
    "mode": "CASE WHEN begun.shadow_id IS NULL THEN 'plain' WHEN begun.handshake = 'request-shadow' THEN 'shadow' "
    "WHEN begun.handshake = 'track-shadow' THEN 'tracked' ELSE 'plain' END",
    "sender": "begun.address",
    "recipients": "taken",
    "unreported": "unreported",
    "accepted": "CASE WHEN each THEN array_sort(transform("
    "filter(finals, one -> one.code BETWEEN 200 AND 299), one -> one.recipient)) "
    "WHEN code BETWEEN 200 AND 299 THEN taken ELSE CAST(array() AS ARRAY<STRING>) END",
    "refused": "array_union(turned_away, CASE WHEN each THEN transform("
    "filter(finals, one -> one.code >= 500), one -> one.recipient) "
    "WHEN code >= 500 THEN taken ELSE CAST(array() AS ARRAY<STRING>) END)",
    "shadow_id": "begun.shadow_id",
    "key": "content.key",
    "message_id": "content.message_id",
    "stable_sha256": "content.stable_sha256",
    "report": "content.report",
    "about": "content.about",
    "action": "content.action",
    "failed": "content.failed",
    "size": "content.size",
    "dot_n": "content.n",
    "dot_t": "content.t",
    "reply_n": "try_element_at(finals, -1).n",
    "reply_t": "try_element_at(finals, -1).t",
    "code": "code",
    "rcpts": "size(filter(envelope, one -> one.code BETWEEN 200 AND 299))",
    "replies": "size(finals)",
}
_DISCARD = {
    **{name: _MAIL[name] for name in ("n", "t", "session", "client", "server", "listener", "number")},
    "kind": "'discard'",
    "limit": "begun.limit",
    "reply_n": "listed.n",
    "reply_t": "listed.t",
    "database": "listed.database",
    "shadow_ids": "listed.shadow_ids",
    "left": "listed.left",
}
_KNOWN = {
    "key": "coalesce(digest.message_id, digest.body_sha256)",
    "message_id": "digest.message_id",
    "date": "digest.date",
    "stable_sha256": "digest.stable_sha256",
    "report": "digest.report",
    "about": "digest.about",
    "size": "digest.size",
}
_OTHER = {
    "kind": "CASE kind WHEN 'connected' THEN 'session' WHEN 'delivered' THEN 'delivery' WHEN 'message' THEN kind "
    "WHEN 'attempt' THEN kind ELSE 'incident' END",
    "n": "n",
    "t": "t",
    "session": "session",
    "client": "CASE WHEN kind = 'delivered' THEN giver ELSE coalesce(node, client) END",
    "server": "CASE WHEN kind = 'delivered' THEN sink ELSE server END",
    "listener": "listener",
    "mode": "CASE WHEN kind = 'reply' AND (to = '' AND code <> 421 OR to <> 'QUIT' AND code = 221) THEN 'stray-reply' "
    "WHEN kind NOT IN ('connected', 'delivered', 'message', 'attempt') THEN kind END",
    "sender": "sender",
    "recipients": "CASE WHEN kind = 'delivered' THEN array(recipient) WHEN kind = 'message' THEN recipients END",
    "accepted": "CASE WHEN kind = 'attempt' AND outcome = 'answered' AND code BETWEEN 200 AND 299 AND dot_sent "
    "THEN accepted END",
    "failed": "CASE WHEN kind = 'delivered' THEN digest.failed END",
    "message": "message",
    **_KNOWN,
    "code": "code",
    "action": "CASE WHEN kind = 'attempt' THEN outcome WHEN kind = 'closed' THEN how "
    "WHEN kind = 'delivered' THEN digest.action ELSE action END",
    "fault": "fault",
    "changes": "CASE WHEN kind = 'configured' AND refused IS NULL THEN from_json(changes, 'MAP<STRING, STRING>') END",
    "healed": "healed",
    "waited": "CASE WHEN kind = 'drained' THEN waited END",
    "quiet": "quiet",
}


def _either(name: str) -> str:
    """Return a column of an exchange: as mail has it, as a discard exchange has it, or as the row's own kind does."""
    mail, discard = _MAIL.get(name), _DISCARD.get(name)
    if mail is None or discard is None or mail == discard:
        return mail or discard or ""
    return f"CASE WHEN discard THEN {discard} ELSE {mail} END"


_EXCHANGE = {name: _either(name) for name in TRANSACTION_COLUMNS if _either(name)}


def _row(expressions: dict[str, str]) -> str:
    """Return the select list of rows that have these columns, in the layer's order."""
    return ", ".join(
        f"CAST({expressions[name]} AS {kind}) AS `{name}`"
        for name, (kind, _) in TRANSACTION_COLUMNS.items()
        if name in expressions
    )


EXCHANGES = f"SELECT cell_id, {_row(_EXCHANGE)} FROM ({_ENVELOPED})"
"""The part of the layer that is gathered from sessions: mail transactions and discard exchanges."""

SINGLE_EVENTS = f"""
SELECT xxhash64(run, cell) AS cell_id, {_row(_OTHER)} FROM raw_events
WHERE kind IN ('connected', 'delivered', 'message', 'attempt', 'fault-armed', 'fault-fired', 'connect-failed', 'node',
               'node-command', 'configured', 'talked', 'drained')
   OR kind = 'reply' AND (code >= 400 OR to = '' OR code = 221 AND to <> 'QUIT') OR kind = 'closed' AND how IN ('reset', 'secured')
"""
"""The part of the layer that stands in the events as it is."""


def _layer(part: str, has: dict[str, str]) -> str:
    known = {"run": "c.run", "cell": "c.cell", "cell_id": "c.cell_id"} | {name: f"x.`{name}`" for name in has}
    columns = {name: known.get(name, "NULL") for name in TRANSACTION_COLUMNS}
    return f"SELECT {_row(columns)} FROM {part} x JOIN cells c ON c.cell_id = x.cell_id"


TRANSACTIONS = f"{_layer('exchanges', _EXCHANGE)} UNION ALL {_layer('single_events', _OTHER)}"
"""The layer as it is kept, over the views `exchanges`, `single_events` and `cells`."""


def layers() -> dict[str, str]:
    """Return the query of each layer over `raw_cells`, `raw_verdicts` and `raw_events`, in order."""
    return {
        "cells": CELLS,
        "recorded_verdicts": RECORDED,
        "said": SAID,
        "exchanges": EXCHANGES,
        "single_events": SINGLE_EVENTS,
        "transactions": TRANSACTIONS,
    }
