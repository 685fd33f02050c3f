"""Judges when 2010 servers acknowledge a message (SR-E10-03, SR-E10-15, SR-E10-16).

A sender that keeps a shadow is acknowledged at once. From any other the acknowledgement is withheld until every next hop has
the message, for at most MaxAcknowledgementDelay; a server that dies in the meantime has acknowledged nothing, and has the
message when it is sent again. Rulings are those of docs/rulings.md.

`sent` is the transaction by which the server was given a message: MAIL is event `n`, the final dot `dot_n` at `dot_t`, `replies`
are the final replies. Its kind is `tracked` if its client keeps the shadow, `plain` if it does not, `shadow` for a copy of 2013.
`n` is an event's number, times are documented seconds. Of a `Try` (the server tried to pass a message on to one recipient)
`outcome` is the first digit of the reply that decided; a `HopConnection` is a connection of the server without mail of a known
message.

Each rule judges one recorded history and returns a `Finding` of occasions (chances to fail) and violations, as `conformance.model`
describes. `facts.slack` is by how much a time may miss a bound. A session is *altered* where a fault changed, added or removed
octets in it, and *delayed* where a fault held octets back or slowed them, or may have delayed its dial.
"""

from collections.abc import Iterator

from conformance.faults import ALTERING_FAULTS
from conformance.history.events import FaultArmed, FaultFired, Reply
from conformance.model.facts import Facts
from conformance.model.giving_up import ADDED_OCTETS
from conformance.model.relaying import Relaying, Try, needs_smtputf8, sessions_from
from conformance.model.retries import possible_hops
from conformance.model.rules import rule
from conformance.model.sizes import announced_size
from conformance.scenarios.steps.nodes import Activate
from conformance.trace.finding import Finding, format_seconds
from conformance.trace.sessions import Transaction

_AT_ONCE_S = 1.0
"""Within this time a reply is given at once. Seconds."""

_WINDOW_ABOVE_MAX_S = 86400.0
"""The tracking window where DuplicateTrackingWindow is above its maximum (SR-DUP-04). Seconds."""

_End = tuple[str, float | None]
"""A recipient who may be done, and since when the server surely knew it; None where the history does not show that."""

_WITHOUT_A_WORD = frozenset({"mute", "cut"})
"""Faults that take words from a session, and put none in their place."""


def _judged_messages(facts: Facts) -> Iterator[Transaction]:
    """Yield each transaction by which a 2010 server was sent a whole message, in a session that no fault altered or delayed.

    Left out are shadow copies, the listener `delivery`, servers on whose disk a fault was armed at any time, and those that
    stopped before they replied.
    """
    slow_disks = {
        link.removesuffix(" disk")
        for e in facts.trace.events_of(FaultArmed)
        if e.action.startswith("disk-")
        for link in e.links
    }
    for sent in facts.trace.transactions:
        if sent.dot_n is None or sent.kind == "shadow" or sent.listener not in ("frontend", "transport"):
            continue
        if not facts.is_tested_server(sent.server) or not facts.is_2010(sent.server) or sent.server in slow_disks:
            continue
        replied_n = sent.replies[0].n if sent.replies else None
        if sent.session in facts.trace.altered_sessions or sent.session in facts.trace.delayed_sessions:
            continue
        if not facts.was_interrupted_between(sent.server, sent.dot_n, replied_n):
            yield sent


def _end_of_wait(facts: Facts, sent: Transaction) -> tuple[int, float]:
    """Return number and time of the event that ended the wait for the final reply to a message.

    It is the reply, else the end of the session, which may be lost before the reply has passed, else the history's last event.
    """
    closed = facts.trace.sessions[sent.session].closed
    end = sent.replies[0] if sent.replies else closed
    return (end.n, end.t) if end else (facts.end_n - 1, facts.end_t)


