"""The SQL of the invariants: for each a query that gives a row for each occasion on which it could fail.

A row has the cell (`cell_id`), the number of the event in question (`n`), and `bad`: true for a violation, false where the
invariant holds, null where the failure would be excused or cannot be judged from the views. The queries are written from
the requirement catalogue and share nothing with `conformance.judge`. Hints (`SHUFFLE_HASH`, `BROADCAST`) name the smaller side
of a join; no result depends on them.

Usual aliases: `c` conditions of a cell, `tp` its topology, `m` mail transactions, `k` shadow copies, `d` deliveries, `h`
parameter changes, `x` excuses.
"""

LOST_MESSAGES = """
WITH servers_at_last AS (
  SELECT cell_id, max_by(action, n) IN ('killed', 'stopped') AS has_ended FROM single_events
  WHERE kind = 'incident' AND mode = 'node' GROUP BY cell_id, client
), obstacles AS (
  SELECT cell_id, max(t) AS last_failure_t, coalesce(bool_or(has_ended), false) AS server_has_ended
  FROM (
    SELECT cell_id, t, NULL AS has_ended FROM mail_transactions
    WHERE NOT from_outside AND NOT spoken AND mode <> 'shadow' AND coalesce(code, 400) >= 400
    UNION ALL
    SELECT cell_id, t, NULL FROM single_events
    WHERE kind = 'incident'
      AND (mode = 'connect-failed' OR mode = 'reply' AND code = 535 OR mode = 'closed' AND action = 'secured')
    UNION ALL
    SELECT cell_id, NULL, has_ended FROM servers_at_last)
  GROUP BY cell_id
), late_sessions AS (
  SELECT DISTINCT cell_id, session FROM single_events
  WHERE kind = 'incident' AND mode = 'fault-fired' AND session IS NOT NULL AND action IN ('stall', 'delay', 'merge', 'throttle')
), kept_copies AS (
  SELECT c.cell_id, c.mode, c.key, c.primary, c.holder, c.recipients, c.begun_n,
         if(l.session IS NULL, c.stored_n, c.begun_n) AS stored_n
  FROM shadow_copies c LEFT JOIN late_sessions l ON l.cell_id = c.cell_id AND l.session = c.session
  JOIN conditions d ON d.cell_id = c.cell_id JOIN topologies tp ON tp.topology_id = d.topology_id
  LEFT JOIN (SELECT cell_id, server, max(n) FILTER (WHERE enabled = 'false') AS n,
                    bool_or(hold IS NOT NULL OR lifetime IS NOT NULL OR span IS NOT NULL) AS is_retimed
             FROM parameter_changes GROUP BY cell_id, server) f
    ON f.cell_id = c.cell_id AND f.server = c.holder
  WHERE coalesce(f.n, 0) <= c.stored_n
    AND (c.mode <> 'shadow' OR NOT coalesce(f.is_retimed, false)
      AND coalesce(CAST(element_at(tp.servers, c.holder).hold AS DOUBLE) + CAST(element_at(tp.servers, c.holder).lifetime AS DOUBLE)
                   > CAST(element_at(tp.servers, c.holder).span AS DOUBLE), true))
), receipts_and_copies AS (
  SELECT cell_id, key, server, NULL AS holder, n AS begun_n, dot_n, NULL AS stored_n, NULL AS recipients FROM mail_transactions
  WHERE to_server AND mode <> 'shadow' AND dot_n IS NOT NULL
  UNION ALL SELECT cell_id, key, holder, NULL, stored_n, NULL, NULL, NULL FROM shadow_copies WHERE mode = 'shadow'
  UNION ALL SELECT cell_id, key, primary, holder, begun_n, NULL, stored_n, recipients FROM kept_copies WHERE mode = 'shadow'
), kept_shadows AS (
  SELECT cell_id, key, server AS primary, holder, begun_n, stored_n, recipients,
         least(begun_n, max(CASE WHEN holder IS NULL THEN coalesce(dot_n, begun_n) END) OVER (
           PARTITION BY cell_id, key, server ORDER BY begun_n ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)) AS had_n
  FROM receipts_and_copies
), copies_for_recipients AS (
  SELECT cell_id, key, primary, holder, begun_n AS had_n, stored_n, explode(recipients) AS recipient FROM kept_copies
  WHERE mode = 'tracked'
  UNION ALL SELECT c.cell_id, c.key, c.primary, c.holder, c.had_n, c.stored_n, explode(c.recipients)
  FROM kept_shadows c LEFT SEMI JOIN mail_transactions g
    ON g.cell_id = c.cell_id AND g.key = c.key AND g.server = c.primary AND g.n < c.begun_n AND g.listener <> 'delivery'
      AND array_sort(g.recipients) = array_sort(c.recipients)
  WHERE c.holder IS NOT NULL
  UNION ALL SELECT c.cell_id, c.key, c.primary, c.holder, c.had_n, c.stored_n, explode(m.recipients)
  FROM kept_shadows c JOIN harness_messages m ON m.cell_id = c.cell_id AND m.key = c.key
  LEFT ANTI JOIN mail_transactions g
    ON g.cell_id = c.cell_id AND g.key = c.key AND g.server = c.primary AND g.n < c.begun_n AND g.listener <> 'delivery'
      AND array_sort(g.recipients) = array_sort(c.recipients)
  WHERE c.holder IS NOT NULL
), transfers AS (
  SELECT cell_id, key, client, server, mode, n AS begun_n, reply_n AS n, explode(accepted) AS recipient FROM mail_transactions
  WHERE to_server AND NOT from_outside AND mode <> 'shadow' AND code BETWEEN 200 AND 299
), passed_on AS (
  SELECT cell_id, key, recipient, client AS server, max(n) AS n FROM transfers GROUP BY cell_id, key, recipient, client
), handed_on AS (
  SELECT t.cell_id, t.key, t.recipient, t.client AS server, max(t.n) AS n
  FROM transfers t LEFT JOIN passed_on p
    ON p.cell_id = t.cell_id AND p.key = t.key AND p.recipient = t.recipient AND p.server = t.server AND p.n > t.begun_n
  WHERE t.mode = 'plain' OR p.n IS NOT NULL
  GROUP BY t.cell_id, t.key, t.recipient, t.client
), holders AS (
  SELECT cell_id, key, recipient, server, max(n) AS n, max(coalesce(dot_n, n)) AS dot_n
  FROM (SELECT m.cell_id, m.key, m.server, if(l.session IS NULL, m.reply_n, m.dot_n) AS n, m.dot_n,
               explode(m.accepted) AS recipient
        FROM mail_transactions m LEFT JOIN late_sessions l ON l.cell_id = m.cell_id AND l.session = m.session
        WHERE m.to_server AND m.mode <> 'shadow' AND m.code BETWEEN 200 AND 299
        UNION ALL SELECT c.cell_id, c.key, c.holder, c.stored_n, NULL, c.recipient
        FROM copies_for_recipients c LEFT ANTI JOIN passed_on p
          ON p.cell_id = c.cell_id AND p.key = c.key AND p.recipient = c.recipient AND p.server = c.primary AND p.n > c.had_n)
  GROUP BY cell_id, key, recipient, server
), destroyed AS (
  SELECT h.cell_id, h.key, h.recipient, count(*) = count(coalesce(x.n, o.n)) AS is_destroyed
  FROM holders h LEFT JOIN handed_on o
    ON o.cell_id = h.cell_id AND o.key = h.key AND o.recipient = h.recipient AND o.server = h.server AND o.n > h.dot_n
  LEFT JOIN (SELECT cell_id, client AS server, max(n) AS n FROM single_events
                        WHERE kind = 'incident' AND mode = 'node' AND action = 'wiped' GROUP BY cell_id, client) x
    ON x.cell_id = h.cell_id AND x.server = h.server AND x.n > h.n
  GROUP BY h.cell_id, h.key, h.recipient
), unreported AS (
  SELECT cell_id, key, server, sender, n, explode(if(sender = '', recipients, unreported)) AS recipient FROM mail_transactions
  WHERE to_server AND key IS NOT NULL AND (sender = '' OR size(unreported) > 0)
), vain AS (
  SELECT cell_id, client, n, key, sender, refused FROM mail_transactions
  WHERE NOT from_outside AND NOT spoken AND mode <> 'shadow' AND (coalesce(code, 400) >= 400 OR size(refused) > 0)
  UNION ALL
  SELECT cell_id, client, n, NULL, NULL, NULL FROM single_events WHERE kind = 'incident' AND mode = 'connect-failed'
  UNION ALL
  SELECT /*+ SHUFFLE_HASH(s) */ r.cell_id, s.client, r.n, NULL, NULL, NULL FROM single_events r
  JOIN single_events s ON s.cell_id = r.cell_id AND s.session = r.session AND s.kind = 'session'
  WHERE r.kind = 'incident' AND r.mode = 'reply'
), reasons AS (
  SELECT cell_id, key, recipient, bool_or(is_refused) AS is_refused, bool_or(is_destroyed OR is_refused IS NOT NULL) AS is_excused
  FROM (
    SELECT cell_id, key, recipient, is_destroyed, NULL AS is_refused FROM destroyed
    UNION ALL
    SELECT u.cell_id, u.key, u.recipient, NULL, coalesce(v.sender = u.sender AND array_contains(v.refused, u.recipient), false)
    FROM unreported u JOIN vain v
      ON v.cell_id = u.cell_id AND v.client = u.server AND v.n > u.n AND coalesce(v.key, u.key) = u.key)
  GROUP BY cell_id, key, recipient
), forged AS (
  SELECT cell_id, session, min(n) AS n FROM single_events
  WHERE kind = 'incident' AND mode = 'fault-fired' AND action = 'answer' GROUP BY cell_id, session
)
SELECT /*+ SHUFFLE_HASH(w) */ a.cell_id, min(a.acknowledged_n) AS n,
       CASE WHEN count(d.key) > 0 OR count(w.n) = count(*) THEN false
            WHEN bool_or(size(r.failed) = 0 AND r.action = 'failed' OR array_contains(r.failed, a.recipient)) THEN false
            WHEN any_value(a.sender) = '' AND count(rf.recipient) > 0 THEN false
            WHEN bool_or(y.is_refused) THEN false
            WHEN bool_or(y.is_excused) OR any_value(b.server_has_ended) THEN NULL
            WHEN any_value(a.sender) RLIKE '[^ -~].*@' OR a.recipient RLIKE '[^ -~].*@' THEN NULL
            WHEN any_value(c.quiet)
              OR any_value(c.waited) >= 2 * any_value(a.server_retry)
                AND coalesce(any_value(b.last_failure_t) < any_value(c.half_wait_t), true) THEN true END AS bad
FROM acknowledgements a JOIN conditions c ON c.cell_id = a.cell_id
LEFT JOIN (SELECT DISTINCT cell_id, key, explode(refused) AS recipient FROM mail_transactions
           WHERE key IS NOT NULL OR sender = '' AND NOT from_outside AND NOT spoken) rf
  ON rf.cell_id = a.cell_id AND coalesce(rf.key, a.key) = a.key AND rf.recipient = a.recipient
LEFT JOIN forged w ON w.cell_id = a.cell_id AND w.session = a.session AND w.n < a.attempt_n
LEFT JOIN obstacles b ON b.cell_id = a.cell_id
LEFT JOIN reasons y ON y.cell_id = a.cell_id AND y.key = a.key AND y.recipient = a.recipient
LEFT JOIN (SELECT DISTINCT cell_id, key, recipient, date FROM deliveries) d
  ON d.cell_id = a.cell_id AND d.key = a.key AND d.recipient = a.recipient AND (d.date = a.date OR NOT a.several_dates)
LEFT JOIN (SELECT cell_id, about, recipient, action, failed FROM deliveries WHERE report = 'delivery-status') r
  ON r.cell_id = a.cell_id AND r.about <=> a.message_id AND r.recipient = a.sender
GROUP BY a.cell_id, a.message, a.recipient
"""
"""RL-ACK-01: each acknowledged recipient got the message, or its sender got a failure report.

A message that was acknowledged only in sessions in which a fault made the link answer was acknowledged by no server.

Not judged:

- a message that every server that held it for the recipient handed on after the last final dot, be it before its own reply
  (SR-E10-15), or lost with its queue after its reply (SR-BND-09). A copy counts for all recipients of the message, unless its
  primary was given the message for just the copy's. It does not count as held if redundancy was switched off at its holder later
  (ruling 37), or if its primary passed the message on after it had received it; nor if it may expire before its holder promotes it
  (SR-SFN-03), which is so where SafetyNetHoldTime and MessageExpirationTimeout together are no longer than ShadowResubmitTimeSpan,
  or one of the three was changed at the holder. Where a link may have kept a reply, the dot counts;
- a history in which some server was killed or stopped, and not started again;
- a transport that may still deliver: it did not become quiet, and either the drain waited for less than two retry intervals of the
  server, or the last failed transfer, connection, 535 reply or STARTTLS session (which a link cannot read, ruling 27) lies in the
  second half of that wait;
- a message with a local part that is not ASCII, of its sender or the recipient, which a next hop without SMTPUTF8 does not take (RFC
  6531 3.2): the layers have no replies to EHLO, so nothing shows what a next hop offers.

No report is needed of a message with a null reverse-path (RL-DSN-02), nor for a recipient with a NOTIFY without FAILURE (RFC 3461 4.1),
whom a next hop of the server with the message refused for good; where that server failed to pass it on in another way, the message
may have expired, which is not judged. Messages that share a Message-ID are distinguished by their dates (SR-DUP-02).
"""

