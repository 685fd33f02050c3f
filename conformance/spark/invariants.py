"""The invariants once more, as queries over all histories: an oracle written from the catalogue, and from nothing else.

Each query gives one row for each occasion to fail: its cell, the number `n` of the event in question, and whether it
is `bad`. Where a failure would be excused, or cannot be judged from here, `bad` is null: these queries decide less than
the recorded verdicts, but what they decide must agree. Hints say which rows are few; no result depends on them.
"""

from dataclasses import dataclass

CONDITIONS = """
SELECT c.cell_id, c.waived, w.place, coalesce(d.quiet, false) AS quiet, d.still_t, d.waited,
       c.outcome IS NOT NULL AS whole, coalesce(d.disturbed, false) AS disturbed,
       coalesce(d.starved, false) AS starved, w.without_rights,
       if(size(c.claims) > 0, c.claims, p.claims) AS claims
FROM cells c JOIN topologies w ON w.place = c.world
LEFT JOIN candidates p ON p.run = c.run AND p.candidate = c.candidate LEFT JOIN (
  SELECT cell_id, bool_or(mode = 'drained' AND quiet) AS quiet,
         max(CASE WHEN mode = 'drained' THEN t - waited / 2 END) AS still_t,
         max(CASE WHEN mode = 'drained' THEN waited END) AS waited,
         bool_or(mode = 'node' AND action = 'starved') AS starved,
         bool_or(mode IN ('fault-fired', 'fault-armed', 'connect-failed', 'node-command', 'configured', 'talked',
                          'reply')
                 OR mode = 'closed' AND action <> 'secured'
                 OR mode = 'node' AND action NOT IN ('started', 'ready')
                 OR kind = 'attempt' AND action <> 'answered') AS disturbed
  FROM happenings WHERE kind IN ('incident', 'attempt') GROUP BY cell_id) d ON d.cell_id = c.cell_id
"""
"""What of a cell excuses what: whether it was quiet at its end, whether anything at all went wrong, whether a server was stopped since
the machine ran out of something."""

