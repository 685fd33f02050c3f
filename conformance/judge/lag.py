"""What the harness's own lateness excuses: a timing check is inconclusive, not failed, when the harness ran late."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from conformance.history.events import AnyEvent, Attempt, Lag, NodeEvent, StepEvent, Talked, TalkExchange
from conformance.verdicts import Outcome, Reason, Verdict

LIMIT = 15.0
"""Documented seconds: half of MaxAcknowledgementDelay, the shortest of the documents' times that a scenario waits for.
Whatever tolerance a clock has for bounds, a harness that was later than this may have caused what it saw."""

UNTIMED = frozenset(
    {
        "invariant.shadow-inside-boundary",
        "invariant.no-discard-before-delivery",
        "invariant.one-final-reply",
        "invariant.content-unchanged",
        "invariant.shadow-verbs-only-where-offered",
        "invariant.replies-well-formed",
    }
)
"""Checks that no lateness of the harness excuses. The others ask what has happened by some moment; that a server could
not be started again is no question of time either."""

ROOM = 0.02
"""Share of a bound by which delays that add up over it may be late, where that is more than one delay may be."""

SAID = frozenset({"expect.reply", "expect.conversation"})
"""Checks of what was said: of these no lateness excuses a permanent reply (5yz), which is about what was asked."""


def excuse_lateness(
    verdicts: Iterable[Verdict], events: Sequence[AnyEvent], tolerance: float, rooms: Mapping[str, float] | None = None
) -> Iterator[Verdict]:
    """Yield the verdicts, with what lateness may have caused told as such where the harness lagged beyond what it may.

    That is every failure of a timed check, and all that could not be judged: it might have been without the lateness.
    `tolerance` is the clock's, documented seconds. How late the harness ran before the first step counts not: nothing
    was waited for yet. `rooms` has, by the path of its step, how far an expectation is from the time that it is about,
    documented seconds: lateness of less cannot have caused what it found.
    """
    late, allowed = worst_lag(events), _allowed(tolerance)
    if late <= allowed:
        yield from verdicts
        return
    refusals = {event.n for event in events if _refusal(event)}
    refused_to_start = {event.n for event in events if isinstance(event, NodeEvent) and event.action == "failed"}
    for verdict in verdicts:
        untimed = verdict.check in UNTIMED or refused_to_start.intersection(verdict.evidence[:1])
        timed = not untimed and not (verdict.check in SAID and refusals.intersection(verdict.evidence))
        roomy = rooms is not None and late <= rooms.get(verdict.step or "", 0.0)
        if verdict.outcome is Outcome.INCONCLUSIVE or (verdict.outcome is Outcome.FAIL and timed and not roomy):
            yield _late(verdict, late, allowed, _lags(events))
        else:
            yield verdict


def excuse_late_bound(
    verdict: Verdict, events: Sequence[AnyEvent], since: float, within: float, tolerance: float
) -> Verdict:
    """Return the verdict on an expectation with an upper bound: inconclusive, where it failed and all lateness since the
    moment that the bound counts from (`since`, documented seconds), added, is more than may be in a bound of `within`.

    Each reply of a conversation may be a little late: one delay alone excuses nothing, but the bound is one for all.
    """
    lags = [lag for lag in _lags(events) if lag.t > since]
    late, allowed = sum(lag.seconds for lag in lags), max(_allowed(tolerance), ROOM * within)
    if verdict.outcome is not Outcome.FAIL or late <= allowed:
        return verdict
    return _late(verdict, late, allowed, lags)


def _late(verdict: Verdict, late: float, allowed: float, lags: Iterable[Lag]) -> Verdict:
    """Return the verdict as one that lateness has spoilt, with who made the harness late where that is known."""
    if verdict.reason is Reason.LATE:
        return verdict
    why = next((f" ({lag.detail})" for lag in lags if lag.detail), "")
    sentence = f"the harness or its machine ran {late:.3g} s late{why}, and may {allowed:.3g} s: {verdict.sentence}"
    return verdict.model_copy(update={"outcome": Outcome.INCONCLUSIVE, "reason": Reason.LATE, "sentence": sentence})


def _lags(events: Iterable[AnyEvent]) -> list[Lag]:
    return [event for event in events if isinstance(event, Lag)]


def _refusal(event: AnyEvent) -> bool:
    match event:
        case Attempt(code=int(code)) | Talked(exchanges=(*_, TalkExchange(code=int(code)))):
            return code >= 500
    return False


def _allowed(tolerance: float) -> float:
    return min(tolerance, LIMIT)


def worst_lag(events: Sequence[AnyEvent]) -> float:
    """Return how late the harness ran at worst since the first step began, documented seconds."""
    first = next((event.n for event in events if isinstance(event, StepEvent)), len(events))
    return max((event.seconds for event in events if isinstance(event, Lag) and event.n > first), default=0.0)