TWO_COPIES = """
WITH within_tls AS (
  SELECT /*+ SHUFFLE_HASH(s) */ s.cell_id, s.client, s.n, r.n AS closed_n FROM single_events r
  JOIN single_events s ON s.cell_id = r.cell_id AND s.session = r.session AND s.kind = 'session'
  WHERE r.kind = 'incident' AND r.mode = 'closed' AND r.action = 'secured' AND s.listener = 'transport'
), acknowledged AS (
  SELECT m.cell_id, m.key, m.server, m.n AS begun_n, m.reply_n AS n, m.reply_t AS t, m.reply_t - m.t >= 1 AS slow,
         c.topology_id, c.without_rights,
         element_at(tp.servers, m.server) AS server_row
  FROM mail_transactions m JOIN conditions c ON c.cell_id = m.cell_id AND array_contains(c.claims, 'shadow-2013')
  JOIN topologies tp ON tp.topology_id = c.topology_id
  LEFT SEMI JOIN harness_messages o ON o.cell_id = m.cell_id AND o.key = m.key
  LEFT ANTI JOIN within_tls w ON w.cell_id = m.cell_id AND w.client = m.server AND w.n < m.reply_n AND w.closed_n > m.n
  WHERE m.to_server AND m.mode <> 'shadow' AND m.code BETWEEN 200 AND 299 AND m.reply_n IS NOT NULL
    AND m.listener IN ('frontend', 'transport') AND NOT coalesce(m.inside, false) AND NOT m.tampered
    AND element_at(tp.servers, m.server).generation <> 'ex2010' AND element_at(tp.servers, m.server).role = 'mailbox'
), with_parameters AS (
  SELECT /*+ SHUFFLE_HASH(h) */ a.cell_id, a.key, a.server, a.begun_n, a.n, a.t, a.slow, any_value(a.topology_id) AS topology_id,
         any_value(a.without_rights) AS without_rights, any_value(a.server_row.site) AS site,
         coalesce(max_by(h.enabled, h.n) FILTER (WHERE h.enabled IS NOT NULL), any_value(a.server_row.enabled)) AS enabled,
         coalesce(max_by(h.mandatory, h.n) FILTER (WHERE h.mandatory IS NOT NULL), any_value(a.server_row.mandatory))
           AS mandatory,
         coalesce(max_by(h.preference, h.n) FILTER (WHERE h.preference IS NOT NULL), any_value(a.server_row.preference))
           AS preference,
         coalesce(max_by(h.far_tries, h.n) FILTER (WHERE h.far_tries IS NOT NULL), any_value(a.server_row.far_tries))
           AS far_tries,
         coalesce(max_by(h.near_tries, h.n) FILTER (WHERE h.near_tries IS NOT NULL), any_value(a.server_row.near_tries))
           AS near_tries
  FROM acknowledged a LEFT JOIN parameter_changes h ON h.cell_id = a.cell_id AND h.server = a.server AND h.n < a.n
  GROUP BY a.cell_id, a.key, a.server, a.begun_n, a.n, a.t, a.slow
), peers AS (
  SELECT p.topology_id, p.name AS server, o.name AS peer, o.site, o.enabled
  FROM (SELECT topology_id, entry.key AS name, entry.value.boundary AS boundary
        FROM (SELECT topology_id, explode(map_entries(servers)) AS entry FROM topologies)
        WHERE entry.value.generation <> 'ex2010' AND entry.value.role = 'mailbox') p
  JOIN (SELECT topology_id, entry.key AS name, entry.value.boundary AS boundary, entry.value.site AS site,
               entry.value.enabled AS enabled
        FROM (SELECT topology_id, explode(map_entries(servers)) AS entry FROM topologies)
        WHERE entry.value.generation <> 'ex2010' AND entry.value.role IN ('mailbox', 'hub')) o
    ON o.topology_id = p.topology_id AND o.boundary = p.boundary AND o.name <> p.name
), trouble AS (
  SELECT cell_id, party, peer, min(n) AS n FROM (
    SELECT cell_id, client AS party, server AS peer, n FROM single_events
    WHERE kind = 'incident' AND mode IN ('connect-failed', 'fault-fired')
    UNION ALL
    SELECT cell_id, server, client, n FROM single_events WHERE kind = 'incident' AND mode = 'fault-fired'
    UNION ALL
    SELECT /*+ SHUFFLE_HASH(s) */ s.cell_id, s.client, s.server, r.n FROM single_events r
    JOIN single_events s ON s.cell_id = r.cell_id AND s.session = r.session AND s.kind = 'session'
    WHERE r.kind = 'incident' AND r.mode = 'reply'
    UNION ALL
    SELECT cell_id, NULL, client, n FROM single_events
    WHERE kind = 'incident' AND mode = 'node'
      AND action IN ('stopped', 'killed', 'wiped', 'paused', 'exited', 'failed', 'refused', 'starved')
    UNION ALL
    SELECT cell_id, NULL, server, n FROM parameter_changes WHERE enabled IS NOT NULL
    UNION ALL
    SELECT cell_id, client, substring(name, 7), n
    FROM (SELECT cell_id, client, n, explode(map_keys(changes)) AS name FROM single_events
          WHERE kind = 'incident' AND mode = 'configured' AND changes IS NOT NULL)
    WHERE name LIKE 'peers.%')
  GROUP BY cell_id, party, peer
), begun AS (
  SELECT cell_id, client AS party, server AS peer, n, t, true AS slow FROM single_events
  WHERE kind = 'session' AND listener = 'transport'
  UNION ALL
  SELECT cell_id, client, server, n, t, true FROM mail_transactions WHERE mode = 'shadow'
), paired AS (
  SELECT /*+ BROADCAST(p), SHUFFLE_HASH(x, b) */
         a.cell_id, a.key, a.server, a.begun_n, a.n, any_value(a.mandatory) AS mandatory,
         any_value(a.without_rights) AS without_rights, min(k.stored_n) AS stored_n, coalesce(min(x.n), min(b.n)) AS trouble_n,
         bool_or(p.enabled <> 'false' AND p.site = a.site AND CAST(a.near_tries AS DOUBLE) > 0 AND a.preference <> 'RemoteOnly') AS local_peer,
         bool_or(p.enabled <> 'false' AND p.site <> a.site AND CAST(a.far_tries AS DOUBLE) > 0 AND a.preference <> 'LocalOnly') AS remote_peer,
         bool_and(p.site = a.site) AND bool_or(p.enabled <> 'false') AND any_value(CAST(a.near_tries AS DOUBLE) > 0)
           AS all_in_site
  FROM with_parameters a JOIN peers p ON p.topology_id = a.topology_id AND p.server = a.server
  LEFT JOIN shadow_copies k ON k.cell_id = a.cell_id AND k.key = a.key AND k.primary = a.server AND k.holder = p.peer
       AND k.mode = 'shadow' AND k.begun_n > a.begun_n AND k.stored_n < a.n
  LEFT JOIN trouble x ON x.cell_id = a.cell_id AND x.peer = p.peer AND coalesce(x.party, p.server) = p.server AND x.n < a.n
  LEFT JOIN begun b ON b.cell_id = a.cell_id AND b.party = p.server AND b.peer = p.peer AND b.slow = a.slow
       AND b.n > a.begun_n AND b.n < a.n AND a.t - b.t >= 1
  WHERE a.enabled <> 'false'
  GROUP BY a.cell_id, a.key, a.server, a.begun_n, a.n
)
SELECT cell_id, n,
       CASE WHEN stored_n IS NOT NULL THEN false WHEN mandatory = 'true' THEN true
            WHEN trouble_n IS NULL AND NOT without_rights AND (local_peer OR remote_peer OR all_in_site) THEN true END AS bad
FROM paired
"""
"""SR-CRE-01, SR-BND-03, SR-BND-05: before a message from outside the boundary is acknowledged, a copy is stored (ruling 14).

Bad without a copy where a shadow is mandatory, or where no trouble with any peer was visible and some peer was permitted by
the preference (SR-PRF-01 to SR-PRF-06). Else not judged (SR-ENA-03): trouble is also a session or copy that began a second
before and may have met with silence (ruling 16). A peer that offers no shadow in its reply to EHLO is not visible here. What came
while the primary had a session within TLS is left out: a copy there is not seen.
"""

