"""Checks of what a client does after an attempt: what it tries again, when, and what arrives twice or never.

An *attempt* is one RCPT of a client, with what followed for this recipient. It is *accepted*, refused for now (*transient*) or
for good (*permanent*), *lost* before the final dot, *unanswered* after it, *abandoned* by the client, or *open*. Transient, lost
and unanswered ones have to be tried again (`_TRIED_AGAIN`). The *record* is what the listener has noted beside the history. A
*tally* counts the occasions to violate a clause, and has what is wrong or cannot be decided.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from conformance.listen.behaviours import parse_behaviour
from conformance.listen.checks.tally import Tally
from conformance.listen.checks.waiting import misbehaved_sessions
from conformance.listen.record import Attempted, ListenRecord
from conformance.report.escaping import visible
from conformance.trace.finding import format_seconds
from conformance.trace.sessions import Session, Transaction, parse_path
from conformance.trace.trace import Trace

MIN_DELAY_S = 1.0
"""A retry that comes sooner was not delayed at all: RFC 5321 4.5.4.1 names no minimum for the MUST."""

MIN_INTERVAL_S = 1800.0
"""The interval that RFC 5321 4.5.4.1 recommends."""

Result = Literal["accepted", "transient", "permanent", "lost", "unanswered", "abandoned", "open"]
"""How an attempt ended for a recipient: by a final reply 2yz; by 4yz; by 5yz; the session ended before the final dot, or
between it and the reply; the client did not send the content; or it has not ended."""

_TRIED_AGAIN: frozenset[Result] = frozenset({"transient", "lost", "unanswered"})
_PERMANENT = 5


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt for a recipient: its result, when it began and ended, and what identifies the content, None if unseen.

    Times are seconds since the listener began. `cause` says in words why it ended so, '' if it is open or abandoned.
    """

    address: str
    session: str
    began: float
    ended: float
    result: Result
    content: str | None
    cause: str


def check_delivery(record: ListenRecord, trace: Trace) -> list[Tally]:
    """Check the attempts for each message and recipient, in their order; return a tally for each of six clauses."""
    retry = Tally("retry", "RFC 5321 4.5.4.1", "tries again after 4yz or a lost connection", "RL-RTY-01")
    lost_reply = Tally("lost-reply", "RFC 1047", "sends again what was not answered after the final dot", "RL-ACK-03")
    delay = Tally("retry-delay", "RFC 5321 4.5.4.1", "waits before it tries again")
    interval = Tally(
        "retry-interval",
        "RFC 5321 4.5.4.1",
        f"waits {format_seconds(MIN_INTERVAL_S)} before it tries again",
        should=True,
    )
    permanent = Tally("no-retry-after-5yz", "RFC 5321 4.2.1", "does not repeat what was refused with 5yz", should=True)
    once = Tally("arrives-once", "RFC 5321 4.5.4.1", "sends a message once to a recipient for whom it was accepted")
    for attempts in _messages(find_attempts(record, trace)):
        for number, attempt in enumerate(attempts):
            again = attempts[number + 1] if number + 1 < len(attempts) else None
            if attempt.result in _TRIED_AGAIN:
                tally = lost_reply if attempt.result == "unanswered" else retry
                _check_retry(tally, attempt, again, record.ended)
                _check_delays(delay, interval, attempt, again)
            elif attempt.result == "permanent":
                permanent.occasions += 1
                if again is not None:
                    permanent.violations.append(
                        (f"{_describe(attempt)}, and was tried again {_later(attempt, again)}", again.session)
                    )
            elif attempt.result == "accepted":
                once.occasions += 1
                later = attempts[number + 1 :]
                sent = next((other for other in later if other.result != "open" and other.content is not None), None)
                if sent is not None:
                    once.violations.append(
                        (f"{_describe(attempt)}, and was sent again {_later(attempt, sent)}", sent.session)
                    )
    return [retry, lost_reply, delay, interval, permanent, once]


def _check_retry(tally: Tally, attempt: Attempt, again: Attempt | None, ended: float) -> None:
    """Count an occasion if an attempt was tried again (`again` is the next one); note it as undecided if not (None).

    Without a next one nothing is noted for an address at which no attempt is ever accepted. `ended` is when the listener stopped.
    """
    if again is not None:
        tally.occasions += 1
    elif not _is_endless(attempt.address):
        waited = format_seconds(max(0.0, ended - attempt.ended))
        tally.leave_open(
            f"{_describe(attempt)}, and was not tried again in the {waited} until the listener stopped", attempt.session
        )


def _check_delays(delay: Tally, interval: Tally, attempt: Attempt, again: Attempt | None) -> None:
    """Compare the delay before a retry with the required one (`delay`, 1 s) and with the recommended one (`interval`, 30 min).

    Nothing is counted without a retry (`again` is None).
    """
    if again is None:
        return
    text = f"{_describe(attempt)}, and was tried again {_later(attempt, again)}"
    hint = "; if these were two messages, give each an address of its own, such as name+2@"
    if again.began - attempt.ended < MIN_DELAY_S:
        delay.violate(text + hint, again.session)
    else:
        delay.occasions += 1
    if again.began - attempt.ended < MIN_INTERVAL_S:
        interval.violate(f"{text}; at least {format_seconds(MIN_INTERVAL_S)} are recommended", again.session)
    else:
        interval.occasions += 1


