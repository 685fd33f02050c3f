"""Judges that servers pass content and envelope on unchanged (SR-CRE-06, RL-CNT-01).

Content is compared by a hash that leaves trace fields out (`Digest.stable_sha256`). What a server was given is the message as the
harness made it, or what a fault on a link had made of it. `original` is the message as made, `transmissions` are all transactions
with its content, `sent` is the one that is judged: its MAIL is event `n`, its final dot `dot_n`. A transaction of kind `shadow`
hands over a shadow copy. A `Delivered` event is a message that a sink or mailbox store took for one recipient from its `giver`.

Each rule judges one recorded history and returns a `Finding` of occasions (chances to fail) and violations, as `conformance.model`
describes (`timed=False`: it compares no times). `row` is a requirement's id. A session is *altered* where a fault changed, added
or removed octets in it.
"""

from conformance.history.events import Delivered, MessageMade
from conformance.model.facts import Facts
from conformance.model.resending import is_resending_requested
from conformance.model.rules import rule
from conformance.trace.context import CheckContext
from conformance.trace.finding import Finding
from conformance.trace.sessions import Transaction


@rule("SR-CRE-06", "RL-CNT-01", timed=False, published="content-unchanged")
def content_unchanged(facts: Facts) -> Finding:
    """Check that each transmission by a server, and each delivery to a sink, has the message's content, reverse-path and recipients.

    A shadow copy must be for all recipients with which its primary is being given the message; any other transmission may be for
    some. Left out are altered sessions, and transmissions by the harness under a server's name.
    """
    finding, context = Finding("content and envelope pass unchanged, trace fields aside"), facts.context
    for original in context.trace.messages.values():
        transmissions = context.trace.transactions_of(original.message)
        for sent in transmissions:
            if (
                context.is_opened_by_tested_server(sent.client, sent.session)
                and sent.session not in context.trace.altered_sessions
            ):
                finding.occasions += 1
                _compare_transmission(facts, finding, original, sent, transmissions)
        for delivery in context.trace.deliveries_of(original.message):
            if delivery.session not in context.trace.altered_sessions:
                finding.occasions += 1
                _compare_delivery(context, finding, original, delivery, transmissions)
    return finding


def _given_hashes(original: MessageMade, server: str, before: int, transmissions: list[Transaction]) -> set[str]:
    """Return the `stable_sha256` hashes of what a server was given of a message before event `before`.

    Where it was given nothing by then, it is the hash of the original alone.
    """
    given = {
        t.digest.stable_sha256
        for t in transmissions
        if t.server == server and t.digest is not None and t.dot_n is not None and t.dot_n < before
    }
    return given or {original.digest.stable_sha256}


def _compare_transmission(
    facts: Facts, finding: Finding, original: MessageMade, sent: Transaction, transmissions: list[Transaction]
) -> None:
    """Add a violation for each difference between a transmission and the message.

    `sent` is the transmission that is judged. Its content is compared with what its client was given, its reverse-path and
    recipients with `original`. Of the recipients one violation is added at most: for one too many, else for one that a shadow copy
    lacks.
    """
    assert sent.digest is not None
    assert sent.dot_n is not None
    context = facts.context
    what = "the shadow" if sent.kind == "shadow" else "it"
    subject = f"{sent.client} sent {what} to {sent.server}"
    row = "SR-CRE-06" if sent.kind == "shadow" else "RL-CNT-01"
    if sent.digest.stable_sha256 not in _given_hashes(original, sent.client, sent.dot_n, transmissions):
        finding.add_message_violation(original, f"{subject} with other content", sent.dot_n, row=row)
    if context.normalize_address(sent.sender) != context.normalize_address(original.sender):
        sentence = f"{subject} from <{sent.sender}>, not from <{original.sender}>"
        finding.add_message_violation(original, sentence, sent.n, row=row)
    recipients = context.normalize_addresses(sent.recipients)
    wanted = context.normalize_addresses(original.recipients)
    if unexpected := recipients - wanted:
        sentence = f"{subject} for {min(unexpected)}, which is not one of its recipients"
        finding.add_message_violation(original, sentence, sent.n, row=row)
    elif sent.kind == "shadow" and (missing := _missing_recipients(facts, sent, transmissions)):
        sentence = f"{subject} without {min(missing)}, which is one of its recipients"
        finding.add_message_violation(original, sentence, sent.n, row=row)


def _missing_recipients(facts: Facts, shadow: Transaction, transmissions: list[Transaction]) -> set[str]:
    """Return the recipients, normalized, that a copy lacks of the message that the primary is being given while it sends the copy.

    The primary may be given several transmissions at the same time, each for other recipients: the copy is of one of them, so the
    smallest difference is returned. It is empty where the primary is given none: a copy of what Safety Net sends again may be for
    fewer recipients. A transaction that got no reply counts as under way until a request to send messages again (`resending`).
    """
    normalize = facts.context.normalize_addresses
    given = [t for t in transmissions if t.server == shadow.client and t.kind != "shadow" and t.n < shadow.n]
    waiting = [
        t
        for t in given
        if (t.replies[0].n > shadow.n if t.replies else not is_resending_requested(facts, t.n, shadow.n))
    ]
    recipients = normalize(shadow.recipients)
    return min((normalize(t.recipients) - recipients for t in waiting), key=len, default=set())


def _compare_delivery(
    context: CheckContext,
    finding: Finding,
    original: MessageMade,
    delivery: Delivered,
    transmissions: list[Transaction],
) -> None:
    """Add a violation for each difference between a delivery and the message.

    The content is compared with what the giver was given, reverse-path and recipient with `original`.
    """
    subject = f"{delivery.sink} got it from {delivery.giver}"
    differences = []
    if delivery.digest.stable_sha256 not in _given_hashes(original, delivery.giver, delivery.n, transmissions):
        differences.append("with other content")
    if context.normalize_address(delivery.recipient) not in map(context.normalize_address, original.recipients):
        differences.append(f"for {delivery.recipient}, which is not one of its recipients")
    if context.normalize_address(delivery.sender) != context.normalize_address(original.sender):
        differences.append(f"from <{delivery.sender}>, not from <{original.sender}>")
    for difference in differences:
        finding.add_message_violation(original, f"{subject} {difference}", delivery.n, row="RL-CNT-01")