_LOST = """
WITH busy AS (
  SELECT x.cell_id, max(x.t) AS t
  FROM (
    SELECT cell_id, t FROM mails WHERE NOT from_outside AND NOT spoken AND mode <> 'shadow' AND coalesce(code, 400) >= 400
    UNION ALL
    SELECT cell_id, t FROM happenings
    WHERE kind = 'incident'
      AND (mode = 'connect-failed' OR mode = 'reply' AND code = 535 OR mode = 'closed' AND action = 'secured')) x
  GROUP BY x.cell_id
), shared AS (
  SELECT cell_id, key, count(DISTINCT date) > 1 AS told_by_date FROM made GROUP BY cell_id, key
), had AS (
  SELECT cell_id, key, server, max(n) AS n
  FROM (SELECT cell_id, key, server, reply_n AS n FROM mails WHERE to_server AND code BETWEEN 200 AND 299
        UNION ALL SELECT cell_id, key, holder, stored_n FROM copies)
  GROUP BY cell_id, key, server
), destroyed AS (
  SELECT h.cell_id, h.key, count(*) = count(x.n) AS everywhere
  FROM had h LEFT JOIN (SELECT cell_id, client AS server, max(n) AS n FROM happenings
                        WHERE kind = 'incident' AND mode = 'node' AND action = 'wiped' GROUP BY cell_id, client) x
    ON x.cell_id = h.cell_id AND x.server = h.server AND x.n > h.n
  GROUP BY h.cell_id, h.key
)
SELECT a.cell_id, min(a.acknowledged_n) AS n,
       CASE WHEN count(d.key) > 0 THEN false
            WHEN bool_or(size(r.failed) = 0 AND r.action = 'failed' OR array_contains(r.failed, a.recipient)) THEN false
            WHEN any_value(a.sender) = '' AND count(f.key) > 0 THEN false
            WHEN coalesce(any_value(y.everywhere), false) THEN NULL
            WHEN any_value(c.quiet)
              OR any_value(c.waited) >= 2 * any_value(CAST(element_at(w.servers, a.server).retry AS DOUBLE))
                AND coalesce(any_value(b.t) < any_value(c.still_t), true) THEN true END AS bad
FROM acknowledgements a JOIN conditions c ON c.cell_id = a.cell_id JOIN topologies w ON w.place = c.place
JOIN shared s ON s.cell_id = a.cell_id AND s.key = a.key
LEFT JOIN busy b ON b.cell_id = a.cell_id
LEFT JOIN destroyed y ON y.cell_id = a.cell_id AND y.key = a.key
LEFT JOIN (SELECT DISTINCT cell_id, key, recipient, date FROM deliveries) d
  ON d.cell_id = a.cell_id AND d.key = a.key AND d.recipient = a.recipient AND (d.date = a.date OR NOT s.told_by_date)
LEFT JOIN (SELECT cell_id, about, recipient, action, failed FROM deliveries WHERE report = 'delivery-status') r
  ON r.cell_id = a.cell_id AND r.about = a.message_id AND r.recipient = a.sender
LEFT JOIN (SELECT DISTINCT cell_id, key, explode(refused) AS recipient FROM mails) f
  ON f.cell_id = a.cell_id AND f.key = a.key AND f.recipient = a.recipient
GROUP BY a.cell_id, a.message, a.recipient
"""
"""RL-ACK-01: delivered, or reported to its sender as failed. What all servers that had it lost with their queues may be
lost (SR-BND-09); of a null reverse-path nothing is reported (RL-DSN-02). A transport that still tried something in the second half of the wait
at the end, or was waited for for less than two of its retry intervals, may yet deliver; so may one that was refused with 535, or said
something behind STARTTLS, which no link sees (ruling 27). Messages of one Message-ID are told
by their dates (SR-DUP-02)."""

