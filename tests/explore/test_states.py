"""States seen from afar, the estimate of what is still unseen, and the properties that must be seen sometimes."""

from pathlib import Path

from conformance import paths
from conformance.candidates.assignment import Assignment
from conformance.candidates.cell_needs import claimed_capabilities
from conformance.candidates.description import REFERENCE
from conformance.explore.documents import read_cell
from conformance.explore.sometimes import SOMETIMES, seen_in
from conformance.explore.states import Coverage, Visited, coverage, visited_in
from conformance.explore.sweep import Plan
from conformance.explore.trial import run_plan
from conformance.model.facts import Facts
from conformance.run.settings import Settings
from conformance.trace.context import CheckContext
from conformance.trace.trace import Trace

OUTAGE = """
id: an-outage
title: A server is away for longer than ShadowResubmitTimeSpan
requirements: [RL-ACK-01]
topology: two-servers-one-dag
configure: {ShadowResubmitTimeSpan: 10m, ShadowHeartbeatFrequency: 30s}
steps:
  - answer: {sink: outside, at: dot, reply: 451 4.3.0 try later}
  - send: {as: m, via: mbx1, to: victor@outside.test}
  - advance: 2m
  - kill: mbx1
  - answer: {sink: outside, at: dot, reply: accept}
  - advance: 20m
  - start: mbx1
"""


def facts_of(text: str, folder: Path) -> Facts:
    path = folder / "one.scenario.yaml"
    path.write_text(text, "utf-8")
    cell = read_cell(path, paths.fixtures())
    run = run_plan(Plan("one", cell), Assignment(REFERENCE), Settings(clock="virtual", seed=1, should="fail"))
    assert run.result.outcome == "sound"
    claims = claimed_capabilities(cell, Assignment(REFERENCE))
    return Facts(CheckContext(cell, Trace(run.events), claims=claims))


def test_an_outage_shows_a_promotion_and_a_second_copy_outside(tmp_path: Path) -> None:
    seen = seen_in(facts_of(OUTAGE, tmp_path))
    assert {
        "a shadow copy of 2013 or later was promoted",
        "a server delivered what its shadow server had taken over",
        "a recipient outside got a message twice",
        "a message was deferred by its next hop, and delivered later",
    } <= set(seen)
    assert set(seen) < set(SOMETIMES)
    assert "two servers were down at once" not in seen


def test_states_do_not_depend_on_names_and_times(tmp_path: Path) -> None:
    visited = visited_in(facts_of(OUTAGE, tmp_path))
    later = OUTAGE.replace("as: m,", "as: other,").replace("mbx1", "mbx2").replace("20m", "21m")
    assert visited == visited_in(facts_of(later, tmp_path))
    wiped = OUTAGE.replace("  - start", "  - wipe: mbx1\n  - start")
    other = visited_in(facts_of(wiped, tmp_path))
    assert other.states - visited.states
    assert other.states & visited.states


def test_the_estimate_counts_the_states_that_one_plan_alone_showed() -> None:
    found = coverage(
        [
            Visited(frozenset("abd"), frozenset({"ab", "bd"})),
            Visited(frozenset("acd"), frozenset({"ac", "bd"})),
            Visited(frozenset("a")),
        ]
    )
    assert found == Coverage(states=4, transitions=3, once=2, plans=3), "b and c: all plans showed a, two showed d"
    assert found.new_states_per_100_plans == 66.7