@rule("SR-E10-03")
def shadow_keepers_are_acknowledged_at_once(facts: Facts) -> Finding:
    """Check that a message of which the sender keeps a shadow is answered, or its session ends, within `_AT_ONCE_S` of the final dot."""
    finding = Finding("an acknowledgement at once for a sender that keeps a shadow")
    for sent in _judged_messages(facts):
        if sent.kind != "tracked" or sent.dot_t is None or sent.dot_n is None:
            continue
        waited_until_n, waited_until_t = _end_of_wait(facts, sent)
        finding.occasions += 1
        if waited_until_t - sent.dot_t > _AT_ONCE_S + facts.slack:
            finding.add_violation(
                f"{sent.server} let {sent.client}, which keeps a shadow, wait from {format_seconds(sent.dot_t)} to "
                f"{format_seconds(waited_until_t)}",
                waited_until_n,
                sent.dot_n,
                message=sent.message,
            )
    return finding


@rule("SR-E10-15", "SR-E10-16")
def acknowledgement_is_withheld(facts: Facts) -> Finding:
    """Check that a message without a shadow at its sender is acknowledged when all next hops have it, or after the delay.

    The delay is MaxAcknowledgementDelay, from the final dot on. No acknowledgement may come before that, and none more than
    `_AT_ONCE_S` later; a refusal may not come later either. A recipient is done when a next hop has taken or refused the message
    for it, or when a mailbox that detects duplicates has one like it already; where nothing shows since when the server knew that,
    the acknowledgement is not late (`_find_done_recipients`). Only candidates that claim `delayed-acknowledgement` and messages of
    the scenario are judged, while shadow redundancy is surely on. Near the end of its session a server may reply early (ruling 32).
    """
    finding = Finding("an acknowledgement when every next hop has the message, or after MaxAcknowledgementDelay")
    if "delayed-acknowledgement" not in facts.context.claims:
        return finding
    for sent in _judged_messages(facts):
        if sent.kind != "plain" or sent.dot_t is None or sent.dot_n is None or sent.message is None:
            continue
        reply = sent.replies[0] if sent.replies else None
        end_n, end_t = _end_of_wait(facts, sent)
        delays = facts.possible_parameter_values(sent.server, "MaxAcknowledgementDelay", sent.n, end_n)
        limits = [float(delay) for delay in delays if isinstance(delay, int | float)]
        if facts.may_be_off(sent.server, sent.n, end_n) or len(limits) < len(delays):
            continue
        withheld, least, most = end_t - sent.dot_t, min(limits), max(limits)
        is_late = withheld > most + _AT_ONCE_S + facts.slack
        if is_late or reply is None or reply.code // 100 == 2:
            finding.occasions += 1
        if is_late:
            finding.add_violation(
                f"{sent.server} withheld its acknowledgement for {format_seconds(withheld)}, longer than {format_seconds(most)}",
                end_n,
                sent.dot_n,
                message=sent.message,
                row="SR-E10-16",
            )
        if reply is None or reply.code // 100 != 2 or withheld >= least - facts.slack:
            continue
        done = _find_done_recipients(facts, sent, end_n, end_t)
        missing = sorted(r for r in sent.recipients if facts.context.normalize_address(r) not in done)
        if missing and _is_session_nearly_over(facts, sent, reply):
            continue  # ruling 32
        if missing:
            finding.add_violation(
                f"{sent.server} acknowledged it after {format_seconds(withheld)}, before a next hop had it for "
                f"{', '.join(missing)}; the delay is {format_seconds(least)}",
                reply.n,
                sent.dot_n,
                message=sent.message,
                row="SR-E10-16" if withheld > _AT_ONCE_S else "SR-E10-15",
            )
        elif withheld > (late := max(done.values(), default=sent.dot_t) - sent.dot_t) + _AT_ONCE_S + facts.slack:
            finding.add_violation(
                f"{sent.server} withheld its acknowledgement for {format_seconds(withheld)}, and every next hop had it after "
                f"{format_seconds(late)}",
                reply.n,
                sent.dot_n,
                message=sent.message,
            )
    return finding


