"""Tables of verdicts: runs, candidates and scenarios, checks, requirements, failures, remarks, slowest cells, outcomes."""

from conformance.spark.tables.table import Table, columns
from conformance.verdicts import Outcome
from conformance.verdicts.changes import CellState
from conformance.verdicts.sql import (
    COMPARED_COLUMNS,
    COUNT_COLUMNS,
    count_outcomes_sql,
    outcome_for_row_sql,
    sum_counts_sql,
    worst_outcome_sql,
)

_OUTCOME_COUNTS = count_outcomes_sql("outcome")

RUNS = Table(
    "runs",
    "Runs",
    columns(
        "run text, started text, harness text, clock text, seed whole, filtered flag, cells_planned whole, "
        f"damaged whole, {COUNT_COLUMNS}, cut_short whole, wall_seconds number, simulated_seconds number",
        harness="the harness's version",
        filtered="whether only a part of the suite was selected",
        cells_planned="how many cells were planned",
        damaged="lines and files that could not be read",
        wall_seconds="of all its cells in total",
    ),
    ("started", "run"),
    f"""
    SELECT r.run, any_value(r.started) AS started, any_value(r.harness) AS harness, any_value(r.clock) AS clock,
           any_value(r.seed) AS seed, any_value(r.filtered) AS filtered, any_value(r.cells_planned) AS cells_planned,
           any_value(r.damaged) AS damaged, count(c.cell) AS cells, {_OUTCOME_COUNTS},
           count_if(c.cell IS NOT NULL AND c.outcome IS NULL) AS cut_short,
           round(coalesce(sum(c.wall_seconds), 0), 3) AS wall_seconds,
           round(coalesce(sum(c.simulated_seconds), 0), 3) AS simulated_seconds
    FROM runs r LEFT JOIN cells c ON c.run = r.run
    GROUP BY r.run
    """,  # noqa: S608  # made of constants
)

MATRIX = Table(
    "matrix",
    "Verdicts: candidates and scenarios",
    columns(
        f"run text, candidate text, scenario text, {COUNT_COLUMNS}, cut_short whole, outcome text",
        outcome="the combined outcome of these cells",
    ),
    ("run", "candidate", "scenario"),
    f"""
    SELECT run, candidate, scenario, count(*) AS cells, {_OUTCOME_COUNTS}, count_if(outcome IS NULL) AS cut_short,
           {worst_outcome_sql("outcome")} AS outcome
    FROM cells GROUP BY run, candidate, scenario
    """,  # noqa: S608
)
"""A cell that was cut short counts as inconclusive."""

CHECKS = Table(
    "checks",
    "Verdicts per check",
    columns("run text, candidate text, check text, outcome text, verdicts whole, occasions whole"),
    ("run", "candidate", "check", "outcome"),
    """
    SELECT run, candidate, check, outcome, count(*) AS verdicts, sum(coalesce(occasions, 0)) AS occasions
    FROM verdicts GROUP BY run, candidate, check, outcome
    """,
)

CELL_REQUIREMENTS = f"""
SELECT cell_id, requirement, {_OUTCOME_COUNTS}, {worst_outcome_sql("outcome")} AS outcome
FROM (SELECT v.cell_id, {outcome_for_row_sql("v.outcome", "pos", "c.outcome")} AS outcome, requirement
      FROM verdicts v JOIN cells c ON c.cell_id = v.cell_id
      LATERAL VIEW posexplode(v.requirements) named AS pos, requirement)
GROUP BY cell_id, requirement
"""  # noqa: S608  # made of constants
"""The query of the view `cell_requirements`: what the verdicts of each cell mean for each requirement that they name.

A failure counts for the first requirement that its verdict names; for the others it is inconclusive.
"""

REQUIREMENTS = Table(
    "requirements",
    "Requirements and candidates",
    columns(
        f"run text, candidate text, requirement text, {COUNT_COLUMNS}, outcome text",
        cells="how many cells have a verdict of it",
        passed="verdicts that passed",
        failed="verdicts that failed",
        inconclusive="verdicts: could not be judged",
        not_applicable="verdicts: not applicable",
        errors="verdicts: an error",
        outcome="the combined outcome of these verdicts",
    ),
    ("run", "candidate", "requirement"),
    f"""
    SELECT c.run, c.candidate, g.requirement, count(*) AS cells, {sum_counts_sql("g")}, {worst_outcome_sql("g.outcome")} AS outcome
    FROM cell_requirements g JOIN cells c ON c.cell_id = g.cell_id
    GROUP BY c.run, c.candidate, g.requirement
    """,  # noqa: S608
)
"""Verdicts are counted by cell first (`CELL_REQUIREMENTS`), which needs no shuffle."""

CANDIDATES = Table(
    "candidates",
    "Candidates of each run",
    columns(
        "run text, candidate text, kind text, version text, claims text, candidate_sha256 text",
        kind="`python`, `exec`, `docker` or `remote`",
        version="the version that it was run with",
        claims="the capabilities that it claims, separated by spaces",
    ),
    ("run", "candidate"),
    """
    SELECT run, candidate, kind, version, array_join(claims, ' ') AS claims, candidate_sha256 FROM candidates
    """,
)