_TWO_COPIES = """
WITH asked AS (
  SELECT m.cell_id, m.key, m.server, m.n AS begun_n, m.reply_n AS n, m.reply_t AS t, c.place, c.without_rights,
         element_at(w.servers, m.server) AS its
  FROM mails m JOIN conditions c ON c.cell_id = m.cell_id AND array_contains(c.claims, 'shadow-2013')
  JOIN topologies w ON w.place = c.place
  LEFT SEMI JOIN made o ON o.cell_id = m.cell_id AND o.key = m.key
  WHERE m.to_server AND m.mode <> 'shadow' AND m.code BETWEEN 200 AND 299 AND m.reply_n IS NOT NULL
    AND m.listener IN ('frontend', 'transport') AND NOT coalesce(m.inside, false) AND NOT m.tampered
    AND element_at(w.servers, m.server).generation <> 'ex2010' AND element_at(w.servers, m.server).role = 'mailbox'
), ruled AS (
  SELECT /*+ SHUFFLE_HASH(h) */ a.cell_id, a.key, a.server, a.begun_n, a.n, a.t, any_value(a.place) AS place,
         any_value(a.without_rights) AS without_rights, any_value(a.its.site) AS site,
         coalesce(max_by(h.enabled, h.n) FILTER (WHERE h.enabled IS NOT NULL), any_value(a.its.enabled)) AS enabled,
         coalesce(max_by(h.mandatory, h.n) FILTER (WHERE h.mandatory IS NOT NULL), any_value(a.its.mandatory))
           AS mandatory,
         coalesce(max_by(h.preference, h.n) FILTER (WHERE h.preference IS NOT NULL), any_value(a.its.preference))
           AS preference,
         coalesce(max_by(h.far_tries, h.n) FILTER (WHERE h.far_tries IS NOT NULL), any_value(a.its.far_tries))
           AS far_tries,
         coalesce(max_by(h.near_tries, h.n) FILTER (WHERE h.near_tries IS NOT NULL), any_value(a.its.near_tries))
           AS near_tries
  FROM asked a LEFT JOIN changes h ON h.cell_id = a.cell_id AND h.server = a.server AND h.n < a.n
  GROUP BY a.cell_id, a.key, a.server, a.begun_n, a.n, a.t
), peers AS (
  SELECT p.place, p.name AS server, o.name AS peer, o.site, o.enabled
  FROM (SELECT place, one.key AS name, one.value.boundary AS boundary
        FROM (SELECT place, explode(map_entries(servers)) AS one FROM topologies)
        WHERE one.value.generation <> 'ex2010' AND one.value.role = 'mailbox') p
  JOIN (SELECT place, one.key AS name, one.value.boundary AS boundary, one.value.site AS site,
               one.value.enabled AS enabled
        FROM (SELECT place, explode(map_entries(servers)) AS one FROM topologies)
        WHERE one.value.generation <> 'ex2010' AND one.value.role IN ('mailbox', 'hub')) o
    ON o.place = p.place AND o.boundary = p.boundary AND o.name <> p.name
), trouble AS (
  SELECT cell_id, client AS one, server AS other, n, CAST(NULL AS DOUBLE) AS t FROM happenings
  WHERE kind = 'incident' AND mode IN ('connect-failed', 'fault-fired')
  UNION ALL
  SELECT cell_id, server, client, n, NULL FROM happenings WHERE kind = 'incident' AND mode = 'fault-fired'
  UNION ALL
  SELECT /*+ SHUFFLE_HASH(s) */ s.cell_id, s.client, s.server, r.n, NULL FROM happenings r
  JOIN happenings s ON s.cell_id = r.cell_id AND s.session = r.session AND s.kind = 'session'
  WHERE r.kind = 'incident' AND r.mode = 'reply'
  UNION ALL
  SELECT cell_id, NULL, client, n, NULL FROM happenings
  WHERE kind = 'incident' AND mode = 'node'
    AND action IN ('stopped', 'killed', 'wiped', 'paused', 'exited', 'failed', 'refused', 'starved')
  UNION ALL
  SELECT cell_id, NULL, server, n, NULL FROM changes WHERE enabled IS NOT NULL
  UNION ALL
  SELECT cell_id, client, server, n, t FROM happenings WHERE kind = 'session' AND listener = 'transport'
  UNION ALL
  SELECT cell_id, client, server, n, t FROM mails WHERE mode = 'shadow'
), paired AS (
  SELECT /*+ BROADCAST(p), SHUFFLE_HASH(x) */
         a.cell_id, a.key, a.server, a.begun_n, a.n, any_value(a.mandatory) AS mandatory,
         any_value(a.without_rights) AS without_rights, min(k.stored_n) AS stored_n, min(x.n) AS trouble_n,
         bool_or(p.enabled <> 'false' AND p.site = a.site AND CAST(a.near_tries AS DOUBLE) > 0 AND a.preference <> 'RemoteOnly') AS near,
         bool_or(p.enabled <> 'false' AND p.site <> a.site AND CAST(a.far_tries AS DOUBLE) > 0 AND a.preference <> 'LocalOnly') AS far,
         bool_and(p.site = a.site) AND bool_or(p.enabled <> 'false') AND any_value(CAST(a.near_tries AS DOUBLE) > 0)
           AS one_site
  FROM ruled a JOIN peers p ON p.place = a.place AND p.server = a.server
  LEFT JOIN copies k ON k.cell_id = a.cell_id AND k.key = a.key AND k.primary = a.server AND k.holder = p.peer
       AND k.mode = 'shadow' AND k.begun_n > a.begun_n AND k.stored_n < a.n
  LEFT JOIN trouble x ON x.cell_id = a.cell_id AND x.other = p.peer AND coalesce(x.one, p.server) = p.server
       AND x.n < a.n AND (x.t IS NULL OR x.n > a.begun_n AND a.t - x.t >= 1)
  WHERE a.enabled <> 'false'
  GROUP BY a.cell_id, a.key, a.server, a.begun_n, a.n
)
SELECT cell_id, n,
       CASE WHEN stored_n IS NOT NULL THEN false WHEN mandatory = 'true' THEN true
            WHEN trouble_n IS NULL AND NOT without_rights AND (near OR far OR one_site) THEN true END AS bad
FROM paired
"""
"""SR-CRE-01, SR-BND-03, SR-BND-05: acknowledged to a client outside the boundary, after a copy of this transaction was
stored (ruling 14). Where a shadow is not mandatory, any trouble with a peer that can be seen may excuse (SR-ENA-03), and so
do a session or a copy that was begun a second before, and may have met with silence (ruling 16), and a preference that permits no attempt (SR-PRF-01 to SR-PRF-06). Not seen from here: a
peer that offers no shadow in its reply to EHLO."""

