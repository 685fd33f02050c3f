"""What was seen: latencies, where shadows went, duplicates, losses, what faults did, where the oracles disagree."""

from conformance.spark.tables.table import Table

LATENCY = Table(
    "latency",
    "From the final dot to the acknowledgement, seconds of documented time",
    """
    SELECT t.run, c.candidate, c.scenario, c.clock, count(*) AS messages, min(t.reply_t - t.dot_t) AS least,
           percentile(t.reply_t - t.dot_t, 0.5) AS p50, percentile(t.reply_t - t.dot_t, 0.95) AS p95,
           percentile(t.reply_t - t.dot_t, 0.99) AS p99, max(t.reply_t - t.dot_t) AS most
    FROM transactions t JOIN cells c USING (run, cell)
    WHERE t.from_outside AND t.code BETWEEN 200 AND 299
    GROUP BY t.run, c.candidate, c.scenario, c.clock ORDER BY t.run, c.candidate, c.scenario
    """,
)

PLACEMENT = Table(
    "placement",
    "Where shadow copies were stored",
    """
    SELECT k.run, c.candidate, c.scenario, k.mode, k.primary_site, k.holder_site,
           k.primary_site = k.holder_site AS same_site, k.inside AS inside_boundary, count(*) AS copies,
           count(DISTINCT k.cell, k.key) AS messages, count(DISTINCT k.cell, k.holder) AS holders
    FROM copies k JOIN cells c USING (run, cell)
    GROUP BY k.run, c.candidate, c.scenario, k.mode, k.primary_site, k.holder_site, k.inside
    ORDER BY k.run, c.candidate, c.scenario, k.mode, k.primary_site, k.holder_site, k.inside
    """,
)

DUPLICATES = Table(
    "duplicates",
    "Messages that one sink took more than once for one recipient",
    """
    SELECT d.run, c.candidate, c.nodeid, d.sink, d.recipient, d.key AS message_id, count(*) AS copies,
           min(d.t) AS first_t, max(d.t) AS last_t, min(d.n) AS first_event, max(d.n) AS last_event
    FROM deliveries d JOIN cells c USING (run, cell)
    WHERE d.report IS NULL
    GROUP BY d.run, c.candidate, c.nodeid, d.sink, d.recipient, d.key
    HAVING count(*) > 1 ORDER BY d.run, c.candidate, c.nodeid, d.sink, d.recipient, d.key
    """,
)
"""Not every one is a fault: RFC 5321 permits duplicates where a session was lost. The verdicts say which are."""

LOSSES = Table(
    "losses",
    "Acknowledged, and neither delivered nor reported by the end",
    """
    SELECT a.run, c.candidate, c.nodeid, a.message, a.key AS message_id, a.recipient, a.server,
           min(a.acknowledged_n) AS event, c.outcome
    FROM acknowledgements a JOIN cells c USING (run, cell)
    LEFT ANTI JOIN deliveries d
      ON d.run = a.run AND d.cell = a.cell AND d.key = a.key AND d.recipient = a.recipient
    LEFT ANTI JOIN deliveries r
      ON r.run = a.run AND r.cell = a.cell AND r.report = 'delivery-status' AND r.about = a.message_id
         AND r.recipient = a.sender
    GROUP BY a.run, c.candidate, c.nodeid, a.message, a.key, a.recipient, a.server, c.outcome
    ORDER BY a.run, c.candidate, c.nodeid, a.message, a.recipient
    """,
)

FAULTS = Table(
    "faults",
    "Did the faults fire?",
    """
    SELECT e.run, c.candidate, c.scenario, e.action,
           count(DISTINCT CASE WHEN e.kind = 'fault-armed' THEN struct(e.cell, e.fault) END) AS armed,
           count(DISTINCT CASE WHEN e.kind = 'fault-fired' THEN struct(e.cell, e.fault) END) AS fired,
           count_if(e.kind = 'fault-fired') AS times
    FROM events e JOIN cells c USING (run, cell)
    WHERE e.kind = 'fault-fired' OR e.kind = 'fault-armed' AND NOT coalesce(e.healed, false)
    GROUP BY e.run, c.candidate, c.scenario, e.action ORDER BY e.run, c.candidate, c.scenario, e.action
    """,
)

RECHECKS = Table(
    "rechecks",
    "The invariants as these queries find them",
    """
    SELECT k.run, c.candidate, k.check, count_if(k.outcome = 'pass') AS passed, count_if(k.outcome = 'fail') AS failed,
           sum(k.occasions) AS occasions, sum(k.violations) AS violations
    FROM rechecks k JOIN cells c USING (run, cell)
    GROUP BY k.run, c.candidate, k.check ORDER BY k.run, c.candidate, k.check
    """,
)

DISAGREEMENTS = Table(
    "disagreements",
    "Where recorded verdicts and these queries do not agree",
    """
    SELECT k.run, c.candidate, c.nodeid, k.check, v.outcome AS recorded, k.outcome AS found, k.occasions,
           k.violations, k.evidence AS event
    FROM rechecks k JOIN cells c USING (run, cell)
    LEFT JOIN (SELECT run, cell, check,
                      CASE WHEN bool_or(outcome = 'fail') THEN 'fail' ELSE max(outcome) END AS outcome
               FROM verdicts GROUP BY run, cell, check) v
      ON v.run = k.run AND v.cell = k.cell AND v.check = k.check
    WHERE (k.outcome = 'fail') <> coalesce(v.outcome = 'fail', false) AND coalesce(v.outcome, '') <> 'inconclusive'
    ORDER BY k.run, c.candidate, c.nodeid, k.check
    """,
)
"""One of the two oracles is wrong, or the history is not what both think. What was recorded as inconclusive is none."""

TABLES = (LATENCY, PLACEMENT, DUPLICATES, LOSSES, FAULTS, RECHECKS, DISAGREEMENTS)
