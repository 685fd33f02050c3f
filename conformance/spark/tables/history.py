"""Tables that compare all runs: what changed from one run to the next, and flaky cells.

The rules are those of `conformance.verdicts`, as SQL.
"""

from conformance.spark.tables.table import Table, columns
from conformance.verdicts import Outcome
from conformance.verdicts.changes import FLAKY as OUTCOMES_OF_FLAKY
from conformance.verdicts.changes import CellState, ChangeKind
from conformance.verdicts.sql import COMPARED_COLUMNS, change_causes_sql, change_kind_sql

_PREVIOUS_VALUES = ", ".join(f"lag(c.{column}) OVER runs_of_cell AS before_{column}" for column in COMPARED_COLUMNS)
_RECORDED = ", ".join(COMPARED_COLUMNS)
_FLAKY_OUTCOMES = ", ".join(sorted(f"'{outcome}'" for outcome in OUTCOMES_OF_FLAKY))

CHANGES = Table(
    "changes",
    "What changed from one run to the next, and what may have caused it",
    columns(
        "run text, started text, before_run text, candidate text, nodeid text, before text, outcome text, change text, "
        "cause text, standing flag",
        before_run="the latest earlier run that has the cell; null: there is none",
        before="the cell's state in that run: an outcome, `remark` (a pass with a remark) or `absent`",
        outcome="the cell's state in this run, in the same words",
        change="`regression`, `new`, `fixed`, `lost` or `other`",
        cause="`candidate`, `suite`, `environment`, `settings`, several with `+`; `unexplained` when nothing recorded "
        "differs; null for an absent cell",
        standing="whether this is the cell's latest change",
    ),
    ("started", "run", "candidate", "nodeid"),
    f"""
    WITH ordered AS (
      SELECT c.cell_hash, c.candidate, c.nodeid, c.started, c.run, c.state, {_RECORDED},
             lag(c.run) OVER runs_of_cell AS before_run, lag(c.started) OVER runs_of_cell AS before_started,
             lag(c.state) OVER runs_of_cell AS before, lead(c.run) OVER runs_of_cell IS NULL AS latest, {_PREVIOUS_VALUES}
      FROM (SELECT *, xxhash64(candidate, nodeid) AS cell_hash FROM outcomes) c
      WINDOW runs_of_cell AS (PARTITION BY c.cell_hash, c.candidate, c.nodeid ORDER BY c.started, c.run)
    ), spans AS (
      SELECT candidate, min(struct(started, run)) AS first,
             max(CASE WHEN NOT filtered THEN struct(started, run) END) AS last
      FROM outcomes GROUP BY candidate
    ), steps AS (
      SELECT o.cell_hash, o.candidate, o.nodeid, o.started, o.run, o.before_run, coalesce(o.before, '{CellState.ABSENT}') AS before,
             o.state AS outcome, CASE WHEN o.before IS NOT NULL THEN {change_causes_sql("o.before_{}", "o.{}")} END AS causes
      FROM ordered o JOIN spans s ON s.candidate = o.candidate
      WHERE o.before IS NOT NULL OR struct(o.started, o.run) <> s.first
      UNION ALL
      SELECT o.cell_hash, o.candidate, o.nodeid, s.last.started, s.last.run, o.run, o.state, '{CellState.ABSENT}', NULL
      FROM ordered o JOIN spans s ON s.candidate = o.candidate
      WHERE o.latest AND struct(o.started, o.run) < s.last
    ), named AS (
      SELECT *, {change_kind_sql("before", "outcome")} AS change FROM steps
    )
    SELECT run, started, before_run, candidate, nodeid, before, outcome, change,
           if(causes = '', 'unexplained', causes) AS cause,
           row_number() OVER (PARTITION BY cell_hash, candidate, nodeid ORDER BY started DESC, run DESC) = 1 AS standing
    FROM named
    WHERE change IS NOT NULL
      AND ('{CellState.ABSENT}' NOT IN (before, outcome) OR change IN ('{ChangeKind.NEW}', '{ChangeKind.LOST}'))
    """,  # noqa: S608  # made of constants
    across=True,
)
"""A cell that no earlier run of the candidate had is listed only when it fails, and a cell that the candidate's latest run of
the whole suite lacks only when it passed before.

`cell_hash` makes sorting cheap, since the names of many cells begin with the same characters.
"""

FLAKY = Table(
    "flaky",
    "Cells that passed and failed although nothing recorded differs",
    columns(
        "candidate text, nodeid text, runs whole, failures whole, rate number, low number, high number, "
        "candidate_sha256 text, scenario_sha256 text, environment_sha256 text, seed whole, clock text, scale number, "
        "tolerance number, should text",
        runs="in how many runs it passed or failed",
        failures="in how many of them it failed",
        rate="how often it fails",
        low="lower end of the rate's 95 % Wilson score interval",
        high="upper end of that interval",
        scale="documented seconds for one second of the clock `scaled`",
        tolerance="seconds, documented time: how late is not yet wrong",
        should="what a broken `should` row does: `warn` or `fail`",
    ),
    ("candidate", "nodeid", *COMPARED_COLUMNS),
    f"""
    WITH counted AS (
      SELECT candidate, nodeid, {_RECORDED}, count(*) AS runs, count_if(outcome = '{Outcome.FAIL}') AS failures
      FROM outcomes WHERE outcome IN ({_FLAKY_OUTCOMES})
      GROUP BY candidate, nodeid, {_RECORDED}
    ), rated AS (
      SELECT *, failures / runs AS rate, 3.841458820694124D / runs AS zz_n  -- z squared over n, for 95 %
      FROM counted WHERE failures > 0 AND failures < runs
    )
    SELECT candidate, nodeid, runs, failures, round(rate, 6) AS rate,
           round((rate + zz_n / 2 - sqrt(zz_n * (rate * (1 - rate) + zz_n / 4))) / (1 + zz_n), 6) AS low,
           round((rate + zz_n / 2 + sqrt(zz_n * (rate * (1 - rate) + zz_n / 4))) / (1 + zz_n), 6) AS high,
           {_RECORDED}
    FROM rated
    """,  # noqa: S608
    across=True,
)

TABLES = (CHANGES, FLAKY)
