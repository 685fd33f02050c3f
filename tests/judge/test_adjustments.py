"""Verdicts change for lateness, for a shortage of the machine, and for `should` rows; all others stay as they are."""

from dataclasses import replace

import pytest

from conformance.history.events import AnyEvent, Attempt, Lag, NodeEvent, StepEvent, Talked
from conformance.history.values import TalkExchange
from conformance.judge.adjustments import (
    MAX_LAG,
    REPLY_CHECKS,
    apply_should_level,
    excuse_late_bound,
    excuse_lateness,
    excuse_shortage,
    excuse_unacknowledged,
)
from conformance.model import RULES
from conformance.scenarios.expectations import EXPECTATIONS
from conformance.trace.trace import Trace
from conformance.verdicts import Outcome, Reason, Verdict, worst_in_cell


def history(before: float, after: float) -> list[AnyEvent]:
    """A history of a harness that was so late before its first step, and after."""
    step = StepEvent(n=1, t=1, kind="step", phase="began", path="1", verb="send", line=1)
    return [Lag(n=0, t=0, kind="lag", seconds=before), step, Lag(n=2, t=9, kind="lag", seconds=after)]


def outcome(check: str, events: list[AnyEvent], tolerance: float) -> Outcome:
    failure = Verdict(check=check, outcome=Outcome.FAIL, sentence="late")
    return next(excuse_lateness([failure], events, tolerance)).outcome


@pytest.mark.parametrize(
    ("late", "tolerance", "expected"),
    [
        (10, 10, Outcome.FAIL),
        (11, 10, Outcome.INCONCLUSIVE),
        (MAX_LAG, 150, Outcome.FAIL),
        (MAX_LAG + 1, 150, Outcome.INCONCLUSIVE),
    ],
)
def test_a_timed_failure_of_a_late_harness_is_inconclusive(late: float, tolerance: float, expected: Outcome) -> None:
    timed = [name for name, rule in RULES.items() if rule.timed]
    assert timed
    for check in (*(f"expect.{verb}" for verb in EXPECTATIONS), *timed):
        assert outcome(check, history(0, late), tolerance) is expected, check


def test_lateness_before_the_first_step_excuses_nothing() -> None:
    assert outcome("expect.discarded", history(1000, 1), 10) is Outcome.FAIL
    assert outcome("expect.discarded", history(1, 1000), 10) is Outcome.INCONCLUSIVE
    stepless: list[AnyEvent] = [Lag(n=0, t=0, kind="lag", seconds=1000)]
    assert outcome("expect.discarded", stepless, 10) is Outcome.FAIL, "where no step began"


@pytest.mark.parametrize("check", sorted(name for name, rule in RULES.items() if not rule.timed))
def test_lateness_does_not_excuse_an_untimed_check(check: str) -> None:
    assert outcome(check, history(0, 1000), 10) is Outcome.FAIL
    assert outcome("expect.discarded", history(0, 1000), 10) is Outcome.INCONCLUSIVE, "a timed one"


@pytest.mark.parametrize("check", sorted(REPLY_CHECKS))
@pytest.mark.parametrize(("code", "expected"), [(550, Outcome.FAIL), (451, Outcome.INCONCLUSIVE)])
def test_lateness_excuses_a_transient_reply_and_not_a_permanent_one(check: str, code: int, expected: Outcome) -> None:
    answered = Attempt(
        n=3, t=5, kind="attempt", message="m#1", attempt=1, client="outside", server="mta1", listener="frontend",
        outcome="answered", code=code,
    )  # fmt: skip
    talked = Talked(
        n=4, t=6, kind="talked", conversation="c", client="outside", server="mta1", listener="frontend",
        exchanges=(TalkExchange(said="EHLO", code=250), TalkExchange(said="NOOP", code=code)),
    )  # fmt: skip
    of_another = replace(answered, n=5, message="n#1", code=550)  # it is not what the verdict is about
    for event in (answered, talked):
        verdict = Verdict(check=check, outcome=Outcome.FAIL, sentence="not as written", evidence=(event.n,))
        events = [*history(0, 20), event, of_another]
        (excused,) = excuse_lateness([verdict], events, 10)
        assert excused.outcome is expected
        (timed,) = excuse_lateness([verdict.model_copy(update={"check": "expect.delivered"})], events, 10)
        assert timed.outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize("sentence", ["", "a should is broken"])
def test_lateness_does_not_change_a_pass(sentence: str) -> None:
    verdict = Verdict(check="expect.discarded", outcome=Outcome.PASS, sentence=sentence, remark=bool(sentence))
    failure = verdict.model_copy(update={"outcome": Outcome.FAIL, "remark": False})
    passed, excused = excuse_lateness([verdict, failure], history(0, 1000), 10)
    assert passed == verdict
    assert excused.outcome is Outcome.INCONCLUSIVE, "a failure is excused"


