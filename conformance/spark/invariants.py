"""A second oracle: the invariants as Spark queries over all histories, compared with the verdicts that a run recorded.

The queries in `invariant_queries` are written from the requirement catalogue and share nothing with `conformance.judge`. They
judge less than the judge does, since they see only the views; what they do judge must agree with it. The table
`disagreements` lists where it does not.

An *occasion* is a moment at which an invariant could have failed; it is *undecided* where the views do not show whether it did.
A scenario may *waive* an invariant. A *starved* cell is one in which a server's machine ran out of a resource.
"""

from dataclasses import dataclass

from conformance.spark import invariant_queries as queries

CONDITIONS = """
SELECT c.cell_id, c.waived, tp.topology_id, coalesce(d.quiet, false) AS quiet, d.half_wait_t, d.waited,
       c.outcome IS NOT NULL AS complete, coalesce(d.disturbed, false) AS disturbed,
       coalesce(d.starved, false) AS starved, tp.without_rights,
       if(size(c.claims) > 0, c.claims, p.claims) AS claims
FROM cells c JOIN topologies tp ON tp.topology_id = c.topology_id
LEFT JOIN candidates p ON p.run = c.run AND p.candidate = c.candidate LEFT JOIN (
  SELECT cell_id, bool_or(mode = 'drained' AND quiet) AS quiet,
         max(CASE WHEN mode = 'drained' THEN t - waited / 2 END) AS half_wait_t,
         max(CASE WHEN mode = 'drained' THEN waited END) AS waited,
         bool_or(mode = 'node' AND action = 'starved') AS starved,
         bool_or(mode IN ('fault-fired', 'fault-armed', 'connect-failed', 'node-command', 'configured', 'talked',
                          'reply')
                 OR mode = 'closed' AND action <> 'secured'
                 OR mode = 'node' AND action NOT IN ('started', 'ready')
                 OR kind = 'attempt' AND action <> 'answered') AS disturbed
  FROM single_events WHERE kind IN ('incident', 'attempt') GROUP BY cell_id) d ON d.cell_id = c.cell_id
"""
"""A row for each cell with what may excuse a failure in it.

`quiet`: the transport became quiet in the drain at the end; `waited` is how many seconds the harness waited for that, and
`half_wait_t` the middle of that time. `complete`: the cell has a footer. `disturbed`: anything at all went wrong, or the
scenario intervened (a fault, a new configuration, a command to a node, a talk). `starved`: the machine ran out of a resource
that a server needed.
"""


@dataclass(frozen=True, slots=True)
class Invariant:
    """An invariant by its name in verdicts (`invariant.<name>`), the requirements that it judges, and its query.

    The query gives a row for each occasion on which it could fail: `cell_id`, the event's number `n`, and `bad`, null
    where this cannot be decided.
    """

    name: str
    requirements: tuple[str, ...]
    query: str


INVARIANTS = (
    Invariant(name="nothing-acknowledged-is-lost", requirements=("RL-ACK-01",), query=queries.LOST_MESSAGES),
    Invariant(
        name="two-copies-at-acknowledgement",
        requirements=("SR-CRE-01", "SR-BND-03", "SR-BND-05"),
        query=queries.TWO_COPIES,
    ),
    Invariant(
        name="shadow-inside-boundary",
        requirements=("SR-BND-01", "SR-BND-02", "SR-BND-05"),
        query=queries.SHADOW_BOUNDARY,
    ),
    Invariant(
        name="no-discard-before-delivery",
        requirements=("SR-MNT-01", "SR-MNT-07", "SR-MNT-08"),
        query=queries.EARLY_DISCARD,
    ),
    Invariant(name="no-duplicate-in-mailbox", requirements=("SR-DUP-01",), query=queries.MAILBOX_DUPLICATES),
    Invariant(name="no-duplicate-without-cause", requirements=("RL-ACK-04",), query=queries.CAUSELESS_DUPLICATES),
    Invariant(name="content-unchanged", requirements=("SR-CRE-06", "RL-CNT-01"), query=queries.CHANGED_CONTENT),
    Invariant(name="one-final-reply", requirements=("RL-RPL-01",), query=queries.FINAL_REPLIES),
)

INVARIANT_VIEWS = {f"rechecks_{number}": invariant for number, invariant in enumerate(INVARIANTS, start=1)}
"""The name of each invariant's view, which has a row for each cell that had an occasion."""


def recheck_queries() -> dict[str, str]:
    """Return the SQL of each view in `INVARIANT_VIEWS`, and of the view `rechecks`, their union, by the view's name.

    Each has a row for each cell and invariant with an occasion, but none for cells that were cut short or waive the invariant.
    Each invariant is aggregated on its own: the union of all occasions would need a shuffle.
    """
    return {name: _aggregated_by_cell(invariant) for name, invariant in INVARIANT_VIEWS.items()} | {
        "rechecks": " UNION ALL ".join(f"SELECT * FROM {name}" for name in INVARIANT_VIEWS)  # noqa: S608  # made of constants
    }


def _aggregated_by_cell(invariant: Invariant) -> str:
    """Return the SQL that turns an invariant's occasions into one row for each cell, with its outcome.

    The outcome is `fail` with a violation, else `inconclusive` with an undecided occasion, else `pass`; a violation in a
    starved cell is `inconclusive`. Its columns count decided occasions, violations and undecided occasions; `evidence` is the
    number of the first event that violates the invariant.
    """
    return f"""
    SELECT o.cell_id, 'invariant.{invariant.name}' AS check, o.occasions, o.violations, o.undecided, o.evidence,
           CASE WHEN o.violations > 0 AND NOT c.starved THEN 'fail'
                WHEN o.violations > 0 OR o.undecided > 0 THEN 'inconclusive' ELSE 'pass' END AS outcome
    FROM (SELECT cell_id, count(bad) AS occasions, count_if(bad) AS violations, count_if(bad IS NULL) AS undecided,
                 min(CASE WHEN bad THEN n END) AS evidence
          FROM ({invariant.query}) GROUP BY cell_id) o
    JOIN conditions c ON c.cell_id = o.cell_id
    WHERE c.complete AND NOT array_contains(c.waived, '{invariant.name}')
    """  # noqa: S608  # made of constants
