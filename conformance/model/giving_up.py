"""What a server may give up: a message that it could not deliver for its whole lifetime, or that was refused, with its report.

A message expires after MessageExpirationTimeout (RFC 5321 4.5.4.1), and its sender gets a report. A message with a null
reverse-path causes none (RL-DSN-02), and so does the report itself: where the way to the sender is as broken as that to the
recipient, the report expires as well. Then a message is gone without a fault of any server. A sender who asks for no report of
failures (NOTIFY=NEVER, or NOTIFY without FAILURE, RFC 3461 4.1) gets none: what was refused for good, or expired, is gone at
once.

A server gives up only what it tries in vain: its last attempt at the next hop before the end of the lifetime must have failed.
The lifetime of a message that a server takes over from a shadow copy counts from the copy's arrival or from the takeover, which
the documents leave open. A takeover is not seen, but the server's attempts begin with it. The rules about losses (`loss`) and
discard notifications (`discards`) ask this.

`context` is one cell: its topology, and its recorded history as `context.trace`. `address` is a recipient, or the sender as the
recipient of the report. `since_t`, `failed_t` and `by_t` are times in documented seconds, `n` is an event's number. A
`Transaction` is one mail transaction; its `message` is None where no content says which message it was. Records: a `FaultFired`
event is a fault that acted; `ConnectFailed` is a connection that a client could not open.
"""

from collections.abc import Iterator

from conformance.history.events import ConnectFailed, FaultFired, MessageMade, Reply
from conformance.history.values import Digest
from conformance.model.parameter_changes import ParameterChanges
from conformance.model.relaying import needs_smtputf8
from conformance.model.sizes import announced_size
from conformance.trace.context import CheckContext
from conformance.trace.parameters import numeric_parameter_at
from conformance.trace.sessions import Session, Transaction, parse_path

ADDED_OCTETS = 4096
"""How many octets longer a message, or a report with it, may be than what the sender sent: header fields and parts of the report."""

_LEAST_REFUSAL = 550
"""The least code by which MAIL is refused for good; 500 to 504 say that the command is wrong here (RFC 5321 4.2.2), and not the mail."""


def is_given_up_without_report(context: CheckContext, message: MessageMade, recipient: str, by_t: float) -> bool:
    """Return whether by time `by_t` a server may have given a message up for a recipient, with no report left to pass on.

    No report is left where the message has a null reverse-path, where its sender asked for none, and where the report was given
    up by `by_t` too. Only servers count to which the whole message, or a shadow copy of it, was sent.
    """
    holders = {copy.holder for copy in context.trace.copies_of(message.message)}
    for given in _transactions_to_servers(context, message):
        if given.dot_t is None:
            continue
        size = message.digest.size + ADDED_OCTETS
        is_copy = given.kind == "shadow" or given.server in holders
        failures = _times_of_giving_up(
            context, given.server, recipient, given.dot_t, message.sender, size, is_copy=is_copy
        )
        if any(
            failed_t <= by_t
            and (not message.sender or _is_report_given_up(context, message, given.server, failed_t, by_t))
            for failed_t in failures
        ):
            return True
        if asks_for_no_report(context, given, recipient) and any(
            failed_t <= by_t
            for failed_t in _times_of_giving_up(
                context, given.server, recipient, given.dot_t, message.sender, size, message, is_copy=is_copy
            )
        ):
            return True
    return False


def may_report_failure(digest: Digest) -> bool:
    """Return whether a content is a delivery status notification with the action `failed` for any recipient, or without an action.

    After one of another action, such as `delayed`, the message is still tried (RFC 3464 2.3.3).
    """
    return digest.report == "delivery-status" and (bool(digest.failed) or digest.action in (None, "failed"))


def _transactions_to_servers(context: CheckContext, message: MessageMade) -> Iterator[Transaction]:
    """Yield each transaction in which a server under test was sent the content of a message, or a shadow copy of it."""
    return (t for t in context.trace.transactions_of(message.message) if context.is_tested_server(t.server))


def asks_for_no_report(context: CheckContext, given: Transaction, recipient: str) -> bool:
    """Return whether a transaction asks for no report of failures about a recipient: its RCPT has NOTIFY without FAILURE.

    False where the recipient's RCPT has no NOTIFY, for a recipient whom the transaction does not name or whose RCPT was refused,
    and for a transaction without a final dot.
    """
    address = context.normalize_address(recipient)
    if address not in context.normalize_addresses(given.recipients):
        return False
    for line in (
        x.command.line
        for x in context.trace.sessions[given.session].exchanges
        if _is_command_within(given, x.command.n)
    ):
        _, notify, words = line.partition(">")[2].upper().partition(" NOTIFY=")
        if notify and context.normalize_address(parse_path(line)) == address:
            return "FAILURE" not in words.split(" ")[0].split(",")
    return False


