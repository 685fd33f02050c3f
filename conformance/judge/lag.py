"""What the harness's own lateness excuses: a timing check is inconclusive, not failed, when the harness ran late."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from conformance.history.events import AnyEvent, Attempt, Exchange, Lag, NodeEvent, StepEvent, Talked
from conformance.judge.verdicts import Outcome, Verdict

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

REAL_TIME = frozenset({"scaled", "real"})
"""Clocks that go on while a program waits for a processor; the others wait for it."""

SAID = frozenset({"expect.reply", "expect.conversation"})
"""Checks of what was said: of these no lateness excuses a permanent reply (5yz), which is about what was asked."""


def excused(
    verdicts: Iterable[Verdict], events: Sequence[AnyEvent], tolerance: float, rooms: Mapping[str, float] | None = None
) -> Iterator[Verdict]:
    """Yield the verdicts, with timed failures made inconclusive where the harness lagged beyond what it may.

    `tolerance` is the clock's, documented seconds. How late the harness ran before the first step counts not: nothing
    was waited for yet. `rooms` has, by the path of its step, how far an expectation is from the time that it is about,
    documented seconds: lateness of less cannot have caused what it found.
    """
    if not too_late(events, tolerance):
        yield from verdicts
        return
    late, allowed = worst_lag(events), _allowed(tolerance)
    why = next((f" ({event.detail})" for event in events if isinstance(event, Lag) and event.detail), "")
    refusals = {event.n for event in events if _refusal(event)}
    refused_to_start = {event.n for event in events if isinstance(event, NodeEvent) and event.action == "failed"}
    for verdict in verdicts:
        untimed = verdict.check in UNTIMED or refused_to_start.intersection(verdict.evidence[:1])
        timed = not untimed and not (verdict.check in SAID and refusals.intersection(verdict.evidence))
        roomy = rooms is not None and late <= rooms.get(verdict.step or "", 0.0)
        if verdict.outcome is not Outcome.FAIL or not timed or roomy:
            yield verdict
        else:
            sentence = f"the harness itself ran {late:.3g} s late{why}, and may {allowed:.3g} s: {verdict.sentence}"
            yield verdict.model_copy(update={"outcome": Outcome.INCONCLUSIVE, "sentence": sentence})


def late_in_all(verdict: Verdict, events: Sequence[AnyEvent], since: float, within: float, tolerance: float) -> Verdict:
    """Return the verdict on an expectation with an upper bound: inconclusive, where it failed and all lateness since the
    moment that the bound counts from (`since`, documented seconds), added, is more than may be in a bound of `within`.

    Each reply of a conversation may be a little late: one delay alone excuses nothing, but the bound is one for all.
    """
    lags = [event for event in events if isinstance(event, Lag) and event.t > since]
    late, allowed = sum(event.seconds for event in lags), max(_allowed(tolerance), ROOM * within)
    if verdict.outcome is not Outcome.FAIL or late <= allowed:
        return verdict
    why = next((f" ({event.detail})" for event in lags if event.detail), "")
    sentence = f"{_IN_ALL} {late:.3g} s late{why}, and may {allowed:.3g} s: {verdict.sentence}"
    return verdict.model_copy(update={"outcome": Outcome.INCONCLUSIVE, "sentence": sentence})


_IN_ALL = "the harness and the machine ran"


def was_late(verdict: Verdict) -> bool:
    """Return whether `late_in_all` has made a verdict inconclusive."""
    return verdict.outcome is Outcome.INCONCLUSIVE and verdict.sentence.startswith(_IN_ALL)


def _refusal(event: AnyEvent) -> bool:
    match event:
        case Attempt(code=int(code)) | Talked(exchanges=(*_, Exchange(code=int(code)))):
            return code >= 500
    return False


def too_late(events: Sequence[AnyEvent], tolerance: float) -> bool:
    """Return whether the harness lagged beyond what it may: timed failures of this history prove nothing."""
    return worst_lag(events) > _allowed(tolerance)


def _allowed(tolerance: float) -> float:
    return min(tolerance, LIMIT)


def worst_lag(events: Sequence[AnyEvent]) -> float:
    """Return how late the harness ran at worst since the first step began, documented seconds."""
    first = next((event.n for event in events if isinstance(event, StepEvent)), len(events))
    return max((event.seconds for event in events if isinstance(event, Lag) and event.n > first), default=0.0)
