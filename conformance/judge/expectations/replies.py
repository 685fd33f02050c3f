"""Checks the replies of servers: to messages, in conversations, how long they were withheld, and how sessions ended.

`expected` is what the scenario's author wrote under the verb; `of` names the messages. An `Attempt` is one transmission of a
message by the harness, with the final reply to it. A conversation is a step `talk`, one SMTP session line by line; its
`Talked` event has the replies. `n` is an event's number, `t` its time in documented seconds.

The judge (`conformance.judge.cell`) calls a check when the step of its expectation has ended. `context` is the history up to
then. The check returns a `Finding`: `occasions` counts how often it could have failed; a confirmation is an event that shows
what was expected, whose time the judge compares with `after` and `within`; `evidence` has the events that are shown. The
`kind` of a violation selects the requirements to blame: `rows_by_kind` of the decorator, else its `fallback_rows`.
Violations of `explaining_kinds` are listed before the failures that may follow from them. A time may miss its bound by
`context.slack` seconds, the clock's tolerance.
"""

import re
from collections.abc import Sequence

from conformance.history.events import Attempt, MessageMade, Talked
from conformance.history.secrets import REDACTED
from conformance.judge.checks import expectation_check
from conformance.scenarios.expectations import ClosedExpected, ConversationExpected, ReplyExpected, WithheldExpected
from conformance.scenarios.steps.talking import Line, Talk
from conformance.trace.context import ExpectationContext
from conformance.trace.finding import Finding, ViolationKind, format_seconds
from conformance.trace.sessions import Session

_ROWS_REFUSED = frozenset({"SR-ENA-04", "SR-TMO-02", "SR-PRF-07", "SR-BND-08", "RL-CNT-02"})
_ROWS_ACCEPTED = frozenset(
    {
        "SR-ENA-03", "SR-ENA-05", "SR-ENA-06", "SR-TMO-01", "SR-TMO-04", "SR-CRE-05", "SR-BND-08", "SR-PRF-07",
        "SR-E10-15", "SR-E10-16", "RL-ACK-04",
    }
)  # fmt: skip


@expectation_check(
    ReplyExpected,
    rows_by_kind={
        "other": frozenset({"SR-ENA-04", "SR-BND-08"}),
        "missing": _ROWS_REFUSED,
        "surplus": _ROWS_ACCEPTED,
        "size": frozenset({"RL-CNT-02"}),
    },
    explaining_kinds=("missing",),
)
def reply(expected: ReplyExpected, context: ExpectationContext) -> Finding:
    """Check the final reply to each message, in the attempt that is asked for: the last, each, or one by its number.

    With `code: none` no attempt may have ended; otherwise a message without the attempt that is asked for is a violation.
    """
    classes = " or ".join(f"{digit}yz" for digit in expected.classes or ())
    wanted = " ".join(str(part) for part in (expected.code, classes, expected.enhanced, expected.text) if part)
    finding = Finding(f"the reply to each message of {expected.of}: {wanted}")
    for message in context.messages(expected.of):
        attempts = _select_attempts(expected, context.attempts(message.message))
        finding.occasions += max(len(attempts), 1)
        if not attempts and expected.code != "none":
            finding.add_message_violation(message, "no transmission has ended")
        for attempt in attempts:
            finding.add_confirmation(attempt.n, attempt.t, message)
            if not _is_expected_reply(expected, attempt, compare_enhanced=_promises_enhanced(context, attempt)):
                _add_reply_violation(finding, expected, message, attempt, context.cell.requirements)
    return finding


def _select_attempts(expected: ReplyExpected, attempts: list[Attempt]) -> list[Attempt]:
    """Return the attempts that `attempt:` of the expectation selects: each, the last, or one by its number from 1.

    [] where there is no such attempt.
    """
    if expected.attempt == "each":
        return attempts
    return attempts[-1:] if expected.attempt == "last" else attempts[expected.attempt - 1 : expected.attempt]


def _promises_enhanced(context: ExpectationContext, attempt: Attempt) -> bool:
    """Return whether enhanced status codes can be asked of the server: it offered them, or has not answered EHLO.

    RFC 2034 2: a server that does not offer ENHANCEDSTATUSCODES need not send them.
    """
    session = context.trace.sessions.get(attempt.session or "")
    return session is None or session.keywords is None or "ENHANCEDSTATUSCODES" in session.keywords