SHADOW_BOUNDARY = """
SELECT cell_id, n, NOT inside OR client = server AS bad
FROM mail_transactions WHERE mode = 'shadow' AND among_servers AND NOT spoken
UNION ALL
SELECT e.cell_id, e.n,
       element_at(tp.servers, e.client).boundary <> element_at(tp.servers, e.server).boundary OR e.client = e.server
FROM exchanges e JOIN conditions c ON c.cell_id = e.cell_id JOIN topologies tp ON tp.topology_id = c.topology_id
LEFT JOIN (SELECT cell_id, session FROM altered_sessions WHERE spoken) x
  ON x.cell_id = e.cell_id AND x.session = e.session
WHERE e.kind = 'discard' AND x.session IS NULL AND element_at(tp.servers, e.client).generation <> 'ex2010'
  AND element_at(tp.servers, e.server).generation <> 'ex2010'
"""
"""SR-BND-01, SR-BND-02, SR-BND-05: each transfer of a shadow, stored or not, and each discard query stays inside a boundary."""

EARLY_DISCARD = """
WITH answers AS (
  SELECT cell_id, server AS primary, reply_n AS answer_n, explode(shadow_ids) AS shadow_id
  FROM exchanges WHERE kind = 'discard' AND reply_n IS NOT NULL
), due_recipients AS (
  SELECT d.cell_id, d.answer_n, d.primary, d.shadow_id, k.key, k.message_id, explode(k.recipients) AS recipient
  FROM answers d JOIN shadow_copies k ON k.cell_id = d.cell_id AND k.primary = d.primary AND k.shadow_id = d.shadow_id
  LEFT SEMI JOIN harness_messages o ON o.cell_id = k.cell_id AND o.key = k.key
), transfers AS (
  SELECT cell_id, client AS giver, key, explode(if(sender = '', array_union(accepted, refused), accepted)) AS recipient,
         reply_n AS n
  FROM mail_transactions WHERE mode <> 'shadow' AND NOT from_outside AND key IS NOT NULL
), refusals AS (
  SELECT cell_id, giver, recipient, min(n) AS n
  FROM (SELECT cell_id, client AS giver, n, explode(refused) AS recipient FROM mail_transactions
        WHERE mode <> 'shadow' AND NOT from_outside AND NOT spoken AND key IS NULL AND sender = '')
  GROUP BY cell_id, giver, recipient
), settled_recipients AS (
  SELECT /*+ SHUFFLE_HASH(p) */ o.cell_id, o.answer_n, o.primary, o.shadow_id, o.key, o.recipient,
         bool_or(coalesce(p.n < o.answer_n, false)) OR bool_or(coalesce(q.n < o.answer_n, false))
           OR bool_or(coalesce(d.n < o.answer_n, false)) OR bool_or(coalesce(r.reply_n < o.answer_n, false)) AS done
  FROM due_recipients o
  LEFT JOIN transfers p ON p.cell_id = o.cell_id AND p.giver = o.primary AND p.key = o.key AND p.recipient = o.recipient
  LEFT JOIN refusals q ON q.cell_id = o.cell_id AND q.giver = o.primary AND q.recipient = o.recipient
  LEFT JOIN deliveries d ON d.cell_id = o.cell_id AND d.key = o.key AND d.recipient = o.recipient AND d.in_mailbox
  LEFT JOIN mail_transactions r ON r.cell_id = o.cell_id AND r.about <=> o.message_id AND r.report = 'delivery-status'
       AND (size(r.failed) > 0 OR coalesce(r.action, 'failed') = 'failed') AND r.code BETWEEN 200 AND 299
  GROUP BY o.cell_id, o.answer_n, o.primary, o.shadow_id, o.key, o.recipient
), notified_copies AS (
  SELECT cell_id, answer_n, primary, key, shadow_id, bool_and(done) AS done FROM settled_recipients
  GROUP BY cell_id, answer_n, primary, key, shadow_id
)
SELECT u.cell_id, u.answer_n AS n,
       CASE WHEN any_value(u.done) THEN false
            WHEN count(i.n) > 0 AND bool_and(coalesce(i.code >= 400, true)) THEN NULL
            WHEN bool_or(i.sender = '') THEN NULL ELSE true END AS bad
FROM notified_copies u
LEFT JOIN mail_transactions i ON i.cell_id = u.cell_id AND i.server = u.primary AND i.key = u.key AND i.mode <> 'shadow'
     AND i.dot_n < u.answer_n AND i.code IS NOT NULL
GROUP BY u.cell_id, u.answer_n, u.primary, u.key, u.shadow_id
"""
"""SR-MNT-01, SR-MNT-07, SR-MNT-08: before a discard notification every recipient of the copy was delivered, passed on or reported.

A report of another action than `failed` says that the message is still under way. A duplicate in the mailbox counts as delivered.
Not judged: a message that the primary refused in the end has no shadow to keep, and one with a null reverse-path may have expired,
for which no report is made (RL-DSN-02).
"""