def _is_command_within(transaction: Transaction, n: int) -> bool:
    """Return whether the command of event `n` belongs to a transaction that has its final dot; False for one without."""
    return transaction.dot_n is not None and transaction.n <= n < transaction.dot_n


def _is_report_given_up(context: CheckContext, message: MessageMade, maker: str, failed_t: float, by_t: float) -> bool:
    """Return whether the report that server `maker` made at `failed_t` may be given up by `by_t`, by any server that has it.

    A report here is one that may be of a failure (`may_report_failure`), about the message's Message-ID. `maker` has it, and each
    server that it, or a shadow copy of it, was sent to.
    """
    carriers = [(maker, failed_t, False)] + [
        (t.server, t.dot_t, t.kind == "shadow")
        for t in context.trace.reports
        if t.digest is not None
        and may_report_failure(t.digest)
        and t.digest.about == message.message_id
        and t.dot_t is not None
        and context.is_tested_server(t.server)
    ]
    return any(
        given_up_t <= by_t
        for server, since_t, is_copy in carriers
        for given_up_t in _times_of_giving_up(
            context, server, message.sender, since_t, "", message.digest.size + ADDED_OCTETS, is_copy=is_copy
        )
    )


def _times_of_giving_up(
    context: CheckContext,
    server: str,
    address: str,
    since_t: float,
    sender: str,
    size: int,
    message: MessageMade | None = None,
    *,
    is_copy: bool,
) -> Iterator[float]:
    """Yield the times at which a server may give up what it has had for `address` since `since_t`.

    First comes the begin of each attempt in which a next hop refused it; then each possible end of its lifetime (`_ends_of_lifetime`),
    if the last attempt before that failed. With `is_copy` the server may have had a shadow copy, and have taken it over at its first
    attempt, or at any other that failed after one that did not: then a lifetime begins there too. `sender` is the reverse-path of
    what the server has, '' for a report, and `size` how large it may be, in octets. With `message`, attempts that were seen to be
    about another message do not count.
    """
    attempts = _attempts_with_outcome(context, server, address, sender, size, message)
    yield from (t for t, outcome in attempts if outcome == "refused" and t >= since_t)
    later = [(t, outcome) for t, outcome in attempts if t >= since_t]
    begins = [since_t]
    if is_copy:
        before = ["", *(outcome for _, outcome in later)]
        begins += [t for (t, outcome), previous in zip(later, before, strict=False) if outcome == "failed" != previous]
    for begin_t in begins:
        for expires_t in _ends_of_lifetime(context, server, begin_t):
            within = [outcome for t, outcome in later if begin_t <= t <= expires_t + context.slack]
            if within and within[-1] == "failed":
                yield expires_t


def _ends_of_lifetime(context: CheckContext, server: str, since_t: float) -> Iterator[float]:
    """Yield the times at which a lifetime that began at `since_t` may end: one for each MessageExpirationTimeout since then.

    No document says whether a change concerns what is queued already: the lifetime may be the one before a change, or the one after
    it. With a new one nothing expires before that was offered to the server.
    """
    name = "MessageExpirationTimeout"
    n = next((event.n for event in context.trace.events if event.t >= since_t), 0)
    yield since_t + numeric_parameter_at(context, server, name, n)
    for offered_n, answered_n, _ in ParameterChanges(context).accepted(server, name):
        if answered_n >= n:
            lifetime = numeric_parameter_at(context, server, name, answered_n + 1)
            yield max(since_t + lifetime, context.trace.events[offered_n].t)


def _attempts_with_outcome(
    context: CheckContext, server: str, address: str, sender: str, size: int, message: MessageMade | None
) -> list[tuple[float, str]]:
    """Return the attempts of a server to reach a next hop for an address, sorted by time: when each began, and how it ended.

    The end is `failed`, `refused` or `worked`, as `_outcome_for_address` has it; sessions for which it has '' are left out. A
    connection that could not be opened has `failed`, and the time at which that was seen. With `message`, attempts that were seen
    to be about another message are left out.
    """
    hops = context.next_hop_servers(server, address)
    found = [(e.t, "failed") for e in context.trace.events_of(ConnectFailed) if e.client == server and e.server in hops]
    broken = {e.session for e in context.trace.events_of(FaultFired)}
    for session in context.trace.sessions.values():
        if session.client == server and session.server in hops:
            outcome = _outcome_for_address(
                context, session, address, sender, size, message, broken=session.name in broken
            )
            found += [(session.t, outcome)] if outcome else []
    return sorted(found)


