"""Judges what follows once a shadow copy is stored: the sender is answered, or the message is delivered (SR-CRE-05, SR-TMO-03).

Also judges that a message which was given before, and not refused, is taken when its sender transmits it again (SR-TMO-04).

A server, the *primary*, that has had a shadow copy stored by another, the *holder*, acknowledges the message in the session in
which the sender gave it the message. If that session has ended by then, the primary remains responsible for the message. `given`
is the transaction of that session: MAIL is its event `n`, the final dot `dot_n` (None without one), `replies` are its final
replies. `receipts` are all transactions that gave one message to one server. A `ShadowCopy` has the transaction by which the
holder was given the copy, and the `stored_reply` that shows that it is stored.

Each rule judges one recorded history and returns a `Finding` of occasions (chances to fail) and violations, as `conformance.model`
describes (`timed=False`: it compares no times). Times are documented seconds, `facts.end_t` is the time of the last event, and
`facts.slack` is by how much a time may miss a bound. A session is *altered* where a fault changed, added or removed octets in it.
"""

from conformance.history.events import Reply
from conformance.model.facts import Facts
from conformance.model.relay_loops import is_about_a_loop
from conformance.model.relaying import Relaying
from conformance.model.retries import possible_hops
from conformance.model.rules import rule
from conformance.trace.finding import Finding, format_seconds
from conformance.trace.sessions import Transaction
from conformance.trace.shadows import ShadowCopy

_PROMPT_S = 60.0
"""Documented seconds within which a server answers that waits for nothing any more; no document has a figure, and RFC 5321
4.5.3.2.6 lets the sender wait for ten minutes."""

_OWN_TROUBLE = frozenset({421, 452})
"""Replies by which a server may refuse what is redundant already: it is being stopped, or its own disk is full."""


@rule("SR-CRE-05")
def acknowledged_once_redundant(facts: Facts) -> Finding:
    """Check that a message of which a shadow copy is stored gets a positive final reply in the sender's session.

    Replies 421 and 452 are right too, and so are the ends of a session, and the waits, that `_find_wrong_end` permits. Occasions
    are final replies and wrong ends. Left out are sessions in which a fault acted, servers that stopped between MAIL and the reply
    or the end of the session, and what `_transactions_with_stored_copy` leaves out.
    """
    finding = Finding("an acknowledgement in the sender's session once a shadow copy is stored")
    for (primary, name), receipts in facts.given_by_server_and_message.items():
        for given, copy in _transactions_with_stored_copy(facts, primary, name, receipts):
            session, stored = facts.trace.sessions[given.session], copy.stored_reply
            closed_t = session.closed.t if session.closed is not None else facts.end_t
            end_t = given.replies[0].t if given.replies else closed_t
            if facts.is_disturbed(given.session) or facts.was_interrupted_until(primary, given.n, end_t):
                continue
            wrong = _find_wrong_end(facts, given, stored)
            if wrong is not None:
                finding.occasions += 1
                words, n = wrong
                finding.add_message_violation(
                    facts.trace.messages[name],
                    f"{primary} {words} in session {session.name}, though {copy.holder} had stored a shadow copy",
                    n,
                    stored.n,
                )
            elif given.replies:
                finding.occasions += 1
    return finding


def _n_of_reply_or_close(facts: Facts, given: Transaction) -> int:
    """Return the number of the first final reply to a transaction, or else of the event that closed its session.

    Where there is no reply and the session is still open, it is the number after the history's last event.
    """
    return given.replies[0].n if given.replies else facts.end_of_session(given.session)