MAILBOX_DUPLICATES = """
WITH mailbox_deliveries AS (
  SELECT d.cell_id, d.sink, d.recipient, d.giver, d.key, d.message_id, d.date, d.n, d.t,
         element_at(tp.servers, replace(d.sink, '-store', '')).tracked AS tracked,
         lag(d.n) OVER duplicates AS before_n, lag(d.t) OVER duplicates AS before_t, lag(d.giver) OVER duplicates AS before_giver,
         lag(d.session) OVER duplicates AS before_session, d.session
  FROM deliveries d
  JOIN conditions c ON c.cell_id = d.cell_id AND array_contains(c.claims, 'duplicate-detection')
  JOIN topologies tp ON tp.topology_id = c.topology_id
  WHERE d.in_mailbox AND d.message_id IS NOT NULL AND d.date IS NOT NULL AND d.report IS NULL AND d.sink LIKE '%-store'
  WINDOW duplicates AS (PARTITION BY d.cell_id, d.sink, d.recipient, d.message_id, d.date ORDER BY d.n)
), with_window AS (
  SELECT /*+ SHUFFLE_HASH(h) */ d.cell_id, d.sink, d.recipient, d.giver, d.key, d.message_id, d.date, d.n, d.t,
         d.before_n, d.before_t, d.before_giver, d.before_session, d.session,
         CAST(coalesce(max_by(h.tracked, h.n) FILTER (WHERE h.tracked IS NOT NULL), any_value(d.tracked)) AS DOUBLE)
           AS window_s
  FROM mailbox_deliveries d
  LEFT JOIN parameter_changes h ON h.cell_id = d.cell_id AND concat(h.server, '-store') = d.sink AND h.n < d.n
  GROUP BY d.cell_id, d.sink, d.recipient, d.giver, d.key, d.message_id, d.date, d.n, d.t, d.before_n, d.before_t,
           d.before_giver, d.before_session, d.session
), excuses AS (
  SELECT cell_id, n, t, session, mode = 'fault-fired' AND action IN ('stall', 'delay', 'merge', 'throttle') AS held, client AS party,
         server, mode = 'node' AND action <> 'wiped' AS died
  FROM single_events
  WHERE kind = 'incident'
    AND (mode = 'fault-fired' OR mode = 'node' AND action IN ('killed', 'wiped', 'exited', 'failed'))
), acknowledged AS (
  SELECT cell_id, session, key, explode(accepted) AS recipient, reply_n, reply_t FROM mail_transactions
)
SELECT /*+ SHUFFLE_HASH(a, x) */ w.cell_id, w.n,
       CASE WHEN NOT coalesce(any_value(w.t) - any_value(w.before_t)
                              < if(any_value(w.window_s) > 4233600, 86400, any_value(w.window_s)), false) THEN false
            WHEN count(x.n) > 0 OR count(a.session) = 0 THEN NULL ELSE true END AS bad
FROM with_window w
LEFT JOIN acknowledged a ON a.cell_id = w.cell_id AND a.session = w.before_session AND a.key = w.key
     AND a.recipient = w.recipient AND a.reply_n > w.before_n
LEFT JOIN excuses x ON x.cell_id = w.cell_id AND x.n < w.n
     AND (x.session = w.before_session
       OR x.session = w.session AND x.held AND x.n < w.before_n
       OR x.session IS NULL AND x.held AND x.party = w.giver AND x.server = w.sink AND x.n < w.before_n
       OR x.party = w.before_giver AND x.n > w.before_n AND (NOT x.died OR x.t - w.before_t < 60))
GROUP BY w.cell_id, w.sink, w.recipient, w.message_id, w.date, w.n
"""
"""SR-DUP-01, SR-DUP-03, SR-DUP-04: no second delivery to a mailbox within the duplicate tracking window.

Not judged: where the giver of the earlier delivery could not learn of it, lost its database since, or died within a minute of it;
and where a fault held back or delayed the later delivery, or its connection, since before the earlier one.
"""