def _is_endless(address: str) -> bool:
    """Whether no attempt for an address is ever accepted, so that the last one is always without a retry."""
    behaviour = parse_behaviour(address)
    return behaviour is not None and behaviour.times is None


def _describe(attempt: Attempt) -> str:
    """Return the address of an attempt, why it ended so, and its session, in words."""
    return f"{visible(attempt.address, 80)}: {attempt.cause} (session {attempt.session})"


def _later(attempt: Attempt, again: Attempt) -> str:
    """Return how long after the end of an attempt the next one began, such as `2s later`."""
    return f"{format_seconds(max(0.0, again.began - attempt.ended))} later"


def find_attempts(record: ListenRecord, trace: Trace) -> list[Attempt]:
    """Return each attempt for a recipient, in the order of RCPT, with how it ended.

    Left out are those whose address looks like a request for misbehaviour and cannot be parsed as one.
    """
    attempts = []
    misbehaved = misbehaved_sessions(trace)
    for noted in record.attempts:
        session = trace.sessions.get(noted.session)
        if session is not None and noted.behaviour != "unknown":
            attempts.append(_judge_attempt(noted, session, record.ended, misbehaved=noted.session in misbehaved))
    return attempts


def _judge_attempt(noted: Attempted, session: Session, ended: float, *, misbehaved: bool) -> Attempt:
    """Return one attempt with its result; `ended` is when the listener stopped.

    Its transaction is the last that began before the RCPT. `misbehaved`: the listener itself disturbed the session.
    """
    transaction = next((t for t in reversed(session.transactions) if t.t <= noted.t), None)
    result, at, cause = _find_result(noted, session, transaction, ended, misbehaved=misbehaved)
    return Attempt(
        address=noted.address.lower(),
        session=session.name,
        began=noted.t,
        ended=at,
        result=result,
        content=_identity(transaction),
        cause=cause,
    )


def _identity(transaction: Transaction | None) -> str | None:
    """Return what identifies the message of a transaction; None without a transaction, or if its content was not sent.

    That is the Message-ID with the hash of the body, or the hash of the whole content if it has no Message-ID.
    """
    if transaction is None or transaction.digest is None:
        return None
    digest = transaction.digest
    return f"{digest.message_id} {digest.body_sha256}" if digest.message_id else digest.sha256


def _find_result(
    noted: Attempted, session: Session, transaction: Transaction | None, ended: float, *, misbehaved: bool
) -> tuple[Result, float, str]:
    """Return how an attempt ended, when, and why, in words.

    A reply 4yz or 5yz to its MAIL, RCPT or DATA ends it, else the reply to the content, else the end of the session or of
    the listening (`ended`). It is *open* while the session lasts. Without the final dot it is *abandoned* after QUIT, RSET or
    another MAIL, or if the client closed a session that the listener had not disturbed (`misbehaved`), else *lost*.
    """
    closed = session.closed
    end = closed.t if closed is not None else ended
    first_n = -1 if transaction is None else transaction.n
    next_n = next((t.n for t in session.transactions if t.n > first_n), None)
    of_transaction = [
        x for x in session.exchanges if first_n <= x.command.n and (next_n is None or x.command.n < next_n)
    ]
    for exchange in of_transaction:
        command, reply = exchange.command, exchange.reply
        if (command.t < noted.t and command.verb != "MAIL") or reply is None or reply.code // 100 not in (4, 5):
            continue
        is_own = command.verb == "RCPT" and parse_path(command.line).lower() == noted.address.lower()
        if is_own or command.verb in ("MAIL", "DATA"):
            if command.verb == "DATA" and noted.address.lower() not in [
                to.lower() for to in (transaction.recipients if transaction else ())
            ]:
                continue
            return _by_code(reply.code), reply.t, f"{command.verb} was answered {reply.code}"
    if transaction is not None and transaction.dot_n is not None:
        final = next((reply for reply in transaction.replies if reply.code), None)
        if final is not None:
            return _by_code(final.code), final.t, f"the content was answered {final.code}"
        return ("unanswered", end, "no reply to the final dot was read") if closed is not None else ("open", end, "")
    if closed is None:
        return "open", end, ""
    went_on = next_n is not None or any(x.command.verb in ("QUIT", "RSET") for x in of_transaction)
    if went_on or (closed.by == "client" and not misbehaved):
        return "abandoned", end, ""
    return "lost", end, "the session ended before the final dot"


def _by_code(code: int) -> Result:
    """Return the result that a final reply gives an attempt: by its first digit 2, 5, or any other."""
    return "accepted" if code // 100 == 2 else "permanent" if code // 100 == _PERMANENT else "transient"


def _messages(attempts: Sequence[Attempt]) -> list[list[Attempt]]:
    """Return the attempts grouped by message and recipient; each group has them in order.

    An attempt whose content was not seen belongs to the message that is seen next for this address. If none is, it belongs to
    the group of the attempt before, or to another group if that was accepted.
    """
    groups: dict[tuple[str, str], list[Attempt]] = defaultdict(list)
    by_address: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        by_address[attempt.address].append(attempt)
    for address, of_address in by_address.items():
        previous: Attempt | None = None
        key = ""
        for number, attempt in enumerate(of_address):
            seen_next = next((later.content for later in of_address[number:] if later.content is not None), None)
            if seen_next is not None:
                key = seen_next
            elif previous is not None and previous.result == "accepted":
                key = ""
            groups[address, key].append(attempt)
            previous = attempt
    return list(groups.values())
