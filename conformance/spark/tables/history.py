"""What changed from run to run, and cells that pass and fail although nothing changed.

The rules are those of `conformance.verdicts`, as SQL.
"""

from conformance.spark.tables.table import Table, columns
from conformance.verdicts import Outcome
from conformance.verdicts.changes import FLAKY as OUTCOMES_OF_FLAKY
from conformance.verdicts.changes import CellState, ChangeKind
from conformance.verdicts.sql import COMPARED_COLUMNS, change_causes_sql, change_kind_sql

_BEFORE = ", ".join(f"lag(c.{one}) OVER one AS before_{one}" for one in COMPARED_COLUMNS)
_RECORDED = ", ".join(COMPARED_COLUMNS)
_DECIDED = ", ".join(sorted(f"'{one}'" for one in OUTCOMES_OF_FLAKY))

CHANGES = Table(
    "changes",
    "What changed from one run to the next, and what may have caused it",
    columns(
        "run text, started text, before_run text, candidate text, nodeid text, before text, outcome text, change text, "
        "cause text, standing flag",
        before_run="the latest earlier run that has the cell; nothing: there is none",
        before="its state there: an outcome, `remark` (a pass with a remark) or `absent`",
        outcome="its state in this run, as in `before`",
        change="`regression`, `new`, `fixed`, `lost` or `other`",
        cause="`candidate`, `suite`, `environment`, `settings`, several with `+`; `unexplained` when nothing recorded "
        "differs; nothing for an absent cell",
        standing="nothing has changed since",
    ),
    ("started", "run", "candidate", "nodeid"),
    f"""
    WITH ordered AS (
      SELECT c.place, c.candidate, c.nodeid, c.started, c.run, c.state, {_RECORDED},
             lag(c.run) OVER one AS before_run, lag(c.started) OVER one AS before_started,
             lag(c.state) OVER one AS before, lead(c.run) OVER one IS NULL AS latest, {_BEFORE}
      FROM (SELECT *, xxhash64(candidate, nodeid) AS place FROM outcomes) c
      WINDOW one AS (PARTITION BY c.place, c.candidate, c.nodeid ORDER BY c.started, c.run)
    ), spans AS (
      SELECT candidate, min(struct(started, run)) AS first,
             max(CASE WHEN NOT filtered THEN struct(started, run) END) AS last
      FROM outcomes GROUP BY candidate
    ), steps AS (
      SELECT o.place, o.candidate, o.nodeid, o.started, o.run, o.before_run, coalesce(o.before, '{CellState.ABSENT}') AS before,
             o.state AS outcome, CASE WHEN o.before IS NOT NULL THEN {change_causes_sql("o.before_{}", "o.{}")} END AS causes
      FROM ordered o JOIN spans s ON s.candidate = o.candidate
      WHERE o.before IS NOT NULL OR struct(o.started, o.run) <> s.first
      UNION ALL
      SELECT o.place, o.candidate, o.nodeid, s.last.started, s.last.run, o.run, o.state, '{CellState.ABSENT}', NULL
      FROM ordered o JOIN spans s ON s.candidate = o.candidate
      WHERE o.latest AND struct(o.started, o.run) < s.last
    ), named AS (
      SELECT *, {change_kind_sql("before", "outcome")} AS change FROM steps
    )
    SELECT run, started, before_run, candidate, nodeid, before, outcome, change,
           if(causes = '', 'unexplained', causes) AS cause,
           row_number() OVER (PARTITION BY place, candidate, nodeid ORDER BY started DESC, run DESC) = 1 AS standing
    FROM named
    WHERE change IS NOT NULL
      AND ('{CellState.ABSENT}' NOT IN (before, outcome) OR change IN ('{ChangeKind.NEW}', '{ChangeKind.LOST}'))
    """,  # noqa: S608  # made of constants
    across=True,
)
"""`standing`: nothing has changed since. A cell that no run of the candidate had before is listed only when it fails, and
a cell that the candidate's latest run of the whole suite lacks only when it passed before.

`place` only makes sorting cheap: names of cells begin alike.
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
        low="of its 95 % Wilson score interval, the lower end",
        high="and the upper",
        scale="documented seconds for one second of the clock `scaled`",
        tolerance="seconds, documented time: how late is not yet wrong",
        should="what a broken `should` row does: `warn` or `fail`",
    ),
    ("candidate", "nodeid", *COMPARED_COLUMNS),
    f"""
    WITH counted AS (
      SELECT candidate, nodeid, {_RECORDED}, count(*) AS runs, count_if(outcome = '{Outcome.FAIL}') AS failures
      FROM outcomes WHERE outcome IN ({_DECIDED})
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
"""With the Wilson score interval, 95 %, of the failure rate."""

TABLES = (CHANGES, FLAKY)
