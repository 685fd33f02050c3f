"""Content and envelope pass unchanged (SR-CRE-06, RL-CNT-01)."""

from conformance.history.events import Delivered, MessageMade
from conformance.judge.finding import Case, Finding, named
from conformance.judge.invariants.check import invariant
from conformance.judge.sessions import Transaction

SHADOWED, PASSED_ON = "SR-CRE-06", "RL-CNT-01"
"""The rows: of a shadow copy, and of whatever else is passed on."""


@invariant("content-unchanged", SHADOWED, PASSED_ON)
def content_unchanged(case: Case) -> Finding:
    """Whatever a server passes on, to another server, a shadow server or a sink, is what it was given.

    That is the message as it was made, or what a link had made of it before. Trace fields may differ. A shadow is for
    all recipients of the message, anything else for some of them; the reverse-path stays. What a link altered in a
    session is not the fault of its client.
    """
    finding = Finding("content and envelope pass unchanged, trace fields aside")
    for made in case.trace.messages.values():
        sent = case.trace.transactions_of(made.message)
        for t in sent:
            if case.acts(t.client, t.session) and t.session not in case.trace.tampered:
                finding.occasions += 1
                _compare(case, finding, made, t, sent)
        for event in case.trace.deliveries_of(made.message):
            if event.session not in case.trace.tampered:
                finding.occasions += 1
                _compare_delivery(case, finding, made, event, sent)
    return finding


def _given(made: MessageMade, server: str, before: int, sent: list[Transaction]) -> set[str]:
    """Return what the content of a message may be when a server passes it on."""
    inbound = {t.digest.stable_sha256 for t in sent if t.server == server and t.n < before and t.digest is not None}
    return inbound or {made.digest.stable_sha256}


def _compare(case: Case, finding: Finding, made: MessageMade, t: Transaction, sent: list[Transaction]) -> None:
    assert t.digest is not None
    assert t.dot is not None
    what = f"{named(made)}: {t.client} sent {'the shadow' if t.way == 'shadow' else 'it'} to {t.server}"
    row = SHADOWED if t.way == "shadow" else PASSED_ON
    if t.digest.stable_sha256 not in _given(made, t.client, t.dot, sent):
        finding.violated(f"{what} with other content", t.dot, message=made.message, row=row)
    if case.same(t.sender) != case.same(made.sender):
        finding.violated(f"{what} from <{t.sender}>, not from <{made.sender}>", t.n, message=made.message, row=row)
    recipients = {case.same(recipient) for recipient in t.recipients}
    wanted = {case.same(recipient) for recipient in made.recipients}
    if strangers := recipients - wanted:
        finding.violated(f"{what} for {min(strangers)}, who is no recipient of it", t.n, message=made.message, row=row)
    elif t.way == "shadow" and (missing := _accepted(case, t, sent) - recipients):
        finding.violated(f"{what} without {min(missing)}, who is a recipient of it", t.n, message=made.message, row=row)


def _accepted(case: Case, shadow: Transaction, sent: list[Transaction]) -> set[str]:
    """Return the recipients of the transaction in which the primary is being given the message, if it still is.

    A shadow that is made later, of what Safety Net sends again, may be for fewer.
    """
    given = [t for t in sent if t.server == shadow.client and t.n < shadow.n]
    waiting = [t for t in given if not t.replies or t.replies[0].n > shadow.n]
    return {case.same(recipient) for t in waiting[-1:] for recipient in t.recipients}


def _compare_delivery(
    case: Case, finding: Finding, made: MessageMade, event: Delivered, sent: list[Transaction]
) -> None:
    what = f"{named(made)}: {event.sink} got it from {event.giver}"
    if event.digest.stable_sha256 not in _given(made, event.giver, event.n, sent):
        finding.violated(f"{what} with other content", event.n, message=made.message, row=PASSED_ON)
    if case.same(event.recipient) not in {case.same(recipient) for recipient in made.recipients}:
        finding.violated(
            f"{what} for {event.recipient}, who is no recipient of it", event.n, message=made.message, row=PASSED_ON
        )
    if case.same(event.sender) != case.same(made.sender):
        finding.violated(
            f"{what} from <{event.sender}>, not from <{made.sender}>", event.n, message=made.message, row=PASSED_ON
        )