CAUSELESS_DUPLICATES = """
SELECT d.cell_id, max(d.n) AS n,
       CASE WHEN count(*) <= any_value(a.times) THEN false WHEN any_value(c.disturbed) THEN NULL ELSE true END AS bad
FROM deliveries d
JOIN (SELECT cell_id, key, recipient, count(*) AS times FROM acknowledgements GROUP BY cell_id, key, recipient) a
  ON a.cell_id = d.cell_id AND a.key = d.key AND a.recipient = d.recipient
JOIN conditions c ON c.cell_id = d.cell_id
GROUP BY d.cell_id, d.key, d.recipient
"""
"""RL-ACK-04: at most as many deliveries as acknowledgements. Not judged in a cell in which anything went wrong."""

CHANGED_CONTENT = """
WITH originals AS (
  SELECT cell_id, key, collect_set(stable_sha256) AS contents, collect_set(sender) AS senders,
         flatten(collect_list(recipients)) AS recipients
  FROM harness_messages GROUP BY cell_id, key
), received AS (
  SELECT cell_id, key, server, n, dot_n, reply_n, mode, stable_sha256, recipients FROM mail_transactions WHERE to_server AND dot_n IS NOT NULL
), resendings AS (
  SELECT cell_id, collect_list(n) AS requested FROM single_events
  WHERE mode = 'node-command' OR mode = 'node' AND action = 'reloaded' GROUP BY cell_id
), transfers AS (
  SELECT cell_id, key, client AS giver, dot_n AS n, n AS begun_n, mode = 'shadow' AS shadow, stable_sha256, sender,
         recipients
  FROM mail_transactions WHERE NOT from_outside AND NOT spoken AND NOT tampered AND dot_n IS NOT NULL AND report IS NULL
  UNION ALL
  SELECT d.cell_id, d.key, d.giver, d.n, d.n, false, d.stable_sha256, d.sender, array(d.recipient)
  FROM deliveries d LEFT JOIN (SELECT cell_id, session FROM altered_sessions WHERE tampered) x
    ON x.cell_id = d.cell_id AND x.session = d.session
  WHERE d.report IS NULL AND x.session IS NULL
), compared AS (
  SELECT /*+ SHUFFLE_HASH(g) */ p.cell_id, p.giver, p.key, p.n, p.begun_n, p.shadow,
         any_value(p.recipients) AS recipients,
         coalesce(bool_or(g.stable_sha256 = p.stable_sha256), array_contains(any_value(o.contents),
           any_value(p.stable_sha256))) AS same_content,
         array_contains(any_value(o.senders), any_value(p.sender)) AS same_sender,
         size(array_except(any_value(p.recipients), any_value(o.recipients))) = 0 AS known_recipients,
         collect_list(g.recipients)
           FILTER (WHERE g.mode <> 'shadow' AND g.n < p.begun_n
                     AND (g.reply_n > p.begun_n OR g.reply_n IS NULL
                          AND NOT coalesce(size(filter(r.requested, x -> x > g.n AND x < p.begun_n)) > 0, false))) AS awaited
  FROM transfers p JOIN originals o ON o.cell_id = p.cell_id AND o.key = p.key
  LEFT JOIN received g ON g.cell_id = p.cell_id AND g.key = p.key AND g.server = p.giver AND g.dot_n < p.n
  LEFT JOIN resendings r ON r.cell_id = p.cell_id
  GROUP BY p.cell_id, p.giver, p.key, p.n, p.begun_n, p.shadow
)
SELECT cell_id, n,
       NOT same_content OR NOT same_sender OR NOT known_recipients
         OR shadow AND coalesce(size(awaited) > 0
                                  AND size(filter(awaited, a -> size(array_except(a, recipients)) = 0)) = 0, false) AS bad
FROM compared
"""
"""SR-CRE-06, RL-CNT-01: what a server passes on or a sink accepts equals what that server received.

Compared are the content without trace fields and the reverse-path; no recipients may be added. A shadow copy also has all
recipients of a transaction whose client still waits for the reply. A transaction without any reply no longer counts once a server
was asked to send messages again, since Safety Net sends them for one mailbox database.
"""

