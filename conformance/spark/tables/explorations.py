"""Tables of what explorations were worth, and of what they found, over all explorations of a candidate.

They are queries over the views `explored` and `found` (`conformance.spark.explorations`).
"""

from conformance.spark.tables.table import Table, columns

_ORDERED = "(e.started, e.exploration)"

EXPLORATIONS = Table(
    "explorations",
    "Explorations, and what they were worth",
    columns(
        "exploration text, started text, candidate text, version text, method text, scenarios text, seed whole, clock text, "
        "plans whole, sound whole, violated whole, unfinished whole, inapplicable whole, enumerated whole, pruned whole, not_run whole, "
        "drawn whole, fired whole, fired_share number, states whole, transitions whole, new_states_per_100_plans number, "
        "sometimes whole, seen whole, never_seen text, findings whole, new_findings whole, wall_seconds number, plans_per_second number, "
        "candidate_sha256 text",
        exploration="the exploration's name",
        version="the version that the candidate was explored with",
        method="`sweep-1`, `sweep-2` or `random`",
        scenarios="the scenarios that were named, separated by spaces",
        seed="the exploration's seed",
        started="when it began: UTC, ISO 8601",
        plans="how many plans were run",
        sound="of them violated no rule",
        violated="of them violated a rule",
        unfinished="of them could not be run to their end",
        inapplicable="of them the candidate cannot take part in",
        enumerated="how many plans a sweep has, with those left out",
        pruned="of them left out, for reasons that the page has",
        not_run="of them not run, for lack of time or because fewer were asked for",
        drawn="how many faults the plans had",
        fired="of them acted",
        fired_share="which share of them acted",
        states="how many distinct abstract states were seen",
        transitions="how many distinct transitions between them",
        new_states_per_100_plans="how many new states the next 100 plans should show (Good and Turing)",
        sometimes="how many sometimes properties there are",
        seen="of them were seen",
        never_seen="the others, separated by `; `",
        findings="how many checks failed",
        new_findings="of them failed in no earlier exploration of the candidate",
        wall_seconds="seconds of real time in which plans were run",
        plans_per_second="plans for each of them",
    ),
    ("started", "exploration"),
    f"""
    WITH first_found AS (
      SELECT e.candidate, f.check, f.requirement, min(struct{_ORDERED}) AS first
      FROM found f JOIN explored e ON e.exploration = f.exploration
      GROUP BY e.candidate, f.check, f.requirement
    ), counted AS (
      SELECT e.exploration, count(*) AS findings, count_if(o.first = struct{_ORDERED}) AS new_findings
      FROM found f JOIN explored e ON e.exploration = f.exploration
      JOIN first_found o ON o.candidate = e.candidate AND o.check = f.check AND o.requirement = f.requirement
      GROUP BY e.exploration
    )
    SELECT e.exploration, e.started, e.candidate, e.version, e.method, e.scenarios, e.seed, e.clock, e.plans, e.sound, e.violated,
           e.unfinished, e.inapplicable, e.enumerated, e.pruned, e.not_run, e.faults AS drawn, e.fired,
           if(e.faults = 0, NULL, round(e.fired / e.faults, 6)) AS fired_share, e.states, e.transitions, e.new_states_per_100_plans,
           e.sometimes, e.seen, e.never_seen, coalesce(c.findings, 0) AS findings, coalesce(c.new_findings, 0) AS new_findings,
           e.wall_seconds, if(e.wall_seconds = 0, NULL, round(e.plans / e.wall_seconds, 3)) AS plans_per_second, e.candidate_sha256
    FROM explored e LEFT JOIN counted c ON c.exploration = e.exploration
    """,  # noqa: S608  # made of constants
    across=True,
)

FINDINGS = Table(
    "findings",
    "What explorations found",
    columns(
        "exploration text, started text, candidate text, version text, method text, seed whole, check text, requirement text, "
        "plan text, plans whole, sentence text, file text, original text, steps whole, faults whole, messages whole, servers whole, "
        "original_steps whole, original_faults whole, original_messages whole, original_servers whole, first_exploration text, "
        "explorations whole",
        exploration="the exploration's name",
        started="when it began: UTC, ISO 8601",
        version="the version that the candidate was explored with",
        method="`sweep-1`, `sweep-2` or `random`",
        seed="the exploration's seed",
        check="the check that failed",
        requirement="the row of the requirement catalogue that it blames",
        plan="the first plan in which it failed",
        plans="in how many plans it failed first",
        file="the reduced plan: a scenario file in the exploration's folder",
        original="the plan as it was run: a scenario file there too",
        steps="steps of the reduced plan",
        faults="of them faults",
        messages="messages that it sends",
        servers="servers that it has",
        original_steps="steps of the plan as it was run",
        original_faults="of them faults",
        original_messages="messages that it sends",
        original_servers="servers that it has",
        first_exploration="the first exploration of the candidate in which the check failed and blamed this row",
        explorations="in how many explorations of the candidate it did",
    ),
    ("started", "exploration", "check", "requirement"),
    """
    SELECT e.exploration, e.started, e.candidate, e.version, e.method, e.seed, f.check, f.requirement, f.plan, f.plans, f.sentence,
           f.file, f.original, f.steps, f.faults, f.messages, f.servers, f.original_steps, f.original_faults, f.original_messages,
           f.original_servers, first_value(e.exploration) OVER in_order AS first_exploration,
           count(*) OVER same_finding AS explorations
    FROM found f JOIN explored e ON e.exploration = f.exploration
    WINDOW same_finding AS (PARTITION BY e.candidate, f.check, f.requirement),
           in_order AS (PARTITION BY e.candidate, f.check, f.requirement ORDER BY e.started, e.exploration)
    """,
    across=True,
)
"""Two findings are the same if the same check failed and blamed the same row, whatever the plan."""

TABLES = (EXPLORATIONS, FINDINGS)