def _transactions_with_stored_copy(
    facts: Facts, primary: str, name: str, receipts: list[Transaction]
) -> list[tuple[Transaction, ShadowCopy]]:
    """Return those of `receipts` for which a shadow copy was stored before the final reply, each with the first such copy.

    `name` is the message's. Only copies count of which the primary surely got the stored reply. Where there is no final reply, a
    copy counts that was stored before the message was given again. Left out are receipts on the listener `delivery`, those in
    altered sessions, and those that overlap in time: a copy may belong to any of these.
    """
    copies = [
        copy for copy in facts.trace.copies_of(name)
        if copy.primary == primary and copy.transaction.kind == "shadow" and facts.is_known_to_primary(copy)
    ]  # fmt: skip
    found = []
    for given in receipts:
        if given.listener == "delivery" or not copies or given.session in facts.trace.altered_sessions:
            continue
        end = _n_of_reply_or_close(facts, given)
        alone = not any(o is not given and o.n < end and _n_of_reply_or_close(facts, o) > given.n for o in receipts)
        if not given.replies:  # the effort may outlast the session, until the message is given again
            end = min((o.n for o in receipts if o.n > given.n), default=facts.end_n)
        own = [copy for copy in copies if copy.transaction.n > given.n and copy.stored_reply.n < end]
        if alone and own:
            found.append((given, own[0]))
    return found


def _find_wrong_end(facts: Facts, given: Transaction, stored: Reply) -> tuple[str, int] | None:
    """Return how the wait for the final reply ended wrongly, in words, and the number of the event that shows it; else None.

    Wrong are a final reply other than 2yz, 421 or 452, a session that the server closed without a final reply, and an open session
    in which more than `_PROMPT_S` has gone by since `stored`, the reply that shows that a copy is stored. Right are a session that
    closed before `stored` or that the client or the link closed, one in which 421 came after the dot though not as the final
    reply, and an open session of a server on whose disk a fault was armed at any time. Right is also 451 of a server on whose disk
    a fault was in force since MAIL: a local error in processing (RFC 5321 4.2.3). 451 4.4.0 is not: it says that no copy was made.
    """
    if given.replies:
        reply = given.replies[0]
        if reply.code // 100 == 2 or reply.code in _OWN_TROUBLE:
            return None
        if reply.code == 451 and reply.enhanced != "4.4.0" and facts.had_disk_trouble(given.server, given.n, reply.n):
            return None
        return f"answered {reply.code}", reply.n
    session = facts.trace.sessions[given.session]
    if any(reply.code == 421 and reply.n > (given.dot_n or given.n) for reply in session.replies):
        return None
    if session.closed is not None and session.closed.n < stored.n:
        return None  # it was lost before, or its time was up
    if session.closed is not None:
        return ("ended the session without an answer", session.closed.n) if session.closed.by == "server" else None
    waited = facts.end_t - stored.t
    if waited <= _PROMPT_S + facts.slack or facts.had_disk_trouble(given.server, -1, facts.end_n):
        return None
    return f"had not answered after {format_seconds(waited)}", stored.n


@rule("SR-TMO-03")
def kept_though_sender_lost(facts: Facts) -> Finding:
    """Check that a server goes on with a message whose sender's session was lost after a shadow copy was stored.

    The session is lost if the client or the link ended it without a final reply. Before the server is given the message again, it
    must have delivered it, or tried to, for each recipient. An occasion needs more than twice MessageRetryInterval for that, since
    a next hop may have failed once before, and a server that did not stop. A message with the same Message-ID that was delivered
    counts as delivery: the mailbox may have dropped this one as a duplicate. What `_may_have_tried` finds counts as a try for each
    recipient behind that next hop.
    """
    finding = Finding("delivery of a redundant message whose sender's session was lost")
    normalize = facts.context.normalize_address
    for (primary, name), receipts in facts.given_by_server_and_message.items():
        for given, copy in _transactions_with_stored_copy(facts, primary, name, receipts):
            session, since = facts.trace.sessions[given.session], copy.stored_reply
            if given.replies or session.closed is None or session.closed.by == "server":
                continue
            interval = facts.numeric_parameter(primary, "MessageRetryInterval", since.n)
            waited = facts.end_t - max(since.t, session.closed.t)
            if interval is None or waited <= 2 * interval + facts.slack:
                continue
            if facts.was_interrupted_between(primary, given.n):
                continue
            # what it does once it was handed the message again proves nothing
            again = next((r for r in receipts if r.n > given.n and r.dot_n is not None), None)
            if again is not None and again.t - max(since.t, session.closed.t) <= 2 * interval + facts.slack:
                continue
            until = again.n if again is not None else facts.end_n
            finding.occasions += 1
            message_id = facts.trace.messages[name].message_id or ""  # a mailbox may have a duplicate instead
            deliveries = [*facts.trace.deliveries_of(name), *facts.deliveries_by_id.get(message_id, ())]
            delivered = {normalize(d.recipient) for d in deliveries if d.n < until}
            tries = facts.compute_once(Relaying).tries  # those that broke off before the content too
            recipients = {normalize(r) for r in given.recipients}
            tried = {
                r for r in recipients if any(one.transaction.n < until for one in tries.get((primary, name, r), ()))
            }
            missing = sorted(
                recipient
                for recipient in recipients - delivered - tried
                if not _may_have_tried(facts, primary, possible_hops(facts, primary, recipient), since.n)
            )
            if missing:
                finding.add_message_violation(
                    facts.trace.messages[name],
                    f"{primary} had a shadow copy stored on {copy.holder}, lost the sender's session {session.name}, and never "
                    f"transmitted the message to {', '.join(missing)}",
                    since.n,
                    session.closed.n,
                )
    return finding


