"""The views of messages: which were made, transferred, stored as shadow copies, delivered and acknowledged.

Each is a query over the views `exchanges`, `single_events`, `conditions` and `topologies`, joined within a cell only. Addresses
are normalized: those of the topology's mailboxes are compared without regard to case, others without regard to the case
of their domain (RFC 5321 2.4).
"""

from conformance.faults import ALTERING_FAULTS
from conformance.spark.topologies import PARAMETERS


def _normalized(address: str) -> str:
    """Return SQL for the form in which addresses are compared, from SQL for an address.

    In the query where it is used, `tp` must be a row of `topologies`, that of the address's cell.
    """
    domain = f"regexp_extract({address}, '[^@]*$', 0)"
    foreign = f"concat(left({address}, length({address}) - length({domain})), lower({domain}))"
    lower = f"lower({address})"  # nearly every address is in lower case already: that case is tested first
    return f"CASE WHEN {address} = {lower} OR array_contains(tp.mailboxes, {lower}) THEN {lower} ELSE {foreign} END"


def _normalized_list(addresses: str) -> str:
    """Return SQL for the sorted list of distinct normalized addresses, from SQL for a list; `tp` is needed as for `_normalized`."""
    return f"array_sort(array_distinct(transform({addresses}, address -> {_normalized('address')})))"


_JOIN_TOPOLOGY = "JOIN conditions c ON c.cell_id = {0}.cell_id JOIN topologies tp ON tp.topology_id = c.topology_id"
"""Joins the topology that `_normalized` needs to the rows of the alias {0}."""

_PARAMETER_COLUMNS = ", ".join(f"element_at(changes, '{name}') AS {column}" for column, name in PARAMETERS.items())
PARAMETER_CHANGES = f"""
SELECT cell_id, client AS server, n, {_PARAMETER_COLUMNS}
FROM single_events WHERE kind = 'incident' AND mode = 'configured' AND changes IS NOT NULL
"""  # noqa: S608  # made of constants
"""A row for each configuration that a server accepted, with the parameters that it changed."""

TAMPERED = f"mode = 'fault-fired' AND action IN ({', '.join(repr(kind) for kind in sorted(ALTERING_FAULTS))})"
"""SQL condition: a row of `single_events` is a fault that changed what a session shows, so that no party said it."""

ALTERED_SESSIONS = f"""
SELECT cell_id, session, bool_or(kind = 'attempt' OR mode = 'talked') AS spoken,
       bool_or(mode = 'fault-fired') AS tampered
FROM single_events
WHERE session IS NOT NULL
  AND (kind = 'attempt' OR mode = 'talked' OR {TAMPERED})
GROUP BY cell_id, session
"""  # noqa: S608  # made of constants
"""A row for each session in which the harness itself was the client (`spoken`), or a fault changed commands or replies
(`tampered`)."""

MAIL_TRANSACTIONS = f"""
SELECT /*+ SHUFFLE_HASH(x) */ m.cell_id, m.n, m.t, m.session, m.client, m.server, m.listener, m.mode,
       {_normalized("m.sender")} AS sender, {_normalized_list("m.recipients")} AS recipients, {_normalized_list("m.accepted")} AS accepted,
       {_normalized_list("m.refused")} AS refused, {_normalized_list("m.unreported")} AS unreported, m.rcpts AS accepted_rcpts,
       m.shadow_id, m.key, m.message_id, m.stable_sha256, m.report, m.about, m.action, m.failed, m.dot_n, m.dot_t, m.reply_n, m.reply_t,
       m.code, m.replies,
       element_at(tp.servers, m.client) IS NULL AS from_outside, element_at(tp.servers, m.server) IS NOT NULL AS to_server,
       element_at(tp.servers, m.client) IS NOT NULL AND element_at(tp.servers, m.server) IS NOT NULL AS among_servers,
       element_at(tp.servers, m.client).site AS client_site, element_at(tp.servers, m.server).site AS server_site,
       element_at(tp.servers, m.client).boundary = element_at(tp.servers, m.server).boundary AS inside,
       coalesce(x.spoken, false) AS spoken, coalesce(x.tampered, false) AS tampered
FROM exchanges m {_JOIN_TOPOLOGY.format("m")}
LEFT JOIN altered_sessions x ON x.cell_id = m.cell_id AND x.session = m.session
WHERE m.kind = 'mail'
"""  # noqa: S608  # made of constants
"""A row for each mail transaction.

`from_outside`: its client is not a server of the topology. `to_server`: its server is one. `among_servers`: both are.
`inside`: both are servers of one boundary. `accepted_rcpts`: how many RCPT commands were accepted.
"""

