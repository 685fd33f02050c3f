"""Judges that nothing that was acknowledged is lost (RL-ACK-01, SR-BND-03, RL-ACK-03).

Theory of operation
-------------------
A message is acknowledged when the harness, its sender, got a positive final reply after its final dot; 2xx to DATA is none. It
must then reach each recipient whose RCPT was accepted (`Attempt.accepted`), with these exceptions:

- A report of the failure was delivered to the sender, or none may be made (a null reverse-path, RL-DSN-02).
- It was given up, and so was its report, or its sender asked for no report of failures (`giving_up`).
- It was dropped as a duplicate of an indistinguishable message in the mailbox (SR-DUP-01).
- Every server that had to have it for that recipient lost its queue afterwards (SR-BND-09), or dropped its shadow copy when that
  had expired, before it had to promote it (SR-SFN-03). A server that passed it on need not have it any longer, whether it did so
  before or after its own final reply: a reply may be withheld until then (SR-E10-15).

Where an earlier transmission of it lost its session between the final dot and the reply, the loss is blamed on RL-ACK-03.

At its end a scenario waits until the transport is quiet (`Drained`, the *drain*), up to a bound. Where that wait did not happen,
or ended at its bound while the transport may still have been working for the recipient, a missing message is undecided; and so it
is where a server that has it, or must take it, was ended during the wait.

A server that does not start again with a queue into which it had acknowledged mail has lost that mail as well. `n` is an event's
number; times are documented seconds. Rulings are those of docs/rulings.md.

The rule judges one recorded history, `facts`. The `context` is the cell, with its topology and its recorded history
(`context.trace`). The rule returns a `Finding`: occasions to fail, and violations with the events that show them. A
`Transaction` is one mail transaction: `n` and `t` are those of its MAIL, `dot_n` and `dot_t` those of its final dot (None
before it), `acceptance` the first positive final reply or None, `message` the scenario's name of the message or None, and
`recipients` those that were not refused. Its `kind` is `shadow` (a copy that the server is to hold, 2013 and later), `tracked`
(2010: mail of which the client keeps the shadow) or `plain`. Of a shadow copy, the *primary* is the server that is to pass the
message on, the *holder* the one that keeps the copy. A session is *delayed* where a fault kept octets, or the connection, back
for any time.

Records: an `Attempt` is one transmission of a message by the harness itself; a `Delivered` event is a message that a sink or
mailbox store took for one recipient from its `giver`; a `NodeEvent` says what happened to a server, such as `ready`, `killed`,
`wiped` (it lost its queue); a `FaultArmed` event puts a fault in force on links (`A -> B transport`, `A disk`), or ends it
(`healed`); `ConnectFailed` is a connection that a client could not open.
"""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass

from conformance.history.events import (
    Attempt,
    Command,
    Configured,
    Connected,
    ConnectFailed,
    Delivered,
    Drained,
    FaultArmed,
    FaultFired,
    MessageMade,
    NodeEvent,
)
from conformance.model.expired_copies import may_expire_unpromoted
from conformance.model.facts import Facts
from conformance.model.giving_up import is_given_up_without_report
from conformance.model.resending import is_resending_requested
from conformance.model.rules import rule
from conformance.trace.context import CheckContext
from conformance.trace.finding import Finding, describe_message, format_seconds, format_time
from conformance.trace.parameters import numeric_parameter_at
from conformance.trace.sessions import Session, Transaction, parse_path
from conformance.trace.shadows import ShadowCopy
from conformance.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class _Acceptance:
    """A time that a server accepted the message: `n` is the event since which it may have done so, `dot_n` the final dot."""

    dot_n: int
    n: int