def _is_session_nearly_over(facts: Facts, sent: Transaction, reply: Reply) -> bool:
    """Return whether a reply was given in the last tenth of the time for which the server lets the session be open.

    That time is the least ConnectionTimeout that the listener may have had during the session.
    """
    session = facts.trace.sessions[sent.session]
    limits = facts.listener_limits_between(session.server, session.listener, session.n, reply.n)
    return reply.t - session.t >= 0.9 * min(float(limit["connection_timeout"]) for limit in limits)


def _find_done_recipients(facts: Facts, sent: Transaction, before_n: int, end_t: float) -> dict[str, float]:
    """Return the recipients, normalized, who may be done before event `before_n`, with the time since which they surely are.

    A recipient is done when the message was passed on or refused for him, so that the server has nothing to wait for. Where nothing
    shows when the server learned that, the time is `end_t`, that of event `before_n`.
    """
    done: dict[str, float] = {}
    for ends in (
        _deciding_replies(facts, sent, before_n),
        _refusals_without_recipient(facts, sent, before_n),
        _reported_failures(facts, sent, before_n),
        _deliveries(facts, sent, before_n),
        _unseen_ends(facts, sent, before_n, end_t),
    ):
        for recipient, known_t in ends:
            done[recipient] = min(done.get(recipient, end_t), end_t if known_t is None else known_t)
    return done


def _hops_by_recipient(facts: Facts, sent: Transaction) -> dict[str, set[str]]:
    """Return the parties to which the server may pass a message on, by recipient, normalized."""
    recipients = facts.context.normalize_addresses(sent.recipients)
    return {recipient: possible_hops(facts, sent.server, recipient) for recipient in recipients}


def _deciding_replies(facts: Facts, sent: Transaction, before_n: int) -> Iterator[_End]:
    """Yield the recipients for whom a next hop accepted or refused a message after its MAIL to the server.

    A server that was given the message several times may pass each copy on by itself: as many replies must have come as there may
    be copies, until it is known that none is left. It is not known either where the server took a copy over from its next hop.
    """
    relaying = facts.compute_once(Relaying)
    assert sent.message is not None
    taken_over = any(p.holder == sent.server for p in facts.promotions_by_message.get(sent.message, ()))
    for recipient in facts.context.normalize_addresses(sent.recipients):
        key = (sent.server, sent.message, recipient)
        decided = [t for t in relaying.tries.get(key, ()) if t.outcome in (2, 5) and t.end_n < before_n]
        if any(t.transaction.n > sent.n for t in decided):
            yield recipient, None
        others = {
            h.transaction.n
            for h in relaying.handings.get(key, ())
            if h.n < before_n
            and h.transaction is not sent
            and (h.acknowledged is not None or not h.transaction.replies)
        }
        heard = sorted((t for t in decided if _is_surely_decided(facts, t)), key=lambda t: t.end_n)[len(others) :]
        if heard and heard[0].transaction.n > sent.n and not (others and taken_over):
            yield recipient, heard[0].end_t


def _is_surely_decided(facts: Facts, one: Try) -> bool:
    """Return whether a server surely heard that a recipient was accepted or refused for good when the reply was recorded.

    It may hear a slowed reply later, and never one behind which the session was reset. After an accepted recipient, 552 may mean
    that there are too many (RFC 5321 4.5.3.1.10): that is transient.
    """
    session = facts.trace.sessions[one.transaction.session]
    if one.reply is None or one.is_unclear or facts.is_disturbed(session.name):
        return False
    if not one.is_known and session.closed is not None and session.closed.how == "reset":
        return False
    is_one_too_many = one.reply.to == "RCPT" and one.reply.code == 552 and one.reply.enhanced in (None, "5.5.3")
    return not (is_one_too_many and one.transaction.recipients)