FINAL_REPLIES = """
SELECT cell_id, reply_n AS n,
       replies > if(listener IN ('lmtp', 'delivery'), greatest(accepted_rcpts, 1), 1) AS bad
FROM mail_transactions WHERE reply_n IS NOT NULL AND to_server AND NOT tampered
UNION ALL
SELECT /*+ SHUFFLE_HASH(s) */ r.cell_id, r.n, CASE WHEN r.code <> 221 THEN true END
FROM single_events r JOIN single_events s ON s.cell_id = r.cell_id AND s.session = r.session AND s.kind = 'session'
JOIN conditions c ON c.cell_id = r.cell_id JOIN topologies tp ON tp.topology_id = c.topology_id
LEFT JOIN (SELECT cell_id, session FROM altered_sessions WHERE tampered) x
  ON x.cell_id = r.cell_id AND x.session = r.session
WHERE r.kind = 'incident' AND r.mode = 'stray-reply' AND x.session IS NULL AND element_at(tp.servers, s.server) IS NOT NULL
"""
"""RL-RPL-01 (RFC 5321 4.1.1.4, RFC 2033): one final reply to a message, by LMTP one for each recipient, and no stray reply.

Not judged: 221 without QUIT, which may stand in place of a missing reply. 421 may come at any time.
"""