_BOUNDARY = """
SELECT cell_id, n, NOT inside OR client = server AS bad
FROM mails WHERE mode = 'shadow' AND among_servers AND NOT spoken
UNION ALL
SELECT e.cell_id, e.n,
       element_at(w.servers, e.client).boundary <> element_at(w.servers, e.server).boundary OR e.client = e.server
FROM exchanges e JOIN conditions c ON c.cell_id = e.cell_id JOIN topologies w ON w.place = c.place
LEFT JOIN (SELECT cell_id, session FROM altered WHERE spoken) x
  ON x.cell_id = e.cell_id AND x.session = e.session
WHERE e.kind = 'discard' AND x.session IS NULL AND element_at(w.servers, e.client).generation <> 'ex2010'
  AND element_at(w.servers, e.server).generation <> 'ex2010'
"""
"""SR-BND-01, SR-BND-02, SR-BND-05: every transfer of a shadow, stored or not, and every query of its discard status."""

_DISCARD = """
WITH told AS (
  SELECT cell_id, server AS primary, reply_n AS told_n, explode(shadow_ids) AS shadow_id
  FROM exchanges WHERE kind = 'discard' AND reply_n IS NOT NULL
), owed AS (
  SELECT d.cell_id, d.told_n, d.primary, d.shadow_id, k.key, k.message_id, explode(k.recipients) AS recipient
  FROM told d JOIN copies k ON k.cell_id = d.cell_id AND k.primary = d.primary AND k.shadow_id = d.shadow_id
  LEFT SEMI JOIN made o ON o.cell_id = k.cell_id AND o.key = k.key
), passed AS (
  SELECT cell_id, client AS giver, key, explode(if(sender = '', array_union(accepted, refused), accepted)) AS recipient,
         reply_n AS n
  FROM mails WHERE mode <> 'shadow' AND NOT from_outside
), covered AS (
  SELECT /*+ SHUFFLE_HASH(p) */ o.cell_id, o.told_n, o.primary, o.shadow_id, o.key, o.recipient,
         bool_or(coalesce(p.n < o.told_n, false)) OR bool_or(coalesce(d.n < o.told_n, false))
           OR bool_or(coalesce(r.reply_n < o.told_n, false)) AS done
  FROM owed o
  LEFT JOIN passed p ON p.cell_id = o.cell_id AND p.giver = o.primary AND p.key = o.key
       AND p.recipient = o.recipient
  LEFT JOIN deliveries d ON d.cell_id = o.cell_id AND d.key = o.key AND d.recipient = o.recipient AND d.in_mailbox
  LEFT JOIN mails r ON r.cell_id = o.cell_id AND r.about = o.message_id AND r.report = 'delivery-status'
       AND r.code BETWEEN 200 AND 299
  GROUP BY o.cell_id, o.told_n, o.primary, o.shadow_id, o.key, o.recipient
), due AS (
  SELECT cell_id, told_n, primary, key, shadow_id, bool_and(done) AS done FROM covered
  GROUP BY cell_id, told_n, primary, key, shadow_id
)
SELECT u.cell_id, u.told_n AS n,
       CASE WHEN any_value(u.done) THEN false
            WHEN count(i.n) > 0 AND bool_and(coalesce(i.code >= 400, true)) THEN NULL ELSE true END AS bad
FROM due u
LEFT JOIN mails i ON i.cell_id = u.cell_id AND i.server = u.primary AND i.key = u.key AND i.mode <> 'shadow'
     AND i.dot_n < u.told_n AND i.code IS NOT NULL
GROUP BY u.cell_id, u.told_n, u.primary, u.key, u.shadow_id
"""
"""SR-MNT-01, SR-MNT-07, SR-MNT-08: passed on (or reported) for every recipient before it is told; a duplicate in a mailbox
was delivered. What the primary has refused in the end has no shadow to keep."""