def _refusals_without_recipient(facts: Facts, sent: Transaction, before_n: int) -> Iterator[_End]:
    """Yield the recipients behind a next hop that refused a connection, or mail of which no recipient is known, with 5yz.

    No document says whether a server takes 5yz in place of a greeting, or to EHLO, for a refusal of the messages that wait: it may
    as well try them again. A refusal of MAIL is one of its message (RFC 5321 4.2.1), but it may be another message, or one
    recipient's copy of this one (ruling 26), where there are several.
    """
    hops = _hops_by_recipient(facts, sent)
    relaying = facts.compute_once(Relaying)
    for contact in relaying.hop_connections.get(sent.server, ()):
        refusal = contact.refusal
        if refusal is None or refusal.code // 100 != 5 or not sent.n < refusal.n < before_n:
            continue
        behind = [recipient for recipient in hops if contact.server in hops[recipient]]
        is_known = (
            refusal.to == "MAIL"
            and len(behind) == 1
            and not contact.is_unclear
            and _is_only_message_of_sender(facts, sent, refusal, before_n)
        )
        yield from ((recipient, refusal.t if is_known else None) for recipient in behind)


def _is_only_message_of_sender(facts: Facts, sent: Transaction, refusal: Reply, before_n: int) -> bool:
    """Return whether a refused MAIL names the sender of a message, and the server was given no other mail of that sender.

    False in a session with a fault, and for the null reverse-path, under which the server sends reports of its own.
    """
    normalize = facts.context.normalize_address
    refused = [
        t for t in facts.transactions_by_client.get(sent.server, ())
        if not facts.is_disturbed(t.session)
        and any(x.command.n == t.n and x.reply is refusal for x in facts.trace.sessions[t.session].exchanges)
    ]  # fmt: skip
    given = [
        t for t in facts.trace.transactions
        if t.server == sent.server and t.n < before_n and normalize(t.sender) == normalize(sent.sender)
    ]  # fmt: skip
    return bool(sent.sender) and given == [sent] and any(normalize(t.sender) == normalize(sent.sender) for t in refused)


def _reported_failures(facts: Facts, sent: Transaction, before_n: int) -> Iterator[_End]:
    """Yield the recipients whose failure the server reported after a message's MAIL.

    A report that names none may be about any of them. Reports of a delay or a success, and journal reports, say that of nobody.
    """
    assert sent.message is not None
    message = facts.trace.messages[sent.message]
    handings = facts.compute_once(Relaying).handings
    for onward in facts.transactions_by_client.get(sent.server, ()):
        digest = onward.digest
        if digest is None or digest.report is None or digest.about != message.message_id:
            continue
        if not sent.n < onward.n < before_n or not (digest.failed or digest.action == "failed"):
            continue
        for recipient in facts.context.normalize_addresses(digest.failed or sent.recipients):
            is_only_copy = len(handings.get((sent.server, sent.message, recipient), ())) == 1
            is_named = bool(digest.failed) or len(sent.recipients) == 1
            yield recipient, onward.t if is_named and is_only_copy else None


def _deliveries(facts: Facts, sent: Transaction, before_n: int) -> Iterator[_End]:
    """Yield the recipients whose mailboxes have the same message already, and so need no other.

    That the mailbox has it says nothing about when the server learned that: the reply says it, to the server that delivered. Only
    what the server itself delivered before is known to it at once, within the tracking window.
    """
    assert sent.message is not None
    normalize = facts.context.normalize_address
    for name in facts.trace.indistinguishable_messages(facts.trace.messages[sent.message]):
        for delivery in facts.trace.deliveries_of(name):
            recipient = normalize(delivery.recipient)
            if delivery.n < before_n and recipient in facts.context.mailboxes:
                yield recipient, None
                if any(
                    _detects_duplicate(facts, sent, one)
                    for one in facts.compute_once(Relaying).tries.get((sent.server, name, recipient), ())
                ):
                    yield recipient, sent.dot_t


