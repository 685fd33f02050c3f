"""What changed from run to run: regressions and mends with their cause, and cells that cannot make up their mind."""

from conformance.spark.tables.table import Table, columns

CHANGES = Table(
    "changes",
    "What changed from one run to the next, and what did it",
    columns(
        "run text, started text, before_run text, candidate text, nodeid text, before text, outcome text, change text, "
        "cause text, standing flag",
        before_run="the run before that has the cell",
        before="its outcome there",
        change="`regression`, `mend` or `other`",
        cause="`candidate`, `suite`, `environment`, several with `+`; `unexplained` when no hash differs",
        standing="nothing has changed since",
    ),
    ("started", "run", "candidate", "nodeid"),
    """
    WITH ordered AS (
      SELECT c.place, c.candidate, c.nodeid, c.started, c.run, c.outcome, c.scenario_sha256, c.candidate_sha256,
             c.environment_sha256, lag(c.run) OVER one AS before_run, lag(c.outcome) OVER one AS before,
             lag(c.scenario_sha256) OVER one AS before_scenario, lag(c.candidate_sha256) OVER one AS before_candidate,
             lag(c.environment_sha256) OVER one AS before_environment
      FROM (SELECT *, xxhash64(candidate, nodeid) AS place FROM outcomes) c
      WINDOW one AS (PARTITION BY c.place, c.candidate, c.nodeid ORDER BY c.started, c.run)
    ), told AS (
      SELECT *, concat_ws('+', CASE WHEN candidate_sha256 <> before_candidate THEN 'candidate' END,
                               CASE WHEN scenario_sha256 <> before_scenario THEN 'suite' END,
                               CASE WHEN environment_sha256 <> before_environment THEN 'environment' END) AS causes
      FROM ordered WHERE before IS NOT NULL AND outcome <> before
    )
    SELECT run, started, before_run, candidate, nodeid, before, outcome,
           CASE WHEN outcome = 'fail' THEN 'regression' WHEN before = 'fail' AND outcome = 'pass' THEN 'mend'
                WHEN before = 'pass' AND outcome IN ('error', 'inconclusive') THEN 'regression'
                ELSE 'other' END AS change,
           if(causes = '', 'unexplained', causes) AS cause,
           row_number() OVER (PARTITION BY place, candidate, nodeid ORDER BY started DESC, run DESC) = 1 AS standing
    FROM told
    """,
    across=True,
)
"""`standing`: nothing has changed since. A change that no hash explains is a cell that is flaky.

`place` only makes sorting cheap: names of cells begin alike.
"""

FLAKY = Table(
    "flaky",
    "Cells that passed and failed with nothing changed",
    columns(
        "candidate text, nodeid text, runs whole, failures whole, seeds whole, rate number, low number, high number, "
        "scenario_sha256 text, candidate_sha256 text, environment_sha256 text",
        runs="in how many runs it passed or failed",
        failures="in how many of them it failed",
        seeds="with how many seeds",
        rate="how often it fails",
        low="of its 95 % Wilson score interval, the lower end",
        high="and the upper",
    ),
    ("candidate", "nodeid", "scenario_sha256", "candidate_sha256", "environment_sha256"),
    """
    WITH counted AS (
      SELECT candidate, nodeid, scenario_sha256, candidate_sha256, environment_sha256,
             count_if(outcome IN ('pass', 'fail')) AS runs, count_if(outcome = 'fail') AS failures,
             count(DISTINCT seed) AS seeds
      FROM outcomes
      GROUP BY candidate, nodeid, scenario_sha256, candidate_sha256, environment_sha256
    ), rated AS (
      SELECT *, failures / runs AS rate, 3.841458820694124D / runs AS zz_n  -- z squared over n, for 95 %
      FROM counted WHERE failures > 0 AND failures < runs
    )
    SELECT candidate, nodeid, runs, failures, seeds, round(rate, 6) AS rate,
           round((rate + zz_n / 2 - sqrt(zz_n * (rate * (1 - rate) + zz_n / 4))) / (1 + zz_n), 6) AS low,
           round((rate + zz_n / 2 + sqrt(zz_n * (rate * (1 - rate) + zz_n / 4))) / (1 + zz_n), 6) AS high,
           scenario_sha256, candidate_sha256, environment_sha256
    FROM rated
    """,
    across=True,
)
"""With the Wilson score interval, 95 %, of the failure rate."""

TABLES = (CHANGES, FLAKY)
