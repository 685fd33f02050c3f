"""The views over the layers: who passed which message to whom, what was stored, delivered and acknowledged.

Each is a query over `exchanges`, `happenings` and `cells`, joined within a cell only. Two ways of writing one address are
one there: a mailbox of the topology is found in any letter case, of an address outside only the domain is (RFC 5321 2.4).
"""

from conformance.faults import ALTERING_FAULTS
from conformance.spark.topologies import PARAMETERS


def _one(address: str) -> str:
    """Return an address as it is compared, where `w` is the topology."""
    domain = f"regexp_extract({address}, '[^@]*$', 0)"
    outside = f"concat(left({address}, length({address}) - length({domain})), lower({domain}))"
    small = f"lower({address})"  # nearly every address is written so already, whosever it is
    return f"CASE WHEN {address} = {small} OR array_contains(w.mailboxes, {small}) THEN {small} ELSE {outside} END"


def _all(addresses: str) -> str:
    return f"array_sort(array_distinct(transform({addresses}, one -> {_one('one')})))"


_HERE = "JOIN conditions c ON c.cell_id = {0}.cell_id JOIN topologies w ON w.place = c.place"
"""What a view needs to compare addresses."""

_CHANGED = ", ".join(f"element_at(changes, '{name}') AS {column}" for column, name in PARAMETERS.items())
CHANGES = f"""
SELECT cell_id, client AS server, n, {_CHANGED}
FROM happenings WHERE kind = 'incident' AND mode = 'configured' AND changes IS NOT NULL
"""  # noqa: S608  # made of constants
"""A row for each configuration that a server took, with the parameters that it changed."""

TAMPERED = f"mode = 'fault-fired' AND action IN ({', '.join(repr(kind) for kind in sorted(ALTERING_FAULTS))})"
"""Whether a happening is a fault by which a session shows what none of its parties said."""

ALTERED = f"""
SELECT cell_id, session, bool_or(kind = 'attempt' OR mode = 'talked') AS spoken,
       bool_or(mode = 'fault-fired') AS tampered
FROM happenings
WHERE session IS NOT NULL
  AND (kind = 'attempt' OR mode = 'talked' OR {TAMPERED})
GROUP BY cell_id, session
"""  # noqa: S608  # made of constants
"""Sessions in which the harness spoke for the client, or a fault put words into a party's mouth (`tampered`)."""

MAILS = f"""
SELECT /*+ SHUFFLE_HASH(x) */ m.cell_id, m.n, m.t, m.session, m.client, m.server, m.listener, m.mode,
       {_one("m.sender")} AS sender, {_all("m.recipients")} AS recipients, {_all("m.accepted")} AS accepted,
       {_all("m.refused")} AS refused, size(m.recipients) AS named,
       m.shadow_id, m.key, m.message_id, m.stable_sha256, m.report, m.about, m.dot_n, m.dot_t, m.reply_n, m.reply_t,
       m.code, m.replies,
       element_at(w.servers, m.client) IS NULL AS from_outside, element_at(w.servers, m.server) IS NOT NULL AS to_server,
       element_at(w.servers, m.client) IS NOT NULL AND element_at(w.servers, m.server) IS NOT NULL AS among_servers,
       element_at(w.servers, m.client).site AS client_site, element_at(w.servers, m.server).site AS server_site,
       element_at(w.servers, m.client).boundary = element_at(w.servers, m.server).boundary AS inside,
       coalesce(x.spoken, false) AS spoken, coalesce(x.tampered, false) AS tampered
FROM exchanges m {_HERE.format("m")}
LEFT JOIN altered x ON x.cell_id = m.cell_id AND x.session = m.session
WHERE m.kind = 'mail'
"""  # noqa: S608  # made of constants
"""A row for each mail transaction: whether its client is none of the topology's servers, or both parties are.

`inside`: both are servers of one boundary. `named`: how many recipients RCPT accepted, however they were written.
"""

MADE = f"""
SELECT m.cell_id, m.message, m.key, m.message_id, m.date, m.stable_sha256, {_one("m.sender")} AS sender,
       {_all("m.recipients")} AS recipients
FROM happenings m {_HERE.format("m")}
WHERE m.kind = 'message'
"""  # noqa: S608  # made of constants
"""A row for each message that the harness made."""

COPIES = """
SELECT cell_id, mode, shadow_id, key, message_id, if(mode = 'shadow', client, server) AS primary,
       if(mode = 'shadow', server, client) AS holder, if(mode = 'shadow', client_site, server_site) AS primary_site,
       if(mode = 'shadow', server_site, client_site) AS holder_site, inside, accepted AS recipients, session,
       n AS begun_n, reply_n AS stored_n, reply_t AS stored_t
FROM mails WHERE mode IN ('shadow', 'tracked') AND code BETWEEN 200 AND 299 AND among_servers
"""
"""A row for each shadow copy that was acknowledged, with who is its primary and who holds it."""

DELIVERIES = f"""
SELECT d.cell_id, d.server AS sink, d.client AS giver, d.session, {_one("d.recipients[0]")} AS recipient,
       {_one("d.sender")} AS sender, array_contains(w.mailboxes, lower(d.recipients[0])) AS in_mailbox,
       d.key, d.message_id, d.date, d.stable_sha256, d.report, d.about, d.action, {_all("d.failed")} AS failed, d.n, d.t
FROM happenings d {_HERE.format("d")}
WHERE d.kind = 'delivery'
"""  # noqa: S608  # made of constants
"""A row for each message and recipient that a sink took."""

ACKNOWLEDGEMENTS = f"""
SELECT /*+ SHUFFLE_HASH(t) */ a.cell_id, a.message, m.key, m.message_id, m.date, m.sender, {_one("a.recipient")} AS recipient, a.server,
       a.listener, a.session,
       a.n AS attempt_n, coalesce(t.reply_n, a.n) AS acknowledged_n, t.reply_t - t.dot_t AS latency
FROM (SELECT cell_id, message, server, listener, session, n, explode(accepted) AS recipient
      FROM happenings WHERE kind = 'attempt') a
{_HERE.format("a")}
JOIN made m ON m.cell_id = a.cell_id AND m.message = a.message
LEFT JOIN (SELECT cell_id, session, key, min(reply_n) AS reply_n, min_by(reply_t, reply_n) AS reply_t,
                  min_by(dot_t, reply_n) AS dot_t
           FROM exchanges WHERE kind = 'mail' AND code BETWEEN 200 AND 299 GROUP BY cell_id, session, key) t
  ON t.cell_id = a.cell_id AND t.session = a.session AND t.key = m.key
"""  # noqa: S608  # made of constants
"""A row for each message and recipient that a sender of the harness was told 250 for; latency in seconds."""

VIEWS = {
    "changes": CHANGES,
    "altered": ALTERED,
    "made": MADE,
    "mails": MAILS,
    "copies": COPIES,
    "deliveries": DELIVERIES,
    "acknowledgements": ACKNOWLEDGEMENTS,
}
"""The views over `exchanges`, `happenings`, `topologies` and `conditions`, in the order in which they build on each other."""
