"""What was said: the replies that senders got, how long they were withheld, conversations, and how sessions ended."""

from collections.abc import Sequence

from conformance.history.events import Attempt, MessageMade, Talked
from conformance.judge.blame import Kind
from conformance.judge.expectations.check import check
from conformance.judge.finding import Finding, View, moment, named
from conformance.judge.sessions import Session
from conformance.scenarios.expectations import ClosedExpected, ConversationExpected, ReplyExpected, WithheldExpected
from conformance.scenarios.steps.talking import Talk

_REFUSED = frozenset({"SR-ENA-04", "SR-TMO-02", "SR-PRF-07", "SR-BND-08", "RL-CNT-02"})
_ACCEPTED = frozenset(
    {
        "SR-ENA-03", "SR-ENA-05", "SR-ENA-06", "SR-TMO-01", "SR-TMO-04", "SR-CRE-05", "SR-BND-08", "SR-PRF-07",
        "SR-E10-15", "SR-E10-16", "RL-ACK-04",
    }
)  # fmt: skip


# A message that had to be refused and was not (`missing`: the refusal), or was and need not have been (`surplus`).
@check(
    ReplyExpected,
    about={
        "other": frozenset({"SR-ENA-04", "SR-BND-08"}),
        "missing": _REFUSED,
        "surplus": _ACCEPTED,
        "size": frozenset({"RL-CNT-02"}),
    },
    explains=("missing",),
)
def reply(e: ReplyExpected, view: View) -> Finding:
    """The final reply to each message."""
    classes = " or ".join(f"{digit}yz" for digit in e.classes or ())
    wanted = " ".join(str(part) for part in (e.code, classes, e.enhanced, e.text) if part)
    finding = Finding(f"the reply to each message of {e.of}: {wanted}")
    for made in view.messages(e.of):
        chosen = _chosen(e, view.attempts(made.message))
        finding.occasions += max(len(chosen), 1)
        if not chosen and e.code != "none":
            finding.violated(f"{named(made)}: no transmission has ended", message=made.message)
        for attempt in chosen:
            finding.met(attempt.n, attempt.t, made)
            if not _is(e, attempt, enhanced=_promises_enhanced(view, attempt)):
                _wrong(finding, e, made, attempt, view.cell.requirements)
    return finding


def _chosen(e: ReplyExpected, attempts: list[Attempt]) -> list[Attempt]:
    if e.attempt == "each":
        return attempts
    return attempts[-1:] if e.attempt == "last" else attempts[e.attempt - 1 : e.attempt]


def _promises_enhanced(view: View, attempt: Attempt) -> bool:
    """Whether the server may be held to enhanced status codes: it offered them, or has not answered EHLO (RFC 2034 2)."""
    session = view.trace.sessions.get(attempt.session or "")
    return session is None or session.keywords is None or "ENHANCEDSTATUSCODES" in session.keywords