def _may_have_tried(facts: Facts, server: str, hops: set[str], after_n: int) -> bool:
    """Return whether a server turned to one of the next hops `hops` after event `after_n`, and nothing shows for which message.

    It did so by a connection that failed, a session in which no mail or mail of an unknown message was sent, or any session in
    which a fault acted.
    """
    contacts = facts.compute_once(Relaying).hop_connections.get(server, ())
    return (
        any(contact.server in hops and contact.n > after_n for contact in contacts)
        or any(event.server in hops for event in facts.failed_connections(server, after_n))
        or any(
            session.n > after_n and facts.is_disturbed(session.name)
            for hop in hops
            for session in facts.sessions_by_client_and_server.get((server, hop), ())
        )
    )


@rule("SR-TMO-04", timed=False)
def second_transmission_taken(facts: Facts) -> Finding:
    """Check that a server of 2013 or later takes a message that it was given before, whole, and did not refuse.

    The server may refuse the second transmission as it may refuse any message: it stops (421), has no room (452, 4.3), finds the
    message too large (552), can make no copy (4.4.0), or ends a mail loop (RFC 5321 6.3). Left out are the listener `delivery`,
    altered sessions, transmissions without a reply, and candidates that do not claim `shadow-2013`.
    """
    finding = Finding("acceptance of a message that is transmitted again")
    for (primary, name), receipts in (
        facts.given_by_server_and_message.items() if "shadow-2013" in facts.context.claims else ()
    ):
        if facts.is_2010(primary):
            continue
        for given in receipts:
            earlier = [g for g in receipts if g.dot_n is not None and g.dot_n < given.n]
            refused = any(g.replies and g.acceptance is None for g in earlier)
            if not earlier or refused or given.listener == "delivery" or not given.replies:
                continue
            if given.session in facts.trace.altered_sessions:
                continue
            finding.occasions += 1
            reply = given.replies[0]
            excused = reply.code in (*_OWN_TROUBLE, 552) or (reply.enhanced or "").startswith(("4.3", "4.4.0"))
            excused = excused or (is_about_a_loop(reply) and _came_back(facts, name, given))
            if reply.code // 100 in (4, 5) and not excused:
                finding.add_message_violation(
                    facts.trace.messages[name],
                    f"{primary} had been given it before, and answered {reply.code} {' / '.join(reply.lines)} to its second "
                    "transmission",
                    reply.n,
                    earlier[0].dot_n or 0,
                )
    return finding


def _came_back(facts: Facts, name: str, given: Transaction) -> bool:
    """Return whether the message `name` came back: the server had passed it on, perhaps over others, to the client of `given`."""
    reached = {given.server}
    for t in facts.trace.transactions_of(name):  # in the order of their dots
        if t.kind != "shadow" and t.dot_n is not None and t.dot_n < given.n and t.client in reached:
            reached.add(t.server)
    return given.client in reached and facts.is_tested_server(given.client)