def test_the_sentence_of_an_excused_failure_keeps_what_was_seen() -> None:
    verdict = Verdict(check="expect.reply", outcome=Outcome.FAIL, sentence="it came late")
    (excused,) = excuse_lateness([verdict], history(0, 20), 10)
    assert excused.sentence == "the harness or its machine ran 20 s late, 10 s are allowed: it came late"
    assert excused.reason is Reason.LATE
    (short,) = excuse_shortage([verdict], [STARVED])
    assert short.sentence == "the machine ran out of something under mbx1 (a process was killed): it came late"
    of_message = verdict.model_copy(update={"requirements": ("RL-ACK-01",), "message": "m#1"})
    unacknowledged = excuse_unacknowledged(of_message, Trace([]))
    assert unacknowledged.sentence == "m#1 was never acknowledged, so RL-ACK-01 cannot be judged by it: it came late"


def test_lateness_does_not_excuse_a_server_that_failed_to_start() -> None:
    failed = NodeEvent(n=3, t=5, kind="node", node="mta1", action="failed", detail="it exited with exit code 1")
    check = "invariant.nothing-acknowledged-is-lost"
    verdict = Verdict(check=check, outcome=Outcome.FAIL, sentence="lost", evidence=(failed.n,))
    assert next(excuse_lateness([verdict], [*history(0, 20), failed], 10)).outcome is Outcome.FAIL
    exited = replace(failed, action="exited")
    assert next(excuse_lateness([verdict], [*history(0, 20), exited], 10)).outcome is Outcome.INCONCLUSIVE


def test_the_cause_of_the_lateness_is_named() -> None:
    late = Lag(n=2, t=9, kind="lag", seconds=20, detail="mta1 wakes up more than 100 times a second")
    verdict = Verdict(check="expect.discarded", outcome=Outcome.FAIL, sentence="late")
    small = replace(late, seconds=1, detail="a small one")
    (early, step, _) = history(1000, 0)
    early = replace(early, detail="before the first step")
    (excused,) = excuse_lateness([verdict], [early, step, small, replace(late, n=3)], 10)
    assert "20 s late (mta1 wakes up more than 100 times a second)" in excused.sentence
    bounded = excuse_late_bound(verdict, [late], since=1, within=40, tolerance=10)
    assert "20 s late (mta1 wakes up more than 100 times a second)" in bounded.sentence


def several(*late: tuple[float, float]) -> list[AnyEvent]:
    """A history of several delays: (when, how long)."""
    return [Lag(n=n, t=t, kind="lag", seconds=seconds) for n, (t, seconds) in enumerate(late)]


@pytest.mark.parametrize(
    ("delays", "expected"),
    [
        ([(11, 4), (12, 4), (13, 4)], Outcome.INCONCLUSIVE),
        ([(11, 4), (12, 4)], Outcome.FAIL),
        ([(5, 400), (12, 4)], Outcome.FAIL),
    ],
    ids=["together too late", "together within what may be", "late before the bound counted"],
)
def test_delays_within_one_bound_add_up(delays: list[tuple[float, float]], expected: Outcome) -> None:
    verdict = Verdict(
        check="expect.reply", outcome=Outcome.FAIL, sentence="it came true only 50s after, not within 40s"
    )
    assert excuse_late_bound(verdict, several(*delays), since=10, within=40, tolerance=10).outcome is expected


def test_a_longer_bound_tolerates_a_longer_delay() -> None:
    verdict = Verdict(check="expect.delivered", outcome=Outcome.FAIL, sentence="0 copies")
    late = several((11, 60))
    assert excuse_late_bound(verdict, late, since=10, within=3600, tolerance=10).outcome is Outcome.FAIL
    assert excuse_late_bound(verdict, late, since=10, within=600, tolerance=10).reason is Reason.LATE


def test_delays_within_a_bound_do_not_excuse_a_permanent_refusal() -> None:
    for code, expected in ((550, Outcome.FAIL), (451, Outcome.INCONCLUSIVE)):
        answered = Attempt(
            n=9, t=20, kind="attempt", message="m#1", attempt=1, client="outside", server="mta1", listener="frontend",
            outcome="answered", code=code,
        )  # fmt: skip
        verdict = Verdict(check="expect.reply", outcome=Outcome.FAIL, sentence="another code", evidence=(9,))
        late = [*several((11, 400)), answered]
        assert excuse_late_bound(verdict, late, since=10, within=40, tolerance=10).outcome is expected


@pytest.mark.parametrize(
    ("late", "words"), [(0.125, "0.125 s"), (999.4, "999 s"), (1800, "1800 s"), (86400, "86400 s")]
)
def test_a_delay_is_written_without_an_exponent(late: float, words: str) -> None:
    verdict = Verdict(check="expect.discarded", outcome=Outcome.FAIL, sentence="late")
    (excused,) = excuse_lateness([verdict], history(0, late), 0)
    assert excused.sentence == f"the harness or its machine ran {words} late, 0 s are allowed: late"


def test_delays_within_a_bound_do_not_change_a_pass() -> None:
    verdict = Verdict(check="expect.reply", outcome=Outcome.PASS, sentence="")
    assert excuse_late_bound(verdict, several((11, 400)), since=10, within=40, tolerance=10) == verdict
    failure = verdict.model_copy(update={"outcome": Outcome.FAIL})
    excused = excuse_late_bound(failure, several((11, 400)), since=10, within=40, tolerance=10)
    assert excused.outcome is Outcome.INCONCLUSIVE, "a failure is excused"


