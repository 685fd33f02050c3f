"""No discard notification before every next hop has accepted the message (SR-MNT-01, SR-MNT-07, SR-MNT-08)."""

from conformance.judge.finding import Case, Finding, moment, named
from conformance.judge.invariants.check import invariant
from conformance.judge.trace import Copy, Discard


@invariant("no-discard-before-delivery", "SR-MNT-01", "SR-MNT-07")
def no_discard_before_delivery(case: Case) -> Finding:
    """A primary tells that a shadow may go when it has passed the message on for every recipient.

    Passed on is what a next hop has acknowledged, what was dropped as a duplicate of a mailbox, and what was refused
    for good or expired, once the report of that is on its way. A message that the primary refused in the end has no
    shadow to keep.
    """
    finding = Finding("no discard notification before all next hops have accepted the message")
    for message, made in case.trace.messages.items():
        for copy in case.trace.copies_of(message):
            for discard in case.trace.discards_of(message):
                if (discard.primary, discard.shadow_id) != (copy.primary, copy.shadow_id):
                    continue
                if _rejected(case, message, copy, discard):
                    continue
                finding.occasions += 1
                done = _passed_on(case, message, discard)
                missing = [r for r in copy.transaction.recipients if case.same(r) not in done]
                if missing and not _reported(case, made.message_id, discard.n):
                    finding.violated(
                        f"{named(made)}: {discard.primary} told {discard.holder} to discard it at {moment(discard.t)} "
                        f"(event {discard.n}), before it had passed it on to {missing[0]}",
                        discard.n,
                        message=message,
                        row="SR-MNT-07" if len(missing) < len(copy.transaction.recipients) else None,
                    )
    return finding


def _passed_on(case: Case, message: str, discard: Discard) -> set[str]:
    """Return the recipients for whom the primary had passed a message on."""
    done: set[str] = set()
    for t in case.trace.transactions_of(message):
        if t.way != "shadow" and t.client == discard.primary and t.accepted is not None and t.accepted.n < discard.n:
            done.update(map(case.same, t.taken_for))
    made = case.trace.messages[message]
    if not made.sender:
        done |= _refused_for_good(case, message, discard)
    for name in case.trace.twins(made):
        for event in case.trace.deliveries_of(name):
            if event.n < discard.n and case.same(event.recipient) in case.mailboxes:
                done.add(case.same(event.recipient))
    return done


def _refused_for_good(case: Case, message: str, discard: Discard) -> set[str]:
    """Return whom a next hop refused with 5yz: of a null reverse-path no report may be made (RL-DSN-02)."""
    found: set[str] = set()
    for t in case.trace.transactions:
        if t.client != discard.primary or t.sender or t.n > discard.n:
            continue
        replies = case.trace.sessions[t.session].replies
        if any(reply.code // 100 == 5 and t.n < reply.n < discard.n for reply in replies):
            found.update(map(case.same, (*t.refused, *t.recipients)))
    return found


def _reported(case: Case, message_id: str | None, before: int) -> bool:
    """Whether a report about a message had been passed on."""
    return message_id is not None and any(
        t.digest is not None and t.digest.report == "delivery-status" and t.digest.about == message_id
        and t.accepted is not None and t.accepted.n < before
        for t in case.trace.transactions
    )  # fmt: skip


def _rejected(case: Case, message: str, copy: Copy, discard: Discard) -> bool:
    """Whether the primary has refused every transmission of a message up to a notification."""
    given = [
        t for t in case.trace.transactions_of(message)
        if t.server == copy.primary and t.way != "shadow" and t.dot is not None and t.dot < discard.n
    ]  # fmt: skip
    return bool(given) and all(t.replies and t.accepted is None for t in given)