def _is(e: ReplyExpected, attempt: Attempt, *, enhanced: bool) -> bool:
    lost = attempt.outcome == "lost"
    code = lost if e.code == "lost" else not lost and attempt.code == e.code
    return (
        (e.code is None or code)
        and (e.classes is None or (not lost and (attempt.code or 0) // 100 in e.classes))
        and (e.enhanced is None or not enhanced or attempt.enhanced == e.enhanced)
        and (e.text is None or e.text in attempt.text)
    )


def _wrong(
    finding: Finding, e: ReplyExpected, made: MessageMade, attempt: Attempt, requirements: Sequence[str]
) -> None:
    accepted = attempt.code is not None and attempt.code // 100 == 2
    welcome = isinstance(e.code, int) and e.code // 100 == 2
    kind: Kind = "" if accepted is welcome else "missing" if accepted else "surplus"
    if not accepted and isinstance(e.code, int) and attempt.code is not None and attempt.code // 100 == e.code // 100:
        kind = "other"
    if kind == "surplus" and attempt.code == 552 and "RL-CNT-02" in requirements:
        kind = "size"
    seen = f"{attempt.code} {attempt.enhanced or ''} {attempt.text}" if attempt.code else f"none: {attempt.text}"
    finding.violated(
        f"{named(made)}: {attempt.server} said {seen} by {moment(attempt.t)}",
        attempt.n,
        message=made.message,
        kind=kind,
    )


@check(WithheldExpected)
def withheld(e: WithheldExpected, view: View) -> Finding:
    """How long the final reply was withheld after the final dot."""
    finding = Finding(
        f"the reply to {e.of} withheld"
        + (f" for at least {moment(e.least)}" if e.least is not None else "")
        + (f" and at most {moment(e.most)}" if e.most is not None else "")
    )
    for made in view.messages(e.of):
        sessions = {attempt.session for attempt in view.attempts(made.message)}
        for t in view.trace.transactions_of(made.message):
            if t.session not in sessions or t.dot_t is None or not t.replies:
                continue
            finding.occasions += 1
            finding.met(t.replies[-1].n, t.replies[-1].t, made)
            time = t.replies[-1].t - t.dot_t
            early = e.least is not None and time < e.least - view.slack
            if early or (e.most is not None and time > e.most + view.slack):
                finding.violated(f"{named(made)}: withheld for {moment(time)}", t.replies[-1].n, message=made.message)
    return finding


@check(ConversationExpected)
def conversation(e: ConversationExpected, view: View) -> Finding:
    """A talk went as it says."""
    finding = Finding(f"the conversation {e.conversation} goes as written")
    for event in view.trace.of(Talked):
        if event.conversation == e.conversation:
            finding.occasions += len(event.exchanges)
            finding.met(event.n, event.t)
            if event.problem:
                last = event.exchanges[-1].said if event.exchanges else ""
                finding.violated(f"after {last!r}: {event.problem}", event.n)
            _late_replies(finding, view, event)
    return finding


def _late_replies(finding: Finding, view: View, event: Talked) -> None:
    """Hold the time of each reply against the `within` of its line. Histories of 0.1.0 have no such times."""
    talks = [step.action for step in view.cell.all_steps if isinstance(step.action, Talk)]
    lines = list(next((talk.lines for talk in talks if talk.name == event.conversation), ()))
    for exchange in event.exchanges:
        while lines and lines[0].where is not None and lines[0].say != exchange.said:
            del lines[0]  # its keyword was not offered, so it was not said
        if not lines:
            return
        line = lines.pop(0)
        if line.within is None or exchange.waited is None or exchange.waited <= line.within + view.slack:
            continue
        finding.violated(
            f"{exchange.code or 'the end of the session'} came {moment(exchange.waited)} after "
            f"{exchange.said or 'the wait before it'}, not within {moment(line.within)}",
            event.n,
        )


@check(ClosedExpected)
def closed(e: ClosedExpected, view: View) -> Finding:
    """The sessions meant were ended by whom it says, and the last reply in them was the one it says.

    Meant are the session of a talk, those of a message, or (by the parties alone) the first that has ended.
    """
    who = e.conversation or e.of or f"the session from {e.sender or 'anyone'} to {e.to or 'anyone'}"
    wanted = " ".join(str(part) for part in (e.code, e.enhanced) if part)
    finding = Finding(f"{who} closed by the {e.by}" + (f" after {wanted}" if wanted else ""))
    sessions = _meant(e, view)
    finding.occasions = len(sessions)
    ended = [session for session in sessions if session.closed is not None]
    if not ended and any(session.name in view.trace.held for session in sessions):
        finding.untold("a link holds the session, and with it the sign that either end has left")
    elif sessions and not ended:
        finding.violated(f"{len(sessions)} sessions, none of which has ended", *[session.n for session in sessions])
    for session in ended:
        assert session.closed is not None
        finding.met(session.closed.n, session.closed.t)
        last = next((r for r in reversed(session.replies) if r.n < session.closed.n), None)
        said = f"{last.code} {last.enhanced or ''}".strip() if last is not None else "nothing"
        if session.closed.by != e.by:
            finding.violated(
                f"session {session.name} was closed by the {session.closed.by} at {moment(session.closed.t)}, after {said}",
                session.closed.n,
            )
        elif (e.code is not None and (last is None or last.code != e.code)) or (
            e.enhanced is not None and (last is None or last.enhanced != e.enhanced)
        ):
            finding.violated(f"session {session.name} was closed after {said}", session.closed.n)
    return finding


def _meant(e: ClosedExpected, view: View) -> list[Session]:
    names: set[str | None] | None = None
    if e.conversation is not None:
        names = {event.session for event in view.trace.of(Talked) if event.conversation == e.conversation}
    elif e.of is not None:
        names = {attempt.session for made in view.messages(e.of) for attempt in view.attempts(made.message)}
    found = [
        session
        for session in view.trace.sessions.values()
        if (names is None or session.name in names)
        and (names is not None or session.n >= view.since_n)
        and (e.sender is None or session.client == e.sender)
        and (e.to is None or session.server == e.to)
    ]
    if names is None:
        ended = [session for session in found if session.closed is not None]
        return sorted(ended, key=lambda session: session.closed.n if session.closed else 0)[:1] or found
    return found
