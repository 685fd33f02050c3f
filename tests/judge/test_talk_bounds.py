"""The upper bound of a line of a talk: a reply that comes later is a violation, judged from the history alone."""

from typing import Any

import pytest

from conformance import paths
from conformance.candidates.description import REFERENCE
from conformance.history import events as ev
from conformance.history.values import TalkExchange
from conformance.judge.cell import JudgeSettings, judge_cell
from conformance.scenarios.document import Cell
from conformance.scenarios.expectations import ConversationExpected
from conformance.scenarios.loader import read_corpus
from conformance.scenarios.steps.action import Expect, Step, flattened
from conformance.scenarios.steps.talking import Talk
from conformance.topology import Server, Topology
from conformance.verdicts import Outcome
from tests.judge.history import History


def judged(waited: float | None, tolerance: float = 0.0, **line: Any) -> tuple[Outcome, str]:
    """Return what comes of a talk of one line whose reply came `waited` seconds after it."""
    unsaid = {"say": "MAIL FROM:<> SIZE=1", "code": 552, "within": "0s", "where": "SIZE"}
    lines = [unsaid, {"wait": "15s", "code": 421, **line}]
    return judged_lines(lines, TalkExchange(said="", code=421, waited=waited), tolerance=tolerance)


def judged_lines(lines: list[dict[str, Any]], *exchanges: TalkExchange, tolerance: float = 0.0) -> tuple[Outcome, str]:
    """Return what comes of a talk of these lines, and of the exchanges that were recorded of it."""
    topology = Topology(name="one", servers=(Server(name="mbx1", site="Here"),))
    action = Talk.model_validate({"as": "idler", "to": "mbx1", "lines": lines})
    expected = Expect(verb="conversation", expectation=ConversationExpected(conversation="idler"))
    cell = Cell(
        scenario="talks", title="a talk", path="x.yaml", line=1, axes={}, requirements=("SR-TMO-06",), needs=(),
        topology=topology, drain=60.0, sha256="0" * 64,
        steps=(Step(path="1", line=2, verb="talk", action=action), Step(path="2", line=3, verb="expect", action=expected)),
    )  # fmt: skip
    history = History(topology)
    history.add(
        ev.Talked, conversation="idler", client="outside", server="mbx1", listener="frontend", session=None,
        exchanges=exchanges,
    )  # fmt: skip
    history.step("reached", "2", "expect")
    history.step("ended", "2", "expect")
    setting = JudgeSettings("virtual", tolerance, frozenset({"relay", "shadow-2013"}), complete=True)
    verdict = next(v for v in judge_cell(cell, history.events, setting) if v.check == "expect.conversation")
    return verdict.outcome, verdict.sentence


@pytest.mark.parametrize(
    ("waited", "tolerance", "line"),
    [(0.0, 0.0, {"within": "5s"}), (5.0, 0.0, {"within": "5s"}), (20.0, 15.0, {"within": "5s"}), (540.0, 0.0, {}),
     (None, 0.0, {"within": "5s"})],
)  # fmt: skip
def test_a_reply_passes_within_its_bound_or_without_one_or_if_its_wait_is_unknown(
    waited: float | None, tolerance: float, line: dict[str, Any]
) -> None:
    assert judged(waited, tolerance, **line)[0] is Outcome.PASS


@pytest.mark.parametrize(("waited", "tolerance", "came"), [(540.0, 0.0, "9m"), (6.0, 0.0, "6s"), (21.0, 15.0, "21s")])
def test_a_reply_that_comes_later_than_its_bound_is_a_violation(waited: float, tolerance: float, came: str) -> None:
    outcome, sentence = judged(waited, tolerance, within="5s")
    assert outcome is Outcome.FAIL
    assert f"421 came {came} after the wait before it, not within 5s" in sentence


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"octets": r"NOOP\r\n", "where": "PIPELINING", "code": 250}, r"NOOP\r\n"),
        ({"say": "AUTH PLAIN AGEAYg==", "where": "AUTH", "code": 250}, "AUTH PLAIN (redacted)"),
        ({"say": "MAIL FROM:<> SIZE=1", "where": "SIZE", "code": 250}, "MAIL FROM:<> SIZE=1"),
        ({"message": "plain", "where": "8BITMIME", "code": 250}, "(plain)"),
    ],
    ids=["octets", "redacted", "a line", "a message"],
)
def test_a_bound_is_that_of_its_line_behind_one_that_was_sent_where_a_keyword_was_offered(
    line: dict[str, Any], said: str
) -> None:
    last = {"wait": "4m", "code": 421, "within": "5s"}
    sent = TalkExchange(said=said, code=250, waited=6.0)
    assert judged_lines([line, last], sent, TalkExchange(said="", code=421, waited=0.0))[0] is Outcome.PASS
    outcome, sentence = judged_lines([line, last], sent, TalkExchange(said="", code=421, waited=540.0))
    assert outcome is Outcome.FAIL
    assert "421 came 9m after the wait before it" in sentence
    assert judged_lines([{**line, "within": "5s"}, last], sent)[0] is Outcome.FAIL


def test_every_421_that_the_corpus_waits_for_has_an_upper_bound() -> None:
    talks = [
        (cell.scenario, line)
        for scenario in read_corpus([paths.corpus()], paths.fixtures())
        for cell in scenario.cells("full", REFERENCE.own_timers)
        for step in flattened(cell.steps)
        if isinstance(step.action, Talk)
        for line in step.action.lines
    ]
    ends = [
        (scenario, line.within)
        for scenario, line in talks
        if line.wait is not None and 421 in (line.code if isinstance(line.code, tuple) else (line.code,))
    ]
    assert ends
    assert [scenario for scenario, within in ends if within is None] == []
