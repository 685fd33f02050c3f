"""Judges that no recipient is forgotten whom a next hop did not take for now.

It judges RL-421-01, RL-GRY-01, RL-RTY-03, RL-LMT-01 and RL-LIM-03. Each rule looks at the tries (`relaying`) that ended in one
way, such as 421; `_find_forgotten` makes its finding. After such a try the server that is responsible for the recipient tries
again, until a next hop has decided or the message expires. No clause gives a relay an interval that binds it; RFC 5321 4.5.4.1
recommends half an hour between tries. So a recipient counts as forgotten where the server has worked for `_PATIENCE_S`, and for
two of the intervals that the harness set, without a try or another connection to a next hop. A history that ends before that is
no occasion.

`n` is an event's number, `t` its time in documented seconds. Each rule judges one recorded history, `facts`, and returns a
`Finding` of occasions (chances to fail) and violations, as `conformance.model` describes. A `Transaction` is one mail
transaction: `n` and `t` are those of its MAIL, and `replies` the final replies. `facts.slack` is by how many seconds a time may
miss a bound.

Records: `Relaying` has, by server, message and recipient, each `Handing` (the server was handed the message, and `acknowledged`
it or not) and each `Try` (it tried to pass it on; `outcome` is the first digit of the reply that decided, 4 without one), and by
server each `HopConnection` (a connection without mail of a known message). A try is *unclear* where a fault altered what was
said.
"""

from collections.abc import Callable

from conformance.model.facts import Facts
from conformance.model.relaying import Key, Relaying, Try
from conformance.model.reports import FailureReports
from conformance.model.resending import is_resending_requested
from conformance.model.rules import rule
from conformance.trace.finding import Finding, format_seconds

_PATIENCE_S = 3600.0
"""Documented seconds after which a recipient that is not tried again is forgotten."""

_LISTED = frozenset({421, 450, 451, 452, 454, 455})
"""Transient codes that RFC 5321 4.2.3 and RFC 3207 list; a client goes by the first digit of any other (RFC 5321 4.2)."""


@rule("RL-421-01")
def goodbye_is_transient(facts: Facts) -> Finding:
    """Check that a message is tried again for each recipient for whom 421 ended the try."""
    return _find_forgotten(
        facts, "a message is tried again after 421", lambda t: t.reply is not None and t.reply.code == 421
    )


@rule("RL-GRY-01")
def deferred_among_accepted(facts: Facts) -> Finding:
    """Check that a recipient is tried again who was deferred while another of the same transaction was accepted."""
    return _find_forgotten(
        facts, "a recipient deferred among accepted ones is tried again", _is_deferred_among_accepted
    )


@rule("RL-RTY-03")
def first_digit_decides(facts: Facts) -> Finding:
    """Check that a recipient is tried again whose try got a 4yz code that no document lists.

    Its first digit says that the failure is transient.
    """
    return _find_forgotten(
        facts,
        "an unlisted 4yz code is transient",
        lambda t: t.reply is not None and t.outcome == 4 and t.reply.code not in _LISTED,
    )


@rule("RL-LMT-01")
def recipients_without_their_reply(facts: Facts) -> Finding:
    """Check that a recipient is tried again for whom an LMTP server gave no final reply, or 4yz, while it gave 2yz for another."""
    return _find_forgotten(
        facts, "a recipient without a positive reply of its own is tried again", _is_left_out_by_lmtp
    )


@rule("RL-LIM-03")
def too_many_recipients_is_transient(facts: Facts) -> Finding:
    """Check that a recipient is tried again whom a next hop refused with 552 while it accepted others: 452 was meant."""
    return _find_forgotten(facts, "552 to one of several recipients is transient", _is_one_too_many)


def _is_one_too_many(one: Try) -> bool:
    """Return whether RCPT was answered with 552, and the message accepted for other recipients of the transaction.

    False with another enhanced status code than 5.5.3: that names another reason, such as that a mailbox is full (RFC 3463 3.3).
    """
    return (
        one.reply is not None
        and one.reply.to == "RCPT"
        and one.reply.code == 552
        and one.reply.enhanced in (None, "5.5.3")
        and bool(one.transaction.accepted_recipients)
    )


def _is_deferred_among_accepted(one: Try) -> bool:
    """Return whether RCPT was answered with 4yz, and the message accepted for other recipients of the transaction."""
    return (
        one.reply is not None
        and one.reply.to == "RCPT"
        and one.outcome == 4
        and bool(one.transaction.accepted_recipients)
    )


