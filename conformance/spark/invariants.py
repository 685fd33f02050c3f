"""The invariants once more, as queries over all histories: an oracle written from the catalogue, and from nothing else.

Each query gives one row for each occasion to fail: its cell, the number `n` of the event in question, and whether it
is `bad`. Where a failure would be excused, or cannot be judged from here, there is no row: these queries say less than
the recorded verdicts, but what they say must agree. Hints say which rows are few; no result depends on them.
"""

from dataclasses import dataclass

CONDITIONS = r"""
SELECT c.cell_id, nullif(c.waive, '{}') AS waive, w.place, coalesce(d.quiet, false) AS quiet,
       c.outcome IS NOT NULL AS whole, coalesce(d.wiped, 0) AS wiped, coalesce(d.disturbed, false) AS disturbed,
       coalesce(d.garbled, false) AS garbled,
       w.unshadowed OR coalesce(c.parameters RLIKE '"ShadowRedundancyEnabled":\\s*false', false)
         OR coalesce(d.changes, '') LIKE '%ShadowRedundancyEnabled%' AS unshadowed,
       (w.mandatory OR coalesce(c.parameters RLIKE '"RejectMessageOnShadowFailure":\\s*true', false))
         AND coalesce(d.changes, '') NOT LIKE '%RejectMessageOnShadowFailure%' AS mandatory, w.without_rights,
       CASE WHEN coalesce(d.changes, '') LIKE '%DuplicateTracking%' OR c.parameters LIKE '%DuplicateTracking%' THEN 0
            ELSE w.tracking_window END AS tracking_window,
       if(size(c.claims) > 0, c.claims, p.claims) AS claims
FROM cells c JOIN topologies w ON w.topology = c.topology
LEFT JOIN candidates p ON p.run = c.run AND p.candidate = c.candidate LEFT JOIN (
  SELECT cell_id, bool_or(mode = 'drained' AND quiet) AS quiet,
         size(collect_set(CASE WHEN mode = 'node' AND action = 'wiped' THEN client END)) AS wiped,
         bool_or(mode IN ('fault-fired', 'fault-armed', 'connect-failed', 'node-command', 'configured', 'talked',
                          'reply', 'closed')
                 OR mode = 'node' AND action NOT IN ('started', 'ready')
                 OR kind = 'attempt' AND action <> 'answered') AS disturbed,
         bool_or(mode = 'fault-fired' AND action IN ('garble', 'cut')) AS garbled,
         concat_ws(' ', collect_set(CASE WHEN mode = 'configured' THEN detail END)) AS changes
  FROM happenings WHERE kind IN ('incident', 'attempt') GROUP BY cell_id) d ON d.cell_id = c.cell_id
"""
"""What of a cell excuses what: whether it was quiet at its end, what was destroyed, which parameters were in force."""

_LOST = """
SELECT a.cell_id, a.acknowledged_n AS n, d.key IS NULL AND r.about IS NULL AS bad
FROM acknowledgements a JOIN conditions c ON c.cell_id = a.cell_id
LEFT JOIN (SELECT DISTINCT cell_id, key, recipient FROM deliveries) d
  ON d.cell_id = a.cell_id AND d.key = a.key AND d.recipient = a.recipient
LEFT JOIN (SELECT DISTINCT cell_id, about, recipient FROM deliveries WHERE report = 'delivery-status') r
  ON r.cell_id = a.cell_id AND r.about = a.message_id AND r.recipient = a.sender
LEFT JOIN (SELECT DISTINCT cell_id, key, explode(refused) AS recipient FROM mails) f
  ON f.cell_id = a.cell_id AND f.key = a.key AND f.recipient = a.recipient
WHERE c.quiet AND c.wiped < 2 AND NOT (a.sender = '' AND d.key IS NULL AND f.key IS NOT NULL)
"""
"""RL-ACK-01. Two servers destroyed together may lose (SR-BND-09); a null reverse-path gets no report (RL-DSN-02)."""

