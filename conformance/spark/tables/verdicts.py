"""What was found: runs, the matrix of candidates and scenarios, counts per check, the ledger of requirements."""

from conformance.spark.tables.table import Table

RUNS = Table(
    "runs",
    "Runs",
    """
    SELECT r.run, r.started, r.harness, r.clock, r.seed, r.filtered, r.cells_planned, r.damaged,
           count(c.cell) AS cells,
           count_if(c.outcome = 'pass') AS passed, count_if(c.outcome = 'fail') AS failed,
           count_if(c.outcome = 'inconclusive') AS inconclusive,
           count_if(c.outcome = 'not-applicable') AS not_applicable, count_if(c.outcome = 'error') AS errors,
           count_if(c.cell IS NOT NULL AND c.outcome IS NULL) AS cut_short,
           round(sum(c.wall_seconds), 3) AS wall_seconds, round(sum(c.simulated_seconds), 3) AS simulated_seconds
    FROM runs r LEFT JOIN cells c USING (run)
    GROUP BY ALL
    ORDER BY r.started, r.run
    """,
)

MATRIX = Table(
    "matrix",
    "Verdicts: candidates and scenarios",
    """
    SELECT run, candidate, scenario, count(*) AS cells,
           count_if(outcome = 'pass') AS passed, count_if(outcome = 'fail') AS failed,
           count_if(outcome = 'inconclusive') AS inconclusive,
           count_if(outcome = 'not-applicable') AS not_applicable, count_if(outcome = 'error') AS errors,
           count_if(outcome IS NULL) AS cut_short,
           CASE WHEN bool_or(outcome = 'error') THEN 'error' WHEN bool_or(outcome = 'fail') THEN 'fail'
                WHEN bool_or(outcome IS NULL OR outcome = 'inconclusive') THEN 'inconclusive'
                WHEN bool_or(outcome = 'pass') THEN 'pass' ELSE 'not-applicable' END AS outcome
    FROM cells GROUP BY run, candidate, scenario ORDER BY run, candidate, scenario
    """,
)
"""A cell that was cut short is inconclusive: an error above a failure above what could not be judged above a pass."""

CHECKS = Table(
    "checks",
    "Verdicts per check",
    """
    SELECT v.run, c.candidate, v.check, v.outcome, count(*) AS verdicts, sum(v.occasions) AS occasions
    FROM verdicts v JOIN cells c USING (run, cell)
    GROUP BY v.run, c.candidate, v.check, v.outcome ORDER BY v.run, c.candidate, v.check, v.outcome
    """,
)

LEDGER = Table(
    "requirements",
    "Requirements and candidates",
    """
    SELECT run, candidate, requirement, count(DISTINCT cell) AS cells,
           count_if(outcome = 'pass') AS passed, count_if(outcome = 'fail') AS failed,
           count_if(outcome = 'inconclusive') AS inconclusive, count_if(outcome = 'not-applicable') AS not_applicable,
           count_if(outcome = 'error') AS errors,
           CASE WHEN bool_or(outcome = 'fail') THEN 'fail' WHEN bool_or(outcome = 'pass') THEN 'pass'
                WHEN bool_or(outcome IN ('error', 'inconclusive')) THEN 'inconclusive'
                ELSE 'not-applicable' END AS outcome
    FROM (SELECT v.run, v.cell, c.candidate, v.outcome,
                 explode(CASE WHEN v.outcome = 'fail' THEN slice(v.requirements, 1, 1) ELSE v.requirements END)
                   AS requirement
          FROM verdicts v JOIN cells c USING (run, cell))
    GROUP BY run, candidate, requirement ORDER BY run, candidate, requirement
    """,
)
"""A failure is laid to the first requirement that its verdict names; the others only come with it."""

FAILURES = Table(
    "failures",
    "Failures",
    """
    SELECT v.run, c.candidate, c.scenario, c.nodeid, v.check, try_element_at(v.requirements, 1) AS requirement,
           v.message, v.moment, try_element_at(v.evidence, 1) AS event, v.sentence, c.repeat
    FROM (SELECT * FROM verdicts WHERE outcome = 'fail') v
    JOIN cells c USING (run, cell)
    ORDER BY v.run, c.candidate, c.nodeid, v.check, v.message
    """,
)

SLOWEST = Table(
    "slowest",
    "The slowest cells of each run",
    """
    SELECT run, place, candidate, nodeid, wall_seconds, cpu_seconds, simulated_seconds, events
    FROM (SELECT *, row_number() OVER (PARTITION BY run ORDER BY wall_seconds DESC, nodeid, candidate) AS place
          FROM cells WHERE wall_seconds IS NOT NULL)
    WHERE place <= 20 ORDER BY run, place
    """,
)

TABLES = (RUNS, MATRIX, CHECKS, LEDGER, FAILURES, SLOWEST)
