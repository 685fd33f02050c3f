"""Judges the expiry of messages: a report after MessageExpirationTimeout, not before, and no attempt later (SR-MNT-14).

A message that stays in a queue for MessageExpirationTimeout expires with a report to its sender. The time counts from the
final dot or from the acknowledgement to the server that holds the message, which the documents leave open. A report is *too
early* where only transient failures were seen: 4yz replies and connections that failed; whether another reason made the failure
permanent is then not in question. Of a message that a holder took over, and of one that the server was handed several times, it
is not known from when time counts: these are left out.

`n` is an event's number, times are documented seconds, and `facts.slack` is by how much a time may miss a bound. A `Transaction`
is one mail transaction: MAIL is event `n` at time `t`, the final dot `dot_n` at `dot_t`, `replies` are the final replies,
`acceptance` is the first positive one or None. `name` is the scenario's name of a message.

The rule judges one recorded history and returns a `Finding` of occasions (chances to fail) and violations, as `conformance.model`
describes.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from conformance.history.events import ConnectFailed, FaultFired, Reply
from conformance.model.due_notifications import report_transactions
from conformance.model.facts import Facts, operation_name
from conformance.model.giving_up import asks_for_no_report
from conformance.model.rules import rule
from conformance.trace.finding import Finding, format_seconds
from conformance.trace.sessions import Session, Transaction

_PROMPT_S = 60.0
"""Documented seconds within which a message is expired and its report sent, beside one retry interval."""


@dataclass(frozen=True, slots=True)
class QueuedMessage:
    """A message that `server` was handed once, for a `recipient` whom it tried in vain.

    `tries` are its transmissions to the recipient in order; a next hop may have accepted the last one, no other. The final dot
    came at `dot_t`; the acknowledgement is event `handed_n` at `handed_t`. `wants_report`: its failure must be reported, since
    it has a sender, and its RCPT had no NOTIFY without FAILURE.
    """

    name: str
    server: str
    recipient: str
    dot_t: float
    handed_n: int
    handed_t: float
    tries: list[Transaction]
    wants_report: bool


@rule("SR-MNT-14")
def expires_in_time(facts: Facts) -> Finding:
    """Check of each message that only met with transient failures that it expires with a report, and not too early.

    A violation is a report that comes too early, an attempt to pass the message on after `latest_expiry`, and no report by then,
    whether or not one comes later. A missing or late report is excused where the server may have been trying to send it
    (`_may_be_reporting`), a late one also by a long session (`_is_kept_waiting`). No report is due for a message with a null
    reverse-path, nor for a recipient with a NOTIFY without FAILURE, such as NEVER (RFC 3461 4.1). A message that a next hop
    accepted in time is no occasion. Only candidates that claim `shadow-2013` are judged.
    """
    finding = Finding("a message expires with a report after MessageExpirationTimeout")
    if "shadow-2013" not in facts.context.claims:
        return finding
    for queued in _queued_messages(facts):
        timeouts = facts.parameter_numbers_between(
            queued.server, "MessageExpirationTimeout", queued.handed_n, facts.end_n
        )
        if not timeouts:
            continue
        deadline = latest_expiry(facts, queued.server, queued.handed_n, queued.handed_t, max(timeouts))
        last = queued.tries[-1]
        if last.acceptance is not None and (deadline is None or last.t <= deadline):
            continue
        message = facts.trace.messages[queued.name]
        report = next(_reports_of(facts, queued), None)
        finding.occasions += report is not None or deadline is not None
        age = report.t - queued.dot_t if report is not None else math.inf
        if report is not None and age < min(timeouts) - facts.slack:
            finding.add_message_violation(
                message,
                f"{queued.server} reported that it could not be delivered to {queued.recipient} {format_seconds(age)} "
                f"after it had taken it, though it met with transient failures only; MessageExpirationTimeout is "
                f"{format_seconds(min(timeouts))}",
                report.n,
                queued.handed_n,
            )
            continue
        if deadline is None:
            continue
        late = next((t for t in queued.tries if t.t > deadline), None)
        if late is not None:
            finding.add_message_violation(
                message,
                f"{queued.server} still tried to pass it on to {queued.recipient} at {format_seconds(late.t)}, "
                f"{format_seconds(late.t - queued.handed_t)} after it had taken it; MessageExpirationTimeout is "
                f"{format_seconds(max(timeouts))}",
                late.n,
                queued.handed_n,
            )
        elif queued.wants_report and (report is None or report.t > deadline):
            expiry_t = queued.dot_t + min(timeouts) - facts.slack
            if _may_be_reporting(facts, queued.server, expiry_t, math.inf if report is None else deadline):
                continue
            if report is None:
                finding.add_message_violation(
                    message,
                    f"{queued.server} took it at {format_seconds(queued.handed_t)}, did not pass it on to {queued.recipient}, and "
                    f"sent no report by {format_seconds(deadline)}; MessageExpirationTimeout is {format_seconds(max(timeouts))}",
                    queued.handed_n,
                )
            elif not _is_kept_waiting(facts, queued.server, expiry_t, deadline):
                finding.add_message_violation(
                    message,
                    f"{queued.server} reported that it could not be delivered to {queued.recipient} at {format_seconds(report.t)}, "
                    f"and not by {format_seconds(deadline)}; MessageExpirationTimeout is {format_seconds(max(timeouts))}",
                    report.n,
                    queued.handed_n,
                )
    return finding


def _queued_messages(facts: Facts) -> Iterator[QueuedMessage]:
    """Yield the messages of servers of 2013 and later that have met with transient failures and nothing else, once for each recipient.

    A next hop may have accepted the message after these. Left out are messages that a server was handed more than once, or as a
    shadow copy, those that came in an altered session, and those that cannot be distinguished from others of the same sender.
    """
    tries = facts.compute_once(_transmissions_by_server_and_recipient)
    for name, message in facts.trace.messages.items():
        given = [
            t for t in facts.trace.transactions_of(name)
            if t.kind != "shadow" and t.acceptance is not None and facts.is_tested_server(t.server)
        ]  # fmt: skip
        for server in sorted({t.server for t in given if not facts.is_2010(t.server)}):
            handed = [t for t in given if t.server == server]
            if len(handed) != 1 or handed[0].acceptance is None or handed[0].session in facts.trace.altered_sessions:
                continue
            if any(
                t.server == server and t.dot_n is not None and not t.replies for t in facts.trace.transactions_of(name)
            ):
                continue  # it may have taken that one too, before
            if any(copy.holder == server for copy in facts.trace.copies_of(name)):
                continue
            for recipient in handed[0].accepted_recipients:
                address = facts.context.normalize_address(recipient)
                mine = [
                    t for t in tries.get((server, address), ())
                    if t.n > handed[0].n and t.sender == message.sender and t.message in (None, name)
                ]  # fmt: skip
                taken = next((i for i, t in enumerate(mine) if t.acceptance is not None), len(mine))
                in_vain, mine = mine[:taken], mine[: taken + 1]
                if (
                    in_vain
                    and _have_failed_transiently(facts, server, handed[0].n, in_vain)
                    and _is_only_message_of_sender(facts, name, address)
                ):
                    taken_at = handed[0].acceptance
                    dot_t = taken_at.t if handed[0].dot_t is None else handed[0].dot_t
                    yield QueuedMessage(
                        name=name,
                        server=server,
                        recipient=address,
                        dot_t=dot_t,
                        handed_n=taken_at.n,
                        handed_t=taken_at.t,
                        tries=mine,
                        wants_report=bool(message.sender)
                        and not asks_for_no_report(facts.context, handed[0], recipient),
                    )


def _transmissions_by_server_and_recipient(facts: Facts) -> dict[tuple[str, str], list[Transaction]]:
    """Return the transactions in which servers passed mail on: (server, recipient) -> transactions in order.

    Shadow copies are left out, and sessions that the harness opened. A recipient whose RCPT was refused counts too.
    """
    found: dict[tuple[str, str], list[Transaction]] = {}
    for t in facts.trace.transactions:
        if t.kind != "shadow" and facts.is_opened_by_tested_server(t.client, t.session):
            for address in facts.context.normalize_addresses((*t.recipients, *t.refused)):
                found.setdefault((t.client, address), []).append(t)
    return found


def _have_failed_transiently(facts: Facts, server: str, since_n: int, tries: list[Transaction]) -> bool:
    """Return whether each of the attempts `tries` was answered 4yz and not accepted, and the server was answered 5yz in no session.

    A 4yz counts after the attempt's MAIL in its session, a 5yz after event `since_n`.
    """
    return all(
        t.acceptance is None
        and any(reply.code // 100 == 4 and reply.n > t.n for reply in _replies_in_session(facts, t))
        for t in tries
    ) and not any(
        reply.code // 100 == 5 and reply.n > since_n
        for pair, sessions in facts.sessions_by_client_and_server.items()
        if pair[0] == server
        for session in sessions
        for reply in session.replies
    )


def _replies_in_session(facts: Facts, sent: Transaction) -> tuple[Reply, ...]:
    """Return the replies in the session of a transaction."""
    return tuple(facts.trace.sessions[sent.session].replies)


def _is_only_message_of_sender(facts: Facts, name: str, address: str) -> bool:
    """Return whether no other message of the same sender is for the recipient.

    Before DATA the attempts at two such messages look alike. `address` is the recipient, normalized.
    """
    sender = facts.trace.messages[name].sender
    return not any(
        other.message != name and other.sender == sender
        and address in facts.context.normalize_addresses(other.recipients)
        for other in facts.trace.messages.values()
    )  # fmt: skip


def _reports_of(facts: Facts, queued: QueuedMessage) -> Iterator[Transaction]:
    """Yield the server's transmissions of a report to the sender that delivery to the recipient failed, in order.

    A report with the Message-ID that goes to another address is about another message with the same Message-ID.
    """
    message, normalize_all = facts.trace.messages[queued.name], facts.context.normalize_addresses
    for t in facts.compute_once(report_transactions).get(message.message_id or "", ()):
        if t.client != queued.server or t.digest is None or t.digest.action != "failed":
            continue
        is_to_sender = normalize_all((message.sender,)) <= normalize_all((*t.recipients, *t.refused))
        if is_to_sender and queued.recipient in normalize_all(t.digest.failed):
            yield t


def latest_expiry(facts: Facts, server: str, handed_n: int, handed_t: float, timeout: float) -> float | None:
    """Return the time by which a message in a server's queue must have expired, with its report sent; None where that is not known.

    The message lives for `timeout` documented seconds since it was handed over (event `handed_n` at `handed_t`), or until the server
    works again after that; one retry interval and `_PROMPT_S` are added. None is returned where the server does not work until such a
    time, or lost its queue before it.
    """
    retry = max(facts.parameter_numbers_between(server, "MessageRetryInterval", handed_n, facts.end_n), default=0.0)
    room = retry + _PROMPT_S + facts.slack
    wiped = [e.t for e in facts.node_events.get(server, ()) if e.action == "wiped" and e.n > handed_n]
    for span in facts.working_spans[server]:
        deadline = max(handed_t + timeout, span.since_t) + room
        if span.since_t <= deadline < span.until_t:
            return deadline if deadline < min(wiped, default=math.inf) else None
    return None


def _may_be_reporting(facts: Facts, server: str, since_t: float, until_t: float) -> bool:
    """Return whether between two times the server tried to pass something on that may have been a report.

    Such a try is a connection that failed or that a fault acted on at the dial, a session without mail up to `until_t` and of no
    other purpose, and a transaction with a null reverse-path that ended before its content.
    """
    dials: list[ConnectFailed | FaultFired] = [
        *facts.trace.events_of(ConnectFailed),
        *(fault for fault in facts.trace.events_of(FaultFired) if fault.session is None),
    ]
    if any(dial.client == server and since_t <= dial.t <= until_t for dial in dials):
        return True
    if any(
        since_t <= session.t <= until_t and not any(t.t <= until_t for t in session.transactions)
        for session in _mail_sessions(facts, server)
    ):
        return True
    return any(
        t.client == server and not t.sender and since_t <= t.t <= until_t and t.kind != "shadow" and t.dot_n is None
        for t in facts.trace.transactions
    )


def _is_kept_waiting(facts: Facts, server: str, since_t: float, until_t: float) -> bool:
    """Return whether, at some time between two times, the server had a session open that lasted for longer than `_PROMPT_S`.

    Sessions of `_mail_sessions` count; one that is open at the end of the history counts however short it is. A message does not
    expire while it is being sent, and a server may have a limit for its sessions.
    """
    return any(
        session.t <= until_t
        and (session.closed is None or (session.closed.t >= since_t and session.closed.t - session.t > _PROMPT_S))
        for session in _mail_sessions(facts, server)
    )


def _mail_sessions(facts: Facts, server: str) -> Iterator[Session]:
    """Yield the sessions that a server opened itself and in which no command was one of shadow redundancy."""
    for (client, _), sessions in facts.sessions_by_client_and_server.items():
        if client == server:
            yield from (
                session
                for session in sessions
                if facts.is_opened_by_tested_server(client, session.name)
                and not any(operation_name(exchange) for exchange in session.exchanges)
            )