_TWO_COPIES = """
WITH asked AS (
  SELECT a.cell_id, a.key, a.server, min(a.acknowledged_n) AS n, any_value(c.mandatory) AS mandatory,
         any_value(c.place) AS place
  FROM acknowledgements a
  JOIN conditions c ON c.cell_id = a.cell_id AND NOT c.unshadowed AND NOT c.without_rights
  GROUP BY a.cell_id, a.key, a.server, a.session
), peers AS (
  SELECT p.place, p.name AS server, o.name AS peer
  FROM (SELECT place, one.key AS name, one.value.boundary AS boundary
        FROM (SELECT place, explode(map_entries(servers)) AS one FROM topologies)
        WHERE one.value.generation <> 'ex2010' AND one.value.role = 'mailbox') p
  JOIN (SELECT place, one.key AS name, one.value.boundary AS boundary
        FROM (SELECT place, explode(map_entries(servers)) AS one FROM topologies)
        WHERE one.value.generation <> 'ex2010') o
    ON o.place = p.place AND o.boundary = p.boundary AND o.name <> p.name
), trouble AS (
  SELECT cell_id, client AS one, server AS other, n FROM happenings
  WHERE kind = 'incident' AND mode IN ('connect-failed', 'fault-fired')
  UNION ALL
  SELECT cell_id, server, client, n FROM happenings WHERE kind = 'incident' AND mode = 'fault-fired'
  UNION ALL
  SELECT s.cell_id, s.client, s.server, r.n FROM happenings r
  JOIN happenings s ON s.cell_id = r.cell_id AND s.session = r.session AND s.kind = 'session'
  WHERE r.kind = 'incident' AND r.mode = 'reply'
  UNION ALL
  SELECT cell_id, NULL, client, n FROM happenings
  WHERE kind = 'incident' AND mode = 'node'
    AND action IN ('stopped', 'killed', 'wiped', 'paused', 'exited', 'failed', 'refused')
), paired AS (
  SELECT /*+ BROADCAST(p), SHUFFLE_HASH(x) */
         a.cell_id, a.key, a.server, a.n, a.mandatory, min(k.stored_n) AS stored_n, min(x.n) AS trouble_n
  FROM asked a JOIN peers p ON p.place = a.place AND p.server = a.server
  LEFT JOIN copies k ON k.cell_id = a.cell_id AND k.key = a.key AND k.holder = p.peer AND k.mode = 'shadow'
       AND k.stored_n < a.n
  LEFT JOIN trouble x ON x.cell_id = a.cell_id AND x.other = p.peer AND coalesce(x.one, p.server) = p.server
       AND x.n < a.n
  GROUP BY a.cell_id, a.key, a.server, a.n, a.mandatory
)
SELECT cell_id, n, stored_n IS NULL AS bad FROM paired
WHERE stored_n IS NOT NULL OR trouble_n IS NULL OR mandatory
"""
"""SR-CRE-01, SR-BND-03. Where a shadow is not mandatory, any visible trouble with a peer excuses (SR-ENA-03)."""

_BOUNDARY = """
SELECT cell_id, n, NOT inside OR client = server AS bad FROM mails WHERE mode = 'shadow' AND among_servers
"""
"""SR-BND-01, SR-BND-02, SR-BND-05: every transfer of a shadow, stored or not."""

_DISCARD = """
WITH told AS (
  SELECT cell_id, server AS primary, reply_n AS told_n, explode(shadow_ids) AS shadow_id
  FROM exchanges WHERE kind = 'discard' AND reply_n IS NOT NULL
), owed AS (
  SELECT d.cell_id, d.told_n, d.primary, d.shadow_id, k.key, k.message_id, explode(k.recipients) AS recipient
  FROM told d JOIN copies k ON k.cell_id = d.cell_id AND k.primary = d.primary AND k.shadow_id = d.shadow_id
), passed AS (
  SELECT cell_id, client AS giver, key, explode(accepted) AS recipient, reply_n AS n
  FROM mails WHERE mode <> 'shadow' AND NOT from_outside
), covered AS (
  SELECT /*+ SHUFFLE_HASH(p) */ o.cell_id, o.told_n, o.shadow_id, o.recipient,
         bool_or(coalesce(p.n < o.told_n, false)) OR bool_or(coalesce(d.n < o.told_n, false))
           OR bool_or(coalesce(r.dot_n < o.told_n, false)) AS done
  FROM owed o
  LEFT JOIN passed p ON p.cell_id = o.cell_id AND p.giver = o.primary AND p.key = o.key
       AND p.recipient = o.recipient
  LEFT JOIN deliveries d ON d.cell_id = o.cell_id AND d.key = o.key AND d.recipient = o.recipient
  LEFT JOIN mails r ON r.cell_id = o.cell_id AND r.about = o.message_id AND r.report = 'delivery-status'
  GROUP BY o.cell_id, o.told_n, o.shadow_id, o.recipient
)
SELECT cell_id, told_n AS n, NOT bool_and(done) AS bad FROM covered GROUP BY cell_id, told_n, shadow_id
"""
"""SR-MNT-01, SR-MNT-07: passed on (or reported) for every recipient before it is told; a duplicate was delivered."""