_MAILBOX = """
WITH taken AS (
  SELECT d.cell_id, d.sink, d.recipient, d.giver, d.key, d.message_id, d.date, d.n, d.t,
         element_at(w.servers, replace(d.sink, '-store', '')).tracked AS tracked,
         lag(d.n) OVER same AS before_n, lag(d.t) OVER same AS before_t, lag(d.giver) OVER same AS before_giver,
         lag(d.session) OVER same AS before_session
  FROM deliveries d
  JOIN conditions c ON c.cell_id = d.cell_id AND array_contains(c.claims, 'duplicate-detection')
  JOIN topologies w ON w.place = c.place
  WHERE d.in_mailbox AND d.message_id IS NOT NULL AND d.date IS NOT NULL AND d.report IS NULL AND d.sink LIKE '%-store'
  WINDOW same AS (PARTITION BY d.cell_id, d.sink, d.recipient, d.message_id, d.date ORDER BY d.n)
), clean AS (
  SELECT /*+ SHUFFLE_HASH(h) */ k.cell_id, k.sink, k.recipient, k.giver, k.key, k.message_id, k.date, k.n, k.t,
         k.before_n, k.before_t, k.before_giver, k.before_session,
         CAST(coalesce(max_by(h.tracked, h.n) FILTER (WHERE h.tracked IS NOT NULL), any_value(k.tracked)) AS DOUBLE)
           AS span
  FROM taken k
  LEFT JOIN changes h ON h.cell_id = k.cell_id AND concat(h.server, '-store') = k.sink AND h.n < k.n
  GROUP BY k.cell_id, k.sink, k.recipient, k.giver, k.key, k.message_id, k.date, k.n, k.t, k.before_n, k.before_t,
           k.before_giver, k.before_session
), excuse AS (
  SELECT cell_id, n, t, session, client AS party, mode = 'node' AND action <> 'wiped' AS died FROM happenings
  WHERE kind = 'incident'
    AND (mode = 'fault-fired' OR mode = 'node' AND action IN ('killed', 'wiped', 'exited', 'failed'))
), answered AS (
  SELECT cell_id, session, key, explode(accepted) AS recipient, reply_n, reply_t FROM mails
)
SELECT /*+ SHUFFLE_HASH(a, x) */ c.cell_id, c.n,
       CASE WHEN NOT coalesce(any_value(c.t) - any_value(c.before_t)
                              < if(any_value(c.span) > 4233600, 86400, any_value(c.span)), false) THEN false
            WHEN count(x.n) > 0 OR count(a.session) = 0 THEN NULL ELSE true END AS bad
FROM clean c
LEFT JOIN answered a ON a.cell_id = c.cell_id AND a.session = c.before_session AND a.key = c.key
     AND a.recipient = c.recipient AND a.reply_n > c.before_n
LEFT JOIN excuse x ON x.cell_id = c.cell_id AND x.n < c.n
     AND (x.session = c.before_session
       OR x.party = c.before_giver AND x.n > c.before_n AND (NOT x.died OR x.t - c.before_t < 60))
GROUP BY c.cell_id, c.sink, c.recipient, c.message_id, c.date, c.n
"""
"""SR-DUP-01, SR-DUP-03, SR-DUP-04. A delivery that its giver could not learn of, or forgot with its database, excuses; a
giver that died within a minute of it may not have noted it."""