FAILURES = Table(
    "failures",
    "Failures",
    columns(
        "run text, candidate text, scenario text, nodeid text, check text, requirement text, message text, "
        "moment number, event whole, sentence text, repeat text, path text",
        moment="when, in seconds of documented time since the cell began",
        requirement="the requirement that the failure counts for",
        path="the cell's file, relative to the run's folder",
    ),
    ("run", "candidate", "nodeid", "check", "message", "event", "sentence"),
    """
    SELECT v.run, c.candidate, c.scenario, c.nodeid, v.check, try_element_at(v.requirements, 1) AS requirement,
           v.failure.message, v.failure.moment, v.failure.event, v.failure.sentence, c.repeat,
           concat('cells/', c.cell,
                  CASE WHEN r.schema_number > 1 AND c.outcome IS NOT NULL THEN '.jsonl.gz' ELSE '.jsonl' END) AS path
    FROM verdicts v JOIN cells c ON c.cell_id = v.cell_id JOIN runs r ON r.run = v.run
    WHERE v.outcome = 'fail'
    """,
)

REMARKS = Table(
    "remarks",
    "Remarks: broken `should` requirements of cells that pass",
    columns(
        "run text, candidate text, scenario text, nodeid text, check text, requirement text, event whole, "
        "sentence text, repeat text"
    ),
    ("run", "candidate", "nodeid", "check", "event", "sentence"),
    """
    SELECT v.run, c.candidate, c.scenario, c.nodeid, v.check, try_element_at(v.requirements, 1) AS requirement,
           v.failure.event, v.failure.sentence, c.repeat
    FROM verdicts v JOIN cells c ON c.cell_id = v.cell_id
    WHERE v.remark
    """,
)

SLOWEST = Table(
    "slowest",
    "The slowest cells of each run",
    columns(
        "run text, place whole, candidate text, nodeid text, wall_seconds number, cpu_seconds number, "
        "simulated_seconds number, events whole",
        place="rank from 1, the slowest, to 20",
        events="events of its history",
    ),
    ("run", "place"),
    """
    SELECT run, place, candidate, nodeid, wall_seconds, cpu_seconds, simulated_seconds, events
    FROM (SELECT *, row_number() OVER (PARTITION BY run ORDER BY wall_seconds DESC, nodeid, candidate) AS place
          FROM cells WHERE wall_seconds IS NOT NULL)
    WHERE place <= 20
    """,
)

OUTCOMES = Table(
    "outcomes",
    "The outcome of each cell",
    columns(
        "run text, started text, filtered flag, candidate text, nodeid text, outcome text, state text, "
        "candidate_sha256 text, scenario_sha256 text, environment_sha256 text, seed whole, clock text, scale number, "
        "tolerance number, should text",
        started="when the run began",
        filtered="whether only a part of the suite was selected",
        state="the outcome, or `remark` for a pass with a remark",
        scale="documented seconds for one second of the clock `scaled`",
        tolerance="seconds, documented time: how late is not yet wrong",
        should="what a broken `should` row does: `warn` or `fail`",
    ),
    (),
    f"""
    SELECT c.run, r.started, r.filtered, c.candidate, c.nodeid, c.outcome,
           if(c.outcome = '{Outcome.PASS}' AND m.cell_id IS NOT NULL, '{CellState.REMARK}', c.outcome) AS state,
           {", ".join(f"c.{column}" for column in COMPARED_COLUMNS)}
    FROM cells c JOIN runs r ON r.run = c.run
    LEFT JOIN (SELECT DISTINCT cell_id FROM verdicts WHERE remark) m ON m.cell_id = c.cell_id
    WHERE c.outcome IS NOT NULL
    """,  # noqa: S608
    internal=True,
)
"""The source of the tables that compare all runs; not exported."""

ROW_OUTCOMES = Table(
    "row_outcomes",
    "What each cell shows of each requirement",
    columns(
        "run text, started text, candidate text, version text, nodeid text, requirement text, outcome text",
        started="when the run began",
        version="the version that the candidate was run with",
    ),
    (),
    """
    SELECT c.run, r.started, c.candidate, coalesce(p.version, 'unknown') AS version, c.nodeid, g.requirement, g.outcome
    FROM cell_requirements g JOIN cells c ON c.cell_id = g.cell_id JOIN runs r ON r.run = c.run
    LEFT JOIN candidates p ON p.run = c.run AND p.candidate = c.candidate
    WHERE c.outcome IS NOT NULL
    """,
    internal=True,
)
"""The source of the tables that compare requirements over runs; not exported. Several candidates of one cell have the version `several`."""

TABLES = (RUNS, CANDIDATES, MATRIX, CHECKS, REQUIREMENTS, FAILURES, REMARKS, SLOWEST)