def _is_left_out_by_lmtp(one: Try) -> bool:
    """Return whether the content was accepted for another recipient, and answered for this one not at all or with 4yz.

    A server of LMTP gives a final reply for each recipient (RFC 2033 4.2).
    """
    sent = one.transaction
    is_answered_each = any(reply.recipient is not None for reply in sent.replies) and len(sent.recipients) > 1
    is_left_out = one.reply is None or (one.reply.to == "CONTENT" and one.outcome == 4)
    return is_answered_each and is_left_out and bool(sent.accepted_recipients)


def _find_forgotten(facts: Facts, expected: str, is_selected: Callable[[Try], bool]) -> Finding:
    """Return the finding about the tries that `is_selected` picks: each must be followed by another.

    `expected` is the finding's sentence. A recipient that is reported as failed in place of another try is a violation too. Only
    messages that the server acknowledged, and tries that are not unclear, are judged. Nothing is judged with `timers: own`, where
    the server's intervals are not known; a missing try is not, where messages are resubmitted on request.
    """
    finding = Finding(expected)
    relaying = facts.compute_once(Relaying)
    if facts.context.cell.timers == "own" or not any(
        is_selected(t) for tries in relaying.tries.values() for t in tries
    ):
        return finding
    for key, tries in relaying.tries.items():
        server, name, recipient = key
        if not any(h.acknowledged is not None for h in relaying.handings.get(key, ())):
            continue
        for one in tries:
            if one.is_unclear or not is_selected(one):
                continue
            if any(t.transaction.n > one.transaction.n for t in tries):
                finding.occasions += 1
                continue
            if is_resending_requested(facts) or (problem := _describe_missing_try(facts, relaying, key, one)) is None:
                continue
            finding.occasions += 1
            if problem:
                finding.add_message_violation(
                    facts.trace.messages[name],
                    f"{server} {problem} {recipient}, after {one.transaction.server} had {_format_end_of_try(one)}",
                    one.reply.n if one.reply is not None else one.transaction.n,
                )
    return finding


def _describe_missing_try(facts: Facts, relaying: Relaying, key: Key, one: Try) -> str | None:
    """Return in words what the server did instead of another try; '' if it made contact with a next hop; None if it need not try.

    The words are that it reported the failure, or did not try for how long. It need not try where the history ends too early,
    where it was stopped since, where the message expired, or where the recipient or another server has the message without a try
    that shows it. It may report a message that a next hop may have refused for good since, in a connection of which nothing shows
    which message it was for (`HopConnection.may_be_final`). `one` is the try that failed, `key` its server, message and recipient.
    """
    server, name, recipient = key
    lifetime = facts.possible_parameter_range(server, "MessageExpirationTimeout", 0, facts.end_n).least
    handed = min(h.t for h in relaying.handings[key])
    hops = facts.topology.next_hop_servers(server, recipient)
    for report in facts.compute_once(FailureReports).all:
        is_about = any(m.message == name for m in report.messages) and recipient in (report.failed or {recipient})
        if report.origin == server and is_about and report.n > one.transaction.n:
            has_expired = report.transaction.t - handed >= lifetime - facts.slack
            may_be_refused = any(
                c.may_be_final and c.server in hops and c.n < report.n and c.end_n > one.transaction.n
                for c in relaying.hop_connections.get(server, ())
            )
            return None if has_expired or may_be_refused else "reported as failed"
    interval = facts.possible_parameter_range(server, "MessageRetryInterval", 0, facts.end_n).greatest
    patience = max(_PATIENCE_S, 2 * interval)
    if any(c.server in hops and c.n > one.transaction.n for c in relaying.hop_connections.get(server, ())):
        return ""
    if facts.end_t - one.end_t < patience + facts.slack or handed + lifetime <= one.end_t + patience:
        return None
    if facts.was_interrupted_between(server, one.transaction.n) or any(
        delivery.n > one.transaction.n for delivery in facts.context.deliveries_of(name, recipient)
    ):
        return None
    if facts.is_2010(server) and any(p.holder != server for p in facts.promotions_by_message.get(name, ())):
        return None
    return f"did not try again within {format_seconds(facts.end_t - one.end_t)}"


def _format_end_of_try(one: Try) -> str:
    """Return how a try ended, as the end of a sentence: `answered 421`, or `given no reply for it`."""
    return f"answered {one.reply.code}" if one.reply is not None else "given no reply for it"
