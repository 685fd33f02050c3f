"""Judges that no discard notification comes before every next hop has accepted the message (SR-MNT-01, SR-MNT-07, SR-MNT-08).

With a *discard notification* the primary tells the holder of a shadow copy that it may discard the copy. A `Discard` is one
notification in a reply to a query, and `n` and `t` are those of the reply; it names the copy by its shadow id. A *report* is a
delivery status notification (DSN) or a journal report. `name` is the scenario's name of a message. In a `Transaction`, `replies`
are the final replies, `acceptance` is the first positive one or None, and kind `shadow` hands over a shadow copy.

Each rule judges one recorded history and returns a `Finding` of occasions (chances to fail) and violations, as `conformance.model`
describes (`timed=False`: it compares no times). An occasion is a notification for a stored copy. Left out are messages of which
the primary refused every transmission that ended before the notification: such a message needs no copy.
"""

from conformance.history.events import MessageMade
from conformance.model.facts import Facts
from conformance.model.giving_up import is_given_up_without_report, may_report_failure
from conformance.model.rules import invariant, rule
from conformance.trace.context import CheckContext
from conformance.trace.finding import Finding, format_seconds
from conformance.trace.sessions import Transaction
from conformance.trace.shadows import Discard, ShadowCopy


@invariant("no-discard-before-delivery", "SR-MNT-01", "SR-MNT-07", timed=False)
def no_discard_before_delivery(context: CheckContext) -> Finding:
    """Check that a primary notifies a holder only when it is done with the message for every recipient of the copy.

    It is done when a next hop has acknowledged the message or a mailbox has it already (`_done_recipients`), or when the message
    may be given up with no report left to pass on (`is_given_up_without_report`). A report of the message's failure that any
    server accepted, if only as a shadow copy, counts for all recipients.
    """
    finding = Finding("no discard notification before all next hops have accepted the message")
    for name, message in context.trace.messages.items():
        for copy in context.trace.copies_of(name):
            for discard in context.trace.discards_of(name):
                if (discard.primary, discard.shadow_id) != (copy.primary, copy.shadow_id):
                    continue
                if _is_message_refused(context, name, copy, discard):
                    continue
                finding.occasions += 1
                done = _done_recipients(context, name, discard)
                missing = [r for r in copy.transaction.recipients if context.normalize_address(r) not in done]
                missing = [r for r in missing if not is_given_up_without_report(context, message, r, discard.t)]
                if missing and not _is_failure_reported(context, message, discard.n):
                    finding.add_message_violation(
                        message,
                        f"{discard.primary} notified {discard.holder} to discard it at "
                        f"{format_seconds(discard.t)} (event {discard.n}), before it had passed it on to {missing[0]}",
                        discard.n,
                        row="SR-MNT-07" if len(missing) < len(copy.transaction.recipients) else None,
                    )
    return finding


@rule("SR-MNT-07", timed=False)
def failures_release_no_other_recipient(facts: Facts) -> Finding:
    """Check that a primary which reported failures for some recipients notifies a holder only when it is done with the others.

    It is done as in `no_discard_before_delivery`, which takes any report of a failure for one about all recipients. Without such a
    report there is no occasion.
    """
    finding = Finding("no discard notification while recipients are left that no report names")
    context = facts.context
    for name, message in facts.trace.messages.items():
        for copy in facts.trace.copies_of(name):
            for discard in facts.trace.discards_of(name):
                if (discard.primary, discard.shadow_id) != (copy.primary, copy.shadow_id):
                    continue
                reported = _reported_recipients(context, message, discard.n)
                if not reported or _is_message_refused(context, name, copy, discard):
                    continue
                finding.occasions += 1
                done = _done_recipients(context, name, discard) | reported
                missing = sorted(context.normalize_addresses(copy.transaction.recipients) - done)
                missing = [r for r in missing if not is_given_up_without_report(context, message, r, discard.t)]
                if missing:
                    finding.add_message_violation(
                        message,
                        f"{discard.primary} notified {discard.holder} to discard it at {format_seconds(discard.t)} (event "
                        f"{discard.n}), when it had reported the failure of {min(reported)} and not passed it on to {missing[0]}",
                        discard.n,
                    )
    return finding


@rule("SR-MNT-08", timed=False)
def reports_are_passed_on_before_release(facts: Facts) -> Finding:
    """Check that a primary notifies a holder only when it has passed on the reports that the message caused.

    Those are its journal report, and the report of a failure. An occasion is a notification for a message that has to be
    journaled, or of which the primary was not done with every recipient (`_done_recipients`). A stored shadow copy of a report
    does not count as passing the report on here; `no_discard_before_delivery` lets it count, and judges a failure without any
    report.
    """
    finding = Finding("no discard notification before the message's reports were passed on")
    context = facts.context
    for name, message in facts.trace.messages.items():
        for copy in facts.trace.copies_of(name):
            for discard in facts.trace.discards_of(name):
                if (discard.primary, discard.shadow_id) != (copy.primary, copy.shadow_id):
                    continue
                if _is_message_refused(context, name, copy, discard):
                    continue
                missing = context.normalize_addresses(copy.transaction.recipients) - _done_recipients(
                    context, name, discard
                )
                is_journaled = _is_journaled(context, name, discard)
                finding.occasions += is_journaled or bool(missing)
                late = ""
                if is_journaled and not _is_journal_report_sent(context, message.message_id, discard.n):
                    late = "its journal report"
                elif (
                    any(not is_given_up_without_report(context, message, r, discard.t) for r in missing)
                    and _is_failure_reported(context, message, discard.n)
                    and not _is_failure_reported(context, message, discard.n, shadows=False)
                ):
                    late = f"the report of its failure for {min(missing)}"
                if late:
                    finding.add_message_violation(
                        message,
                        f"{discard.primary} notified {discard.holder} to discard it at {format_seconds(discard.t)} (event "
                        f"{discard.n}), before {late} was passed on",
                        discard.n,
                    )
    return finding