_MAILBOX = """
WITH clean AS (
  SELECT d.cell_id, d.sink, d.recipient, d.giver, d.message_id, d.date, d.n, d.t, c.tracking_window,
         lag(d.n) OVER same AS before_n, lag(d.t) OVER same AS before_t, lag(d.giver) OVER same AS before_giver,
         lag(d.session) OVER same AS before_session
  FROM deliveries d
  JOIN conditions c ON c.cell_id = d.cell_id AND array_contains(c.claims, 'duplicate-detection')
       AND c.tracking_window > 0
  JOIN topologies w ON w.place = c.place AND array_contains(w.mailboxes, d.recipient)
  WHERE d.message_id IS NOT NULL AND d.date IS NOT NULL AND d.report IS NULL AND d.sink LIKE '%-store'
  WINDOW same AS (PARTITION BY d.cell_id, d.sink, d.recipient, d.message_id, d.date ORDER BY d.n)
), excuse AS (
  SELECT cell_id, n, session, client AS party FROM happenings
  WHERE kind = 'incident'
    AND (mode = 'fault-fired' OR mode = 'node' AND action IN ('killed', 'wiped', 'exited', 'failed'))
), answered AS (
  SELECT DISTINCT cell_id, session FROM mails WHERE size(accepted) > 0
)
SELECT /*+ SHUFFLE_HASH(a, x) */ c.cell_id, c.n,
       coalesce(c.t - c.before_t < if(c.tracking_window > 4233600, 86400, c.tracking_window), false)
         AND count(x.n) = 0 AND count(a.session) > 0 AS bad
FROM clean c
LEFT JOIN answered a ON a.cell_id = c.cell_id AND a.session = c.before_session
LEFT JOIN excuse x ON x.cell_id = c.cell_id AND x.party = c.before_giver AND x.n < c.n
     AND (x.n > c.before_n OR x.session = c.before_session)
GROUP BY c.cell_id, c.sink, c.recipient, c.message_id, c.date, c.n, c.t, c.before_t, c.tracking_window
"""
"""SR-DUP-01, SR-DUP-03, SR-DUP-04. A delivery that its giver could not learn of, or forgot by dying, excuses."""

_CAUSELESS = """
SELECT d.cell_id, max(d.n) AS n, count(*) > any_value(a.times) AS bad
FROM deliveries d
JOIN (SELECT cell_id, key, recipient, count(*) AS times FROM acknowledgements GROUP BY cell_id, key, recipient) a
  ON a.cell_id = d.cell_id AND a.key = d.key AND a.recipient = d.recipient
JOIN conditions c ON c.cell_id = d.cell_id AND NOT c.disturbed
GROUP BY d.cell_id, d.key, d.recipient
"""
"""RL-ACK-04: where nothing at all went wrong, so many copies as were acknowledged, and no more."""

_CONTENT = """
SELECT d.cell_id, d.n, NOT array_contains(m.made, d.stable_sha256) AS bad
FROM deliveries d
JOIN (SELECT cell_id, key, collect_set(stable_sha256) AS made FROM happenings WHERE kind = 'message'
      GROUP BY cell_id, key) m
  ON m.cell_id = d.cell_id AND m.key = d.key
JOIN conditions c ON c.cell_id = d.cell_id AND NOT c.garbled
WHERE d.report IS NULL
"""
"""RL-CNT-01: what a sink took is what was sent, trace fields aside."""

_FINAL_REPLY = """
SELECT cell_id, reply_n AS n,
       replies > if(listener IN ('lmtp', 'delivery'), greatest(size(recipients), 1), 1) AS bad
FROM exchanges WHERE kind = 'mail' AND reply_n IS NOT NULL
"""
"""RFC 5321 4.1.1.4, RFC 2033: one final reply to a message, or one for each recipient by LMTP."""


@dataclass(frozen=True, slots=True)
class Invariant:
    """An invariant as it is called in verdicts (`invariant.<name>`), the rows it judges, and its query."""

    name: str
    requirements: tuple[str, ...]
    query: str


INVARIANTS = (
    Invariant("nothing-acknowledged-is-lost", ("RL-ACK-01",), _LOST),
    Invariant("two-copies-at-acknowledgement", ("SR-CRE-01", "SR-BND-03"), _TWO_COPIES),
    Invariant("shadow-inside-boundary", ("SR-BND-01", "SR-BND-02", "SR-BND-05"), _BOUNDARY),
    Invariant("no-discard-before-delivery", ("SR-MNT-01", "SR-MNT-07"), _DISCARD),
    Invariant("no-duplicate-in-mailbox", ("SR-DUP-01",), _MAILBOX),
    Invariant("no-duplicate-without-cause", ("RL-ACK-04",), _CAUSELESS),
    Invariant("content-unchanged", ("RL-CNT-01",), _CONTENT),
    Invariant("one-final-reply", ("RL-RPL-01",), _FINAL_REPLY),
)


def rechecks() -> str:
    """Return the query of a row for each cell and invariant that had an occasion there.

    Cells that are cut short, or waive an invariant, have none. Each query is summed up on its own: put
    together first, all their rows would have to be moved.
    """
    return " UNION ALL ".join(
        f"""
    SELECT o.cell_id, 'invariant.{one.name}' AS check, o.occasions, o.violations, o.evidence,
           if(o.violations > 0, 'fail', 'pass') AS outcome
    FROM (SELECT cell_id, count(*) AS occasions, count_if(bad) AS violations, min(CASE WHEN bad THEN n END) AS evidence
          FROM ({one.query}) GROUP BY cell_id) o
    JOIN conditions c ON c.cell_id = o.cell_id
    WHERE c.whole AND get_json_object(c.waive, "$['{one.name}']") IS NULL
    """  # noqa: S608  # made of constants
        for one in INVARIANTS
    )