def _detects_duplicate(facts: Facts, sent: Transaction, earlier: Try) -> bool:
    """Return whether a server surely knows, when a message is given to it, that it has delivered the same one to its own store.

    It does not where a mailbox database moves, since the history of deliveries stays behind (SR-DUP-06).
    """
    server, dot_n = sent.server, sent.dot_n
    assert dot_n is not None
    assert sent.dot_t is not None
    if "duplicate-detection" not in facts.context.claims or earlier.outcome != 2 or earlier.end_n >= dot_n:
        return False
    if earlier.transaction.server != facts.topology.store_name(server) or not _is_surely_decided(facts, earlier):
        return False
    if any(isinstance(step.action, Activate) for step in facts.context.cell.all_steps):
        return False
    window = facts.possible_parameter_range(server, "DuplicateTrackingWindow", earlier.transaction.n, dot_n).least
    window = min(window, _WINDOW_ABOVE_MAX_S)  # one above the maximum counts as a day (SR-DUP-04)
    is_fresh = sent.dot_t - earlier.end_t < window - facts.slack
    return is_fresh and not facts.was_interrupted_between(server, earlier.transaction.n, dot_n)


def _unseen_ends(facts: Facts, sent: Transaction, before_n: int, end_t: float) -> Iterator[_End]:
    """Yield the recipients for whom a message may have been accepted or refused where the history does not show it.

    Of a session after STARTTLS nothing is seen, be it one that was opened for an earlier message (ruling 25). Where a fault altered
    what was said to a next hop, all recipients behind it may have been refused. And the server itself may have given them up
    (`_may_be_given_up`); whether it reports that depends on the message.
    """
    hops = _hops_by_recipient(facts, sent)
    veiled = _hops_with_altered_session(facts, sent.server, sent.n, before_n) | {
        session.server
        for session in facts.starttls_sessions
        if session.client == sent.server and session.n < before_n and session.closed and session.closed.n > sent.n
    }
    for recipient, behind in hops.items():
        if veiled & behind or _may_be_given_up(facts, sent, recipient, before_n, end_t):
            yield recipient, None


def _may_be_given_up(facts: Facts, sent: Transaction, recipient: str, before_n: int, end_t: float) -> bool:
    """Return whether a server may have given a recipient up without a refusal of a next hop.

    There may be no next hop, or no such mailbox in a domain of mailboxes; the message may have expired, or a next hop may not offer
    what it needs: 8BITMIME (RFC 6152 3), SMTPUTF8 (RFC 6531 3.2) or its size (RFC 1870 6.1).
    """
    assert sent.message is not None
    assert sent.dot_t is not None
    domains = {mailbox.partition("@")[2] for mailbox in facts.context.mailboxes}
    hops = possible_hops(facts, sent.server, recipient)
    if not hops or (recipient not in facts.context.mailboxes and recipient.partition("@")[2] in domains):
        return True
    lifetime = facts.possible_parameter_range(sent.server, "MessageExpirationTimeout", sent.n, before_n).least
    if end_t - sent.dot_t >= lifetime - facts.slack:
        return True
    digest = facts.trace.messages[sent.message].digest
    mail = next(x.command.line for x in facts.trace.sessions[sent.session].exchanges if x.command.n == sent.n)
    needed = {"8BITMIME"} if digest.eight_bit else set()
    if needs_smtputf8(sent.sender, recipient) or (digest.eight_bit and "SMTPUTF8" in mail.upper().split()):
        needed.add("SMTPUTF8")
    return any(
        not needed <= (session.keywords or set()) or 0 < announced_size(session) < digest.size + ADDED_OCTETS
        for session in sessions_from(facts, sent.server)
        if session.server in hops and session.n < before_n and (session.closed is None or session.closed.n > sent.n)
    )


def _hops_with_altered_session(facts: Facts, server: str, after_n: int, before_n: int) -> set[str]:
    """Return the parties to which a server spoke in a session that a fault altered between two events.

    The server may have read a refusal there, such as the reply to a command that the fault made unreadable. From a session that
    falls silent or ends (`_WITHOUT_A_WORD`) it reads none.
    """
    return {
        fault.server
        for fault in facts.trace.events_of(FaultFired)
        if fault.client == server
        and fault.session is not None
        and fault.action in ALTERING_FAULTS - _WITHOUT_A_WORD
        and after_n < fault.n < before_n
    }
