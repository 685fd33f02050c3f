"""Tables of what the histories show: latency, placement, duplicates, losses, faults, axes, and invariants with disagreements."""

from conformance.spark.tables.table import Table, columns
from conformance.verdicts.outcome import WITHIN_A_CELL
from conformance.verdicts.sql import worst_outcome_sql

LATENCY = Table(
    "latency",
    "From the final dot to the acknowledgement, seconds of documented time",
    columns(
        "run text, candidate text, scenario text, clock text, messages whole, least number, p50 number, p95 number, "
        "p99 number, most number",
        messages="how many were acknowledged",
        least="the quickest",
        p50="half are quicker",
        p95="95 of 100 are quicker",
        p99="99 of 100 are quicker",
        most="the slowest",
    ),
    ("run", "candidate", "scenario", "clock"),
    """
    SELECT c.run, c.candidate, c.scenario, c.clock, count(*) AS messages, min(t.reply_t - t.dot_t) AS least,
           percentile(t.reply_t - t.dot_t, 0.5) AS p50, percentile(t.reply_t - t.dot_t, 0.95) AS p95,
           percentile(t.reply_t - t.dot_t, 0.99) AS p99, max(t.reply_t - t.dot_t) AS most
    FROM mail_transactions t JOIN cells c ON c.cell_id = t.cell_id
    WHERE t.from_outside AND t.code BETWEEN 200 AND 299
    GROUP BY c.run, c.candidate, c.scenario, c.clock
    """,
)

PLACEMENT = Table(
    "placement",
    "Where shadow copies were stored",
    columns(
        "run text, candidate text, scenario text, mode text, primary_site text, holder_site text, same_site flag, "
        "inside_boundary flag, copies whole, messages whole, holders whole",
        mode="`shadow` (2013 and later) or `tracked` (2010)",
        primary_site="the site of the primary server",
        holder_site="the site of the server that holds the copy",
        same_site="whether the two sites are the same",
        inside_boundary="whether the copy is inside the boundary",
        copies="how many copies",
        messages="of how many messages",
        holders="how many servers hold one, summed over cells",
    ),
    ("run", "candidate", "scenario", "mode", "primary_site", "holder_site", "inside_boundary"),
    """
    SELECT c.run, c.candidate, c.scenario, k.mode, k.primary_site, k.holder_site,
           k.primary_site = k.holder_site AS same_site, k.inside AS inside_boundary, count(*) AS copies,
           count(DISTINCT struct(k.cell_id, k.key)) AS messages, count(DISTINCT struct(k.cell_id, k.holder)) AS holders
    FROM shadow_copies k JOIN cells c ON c.cell_id = k.cell_id
    GROUP BY c.run, c.candidate, c.scenario, k.mode, k.primary_site, k.holder_site, k.inside
    """,
)

DUPLICATES = Table(
    "duplicates",
    "Messages that one sink took more than once for one recipient",
    columns(
        "run text, candidate text, nodeid text, sink text, recipient text, message_id text, copies whole, "
        "first_t number, last_t number, first_event whole, last_event whole",
        sink="the sink",
        copies="how many deliveries",
        first_t="time of the first delivery, in seconds of documented time",
        last_t="time of the last one",
        first_event="number of the first delivery's event",
        last_event="number of the last delivery's event",
    ),
    ("run", "candidate", "nodeid", "sink", "recipient", "message_id"),
    """
    SELECT c.run, c.candidate, c.nodeid, d.sink, d.recipient, d.key AS message_id, count(*) AS copies,
           min(d.t) AS first_t, max(d.t) AS last_t, min(d.n) AS first_event, max(d.n) AS last_event
    FROM deliveries d JOIN cells c ON c.cell_id = d.cell_id
    WHERE d.report IS NULL
    GROUP BY c.run, c.candidate, c.nodeid, d.sink, d.recipient, d.key
    HAVING count(*) > 1
    """,
)
"""Not each is a violation: RFC 5321 permits duplicates after a lost session. The verdicts tell which are."""

LOSSES = Table(
    "losses",
    "Acknowledged, and neither delivered nor reported by the end",
    columns(
        "run text, candidate text, nodeid text, message text, message_id text, recipient text, server text, "
        "event whole, outcome text",
        server="the server that acknowledged it",
        event="number of the acknowledgement's event",
        outcome="of the cell",
    ),
    ("run", "candidate", "nodeid", "message", "recipient", "server"),
    """
    SELECT c.run, c.candidate, c.nodeid, a.message, a.key AS message_id, a.recipient, a.server,
           min(a.acknowledged_n) AS event, c.outcome
    FROM acknowledgements a JOIN cells c ON c.cell_id = a.cell_id
    LEFT ANTI JOIN deliveries d
      ON d.cell_id = a.cell_id AND d.key = a.key AND d.recipient = a.recipient
    LEFT ANTI JOIN deliveries r
      ON r.cell_id = a.cell_id AND r.report = 'delivery-status' AND r.about = a.message_id
         AND r.recipient = a.sender
         AND (array_contains(r.failed, a.recipient) OR size(r.failed) = 0 AND r.action = 'failed')
    GROUP BY c.run, c.candidate, c.nodeid, a.message, a.key, a.recipient, a.server, c.outcome
    """,
)