_CAUSELESS = """
SELECT d.cell_id, max(d.n) AS n,
       CASE WHEN count(*) <= any_value(a.times) THEN false WHEN any_value(c.disturbed) THEN NULL ELSE true END AS bad
FROM deliveries d
JOIN (SELECT cell_id, key, recipient, count(*) AS times FROM acknowledgements GROUP BY cell_id, key, recipient) a
  ON a.cell_id = d.cell_id AND a.key = d.key AND a.recipient = d.recipient
JOIN conditions c ON c.cell_id = d.cell_id
GROUP BY d.cell_id, d.key, d.recipient
"""
"""RL-ACK-04: where nothing at all went wrong, so many copies as were acknowledged, and no more."""

_CONTENT = """
WITH known AS (
  SELECT cell_id, key, collect_set(stable_sha256) AS contents, collect_set(sender) AS senders,
         flatten(collect_list(recipients)) AS recipients
  FROM made GROUP BY cell_id, key
), given AS (
  SELECT cell_id, key, server, n, dot_n, reply_n, stable_sha256, recipients FROM mails WHERE to_server AND dot_n IS NOT NULL
), passed AS (
  SELECT cell_id, key, client AS giver, dot_n AS n, n AS begun_n, mode = 'shadow' AS shadow, stable_sha256, sender,
         recipients
  FROM mails WHERE NOT from_outside AND NOT spoken AND NOT tampered AND dot_n IS NOT NULL AND report IS NULL
  UNION ALL
  SELECT d.cell_id, d.key, d.giver, d.n, d.n, false, d.stable_sha256, d.sender, array(d.recipient)
  FROM deliveries d LEFT JOIN (SELECT cell_id, session FROM altered WHERE tampered) x
    ON x.cell_id = d.cell_id AND x.session = d.session
  WHERE d.report IS NULL AND x.session IS NULL
), compared AS (
  SELECT /*+ SHUFFLE_HASH(g) */ p.cell_id, p.giver, p.key, p.n, p.begun_n, p.shadow,
         any_value(p.recipients) AS recipients,
         coalesce(bool_or(g.stable_sha256 = p.stable_sha256), array_contains(any_value(k.contents),
           any_value(p.stable_sha256))) AS same,
         array_contains(any_value(k.senders), any_value(p.sender)) AS from_him,
         size(array_except(any_value(p.recipients), any_value(k.recipients))) = 0 AS to_them,
         max_by(g.recipients, g.n) FILTER (WHERE g.n < p.begun_n AND (g.reply_n IS NULL OR g.reply_n > p.begun_n))
           AS waiting
  FROM passed p JOIN known k ON k.cell_id = p.cell_id AND k.key = p.key
  LEFT JOIN given g ON g.cell_id = p.cell_id AND g.key = p.key AND g.server = p.giver AND g.dot_n < p.n
  GROUP BY p.cell_id, p.giver, p.key, p.n, p.begun_n, p.shadow
)
SELECT cell_id, n,
       NOT same OR NOT from_him OR NOT to_them
         OR shadow AND coalesce(size(array_except(waiting, recipients)) > 0, false) AS bad
FROM compared
"""
"""SR-CRE-06, RL-CNT-01: what a server passes on, and what a sink takes, has the content that the server was given, trace
fields aside, the reverse-path, and no other recipients; a shadow copy has all of those that its sender waits for."""