@pytest.mark.parametrize(
    ("late", "then", "expected"),
    [
        (20, 0, Outcome.FAIL),
        (1800, 0, Outcome.FAIL),
        (1801, 0, Outcome.INCONCLUSIVE),
        (1801, 1, Outcome.INCONCLUSIVE),
        (1, 1801, Outcome.INCONCLUSIVE),
        (1000, 1000, Outcome.FAIL),
    ],
)
def test_a_check_with_a_margin_is_excused_by_lateness_above_the_margin_only(
    late: float, then: float, expected: Outcome
) -> None:
    """Of several delays the longest counts."""
    verdict = Verdict(check="expect.queue", outcome=Outcome.FAIL, sentence="3 items", step="9")
    events = [*history(0, late), Lag(n=3, t=10, kind="lag", seconds=then)]
    (excused,) = excuse_lateness([verdict], events, 10, {"9": 1800.0})
    assert excused.outcome is expected
    (elsewhere,) = excuse_lateness([verdict.model_copy(update={"step": "8"})], events, 10, {"9": 1800.0})
    assert elsewhere.outcome is Outcome.INCONCLUSIVE


def test_both_kinds_of_lateness_give_the_same_sentence_and_reason() -> None:
    """The suite runs a cell again by the mark; a person reads one sentence."""
    verdict = Verdict(check="expect.delivered", outcome=Outcome.FAIL, sentence="0 copies")
    lag = Lag(n=2, t=11, kind="lag", seconds=20)
    (whole,) = excuse_lateness([verdict], [*history(0, 0), lag], 10)
    assert whole == excuse_late_bound(verdict, [lag], since=10, within=40, tolerance=10)
    assert whole.reason is Reason.LATE
    assert list(excuse_lateness([whole], [*history(0, 0), lag], 10)) == [whole]


@pytest.mark.parametrize("check", ["harness.fault-fired", "invariant.content-unchanged"])  # one compares no times
def test_an_inconclusive_verdict_of_a_late_harness_has_the_reason_late(check: str) -> None:
    """A fault that never fired may have missed its moment: the cell is worth another try."""
    verdict = Verdict(check=check, outcome=Outcome.INCONCLUSIVE, reason=Reason.NO_OCCASION, sentence="it never fired")
    (late,) = excuse_lateness([verdict], history(0, 20), 10)
    (punctual,) = excuse_lateness([verdict], history(0, 9), 10)
    assert (late.outcome, late.reason) == (Outcome.INCONCLUSIVE, Reason.LATE)
    assert punctual == verdict


STARVED = NodeEvent(n=1, t=1, kind="node", node="mbx1", action="starved", detail="a process was killed")


def test_a_shortage_makes_a_failure_inconclusive_and_nothing_else() -> None:
    verdicts = [Verdict(check=f"expect.{one}", outcome=one, sentence="as seen") for one in Outcome]
    found = list(excuse_shortage(verdicts, [STARVED]))
    changed = [now for was, now in zip(verdicts, found, strict=True) if now != was]
    assert [(one.check, one.outcome, one.reason) for one in changed] == [
        ("expect.fail", Outcome.INCONCLUSIVE, Reason.SHORTAGE)
    ]
    assert list(excuse_shortage(verdicts, [replace(STARVED, action="killed")])) == verdicts


def failed(*requirements: str) -> Verdict:
    return Verdict(check="expect.discarded", outcome=Outcome.FAIL, requirements=requirements, sentence="seen: nothing")


@pytest.mark.parametrize("requirements", [("SR-WIR-05",), ("SR-WIR-05", "SR-MNT-04")])
def test_a_broken_should_is_a_pass_with_a_remark(requirements: tuple[str, ...]) -> None:
    (verdict,) = apply_should_level([failed(*requirements)], "warn")
    assert (verdict.outcome, verdict.remark, verdict.sentence) == (Outcome.PASS, True, "seen: nothing")
    assert list(apply_should_level([failed(*requirements)], "fail")) == [failed(*requirements)]


@pytest.mark.parametrize("requirements", [("SR-MNT-04",), ("SR-MNT-04", "SR-WIR-05"), ("SR-XXX-01",), ()])
def test_a_failure_that_blames_another_row_first_stays_a_failure(requirements: tuple[str, ...]) -> None:
    of_another, of_should = apply_should_level([failed(*requirements), failed("SR-WIR-05")], "warn")
    assert of_another == failed(*requirements)
    assert of_should.outcome is Outcome.PASS, "one that blames a `should` row first"


def test_a_remark_does_not_hide_a_failure_of_its_cell() -> None:
    verdicts = list(apply_should_level([failed("SR-WIR-05"), failed("SR-MNT-04")], "warn"))
    assert [(one.outcome, one.remark) for one in verdicts] == [(Outcome.PASS, True), (Outcome.FAIL, False)]
    assert worst_in_cell(verdict.outcome for verdict in verdicts) is Outcome.FAIL