@rule("RL-ACK-01", "SR-BND-03", "RL-ACK-03", "SR-E10-17", published="nothing-acknowledged-is-lost")
def nothing_acknowledged_is_lost(facts: Facts) -> Finding:
    """Check that each acknowledged message arrived at each accepted recipient, with the exceptions of the module's docstring.

    It checks too that every server starts again on its own queue (`_check_restarts`). A message that did not arrive is undecided,
    and no violation, where the history shows that it may still arrive.
    """
    finding, context = Finding("every acknowledged message arrives, or is reported"), facts.context
    _check_restarts(context, finding)
    drained = context.trace.events_of(Drained)
    for attempt in context.trace.events_of(Attempt):
        if (
            attempt.code is None
            or attempt.code // 100 != 2
            or not attempt.dot_sent
            or _is_answered_by_link(context, attempt)
        ):
            continue
        message = context.trace.messages[attempt.message]
        for recipient in attempt.accepted:
            if context.deliveries_of(message.message, recipient):
                finding.occasions += 1
                continue
            if _are_all_queues_lost(facts, attempt, recipient):
                continue
            finding.occasions += 1
            if _need_not_arrive(context, message, recipient):
                continue
            if drained and is_given_up_without_report(context, message, recipient, drained[-1].t):
                continue
            sentence = (
                f"{attempt.server} acknowledged it by {format_seconds(attempt.t)} (event {attempt.n}), and it never reached "
                f"{recipient}"
            )
            if not drained:
                finding.add_undecided(f"{sentence}; the history ends before the drain", attempt.n, message=message)
            elif down := _down_at_end(context, attempt):
                finding.add_undecided(f"{sentence}; but {down} was ended during the drain", attempt.n, message=message)
            elif not drained[-1].quiet and (activity := _unfinished_activity(context, recipient, drained[-1])):
                finding.add_undecided(f"{sentence}; but {activity}", attempt.n, message=message)
            else:
                again = any(
                    a.dot_sent and a.outcome == "lost"
                    for a in context.trace.attempts_of(attempt.message)
                    if a.n < attempt.n
                )
                finding.add_message_violation(message, sentence, attempt.n, row="RL-ACK-03" if again else None)
    return finding


def _check_restarts(context: CheckContext, finding: Finding) -> None:
    """Add a violation, and an occasion, for each failed start of a node that had acknowledged mail since its last wipe.

    The mail is that of the harness's own transmissions. Starts with a broken disk, from when a disk fault was armed until it was
    healed, are left out; `FaultArmed.links` has `NODE disk` for such a fault.
    """
    first_mail: dict[str, tuple[int, str]] = {}  # server: event and message of its first acknowledgement
    broken_disks: set[str] = set()
    for event in context.trace.events:
        match event:
            case Attempt(code=int(code), dot_sent=True) if code // 100 == 2:
                first_mail.setdefault(event.server, (event.n, event.message))
            case FaultArmed(action=action, links=(link,)) if action.startswith("disk-"):
                (broken_disks.discard if event.healed else broken_disks.add)(link.removesuffix(" disk"))
            case NodeEvent(action="wiped", node=node):
                first_mail.pop(node, None)
            case NodeEvent(action="failed", node=node) if node in first_mail and node not in broken_disks:
                n, name = first_mail[node]
                finding.occasions += 1
                finding.add_violation(
                    f"{node} acknowledged {describe_message(context.trace.messages[name])} (event {n}), and did not start "
                    f"again on its own queue {format_time(event)}: {event.detail}",
                    event.n,
                    n,
                    message=name,
                )
            case _:
                pass


def _need_not_arrive(context: CheckContext, message: MessageMade, recipient: str) -> bool:
    """Return whether a message need not be delivered to a recipient.

    That is so if a failure report was delivered to its sender that names the recipient, or that has the action `failed` and names
    none; if a message that a server may take for the same one was delivered to that mailbox; or if it has a null reverse-path, so
    that no report is due, and was refused with 5yz.
    """
    address = context.normalize_address(recipient)
    for event in context.trace.events_of(Delivered):
        report = event.digest
        if report.report != "delivery-status" or report.about != message.message_id:
            continue
        failed = context.normalize_addresses(report.failed)
        is_about = address in failed if failed else report.action == "failed"
        if is_about and context.normalize_address(event.recipient) == context.normalize_address(message.sender):
            return True
    if address in context.mailboxes and any(
        context.deliveries_of(name, address) for name in context.trace.indistinguishable_messages(message)
    ):
        return True
    return not message.sender and _is_permanently_refused(context, address)