_FINAL_REPLY = """
SELECT cell_id, reply_n AS n,
       replies > if(listener IN ('lmtp', 'delivery'), greatest(named, 1), 1) AS bad
FROM mails WHERE reply_n IS NOT NULL AND to_server AND NOT tampered
UNION ALL
SELECT /*+ SHUFFLE_HASH(s) */ r.cell_id, r.n, CASE WHEN r.code <> 221 THEN true END
FROM happenings r JOIN happenings s ON s.cell_id = r.cell_id AND s.session = r.session AND s.kind = 'session'
JOIN conditions c ON c.cell_id = r.cell_id JOIN topologies w ON w.place = c.place
LEFT JOIN (SELECT cell_id, session FROM altered WHERE tampered) x
  ON x.cell_id = r.cell_id AND x.session = r.session
WHERE r.kind = 'incident' AND r.mode = 'stray-reply' AND x.session IS NULL AND element_at(w.servers, s.server) IS NOT NULL
"""
"""RL-RPL-01 (RFC 5321 4.1.1.4, RFC 2033): one final reply to a message, or one for each recipient by LMTP, and no reply
to nothing; 421 may come at any time. A goodbye that answers no QUIT may stand in the place of a reply that is missing."""


@dataclass(frozen=True, slots=True)
class Invariant:
    """An invariant as it is called in verdicts (`invariant.<name>`), the rows it judges, and its query."""

    name: str
    requirements: tuple[str, ...]
    query: str


INVARIANTS = (
    Invariant("nothing-acknowledged-is-lost", ("RL-ACK-01",), _LOST),
    Invariant("two-copies-at-acknowledgement", ("SR-CRE-01", "SR-BND-03", "SR-BND-05"), _TWO_COPIES),
    Invariant("shadow-inside-boundary", ("SR-BND-01", "SR-BND-02", "SR-BND-05"), _BOUNDARY),
    Invariant("no-discard-before-delivery", ("SR-MNT-01", "SR-MNT-07", "SR-MNT-08"), _DISCARD),
    Invariant("no-duplicate-in-mailbox", ("SR-DUP-01",), _MAILBOX),
    Invariant("no-duplicate-without-cause", ("RL-ACK-04",), _CAUSELESS),
    Invariant("content-unchanged", ("SR-CRE-06", "RL-CNT-01"), _CONTENT),
    Invariant("one-final-reply", ("RL-RPL-01",), _FINAL_REPLY),
)


PARTS = {f"rechecks_{number}": one for number, one in enumerate(INVARIANTS, start=1)}
"""The view of each invariant: a row for each cell that had an occasion there."""


def rechecks() -> dict[str, str]:
    """Return the queries of all these views, and of `rechecks`, which has the rows of all of them.

    What is bad where the machine ran out of something, and what is not decided, is inconclusive. Cells that are cut short, or waive an invariant, have none. Each query is summed up on its own: put
    together first, all their rows would have to be moved.
    """
    return {name: _summed(one) for name, one in PARTS.items()} | {
        "rechecks": " UNION ALL ".join(f"SELECT * FROM {name}" for name in PARTS)  # noqa: S608  # made of constants
    }


def _summed(one: Invariant) -> str:
    return f"""
    SELECT o.cell_id, 'invariant.{one.name}' AS check, o.occasions, o.violations, o.undecided, o.evidence,
           CASE WHEN o.violations > 0 AND NOT c.starved THEN 'fail'
                WHEN o.violations > 0 OR o.undecided > 0 THEN 'inconclusive' ELSE 'pass' END AS outcome
    FROM (SELECT cell_id, count(bad) AS occasions, count_if(bad) AS violations, count_if(bad IS NULL) AS undecided,
                 min(CASE WHEN bad THEN n END) AS evidence
          FROM ({one.query}) GROUP BY cell_id) o
    JOIN conditions c ON c.cell_id = o.cell_id
    WHERE c.whole AND NOT array_contains(c.waived, '{one.name}')
    """  # noqa: S608  # made of constants