HARNESS_MESSAGES = f"""
SELECT m.cell_id, m.message, m.key, m.message_id, m.date, m.stable_sha256, {_normalized("m.sender")} AS sender,
       {_normalized_list("m.recipients")} AS recipients,
       coalesce(min(m.date) OVER same_key <> max(m.date) OVER same_key, false) AS several_dates
FROM single_events m {_JOIN_TOPOLOGY.format("m")}
WHERE m.kind = 'message'
WINDOW same_key AS (PARTITION BY m.cell_id, m.key)
"""  # noqa: S608  # made of constants
"""A row for each message that the harness made; `several_dates`: another with the same key, so the same Message-ID, has another date."""

SHADOW_COPIES = """
SELECT cell_id, mode, shadow_id, key, message_id, if(mode = 'shadow', client, server) AS primary,
       if(mode = 'shadow', server, client) AS holder, if(mode = 'shadow', client_site, server_site) AS primary_site,
       if(mode = 'shadow', server_site, client_site) AS holder_site, inside, accepted AS recipients, session,
       n AS begun_n, reply_n AS stored_n, reply_t AS stored_t
FROM mail_transactions WHERE mode IN ('shadow', 'tracked') AND code BETWEEN 200 AND 299 AND among_servers
"""
"""A row for each shadow copy that was acknowledged: `primary` is the server that keeps the message, `holder` has the copy."""

DELIVERIES = f"""
SELECT d.cell_id, d.server AS sink, d.client AS giver, d.session, {_normalized("d.recipients[0]")} AS recipient,
       {_normalized("d.sender")} AS sender, array_contains(tp.mailboxes, lower(d.recipients[0])) AS in_mailbox,
       d.key, d.message_id, d.date, d.stable_sha256, d.report, d.about, d.action, {_normalized_list("d.failed")} AS failed, d.n, d.t
FROM single_events d {_JOIN_TOPOLOGY.format("d")}
WHERE d.kind = 'delivery'
"""  # noqa: S608  # made of constants
"""A row for each message and recipient that a sink accepted; `giver` is the party that handed it over."""

ACKNOWLEDGEMENTS = f"""
SELECT /*+ SHUFFLE_HASH(t) */ a.cell_id, a.message, m.key, m.message_id, m.date, m.sender, {_normalized("a.recipient")} AS recipient, a.server,
       a.listener, a.session, m.several_dates, CAST(element_at(tp.servers, a.server).retry AS DOUBLE) AS server_retry,
       a.n AS attempt_n, coalesce(t.reply_n, a.n) AS acknowledged_n, t.reply_t - t.dot_t AS latency
FROM (SELECT cell_id, message, server, listener, session, n, explode(accepted) AS recipient
      FROM single_events WHERE kind = 'attempt') a
{_JOIN_TOPOLOGY.format("a")}
JOIN harness_messages m ON m.cell_id = a.cell_id AND m.message = a.message
LEFT JOIN (SELECT cell_id, session, key, min(reply_n) AS reply_n, min_by(reply_t, reply_n) AS reply_t,
                  min_by(dot_t, reply_n) AS dot_t
           FROM exchanges WHERE kind = 'mail' AND code BETWEEN 200 AND 299 GROUP BY cell_id, session, key) t
  ON t.cell_id = a.cell_id AND t.session = a.session AND t.key = m.key
"""  # noqa: S608  # made of constants
"""A row for each attempt of a sender of the harness and each recipient that a positive final reply accepted.

`server_retry`: the retry interval of the server, in seconds. `latency`: seconds from the final dot to that reply; null where the
session does not show it.
"""

VIEWS = {
    "parameter_changes": PARAMETER_CHANGES,
    "altered_sessions": ALTERED_SESSIONS,
    "harness_messages": HARNESS_MESSAGES,
    "mail_transactions": MAIL_TRANSACTIONS,
    "shadow_copies": SHADOW_COPIES,
    "deliveries": DELIVERIES,
    "acknowledgements": ACKNOWLEDGEMENTS,
}
"""The views over `exchanges`, `single_events`, `topologies` and `conditions`, in the order in which they build on each other."""