def _is_permanently_refused(context: CheckContext, address: str) -> bool:
    """Return whether a server under test got 5yz in a session after a MAIL with a null reverse-path for the address.

    Any later reply of that session counts.
    """
    return any(
        context.is_tested_server(t.client)
        and address in context.normalize_addresses((*t.recipients, *t.refused))
        and any(reply.code // 100 == 5 for reply in context.trace.sessions[t.session].replies if reply.n > t.n)
        for t in context.trace.transactions
        if not t.sender
    )


def _is_answered_by_link(context: CheckContext, attempt: Attempt) -> bool:
    """Return whether a fault made the link answer in the attempt's session, in place of the server, before the attempt ended.

    Then a positive reply need not be an acknowledgement by the server.
    """
    return any(
        fault.action == "answer"
        and fault.session is not None
        and fault.session == attempt.session
        and fault.n < attempt.n
        for fault in context.trace.events_of(FaultFired)
    )


def _are_all_queues_lost(facts: Facts, attempt: Attempt, recipient: str) -> bool:
    """Return whether every server that had to have the message for a recipient was wiped after it accepted it (SR-BND-09).

    A server has to have the message from when it accepted the message or a shadow copy of it. It is free of that once another
    server under test accepted the message from it (`_is_handed_on`), unless it keeps a shadow copy of what it sent (2010). A
    shadow copy counts for the recipients of `_recipients_due_in_copy`. It does not count if its holder switched shadow redundancy
    off later, nor once its primary is done with the recipient (`_is_released`), nor if it may have expired before
    (`may_expire_unpromoted`). `attempt` is the transmission that was acknowledged.
    """
    context, trace = facts.context, facts.trace
    address = context.normalize_address(recipient)
    own = [_find_acceptance(trace, t) for t in trace.transactions_of(attempt.message) if t.session == attempt.session]
    accepted: dict[str, set[_Acceptance]] = defaultdict(set)
    accepted[attempt.server] = {one for one in own if one is not None} or {_Acceptance(attempt.n, attempt.n)}
    released: list[Transaction] = []
    for copy in trace.copies_of(attempt.message):
        if _is_switched_off_later(context, copy.holder, copy.stored_reply.n):
            continue  # it may have dropped its copies (ruling 37)
        if _is_released(context, attempt.message, copy, address):
            released.append(copy.transaction)
            continue
        if address in _recipients_due_in_copy(facts, attempt.message, copy.transaction):
            if may_expire_unpromoted(facts, copy):
                continue
            stored = trace.accepted_since(copy.transaction) or copy.stored_reply.n
            accepted[copy.holder].add(_Acceptance(stored, stored))
    handed_on: dict[str, list[int]] = defaultdict(list)
    for t in trace.transactions_of(attempt.message):
        acceptance = _find_acceptance(trace, t)
        if t.kind == "shadow" or t.acceptance is None or acceptance is None or not context.is_tested_server(t.server):
            continue
        if address in context.normalize_addresses(t.accepted_recipients):
            accepted[t.server].add(acceptance)
            if context.is_tested_server(t.client) and (t.kind == "plain" or any(t is sent for sent in released)):
                handed_on[t.client].append(t.acceptance.n)
    wiped = {event.node: event.n for event in trace.events_of(NodeEvent) if event.action == "wiped"}
    held = {server: [one for one in all_ if one.n > wiped.get(server, -1)] for server, all_ in accepted.items()}
    return all(not left or _is_handed_on(left, handed_on[server]) for server, left in held.items())


def _find_acceptance(trace: Trace, sent: Transaction) -> _Acceptance | None:
    """Return the acceptance of a transaction, None where its server did not accept the message."""
    accepted_n = trace.accepted_since(sent)
    return None if accepted_n is None or sent.dot_n is None else _Acceptance(sent.dot_n, accepted_n)


def _is_handed_on(accepted: Collection[_Acceptance], handed_on: Collection[int]) -> bool:
    """Return whether a server handed the message on as often as it had to, at the events `handed_on`.

    It is free of all that it accepted if it handed the message on after its last acceptance. It may also have done so before: a
    server of 2010 withholds its final reply until its next hops have accepted the message (SR-E10-15), and no document forbids
    that to others. What it handed on after the last final dot counts then, if there is one such event for each acceptance: one
    that belongs to an earlier transmission does not free the server of a later one.
    """
    first_dot_n, last_dot_n = min(one.dot_n for one in accepted), max(one.dot_n for one in accepted)
    last_n = max(handed_on, default=-1)
    if last_n > max(one.n for one in accepted):
        return True
    return last_n > last_dot_n and sum(n > first_dot_n for n in handed_on) >= len(accepted)


def _recipients_due_in_copy(facts: Facts, name: str, sent: Transaction) -> set[str]:
    """Return the recipients, normalized, for whom a copy of a message has to be kept: more than its own if it lacks some.

    A holder of 2010 keeps what it sent, for the recipients that it sent it for. A shadow copy of 2013 is one for all recipients for
    whom its primary was given the message (SR-CRE-06), but not for those of the message whom another server serves: it is whole if
    its primary was given the message for just its recipients, or if it came after a request to send messages again. Else it has to
    have the recipients of all transactions by which its primary was given the message before; without one, all of the message.
    """
    normalize = facts.context.normalize_addresses
    if sent.kind != "shadow":
        return normalize(sent.recipients)
    own = normalize((*sent.recipients, *sent.refused))
    given = [
        _recipients_due_in_copy(facts, name, one) if one.kind == "shadow" else normalize(one.recipients)
        for one in facts.trace.transactions_of(name)
        if one.server == sent.client and one.n < sent.n and one.listener != "delivery"  # what comes there gets no copy
    ]
    if not given:
        return normalize(facts.trace.messages[name].recipients)
    if own in given or is_resending_requested(facts, before_n=sent.n):
        return own
    return own.union(*given)


def _is_released(context: CheckContext, name: str, copy: ShadowCopy, address: str) -> bool:
    """Return whether the primary of a copy was done with a recipient since: another server under test accepted it from there.

    It may have been done before it began the copy, but not before it had the message (`_find_receipt`). Then the primary has the
    copy discarded, and what happens further down does not matter (SR-MNT-01, SR-E10-13). A primary that lost its queue after that
    must have notified the holder before: else the holder has to send the copy again. `address` is the recipient, normalized.
    """
    trace = context.trace
    had_n = _find_receipt(trace, name, copy)
    passed_on = (
        t.acceptance.n
        for t in trace.transactions_of(name)
        if t.kind != "shadow" and t.acceptance is not None and t.acceptance.n > had_n
        and t.client == copy.primary and context.is_opened_by_tested_server(t.client, t.session)
        and context.is_tested_server(t.server) and address in context.normalize_addresses(t.accepted_recipients)
    )  # fmt: skip
    done_n = min(passed_on, default=None)
    if done_n is None:
        return False
    wipes = [e.n for e in trace.events_of(NodeEvent) if e.node == copy.primary and e.action == "wiped" and e.n > done_n]
    return not wipes or any(
        (discard.primary, discard.shadow_id, discard.holder) == (copy.primary, copy.shadow_id, copy.holder)
        and done_n < discard.n < wipes[0]
        for discard in trace.discards_of(name)
    )


def _find_receipt(trace: Trace, name: str, copy: ShadowCopy) -> int:
    """Return the event from which the primary of a copy had the message that it is a copy of, at the latest the copy's MAIL.

    In 2010 it is the MAIL: that transaction itself brings the primary the message. In 2013 and later the primary may pass the
    message on for some recipients before it begins the copy; after a promotion both begin together (ruling 24). So it is the last
    receipt of the primary that began before the copy: the final dot of a transmission, or the reply that it had stored a copy as
    the holder.
    """
    begun_n = copy.transaction.n
    if copy.transaction.kind != "shadow":
        return begun_n
    receipts = [
        (t.n, t.dot_n)
        for t in trace.transactions_of(name)
        if t.kind != "shadow" and t.server == copy.primary and t.dot_n is not None
    ]
    receipts += [
        (other.stored_reply.n, other.stored_reply.n)
        for other in trace.copies_of(name)
        if other.transaction.kind == "shadow" and other.holder == copy.primary
    ]
    _, received_n = max((one for one in receipts if one[0] < begun_n), default=(begun_n, begun_n))
    return min(received_n, begun_n)


def _is_switched_off_later(context: CheckContext, server: str, since_n: int) -> bool:
    """Return whether a server accepted, after event `since_n`, a configuration that switches shadow redundancy off."""
    return any(
        event.node == server and event.n > since_n and event.refused is None
        and event.changes.get("ShadowRedundancyEnabled") is False
        for event in context.trace.events_of(Configured)
    )  # fmt: skip


def _down_at_end(context: CheckContext, attempt: Attempt) -> str:
    """Return the name of a server that had the message, or is a next hop for it, and whose last event is `killed` or `stopped`.

    '' without one. The drain starts all servers; an action at a moment of the protocol may end one after that.
    """
    last = {event.node: event.action for event in context.trace.events_of(NodeEvent)}
    had = {attempt.server, *(t.server for t in context.trace.transactions_of(attempt.message) if t.dot_n is not None)}
    hops = {hop for r in attempt.accepted for s in had for hop in context.next_hop_servers(s, r)}
    return next((server for server in sorted(had | hops) if last.get(server) in ("killed", "stopped")), "")


def _unfinished_activity(context: CheckContext, recipient: str, drained: Drained) -> str:
    """Return in words why the message may yet arrive after the drain reached its bound, '' where nothing says so.

    A drain that is shorter than two retry intervals proves nothing. Else its second half is searched from the end for a RCPT for
    the recipient, a failed connection of a server to a sink, and a session in which mail may have been deferred
    (`_deferral_reason`).
    """
    trace, servers = context.trace, context.cell.topology.by_name
    retry = max(numeric_parameter_at(context, name, "MessageRetryInterval", drained.n) for name in servers)
    if drained.waited < 2 * retry:
        return f"the drain lasted {format_seconds(drained.waited)}, less than two retry intervals"
    address = context.normalize_address(recipient)
    since = drained.t - drained.waited / 2
    for event in reversed(trace.events):
        if event.t < since:
            break
        if isinstance(event, Command) and event.verb == "RCPT":
            session = trace.sessions[event.session]
            is_for_address = context.normalize_address(parse_path(event.line)) == address
            if is_for_address and context.is_opened_by_tested_server(session.client, session.name):
                return f"{session.client} still tried to send mail to {recipient} at {format_seconds(event.t)}"
        elif (
            isinstance(event, ConnectFailed)
            and context.is_tested_server(event.client)
            and not context.is_tested_server(event.server)
        ):
            return f"{event.client} still tried to reach {event.server} at {format_seconds(event.t)}"
        elif (
            isinstance(event, Connected)
            and context.is_opened_by_tested_server(event.client, event.session)
            and (reason := _deferral_reason(trace.sessions[event.session]))
        ):
            return f"{event.client} was in a session with {event.server} at {format_seconds(event.t)}, and {reason}"
    return ""


def _deferral_reason(session: Session) -> str:
    """Return in words why the client may have deferred mail that the session does not show, '' where nothing says so.

    After 535 a client may defer its mail (ruling 27). After STARTTLS the link records nothing.
    """
    if any(reply.code == 535 for reply in session.replies):
        return "put its mail off after 535"
    if session.closed is not None and session.closed.how == "secured":
        return "what it said behind STARTTLS was not seen"
    return ""