def _outcome_for_address(
    context: CheckContext,
    session: Session,
    address: str,
    sender: str,
    size: int,
    message: MessageMade | None,
    *,
    broken: bool,
) -> str:
    """Return how a session ended for an address: `worked`, `refused` or `failed`; '' if nothing shows that it was an attempt.

    `worked`: a final reply accepted the message for the address. Else `refused`: a command or the content got 5yz; of a MAIL that a
    fault left readable, 550 or more. Else `failed`: one got 4yz, or a fault fired in the session (`broken`). Only transactions count that may be for the
    address, and with `message`, that may be about that message. One without recipients may be for the address if its reverse-path
    is `sender`. In a session without transactions every reply counts. `refused` is also a session without such a transaction whose
    server does not offer SMTPUTF8, if the address or `sender` needs it (RFC 6531 3.2), or announces less than `size` octets (RFC 1870
    6.1).
    """
    normalize, normalize_all = context.normalize_address, context.normalize_addresses
    wanted = normalize_all((address,))

    def may_be_for_address(transaction: Transaction) -> bool:
        """Return whether a transaction names the address, or names no recipient and has the reverse-path `sender`."""
        named = (*transaction.recipients, *transaction.refused)
        if named:
            return bool(wanted & normalize_all(named))
        return normalize(transaction.sender) == normalize(sender)

    own = [
        transaction
        for transaction in session.transactions
        if (message is None or _may_be_about(context, transaction, message)) and may_be_for_address(transaction)
    ]
    if any(wanted & normalize_all(t.accepted_recipients) for t in own):
        return "worked"
    is_utf8_lacking = session.keywords is not None and "SMTPUTF8" not in session.keywords
    if not own and is_utf8_lacking and needs_smtputf8(sender, address):
        return "refused"
    if not own and 0 < announced_size(session) < size:
        return "refused"
    replies = [
        reply
        for reply in session.replies
        if not session.transactions
        or any(
            reply.n > t.n
            and (
                (message is None and (t.recipients or t.refused))
                or _is_answer_for(context, session, t, normalize(address), reply)
            )
            for t in own
        )
    ]
    decisions = [
        reply
        for reply in replies
        if reply.to != "MAIL" or reply.code >= _LEAST_REFUSAL or _may_answer_unreadable_command(session, reply)
    ]
    if any(reply.code // 100 == 5 for reply in decisions):
        return "refused"
    return "failed" if broken or any(reply.code // 100 == 4 for reply in replies) else ""


def _may_be_about(context: CheckContext, transaction: Transaction, message: MessageMade) -> bool:
    """Return whether a transaction is of the message, or may be.

    It may be if it ended before its final dot and has the message's reverse-path.
    """
    sender = context.normalize_address(message.sender)
    return transaction.message == message.message or (
        transaction.dot_n is None and context.normalize_address(transaction.sender) == sender
    )


def _is_answer_for(
    context: CheckContext, session: Session, transaction: Transaction, address: str, reply: Reply
) -> bool:
    """Return whether a reply answers a transaction's content or one of its commands, and is not about another recipient.

    A reply to RCPT is about one recipient, and so is each final reply of LMTP. The other replies are about all of them, and so may
    be one to a command that a fault made unreadable.
    """
    normalize = context.normalize_address
    if reply.to == "CONTENT":
        return reply in transaction.replies and (reply.recipient is None or normalize(reply.recipient) == address)
    end = min((t.n for t in session.transactions if t.n > transaction.n), default=session.exchanges[-1].command.n + 1)
    if transaction.n < reply.n < end and _may_answer_unreadable_command(session, reply):
        return True
    return any(
        x.reply is reply and (x.command.verb != "RCPT" or normalize(parse_path(x.command.line)) == address)
        for x in session.exchanges
        if transaction.n <= x.command.n < end
    )


def _may_answer_unreadable_command(session: Session, reply: Reply) -> bool:
    """Return whether a reply answers no command that can be read, and comes behind one without a verb: a fault garbled that one."""
    return all(x.reply is not reply for x in session.exchanges) and any(
        not x.command.verb and x.reply is None and x.command.n < reply.n for x in session.exchanges
    )
