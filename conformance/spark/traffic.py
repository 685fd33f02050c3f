"""Silver tables: events become mail transactions, shadow copies, discard exchanges, deliveries and acknowledgements.

Each is a query over the views `cells` and `events`, and over those above it.
A message is known by its `key`: its Message-ID, or its body's hash where it has none.
"""

SERVERS = """
SELECT run, cell, s.name AS server, s.generation, s.role, s.site,
       coalesce('DAG ' || s.dag, 'site ' || s.site) AS boundary
FROM (SELECT run, cell, explode(from_json(topology, 'servers ARRAY<STRUCT<name: STRING, generation: STRING,
        role: STRING, site: STRING, dag: STRING>>').servers) AS s
      FROM cells)
"""
"""A row for each server of a cell's topology. Its boundary is its DAG, else its site (SR-BND-01, SR-BND-02)."""

MAILBOXES = """
SELECT run, cell, lower(m.address) AS address, m.server
FROM (SELECT run, cell, explode(from_json(topology,
        'mailboxes ARRAY<STRUCT<address: STRING, server: STRING>>').mailboxes) AS m FROM cells)
"""

SESSIONS = """
SELECT run, cell, session, client, server, listener, n AS opened_n, t AS opened_t
FROM events WHERE kind = 'connected'
"""

LINES = r"""
SELECT run, cell, session, n, t, kind, verb, to, line, code, recipient, operation, digest,
       count_if(kind = 'command' AND verb = 'MAIL') OVER passed AS transaction,
       last(CASE WHEN kind = 'reply' AND operation.name IN ('request-shadow', 'track-shadow') THEN operation.name END,
            true) OVER passed AS handshake
FROM events WHERE kind IN ('command', 'reply', 'content') AND session IS NOT NULL
WINDOW passed AS (PARTITION BY run, cell, session ORDER BY n)
"""
"""What passed in each session, with the number of the mail transaction that a command or content belongs to."""

ENVELOPES = r"""
WITH said AS (
  SELECT run, cell, session, transaction, n,
         lower(regexp_extract(line, '(?i)TO:\\s*<([^>]*)>', 1)) AS recipient,
         row_number() OVER (PARTITION BY run, cell, session ORDER BY n) AS place
  FROM lines WHERE kind = 'command' AND verb = 'RCPT'
), answered AS (
  SELECT run, cell, session, code, row_number() OVER (PARTITION BY run, cell, session ORDER BY n) AS place
  FROM lines WHERE kind = 'reply' AND to = 'RCPT'
)
SELECT run, cell, session, transaction,
       sort_array(collect_set(CASE WHEN code BETWEEN 200 AND 299 THEN recipient END)) AS taken,
       sort_array(collect_set(CASE WHEN code >= 500 THEN recipient END)) AS refused
FROM said LEFT JOIN answered USING (run, cell, session, place)
GROUP BY run, cell, session, transaction
"""
"""The recipients of each transaction: the n-th RCPT of a session is answered by its n-th reply, also when pipelined."""

FINALS = """
SELECT run, cell, session, transaction, count(*) AS replies, max(n) AS reply_n, max(t) AS reply_t,
       max(code) AS code,
       sort_array(collect_set(CASE WHEN code BETWEEN 200 AND 299 THEN lower(recipient) END)) AS stored,
       sort_array(collect_set(CASE WHEN code >= 500 THEN lower(recipient) END)) AS refused,
       count(recipient) > 0 AS by_recipient
FROM (SELECT run, cell, session, n, t, kind, to, code, recipient,
             last(CASE WHEN kind = 'content' THEN transaction END, true)
               OVER (PARTITION BY run, cell, session ORDER BY n) AS transaction
      FROM lines)
WHERE kind = 'reply' AND to = 'CONTENT'
GROUP BY run, cell, session, transaction
"""
"""The final reply of each transaction: one, or one for each recipient by LMTP (RFC 2033)."""

TRANSACTIONS = r"""
SELECT m.run, m.cell, m.session, m.transaction, s.client, s.server, s.listener,
       CASE WHEN m.shadow_id IS NULL THEN 'plain'
            WHEN m.handshake = 'request-shadow' THEN 'shadow'
            WHEN m.handshake = 'track-shadow' THEN 'tracked' ELSE 'plain' END AS mode,
       m.sender, coalesce(e.taken, array()) AS recipients,
       CASE WHEN f.by_recipient THEN f.stored
            WHEN f.code BETWEEN 200 AND 299 THEN coalesce(e.taken, array()) ELSE array() END AS accepted,
       array_union(coalesce(e.refused, array()),
                   CASE WHEN f.by_recipient THEN f.refused
                        WHEN f.code >= 500 THEN coalesce(e.taken, array()) ELSE array() END) AS refused,
       m.shadow_id, coalesce(c.digest.message_id, c.digest.body_sha256) AS key, c.digest.message_id,
       c.digest.stable_sha256, c.digest.report, c.digest.about, c.digest.size,
       m.n AS begun_n, m.t AS begun_t, c.n AS dot_n, c.t AS dot_t, f.reply_n, f.reply_t, f.code,
       coalesce(f.replies, 0L) AS replies, p.server IS NULL AS from_outside
FROM (SELECT run, cell, session, transaction, n, t, operation.shadow_id, handshake,
             lower(regexp_extract(line, '(?i)FROM:\\s*<([^>]*)>', 1)) AS sender
      FROM lines WHERE kind = 'command' AND verb = 'MAIL') m
JOIN sessions s USING (run, cell, session)
LEFT JOIN servers p ON p.run = m.run AND p.cell = m.cell AND p.server = s.client
LEFT JOIN envelopes e ON e.run = m.run AND e.cell = m.cell AND e.session = m.session AND e.transaction = m.transaction
LEFT JOIN (SELECT * FROM lines WHERE kind = 'content') c
  ON c.run = m.run AND c.cell = m.cell AND c.session = m.session AND c.transaction = m.transaction
LEFT JOIN finals f ON f.run = m.run AND f.cell = m.cell AND f.session = m.session AND f.transaction = m.transaction
"""
"""A row for each mail transaction. `shadow`: 2013 and later make a copy; `tracked`: a 2010 sender keeps one."""

