"""Changes verdicts for causes that lie outside of the server under test.

Theory of operation
-------------------
A failure must not be blamed on a server for what the harness or its machine did. Four causes are looked for:

- Lateness. `Lag` events record by how much the harness, or a program on its machine, ran late. A check that depends on time
  is inconclusive when the lag is above the limit: the clock's tolerance, at most `MAX_LAG`. Rules of the model
  that are not `timed` compare no times. An expectation may be so far from the time that it is about (its `room`) that a smaller
  lag cannot matter. An upper bound (`within`) is missed by many small delays as well, so lags are added up for it.
- Shortage. When the machine ran out of something that a node needed, no failure can be blamed on a server.
- Nothing acknowledged. A message that no server acknowledged cannot break the row (requirement) about acknowledged messages.
- `should` rows. Their violation is a pass with a remark, unless the run asked for failures.

An excused verdict is inconclusive, and its sentence begins with the cause. The first number in a verdict's `evidence`
is that of the violating event; its `step` is the path of the expectation's step, None for other checks. Times are
documented seconds. Verdicts are never changed in place: a changed one is a copy.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from conformance.history.events import AnyEvent, Attempt, FaultFired, Lag, NodeEvent, StepEvent, Talked
from conformance.history.values import TalkExchange
from conformance.model import RULES
from conformance.requirements.catalogue import catalogue
from conformance.trace.trace import Trace
from conformance.verdicts import Outcome, Reason, Verdict
from conformance.verdicts.changes import Should

MAX_LAG = 15.0
"""Seconds: half of MaxAcknowledgementDelay, the shortest documented time that a scenario waits for. A larger lag may have
caused what was seen, whatever the clock tolerates."""

MAX_BOUND_SHARE = 0.02
"""Share of an upper bound that lags may add up to, where that is more than one lag may be."""

REPLY_CHECKS = frozenset({"expect.reply", "expect.conversation"})
"""Checks of replies: no lag excuses a permanent refusal (5yz), which does not depend on time."""

ACKNOWLEDGED_ROW = "RL-ACK-01"
"""The row about acknowledged messages."""

_ROWS_BY_LOST_REPLY = {
    "silent for too long": "RL-RPL-01",
    "no reply: ": "RL-RPL-02",
    "a line of a reply has no end": "RL-RPL-02",
    "a reply of more than ": "RL-RPL-02",
    "the server ended the session amid a line": "RL-RPL-02",
}
"""How the text of a lost `Attempt` begins where the server's replies were the reason, and the row that this breaks."""


def excuse_lateness(
    verdicts: Iterable[Verdict], events: Sequence[AnyEvent], tolerance: float, rooms: Mapping[str, float] | None = None
) -> Iterator[Verdict]:
    """Yield the verdicts in their order; where the worst lag is above the limit, time-dependent failures become inconclusive.

    Verdicts that were inconclusive anyway then name the lag as their reason. `tolerance` is the clock's, from which the limit
    follows (`_lag_limit`). Not excused are rules that compare no times, a permanent refusal as the reply, a node that could not be
    started, and an expectation whose room (`rooms` has them by the path of the step) is at least the lag.
    """
    lags, limit = _lags_since_first_step(events), _lag_limit(tolerance)
    lag = max((one.seconds for one in lags), default=0.0)
    if lag <= limit:
        yield from verdicts
        return
    depends_on_time = _dependence_on_time(events)
    for verdict in verdicts:
        has_room = rooms is not None and lag <= rooms.get(verdict.step or "", 0.0)
        is_excused = verdict.outcome is Outcome.FAIL and not has_room and depends_on_time(verdict)
        if verdict.outcome is Outcome.INCONCLUSIVE or is_excused:
            yield _late_verdict(verdict, lag, limit, lags)
        else:
            yield verdict


def excuse_late_bound(
    verdict: Verdict, events: Sequence[AnyEvent], since: float, within: float, tolerance: float
) -> Verdict:
    """Return the verdict of an expectation with an upper bound; a failure becomes inconclusive when the lags add up to too much.

    Lags count from the time `since`, from which the bound of `within` seconds counts. They may add up to `MAX_BOUND_SHARE` of
    the bound, or to what one lag may be (`_lag_limit`), whichever is more. `tolerance` is the clock's, in seconds. What does not
    depend on time, such as a permanent refusal, is not excused.
    """
    lags = [lag for lag in _lag_events(events) if lag.t > since]
    total, limit = sum(lag.seconds for lag in lags), max(_lag_limit(tolerance), MAX_BOUND_SHARE * within)
    if verdict.outcome is not Outcome.FAIL or total <= limit or not _dependence_on_time(events)(verdict):
        return verdict
    return _late_verdict(verdict, total, limit, lags)


def _lags_since_first_step(events: Sequence[AnyEvent]) -> list[Lag]:
    """Return the `Lag` events since the first step began, in their order: before that no time was measured."""
    first = next((event.n for event in events if isinstance(event, StepEvent)), len(events))  # none: no lag counts
    return [lag for lag in _lag_events(events) if lag.n > first]