def _is_journaled(context: CheckContext, name: str, discard: Discard) -> bool:
    """Return whether the primary has to have the message journaled before the notification `discard`.

    It has to where the topology has a journal, the message has a Message-ID, and the primary is the first server that was given
    the message.
    """
    given = [t for t in context.trace.transactions_of(name) if t.kind != "shadow" and t.n < discard.n]
    message_id = context.trace.messages[name].message_id
    return (
        context.cell.topology.journal is not None
        and message_id is not None
        and bool(given)
        and given[0].server == discard.primary
    )


def _is_journal_report_sent(context: CheckContext, message_id: str | None, before: int) -> bool:
    """Return whether the journal report of a message was accepted before event `before`, or may have been refused for good.

    It may have been refused where any transaction for the journal's address ended without content, and a 5yz came in its session
    between its MAIL and `before`. `message_id` is that of the message.
    """
    journal = context.normalize_address(context.cell.topology.journal or "")
    refused = any(
        t.dot_n is None and journal in context.normalize_addresses((*t.recipients, *t.refused))
        and any(r.code // 100 == 5 and t.n < r.n < before for r in context.trace.sessions[t.session].replies)
        for t in context.trace.transactions
    )  # fmt: skip
    return refused or any(
        t.kind != "shadow" and t.digest is not None and t.digest.report == "journal" and t.digest.about == message_id
        and t.acceptance is not None and t.acceptance.n < before
        for t in context.trace.reports
    )  # fmt: skip


def _done_recipients(context: CheckContext, name: str, discard: Discard) -> set[str]:
    """Return the recipients, normalized, for whom the primary had nothing left to do before the notification `discard`.

    A next hop had accepted the message from the primary for them, or their mailbox had it or an indistinguishable one (same
    Message-ID and Date). Where the message has a null reverse-path, those of `_permanently_refused` are added.
    """
    done: set[str] = set()
    for t in context.trace.transactions_of(name):
        if t.kind != "shadow" and t.client == discard.primary and t.acceptance and t.acceptance.n < discard.n:
            done |= context.normalize_addresses(t.accepted_recipients)
    message = context.trace.messages[name]
    if not message.sender:
        done |= _permanently_refused(context, message, discard)
    for other in context.trace.indistinguishable_messages(message):
        for event in context.trace.deliveries_of(other):
            address = context.normalize_address(event.recipient)
            if event.n < discard.n and address in context.mailboxes:
                done.add(address)
    return done


def _permanently_refused(context: CheckContext, message: MessageMade, discard: Discard) -> set[str]:
    """Return the recipients, normalized, of the primary's transactions with a null reverse-path that may have been refused for good.

    A 5yz came in the session between MAIL and the notification; recipients that were accepted are returned too. No report may be
    made about these (RL-DSN-02). Where a fault altered the session, the recipients are not known: then all those of `message` are
    added.
    """
    refused: set[str] = set()
    for t in context.trace.transactions:
        if t.client != discard.primary or t.sender or t.n > discard.n:
            continue
        replies = context.trace.sessions[t.session].replies
        if any(reply.code // 100 == 5 and t.n < reply.n < discard.n for reply in replies):
            is_altered = t.session in context.trace.altered_sessions
            refused |= context.normalize_addresses(message.recipients if is_altered else (*t.refused, *t.recipients))
    return refused


def _is_failure_reported(context: CheckContext, message: MessageMade, before: int, *, shadows: bool = True) -> bool:
    """Return whether any server accepted a report of a message's failure before event `before`.

    With `shadows` a stored shadow copy of the report counts too. The report of a message without a Message-ID is known by the
    address that it goes to.
    """
    return any(
        (shadows or t.kind != "shadow")
        and t.acceptance is not None and t.acceptance.n < before
        and _is_failure_report(message, t)
        for t in context.trace.reports
    )  # fmt: skip


def _reported_recipients(context: CheckContext, message: MessageMade, before: int) -> set[str]:
    """Return the recipients, normalized, that reports of failure name, as far as the reports were accepted before event `before`.

    An accepted shadow copy of a report counts too. A report that names no failed recipient counts for all of them.
    """
    reported: set[str] = set()
    for t in context.trace.reports:
        if t.acceptance is not None and t.acceptance.n < before and _is_failure_report(message, t):
            assert t.digest is not None
            reported |= context.normalize_addresses(t.digest.failed or message.recipients)
    return reported


def _is_failure_report(message: MessageMade, t: Transaction) -> bool:
    """Return whether a transaction carries a report about a message that may be of a failure (`may_report_failure`).

    It is known by the Message-ID that it is about, or, where the message has none, by the message's sender as its recipient.
    """
    return (
        t.digest is not None
        and may_report_failure(t.digest)
        and t.digest.about == message.message_id
        and (message.message_id is not None or message.sender in t.recipients)
    )


def _is_message_refused(context: CheckContext, name: str, copy: ShadowCopy, discard: Discard) -> bool:
    """Return whether the primary refused every transmission of a message to it whose final dot came before the notification.

    The refusal itself may come later. False if there was no transmission, or if one has no reply. `copy` says who is the primary.
    """
    given = [
        t for t in context.trace.transactions_of(name)
        if t.server == copy.primary and t.kind != "shadow" and t.dot_n is not None and t.dot_n < discard.n
    ]  # fmt: skip
    return bool(given) and all(t.replies and t.acceptance is None for t in given)
