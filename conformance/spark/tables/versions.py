"""Tables that compare requirements over versions of a server and over runs, of what each cell shows of each requirement.

The rules are those of `conformance.verdicts`, as SQL.
"""

from conformance.spark.tables.table import Table, columns
from conformance.verdicts import Outcome
from conformance.verdicts.changes import CellState, ChangeKind
from conformance.verdicts.sql import COUNT_COLUMNS, change_kind_sql, count_outcomes_sql, worst_outcome_sql

STANDINGS = Table(
    "standings",
    "Requirements by server and version, each cell as it was judged last",
    columns(
        f"candidate text, version text, requirement text, {COUNT_COLUMNS}, outcome text, run text, started text",
        version="the version that the candidate was run with",
        cells="how many cells have a verdict of it",
        passed="cells that pass it",
        failed="cells that violate it",
        inconclusive="cells that could not judge it",
        not_applicable="cells: not applicable",
        errors="cells that ended in an error",
        outcome="the combined outcome of these cells",
        run="the latest run that judged it",
        started="when that run began",
    ),
    ("candidate", "version", "requirement"),
    f"""
    WITH judged AS (
      SELECT *, row_number() OVER (PARTITION BY candidate, version, requirement, nodeid ORDER BY started DESC, run DESC) AS place
      FROM row_outcomes
    )
    SELECT candidate, version, requirement, count(*) AS cells, {count_outcomes_sql("outcome")},
           {worst_outcome_sql("outcome")} AS outcome, max(struct(started, run)).run AS run, max(started) AS started
    FROM judged WHERE place = 1
    GROUP BY candidate, version, requirement
    """,  # noqa: S608  # made of constants
    across=True,
)

ROW_CHANGES = Table(
    "row_changes",
    "Requirements whose verdict changed from one run to the next",
    columns(
        "run text, started text, before_run text, candidate text, version text, before_version text, requirement text, "
        "cells whole, before text, outcome text, change text",
        before_run="the latest earlier run of these cells; null: there is none",
        version="the version that the candidate was run with",
        before_version="the version in that earlier run",
        cells="how many cells are compared; where there is no earlier run, how many fail",
        before="the combined outcome of these cells, each in its latest earlier run; `absent`: there is none",
        outcome="the combined outcome of the same cells in this run",
        change="`regression`, `new`, `fixed`, `lost` or `other`",
    ),
    ("started", "run", "candidate", "requirement"),
    f"""
    WITH steps AS (
      SELECT *, lag(outcome) OVER runs_of_cell AS before, lag(started) OVER runs_of_cell AS before_started,
             lag(run) OVER runs_of_cell AS before_run, lag(version) OVER runs_of_cell AS before_version
      FROM row_outcomes
      WINDOW runs_of_cell AS (PARTITION BY candidate, nodeid, requirement ORDER BY started, run)
    ), compared AS (
      SELECT run, started, candidate, version, requirement, count(*) AS cells,
             max(struct(before_started, before_run, before_version)) AS earlier,
             {worst_outcome_sql("before")} AS before, {worst_outcome_sql("outcome")} AS outcome
      FROM steps WHERE before IS NOT NULL
      GROUP BY run, started, candidate, version, requirement
    ), first_runs AS (
      SELECT candidate, min(struct(started, run)) AS first FROM row_outcomes GROUP BY candidate
    ), changed AS (
      SELECT run, started, candidate, version, requirement, cells, earlier.before_run AS before_run,
             earlier.before_version AS before_version, before, outcome, {change_kind_sql("before", "outcome")} AS change
      FROM compared
      UNION ALL
      SELECT s.run, s.started, s.candidate, s.version, s.requirement, count(*), NULL, NULL,
             '{CellState.ABSENT}', '{Outcome.FAIL}', '{ChangeKind.NEW}'
      FROM steps s JOIN first_runs f ON f.candidate = s.candidate
      WHERE s.before IS NULL AND s.outcome = '{Outcome.FAIL}' AND struct(s.started, s.run) <> f.first
      GROUP BY s.run, s.started, s.candidate, s.version, s.requirement
    )
    SELECT run, started, before_run, candidate, version, before_version, requirement, cells, before, outcome, change
    FROM changed WHERE change IS NOT NULL
    """,  # noqa: S608
    across=True,
)
"""Only cells that an earlier run had are compared, so that a larger suite is no change; a new cell is listed where it fails and the
candidate had been run before."""

TABLES = (STANDINGS, ROW_CHANGES)
