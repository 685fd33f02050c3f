"""Traffic that pauses, partitions and idle limits interrupt goes on, and each connection is one session in the history."""

from pathlib import Path

import pytest

from conformance import paths
from conformance.candidates.assignment import Assignment
from conformance.candidates.description import REFERENCE
from conformance.execute import judge
from conformance.history.events import Attempt, Closed, Connected, FaultFired, NodeEvent, Reply, StepEvent
from conformance.judge.incremental import IncrementalJudge
from conformance.run.cell import CellRunner, RecordedRun
from conformance.run.cell_loop import OWN_LOOP, run_without_loop
from conformance.run.settings import Settings
from conformance.scenarios.loader import read_corpus
from conformance.verdicts import Outcome, worst_in_cell

PAUSED = """\
id: paused-and-ended
title: What a server acknowledged before it was paused and ended is delivered after its start
requirements: [RL-ACK-01]
needs: [relay, queue]
topology: relay
drain: 6h
steps:
  - answer: {sink: outside, at: connect, reply: 421 4.3.2 later}
  - send: {as: m, via: mta1, to: victor@outside.test}
  - expect: {reply: {of: m, code: 250}}
  - pause: mta1
  - END: mta1
  - start: mta1
  - answer: {sink: outside, at: connect, reply: accept}
  - expect: {delivered: {of: m, at: outside, copies: 1, within: 4h}}
"""

MUTED = """\
id: muted-behind-a-blackhole
title: A muted session behind a partition is one session
requirements: [RL-RTY-01]
needs: [shadow-2013]
topology: two-servers-one-dag
drain: 2h
steps:
  - partition: {as: cut, between: [mbx1, outside], how: blackhole, one-way: yes}
  - fault: {as: quiet, from: mbx1, to: outside, does: mute, at: connect, times: 1}
  - send: {as: m, via: mbx1, to: victor@outside.test}
  - advance: 9m
  - heal: cut
  - expect: {delivered: {of: m, at: outside, copies: 1, within: 40m}}
"""

IDLE = """\
id: idle-between-tries
title: The second try comes after the idle limit of the session
requirements: [SR-ENA-05, SR-TMO-06]
needs: [shadow-2013]
topology: two-servers-one-dag
steps:
  - configure: {node: all, transport: {RejectMessageOnShadowFailure: yes}}
  - partition: {as: cut, between: [mbx1, mbx2]}
  - send: {as: m, via: mbx1, to: bob@corp.test, sessions: one, background: true, retry: {every: 6m, times: 1}}
  - advance: 4m
  - heal: cut
  - await: m
  - expect: {reply: {of: m, code: 250}}
  - expect: {mailbox: {of: m, who: bob@corp.test, copies: 1, within: 1m}}
"""


def run_cell(directory: Path, scenario: str) -> RecordedRun:
    """Run a scenario of one cell with the reference in virtual time, and return the recorded run; it has to pass."""
    (directory / "one.scenario.yaml").write_text(scenario, "utf-8")
    (cell,) = read_corpus([directory / "one.scenario.yaml"], paths.fixtures())[0].cells("smoke")
    assignment, settings = Assignment(REFERENCE), Settings(clock="virtual", should="fail")
    ran = run_without_loop(CellRunner(cell, assignment, settings, directory, IncrementalJudge()).run(OWN_LOOP))
    assert (ran.problem, ran.inapplicable) == ("", "")
    verdicts = judge(cell, assignment, settings, ran.events, complete=True)
    assert worst_in_cell(verdict.outcome for verdict in verdicts) is Outcome.PASS, verdicts
    return ran


@pytest.mark.parametrize(("end", "action"), [("kill", "killed"), ("stop", "stopped")])
def test_a_server_that_was_paused_and_ended_is_not_paused_after_its_start(
    tmp_path: Path, end: str, action: str
) -> None:
    ran = run_cell(tmp_path, PAUSED.replace("END", end))
    actions = [event.action for event in ran.events if isinstance(event, NodeEvent)]
    assert actions.index("paused") + 1 == actions.index(action)
    assert "resumed" not in actions


def test_a_session_that_a_fault_plays_is_not_dialled_when_its_partition_heals(tmp_path: Path) -> None:
    ran = run_cell(tmp_path, MUTED)
    to_outside = [e for e in ran.events if isinstance(e, Connected) and (e.client, e.server) == ("mbx1", "outside")]
    closed = {event.session: event.n for event in ran.events if isinstance(event, Closed)}
    assert len(to_outside) == 2, "the muted one, and the retry"
    muted, retried = (event.session for event in to_outside)
    assert {event.session for event in ran.events if isinstance(event, FaultFired) and event.fault == "quiet"} == {
        muted
    }
    healed = next(e.n for e in ran.events if isinstance(e, StepEvent) and (e.verb, e.phase) == ("heal", "ended"))
    assert to_outside[0].n < healed < closed[muted] < to_outside[1].n < closed[retried]


def test_a_try_after_the_idle_limit_does_not_read_the_goodbye_as_its_reply(tmp_path: Path) -> None:
    ran = run_cell(tmp_path, IDLE)
    first, second = [event for event in ran.events if isinstance(event, Attempt)]
    assert (first.code, second.code) == (451, 250)
    assert first.session != second.session
    assert (first.session, 421) in {(e.session, e.code) for e in ran.events if isinstance(e, Reply)}, "the goodbye"