def excuse_shortage(verdicts: Iterable[Verdict], events: Sequence[AnyEvent]) -> Iterator[Verdict]:
    """Yield the verdicts; where the machine ran out of something that any node needed, all failures become inconclusive.

    A `NodeEvent` with the action `starved` says so.
    """
    starved = next((event for event in events if isinstance(event, NodeEvent) and event.action == "starved"), None)
    for verdict in verdicts:
        if starved is None or verdict.outcome is not Outcome.FAIL:
            yield verdict
        else:
            cause = f"the machine ran out of something under {starved.node} ({starved.detail})"
            yield _excused_verdict(verdict, Reason.SHORTAGE, cause)


def excuse_unacknowledged(verdict: Verdict, trace: Trace) -> Verdict:
    """Return the verdict, changed where it blames `ACKNOWLEDGED_ROW` for a message that no server acknowledged.

    Where the harness lost its session because the server gave no reply, or a malformed one, the row about replies is put in
    front; a session in which a fault fired shows nothing. Otherwise the verdict becomes inconclusive. Any other verdict is
    returned as it is. An `Attempt` is one transmission of the message by the harness.
    """
    if (
        verdict.outcome is not Outcome.FAIL
        or verdict.requirements[:1] != (ACKNOWLEDGED_ROW,)
        or verdict.message is None
    ):
        return verdict
    attempts = trace.attempts_of(verdict.message)
    if any(a.code is not None and a.code // 100 == 2 for a in attempts):
        return verdict
    faulted = {event.session for event in trace.events_of(FaultFired)}
    lost = [a.text for a in attempts if a.outcome == "lost" and a.session is not None and a.session not in faulted]
    broken = [row for text in lost for beginning, row in _ROWS_BY_LOST_REPLY.items() if text.startswith(beginning)]
    if broken:
        return verdict.model_copy(update={"requirements": (broken[0], *verdict.requirements)})
    cause = f"{verdict.message} was never acknowledged, so {ACKNOWLEDGED_ROW} cannot be judged by it"
    return _excused_verdict(verdict, Reason.UNDECIDED, cause)


def apply_should_level(verdicts: Iterable[Verdict], should: Should) -> Iterator[Verdict]:
    """Yield the verdicts; with `warn`, a failure that is blamed on a `should` row becomes a pass with a remark.

    A failure is blamed on its first requirement. With `fail` the verdicts do not change.
    """
    for verdict in verdicts:
        row = catalogue().get(verdict.requirements[0]) if verdict.requirements else None
        if should == "warn" and verdict.outcome is Outcome.FAIL and row is not None and row.level == "should":
            yield verdict.model_copy(update={"outcome": Outcome.PASS, "remark": True})
        else:
            yield verdict


def _late_verdict(verdict: Verdict, lag: float, limit: float, lags: Iterable[Lag]) -> Verdict:
    """Return the verdict as inconclusive by lateness; unchanged if it is so already.

    `lag` (what was measured) and `limit` (what is allowed) are seconds; the sentence has the detail of the largest of `lags`
    that has one, the first of equal ones.
    """
    if verdict.reason is Reason.LATE:
        return verdict
    longest = max((one for one in lags if one.detail), key=lambda one: one.seconds, default=None)
    detail = f" ({longest.detail})" if longest else ""
    return _excused_verdict(
        verdict,
        Reason.LATE,
        f"the harness or its machine ran {_seconds(lag)} late{detail}, {_seconds(limit)} are allowed",
    )


def _seconds(value: float) -> str:
    """Return a number of seconds in words, with three digits at least: `0.125 s`, `1800 s`."""
    return f"{value:.3g} s" if value < 1000 else f"{value:.0f} s"


def _excused_verdict(verdict: Verdict, reason: Reason, cause: str) -> Verdict:
    """Return the verdict as inconclusive for this reason, with the cause, a clause, in front of its sentence."""
    sentence = f"{cause}: {verdict.sentence}"
    return verdict.model_copy(update={"outcome": Outcome.INCONCLUSIVE, "reason": reason, "sentence": sentence})


def _dependence_on_time(events: Sequence[AnyEvent]) -> Callable[[Verdict], bool]:
    """Return the function that says whether a failure in this history may be due to lateness.

    Not due to it are rules that compare no times, a permanent refusal as the reply, and a node that could not be started.
    """
    refusals = {event.n for event in events if _is_permanent_refusal(event)}
    failed_starts = {event.n for event in events if isinstance(event, NodeEvent) and event.action == "failed"}

    def depends_on_time(verdict: Verdict) -> bool:
        if _is_untimed(verdict.check) or failed_starts.intersection(verdict.evidence[:1]):
            return False
        return verdict.check not in REPLY_CHECKS or not refusals.intersection(verdict.evidence)

    return depends_on_time


def _is_untimed(check: str) -> bool:
    """Return whether a check is a rule of the model that compares no times."""
    rule = RULES.get(check)
    return rule is not None and not rule.timed


def _lag_events(events: Iterable[AnyEvent]) -> list[Lag]:
    """Return the `Lag` events, in their order."""
    return [event for event in events if isinstance(event, Lag)]


def _lag_limit(tolerance: float) -> float:
    """Return the lag in seconds up to which nothing is excused: the clock's tolerance, at most MAX_LAG."""
    return min(tolerance, MAX_LAG)


def _is_permanent_refusal(event: AnyEvent) -> bool:
    """Return whether an event is the end of a transmission or conversation of the harness with 5yz as its last reply."""
    match event:
        case Attempt(code=int(code)) | Talked(exchanges=(*_, TalkExchange(code=int(code)))):
            return code >= 500
    return False