def _is_expected_reply(expected: ReplyExpected, attempt: Attempt, *, compare_enhanced: bool) -> bool:
    """Return whether an attempt's reply has the expected code, class, enhanced code and text, as far as they are given.

    `code: lost` is fulfilled by an attempt that lost its session, `code: none` by no attempt at all. With `compare_enhanced`
    False any enhanced code will do.
    """
    lost = attempt.outcome == "lost"
    is_code = lost if expected.code == "lost" else not lost and attempt.code == expected.code
    return (
        (expected.code is None or is_code)
        and (expected.classes is None or (not lost and (attempt.code or 0) // 100 in expected.classes))
        and (expected.enhanced is None or not compare_enhanced or attempt.enhanced == expected.enhanced)
        and (expected.text is None or expected.text in attempt.text)
    )


def _expected_classes(expected: ReplyExpected) -> frozenset[int] | None:
    """Return the first digits that the code of an expected reply may have; none where no reply is expected, None for any.

    They are those of `code`, else `classes`, else that of `enhanced`; `text` says nothing about them.
    """
    if expected.code is not None:
        return frozenset({expected.code // 100} if isinstance(expected.code, int) else ())
    if expected.classes is not None:
        return frozenset(expected.classes)
    digit = (expected.enhanced or "")[:1]
    return frozenset({int(digit)}) if digit in ("2", "4", "5") else None


def _add_reply_violation(
    finding: Finding, expected: ReplyExpected, message: MessageMade, attempt: Attempt, requirements: Sequence[str]
) -> None:
    """Add the violation of an unexpected reply, with its kind.

    `missing`: the message was accepted, and no positive reply is expected, so a refusal is missing; `surplus`: it was refused,
    or got no reply, and only a positive reply is expected; `size`: the same with 552, where RL-CNT-02 is one of the scenario's
    `requirements`; `other`: it was refused with a code of an expected class, and the code, enhanced code or text is another one;
    '' anything else, also where no class is expected.
    """
    classes = _expected_classes(expected)
    seen_class = attempt.code // 100 if attempt.code is not None else None
    kind: ViolationKind = ""
    if classes is not None and seen_class == 2:
        kind = "" if 2 in classes else "missing"
    elif classes is not None and seen_class in classes:
        kind = "other"
    elif classes == frozenset({2}):
        kind = "size" if attempt.code == 552 and "RL-CNT-02" in requirements else "surplus"
    seen = f"{attempt.code} {attempt.enhanced or ''} {attempt.text}" if attempt.code else f"none: {attempt.text}"
    sentence = f"{attempt.server} said {seen} by {format_seconds(attempt.t)}"
    finding.add_message_violation(message, sentence, attempt.n, kind=kind)


@expectation_check(WithheldExpected)
def withheld(expected: WithheldExpected, context: ExpectationContext) -> Finding:
    """Check for how long the last final reply to each message was withheld after its dot: `least` to `most` seconds.

    None sets no limit. Only transactions in which the harness itself sent the message, and which have a final reply, are looked
    at: each is an occasion.
    """
    finding = Finding(
        f"the reply to {expected.of} withheld"
        + (f" for at least {format_seconds(expected.least)}" if expected.least is not None else "")
        + (f" and at most {format_seconds(expected.most)}" if expected.most is not None else "")
    )
    for message in context.messages(expected.of):
        sessions = {attempt.session for attempt in context.attempts(message.message)}
        for t in context.trace.transactions_of(message.message):
            if t.session not in sessions or t.dot_t is None or not t.replies:
                continue
            finding.occasions += 1
            last = t.replies[-1]
            finding.add_confirmation(last.n, last.t, message)
            delay = last.t - t.dot_t
            early = expected.least is not None and delay < expected.least - context.slack
            if early or (expected.most is not None and delay > expected.most + context.slack):
                finding.add_message_violation(message, f"withheld for {format_seconds(delay)}", last.n)
    return finding


@expectation_check(ConversationExpected)
def conversation(expected: ConversationExpected, context: ExpectationContext) -> Finding:
    """Check that a conversation went as its `talk` says: each reply as written beside its line, and in time.

    The run has compared the replies: `Talked.problem` says what was not as written, '' for nothing. Each exchange of a line and
    its reply is an occasion; without a `Talked` event of the conversation there is none.
    """
    finding = Finding(f"the conversation {expected.conversation} goes as written")
    for event in context.trace.events_of(Talked):
        if event.conversation == expected.conversation:
            finding.occasions += len(event.exchanges)
            finding.add_confirmation(event.n, event.t)
            if event.problem:
                last = event.exchanges[-1].said if event.exchanges else ""
                finding.add_violation(f"after {last!r}: {event.problem}", event.n)
            _check_reply_times(finding, context, event)
    return finding


def _check_reply_times(finding: Finding, context: ExpectationContext, event: Talked) -> None:
    """Add a violation for each reply that came later than its line's `within`.

    `lines` are those of the step `talk`. A line with `where` was not sent when its keyword was not offered: then it has no exchange,
    and is skipped. A reply without a recorded time (`waited`), as in histories of 0.1.0, passes.
    """
    talks = [step.action for step in context.cell.all_steps if isinstance(step.action, Talk)]
    lines = list(next((talk.lines for talk in talks if talk.name == event.conversation), ()))
    for exchange in event.exchanges:
        while lines and lines[0].where is not None and not _is_of_line(exchange.said, lines[0]):
            del lines[0]
        if not lines:
            return
        line = lines.pop(0)
        if line.within is None or exchange.waited is None or exchange.waited <= line.within + context.slack:
            continue
        finding.add_violation(
            f"{exchange.code or 'the end of the session'} came {format_seconds(exchange.waited)} after "
            f"{exchange.said or 'the wait before it'}, not within {format_seconds(line.within)}",
            event.n,
        )


def _is_of_line(said: str, line: Line) -> bool:
    """Return whether an exchange with these words (`TalkExchange.said`) may be that of a line; its secrets are redacted there."""
    text = line.say or line.octets or (f"({line.message})" if line.message else "")
    return re.fullmatch(".*".join(map(re.escape, said.split(REDACTED))), text, re.DOTALL) is not None


@expectation_check(ClosedExpected)
def closed(expected: ClosedExpected, context: ExpectationContext) -> Finding:
    """Check that `by` ended the sessions of `_select_sessions`, and the codes of the last reply before that, where given.

    Each ended session is checked. Sessions that are still open are no violation if one has ended. If none has, that is one
    violation, or undecided where a fault holds one of them back. Without sessions there is no occasion.
    """
    subject = (
        expected.conversation
        or expected.of
        or f"the session from {expected.sender or 'anyone'} to {expected.to or 'anyone'}"
    )
    wanted = " ".join(str(part) for part in (expected.code, expected.enhanced) if part)
    finding = Finding(f"{subject} closed by the {expected.by}" + (f" after {wanted}" if wanted else ""))
    sessions = _select_sessions(expected, context)
    finding.occasions = len(sessions)
    ended = [session for session in sessions if session.closed is not None]
    if not ended and any(session.name in context.trace.held_sessions for session in sessions):
        finding.add_undecided("a link holds the session back, so an end of it cannot be seen")
    elif sessions and not ended:
        sentence = f"{len(sessions)} sessions, none of which has ended"
        finding.add_violation(sentence, *[session.n for session in sessions])
    for session in ended:
        assert session.closed is not None
        end = session.closed
        finding.add_confirmation(end.n, end.t)
        last = next((r for r in reversed(session.replies) if r.n < end.n), None)
        seen = f"{last.code} {last.enhanced or ''}".strip() if last is not None else "nothing"
        if end.by != expected.by:
            sentence = f"session {session.name} was closed by the {end.by} at {format_seconds(end.t)}, after {seen}"
            finding.add_violation(sentence, end.n)
        elif (expected.code is not None and (last is None or last.code != expected.code)) or (
            expected.enhanced is not None and (last is None or last.enhanced != expected.enhanced)
        ):
            finding.add_violation(f"session {session.name} was closed after {seen}", end.n)
    return finding


def _select_sessions(expected: ClosedExpected, context: ExpectationContext) -> list[Session]:
    """Return the sessions of a conversation, or those in which the harness sent the messages `of`.

    `from` (the client, `expected.sender`) and `to` (the server), where given, leave out those of other parties. Without
    conversation and messages, return the session between these parties that ended first of those opened since `since`, or all
    of them when none ended.
    """
    names: set[str | None] | None = None
    if expected.conversation is not None:
        names = {e.session for e in context.trace.events_of(Talked) if e.conversation == expected.conversation}
    elif expected.of is not None:
        messages = context.messages(expected.of)
        names = {attempt.session for message in messages for attempt in context.attempts(message.message)}
    sessions = [
        session
        for session in context.trace.sessions.values()
        if (session.n >= context.since_n if names is None else session.name in names)
        and (expected.sender is None or session.client == expected.sender)
        and (expected.to is None or session.server == expected.to)
    ]
    if names is None:
        ended = [session for session in sessions if session.closed is not None]
        return sorted(ended, key=lambda session: session.closed.n if session.closed else 0)[:1] or sessions
    return sessions
