"""The views over the layers: who passed which message to whom, what was stored, delivered and acknowledged.

Each is a query over `exchanges`, `happenings` and `cells`, joined within a cell only.
"""

TOPOLOGIES = r"""
SELECT topology, topology RLIKE '"ShadowRedundancyEnabled":\\s*false' AS unshadowed,
       topology RLIKE '"RejectMessageOnShadowFailure":\\s*true' AS mandatory,
       topology RLIKE '"(accept|send)-xshadow":\\s*false' AS without_rights,
       coalesce(CAST(nullif(regexp_extract(topology, '"DuplicateTrackingWindow":\\s*([0-9]{1,12})', 1), '') AS BIGINT),
                3600) AS tracking_window, place,
       map_from_entries(transform(world.servers, s -> struct(s.name AS name, struct(
         s.generation, s.role, s.site, coalesce('DAG ' || s.dag, 'site ' || s.site) AS boundary) AS its))) AS servers,
       transform(world.mailboxes, m -> lower(m.address)) AS mailboxes
FROM (SELECT topology, row_number() OVER (ORDER BY topology) AS place,
             from_json(topology, 'servers ARRAY<STRUCT<name: STRING, generation: STRING, role: STRING,
               site: STRING, dag: STRING>>, mailboxes ARRAY<STRUCT<address: STRING, server: STRING>>') AS world
      FROM (SELECT DISTINCT topology FROM cells))
"""
"""Each topology once, by its number: a thousand runs of one suite share theirs.

It has the parameters that it sets, and its servers by name: a server's boundary is its DAG, else its site (SR-BND-01,
SR-BND-02).
"""

MAILS = """
SELECT m.cell_id, m.n, m.t, m.session, m.client, m.server, m.listener, m.mode, m.recipients, m.accepted, m.refused,
       m.shadow_id, m.key, m.message_id, m.report, m.about, m.dot_n, m.dot_t, m.reply_n, m.reply_t, m.code, m.replies,
       element_at(w.servers, m.client) IS NULL AS from_outside,
       element_at(w.servers, m.client) IS NOT NULL AND element_at(w.servers, m.server) IS NOT NULL AS among_servers,
       element_at(w.servers, m.client).site AS client_site, element_at(w.servers, m.server).site AS server_site,
       element_at(w.servers, m.client).boundary = element_at(w.servers, m.server).boundary AS inside
FROM exchanges m JOIN conditions c ON c.cell_id = m.cell_id JOIN topologies w ON w.place = c.place
WHERE m.kind = 'mail'
"""
"""A row for each mail transaction: whether its client is none of the topology's servers, or both parties are.

`inside`: both are servers of one boundary.
"""

COPIES = """
SELECT cell_id, mode, shadow_id, key, message_id, if(mode = 'shadow', client, server) AS primary,
       if(mode = 'shadow', server, client) AS holder, if(mode = 'shadow', client_site, server_site) AS primary_site,
       if(mode = 'shadow', server_site, client_site) AS holder_site, inside, accepted AS recipients, session,
       n AS begun_n, reply_n AS stored_n, reply_t AS stored_t
FROM mails WHERE mode IN ('shadow', 'tracked') AND code BETWEEN 200 AND 299 AND among_servers
"""
"""A row for each shadow copy that was acknowledged, with who is its primary and who holds it."""

DELIVERIES = """
SELECT cell_id, server AS sink, client AS giver, session, recipients[0] AS recipient, sender, key, message_id,
       date, stable_sha256, report, about, action, n, t
FROM happenings WHERE kind = 'delivery'
"""
"""A row for each message and recipient that a sink took."""

ACKNOWLEDGEMENTS = """
SELECT a.cell_id, a.message, m.key, m.message_id, m.sender, a.recipient, a.server, a.listener, a.session,
       a.n AS attempt_n, coalesce(t.reply_n, a.n) AS acknowledged_n, t.reply_t - t.dot_t AS latency
FROM (SELECT cell_id, message, server, listener, session, n, explode(accepted) AS recipient
      FROM happenings WHERE kind = 'attempt') a
JOIN (SELECT cell_id, message, key, message_id, sender FROM happenings WHERE kind = 'message') m
  ON m.cell_id = a.cell_id AND m.message = a.message
LEFT JOIN (SELECT cell_id, session, key, min(reply_n) AS reply_n, min_by(reply_t, reply_n) AS reply_t,
                  min_by(dot_t, reply_n) AS dot_t
           FROM exchanges WHERE kind = 'mail' AND code BETWEEN 200 AND 299 GROUP BY cell_id, session, key) t
  ON t.cell_id = a.cell_id AND t.session = a.session AND t.key = m.key
"""
"""A row for each message and recipient that a sender of the harness was told 250 for; latency in seconds."""

VIEWS = {
    "mails": MAILS,
    "copies": COPIES,
    "deliveries": DELIVERIES,
    "acknowledgements": ACKNOWLEDGEMENTS,
}
"""The views over `exchanges`, `happenings`, `topologies` and `conditions`, in the order in which they build on each other."""