COPIES = """
SELECT t.run, t.cell, t.mode, t.shadow_id, t.key, t.message_id, p.server AS primary, h.server AS holder,
       p.site AS primary_site, h.site AS holder_site, p.boundary = h.boundary AS inside, t.accepted AS recipients,
       t.session, t.begun_n, t.reply_n AS stored_n, t.reply_t AS stored_t
FROM transactions t
JOIN servers p ON p.run = t.run AND p.cell = t.cell AND p.server = if(t.mode = 'shadow', t.client, t.server)
JOIN servers h ON h.run = t.run AND h.cell = t.cell AND h.server = if(t.mode = 'shadow', t.server, t.client)
WHERE t.mode IN ('shadow', 'tracked') AND t.code BETWEEN 200 AND 299
"""
"""A row for each shadow copy that was acknowledged, with who is its primary and who holds it."""

DISCARDS = """
WITH asked AS (
  SELECT run, cell, session, verb, n, t, operation.limit,
         row_number() OVER (PARTITION BY run, cell, session, verb ORDER BY n) AS place
  FROM lines WHERE kind = 'command' AND operation.name = 'query-discard'
), told AS (
  SELECT run, cell, session, to AS verb, n, t, operation,
         row_number() OVER (PARTITION BY run, cell, session, to ORDER BY n) AS place
  FROM lines WHERE kind = 'reply'
)
SELECT run, cell, session, s.client AS asker, s.server AS primary, a.n AS asked_n, a.t AS asked_t, a.limit,
       d.n AS told_n, d.t AS told_t, d.operation.database, d.operation.shadow_ids, d.operation.left
FROM asked a JOIN sessions s USING (run, cell, session) LEFT JOIN told d USING (run, cell, session, verb, place)
"""
"""A row for each discard exchange: the query, and what was told (nothing: `told_n` is null)."""

DELIVERIES = """
SELECT run, cell, sink, giver, session, lower(recipient) AS recipient, lower(sender) AS sender,
       coalesce(digest.message_id, digest.body_sha256) AS key, digest.message_id, digest.date, digest.stable_sha256,
       digest.report, digest.about, digest.action, n, t
FROM events WHERE kind = 'delivered'
"""
"""A row for each message and recipient that a sink took."""

MADE = """
SELECT run, cell, message, coalesce(digest.message_id, digest.body_sha256) AS key, digest.message_id,
       digest.stable_sha256, lower(sender) AS sender FROM events WHERE kind = 'message'
"""

ACKNOWLEDGEMENTS = """
WITH attempts AS (
  SELECT run, cell, message, server, listener, session, n,
         explode(transform(accepted, one -> lower(one))) AS recipient
  FROM events WHERE kind = 'attempt' AND outcome = 'answered' AND code BETWEEN 200 AND 299 AND dot_sent
)
SELECT a.run, a.cell, a.message, m.key, m.message_id, m.sender, a.recipient, a.server, a.listener, a.session,
       a.n AS attempt_n, coalesce(t.reply_n, a.n) AS acknowledged_n, t.reply_t - t.dot_t AS latency
FROM attempts a JOIN made m USING (run, cell, message)
LEFT JOIN (SELECT run, cell, session, key, min(reply_n) AS reply_n, min_by(reply_t, reply_n) AS reply_t,
                  min_by(dot_t, reply_n) AS dot_t
           FROM transactions WHERE code BETWEEN 200 AND 299 GROUP BY run, cell, session, key) t
  ON t.run = a.run AND t.cell = a.cell AND t.session = a.session AND t.key = m.key
"""
"""A row for each message and recipient that a sender of the harness was told 250 for; latency in seconds."""

VIEWS = {
    "servers": SERVERS,
    "mailboxes": MAILBOXES,
    "sessions": SESSIONS,
    "lines": LINES,
    "envelopes": ENVELOPES,
    "finals": FINALS,
    "transactions": TRANSACTIONS,
    "copies": COPIES,
    "discards": DISCARDS,
    "deliveries": DELIVERIES,
    "made": MADE,
    "acknowledgements": ACKNOWLEDGEMENTS,
}
"""Every view, in the order in which they build on each other."""

KEPT = ("transactions", "copies", "discards", "deliveries", "acknowledgements")
"""The views that become tables of the warehouse."""

CACHED = ("servers", "mailboxes", "sessions", "lines", "made")
"""The others that more than one query builds on."""
