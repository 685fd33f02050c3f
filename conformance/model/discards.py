"""Judges that no discard notification comes before every next hop has accepted the message (SR-MNT-01, SR-MNT-07, SR-MNT-08).

With a *discard notification* the primary tells the holder of a shadow copy that it may discard the copy. `n` is an event's
number.

`occasions` counts the chances to fail; a violation is blamed on its `row`, else on the decorator's first requirement.
"""

from conformance.model.rules import invariant
from conformance.trace.context import CheckContext
from conformance.trace.finding import Finding, format_seconds
from conformance.trace.trace import Discard, ShadowCopy


@invariant("no-discard-before-delivery", "SR-MNT-01", "SR-MNT-07", "SR-MNT-08", timed=False)
def no_discard_before_delivery(context: CheckContext) -> Finding:
    """Check that a primary notifies a holder only when it is done with the message for every recipient of the copy.

    The notification names the copy by its shadow id. The primary is done when a next hop has acknowledged the message
    or a mailbox has it already, or when a report about a failure was passed on. A message that the primary refused in
    the end needs no copy, so its notifications are no occasions.
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
                if missing and not _is_failure_reported(context, message.message_id, discard.n):
                    finding.add_message_violation(
                        message,
                        f"{discard.primary} notified {discard.holder} to discard it at "
                        f"{format_seconds(discard.t)} (event {discard.n}), before it had passed it on to {missing[0]}",
                        discard.n,
                        row="SR-MNT-07" if len(missing) < len(copy.transaction.recipients) else None,
                    )
                elif _is_journal_report_due(context, name, discard):
                    finding.add_message_violation(
                        message,
                        f"{discard.primary} notified {discard.holder} to discard it at {format_seconds(discard.t)} (event "
                        f"{discard.n}), before its journal report was passed on",
                        discard.n,
                        row="SR-MNT-08",
                    )
    return finding


def _is_journal_report_due(context: CheckContext, name: str, discard: Discard) -> bool:
    """Return whether the primary, the first server that has the message, had its journal report still to pass on."""
    given = [t for t in context.trace.transactions_of(name) if t.kind != "shadow" and t.n < discard.n]
    if context.cell.topology.journal is None or not given or given[0].server != discard.primary:
        return False
    message_id = context.trace.messages[name].message_id
    return message_id is not None and not any(
        t.kind != "shadow" and t.digest is not None and t.digest.report == "journal" and t.digest.about == message_id
        and t.acceptance is not None and t.acceptance.n < discard.n
        for t in context.trace.transactions
    )  # fmt: skip


def _done_recipients(context: CheckContext, name: str, discard: Discard) -> set[str]:
    """Return the recipients, normalized, for whom the primary had nothing left to do before the notification.

    A next hop had accepted the message for them, their mailbox had it or an indistinguishable one, or a message with a null
    reverse-path was refused for them.
    """
    done: set[str] = set()
    for t in context.trace.transactions_of(name):
        if t.kind != "shadow" and t.client == discard.primary and t.acceptance and t.acceptance.n < discard.n:
            done |= context.normalize_addresses(t.accepted_recipients)
    message = context.trace.messages[name]
    if not message.sender:
        done |= _permanently_refused(context, discard)
    for other in context.trace.indistinguishable_messages(message):
        for event in context.trace.deliveries_of(other):
            address = context.normalize_address(event.recipient)
            if event.n < discard.n and address in context.mailboxes:
                done.add(address)
    return done


def _permanently_refused(context: CheckContext, discard: Discard) -> set[str]:
    """Return the recipients of the primary's transactions with a null reverse-path in which a 5yz came.

    No report may be made about these (RL-DSN-02).
    """
    refused: set[str] = set()
    for t in context.trace.transactions:
        if t.client != discard.primary or t.sender or t.n > discard.n:
            continue
        replies = context.trace.sessions[t.session].replies
        if any(reply.code // 100 == 5 and t.n < reply.n < discard.n for reply in replies):
            refused |= context.normalize_addresses((*t.refused, *t.recipients))
    return refused


def _is_failure_reported(context: CheckContext, message_id: str | None, before: int) -> bool:
    """Return whether a delivery status notification about a message was accepted by a next hop before event `before`."""
    return message_id is not None and any(
        t.kind != "shadow" and t.digest is not None and t.digest.report == "delivery-status" and t.digest.about == message_id
        and t.acceptance is not None and t.acceptance.n < before
        for t in context.trace.transactions
    )  # fmt: skip


def _is_message_refused(context: CheckContext, name: str, copy: ShadowCopy, discard: Discard) -> bool:
    """Return whether the primary refused every transmission of a message to it before the notification."""
    given = [
        t for t in context.trace.transactions_of(name)
        if t.server == copy.primary and t.kind != "shadow" and t.dot_n is not None and t.dot_n < discard.n
    ]  # fmt: skip
    return bool(given) and all(t.replies and t.acceptance is None for t in given)