FAULTS = Table(
    "faults",
    "Did the faults fire?",
    columns(
        "run text, candidate text, scenario text, action text, armed whole, fired whole, times whole",
        armed="faults that were armed",
        fired="faults that fired",
        times="how often they fired in total",
    ),
    ("run", "candidate", "scenario", "action"),
    """
    SELECT c.run, c.candidate, c.scenario, e.action,
           count(DISTINCT CASE WHEN e.mode = 'fault-armed' THEN struct(e.cell_id, e.fault) END) AS armed,
           count(DISTINCT CASE WHEN e.mode = 'fault-fired' THEN struct(e.cell_id, e.fault) END) AS fired,
           count_if(e.mode = 'fault-fired') AS times
    FROM single_events e JOIN cells c ON c.cell_id = e.cell_id
    WHERE e.kind = 'incident' AND (e.mode = 'fault-fired' OR e.mode = 'fault-armed' AND NOT coalesce(e.healed, false))
    GROUP BY c.run, c.candidate, c.scenario, e.action
    """,
)

COVERAGE = Table(
    "coverage",
    "Pairs of axis values that were reached",
    columns(
        "run text, candidate text, scenario text, axes whole, cells whole, pairs_reached whole, pairs_possible whole, "
        "reached number",
        axes="how many axes it varies",
        cells="how many cells",
        pairs_reached="pairs of values of two axes that a judged cell has",
        pairs_possible="pairs of the values that occur",
        reached="pairs_reached divided by pairs_possible",
    ),
    ("run", "candidate", "scenario"),
    """
    WITH axes_of_cells AS (
      SELECT run, candidate, scenario, outcome IN ('pass', 'fail') AS judged,
             map_entries(axes) AS axes
      FROM cells WHERE axes IS NOT NULL
    ), axis_pairs AS (
      SELECT run, candidate, scenario, axes,
             CASE WHEN judged THEN flatten(transform(axes, a -> transform(filter(axes, b -> a.key < b.key),
               b -> named_struct('first', a, 'second', b)))) ELSE array() END AS pairs
      FROM axes_of_cells
    ), by_scenario AS (
      SELECT run, candidate, scenario, count_if(size(axes) > 1) AS cells,
             array_distinct(flatten(collect_list(axes))) AS axis_values,
             size(array_distinct(flatten(collect_list(pairs)))) AS pairs_reached
      FROM axis_pairs GROUP BY run, candidate, scenario
    ), counted AS (
      SELECT run, candidate, scenario, cells, pairs_reached,
             size(array_distinct(transform(axis_values, a -> a.key))) AS axes,
             size(flatten(transform(axis_values, a -> filter(axis_values, b -> a.key < b.key)))) AS pairs_possible
      FROM by_scenario WHERE cells > 0
    )
    SELECT run, candidate, scenario, axes, cells, pairs_reached, pairs_possible,
           round(pairs_reached / pairs_possible, 6) AS reached
    FROM counted
    """,
)
"""Pairs of the values that occur in the run: a value that no cell has is not counted."""

RECHECKS = Table(
    "rechecks",
    "The invariants as judged by these queries",
    columns(
        "run text, candidate text, check text, passed whole, failed whole, undecided whole, occasions whole, "
        "violations whole",
        passed="cells in which the invariant holds",
        undecided="cells in which these queries cannot decide it",
        failed="cells in which it is violated",
        violations="how often it is violated",
    ),
    ("run", "candidate", "check"),
    """
    SELECT c.run, c.candidate, k.check, count_if(k.outcome = 'pass') AS passed,
           count_if(k.outcome = 'fail') AS failed, count_if(k.outcome = 'inconclusive') AS undecided,
           sum(k.occasions) AS occasions, sum(k.violations) AS violations
    FROM rechecks k JOIN cells c ON c.cell_id = k.cell_id
    GROUP BY c.run, c.candidate, k.check
    """,
)

DISAGREEMENTS = Table(
    "disagreements",
    "Where recorded verdicts and these queries disagree",
    columns(
        "run text, candidate text, nodeid text, check text, recorded text, found text, occasions whole, "
        "violations whole, event whole",
        recorded="the recorded verdict; null: there is none",
        found="the verdict of the queries",
        violations="how often the queries find it violated",
    ),
    ("run", "candidate", "nodeid", "check"),
    f"""
    SELECT c.run, c.candidate, c.nodeid, k.check, v.outcome AS recorded, k.outcome AS found, k.occasions,
           k.violations, k.evidence AS event
    FROM rechecks k JOIN cells c ON c.cell_id = k.cell_id
    LEFT JOIN (SELECT cell_id, check, {worst_outcome_sql("outcome", WITHIN_A_CELL)} AS outcome
               FROM verdicts WHERE check LIKE 'invariant.%' GROUP BY cell_id, check) v
      ON v.cell_id = k.cell_id AND v.check = k.check
    WHERE k.outcome <> 'inconclusive' AND (k.outcome = 'fail') <> coalesce(v.outcome = 'fail', false) AND coalesce(v.outcome, '')
    <> 'inconclusive'
    """,  # noqa: S608  # made of constants
)
"""In each row one of the two oracles is wrong, or both read the history differently. What either finds inconclusive is left out."""

TABLES = (LATENCY, PLACEMENT, DUPLICATES, LOSSES, FAULTS, COVERAGE, RECHECKS, DISAGREEMENTS)
