"""Judges reports of failures: one for each permanent failure, to the sender, and no other (RL-DSN-01, RL-DSN-02, RL-RCP-01).

A *report* is a delivery status notification (RFC 3464) with the action `failed` for any recipient. Its *origin* is the server that sends it without
having been handed it. A recipient has failed at a server when a next hop refused the message for it with 5yz, when the message
expired, or when there is no next hop for it; nothing else may be reported, and each failure must be (RFC 5321 6.1), but for a
message with a null reverse-path.

Reports name recipients, and the message by its Message-ID: where several messages have it, a report may be about any of them. `n`
is an event's number, `t` its time in documented seconds. The *drain* is the wait at the end of a cell.

Each rule judges one recorded history, `facts`, and returns a `Finding` of occasions (chances to fail) and violations, as
`conformance.model` describes. Functions that take a `finding` add to it. A violation blames its `row`, else the rule's first
requirement. A `Transaction` is one mail transaction: `n` and `t` are those of its MAIL, `dot_n` and `dot_t` those of its final
dot (None before it), and `recipients` those that were not refused. Its `kind` is `shadow` (a copy that the server is to hold,
2013 and later), `tracked` (2010: mail of which the client keeps the shadow) or `plain`. A session is *altered* where a fault
changed, added or removed octets in it. `facts.slack` is by how many seconds a time may miss a bound. `claims` are the
capabilities that the candidate claims.

Records: `Relaying` has, by server, message and recipient, each `Handing` (the server was handed the message, and `acknowledged`
it or not) and each `Try` (it tried to pass it on; `outcome` is the first digit of the reply that decided), and by server each
`HopConnection` (a connection without mail of a known message); `Drained` is the drain's end: `quiet` says whether the transport
was.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from conformance.history.events import Drained, MessageMade
from conformance.history.values import Digest
from conformance.model.facts import Facts
from conformance.model.giving_up import ADDED_OCTETS
from conformance.model.relaying import Relaying, needs_smtputf8, sessions_from
from conformance.model.resending import is_resending_requested
from conformance.model.rules import rule
from conformance.model.sizes import announced_size
from conformance.trace.finding import Finding
from conformance.trace.sessions import Transaction

_LONG_WAY = 20
"""Received fields of a message that a server may take for one in a loop, rightly or not."""


@dataclass(frozen=True, slots=True)
class _Report:
    """A report at its origin: the first transaction in which it was sent, and the messages that it may be about.

    `body_hash` is the SHA-256 of its body, `failed` the recipients, normalized, whose failure it is about.
    """

    origin: str
    transaction: Transaction
    body_hash: str
    messages: tuple[MessageMade, ...]
    failed: frozenset[str]

    @property
    def n(self) -> int:
        """The number of the event of the report's final dot, or of its MAIL where it has none."""
        return self.transaction.dot_n or self.transaction.n


class FailureReports:
    """The reports of failures of a history, each once, at its origin; `all` has them in order.

    `message_ids` has the Message-IDs of all delivery status notifications, '' for one without.
    `Facts.compute_once(FailureReports)` makes one for a history.
    """

    def __init__(self, facts: Facts) -> None:
        """Collect the reports from all transactions.

        A server that had been sent a report, or a shadow copy of it, is not its origin.
        """
        self.all: list[_Report] = []
        self.message_ids: set[str] = set()
        """The Message-IDs of all delivery status notifications, whatever their action is."""
        by_id: Mapping[str, list[MessageMade]] = defaultdict(list)
        for message in facts.trace.messages.values():
            if message.message_id:
                by_id[message.message_id].append(message)
        seen: set[tuple[str, str]] = set()
        for sent in facts.trace.transactions:
            digest = sent.digest
            if digest is None or digest.report != "delivery-status":
                continue
            if sent.kind == "shadow":  # if the server ever sends it, it has taken it over and not made it
                seen.add((sent.server, digest.body_sha256))
                continue
            self.message_ids.add(digest.message_id or "")
            known = (sent.client, digest.body_sha256) in seen
            seen |= {(sent.client, digest.body_sha256), (sent.server, digest.body_sha256)}
            # one report may have several actions (RFC 3464 2.3)
            has_failed = bool(digest.failed) or digest.action == "failed"
            if known or not has_failed or not facts.is_opened_by_tested_server(sent.client, sent.session):
                continue
            messages = tuple(by_id.get(digest.about or "", ()))
            failed = _reported_recipients(facts, digest, messages)
            self.all.append(
                _Report(
                    origin=sent.client, transaction=sent, body_hash=digest.body_sha256, messages=messages, failed=failed
                )
            )


def _reported_recipients(facts: Facts, digest: Digest, messages: Iterable[MessageMade]) -> frozenset[str]:
    """Return the recipients, normalized, whose failure a report is about.

    A report also names original recipients (RFC 3464 2.3.1): what the sender gave by ORCPT, which may be another address than any
    recipient of the message. Those are left out, unless nothing would be left.
    """
    normalize = facts.context.normalize_addresses
    recipients = normalize(recipient for message in messages for recipient in message.recipients)
    originals = normalize(original.partition(";")[2].strip() for original in digest.originals)
    failed = normalize(digest.failed)
    return frozenset(failed - (originals - recipients) or failed)


@rule("RL-DSN-02", "RL-DSN-01", "RL-RCP-01", "RL-RTY-01", "RL-RTY-02")
def reports_are_of_failures(facts: Facts) -> Finding:
    """Check each report: null reverse-path, to the sender, about what has failed at its origin, and only once.

    No report may be about another report, or about a message with a null reverse-path. Reports in altered sessions are left out.
    """
    finding = Finding("reports go to the sender, and are about recipients for whom the message failed for good")
    relaying, reports = facts.compute_once(Relaying), facts.compute_once(FailureReports)
    times: Mapping[tuple[str, str, str], set[str]] = defaultdict(set)
    for report in reports.all:
        sent = report.transaction
        if sent.session in facts.trace.altered_sessions:
            continue
        finding.occasions += 1
        if sent.sender:
            finding.add_violation(
                f"{report.origin} sent a report with the reverse-path <{sent.sender}>, which must be null",
                sent.n,
                row="RL-DSN-01",
            )
        about = sent.digest.about if sent.digest is not None else None
        if about in reports.message_ids:
            finding.add_violation(
                f"{report.origin} reported the failure of the report <{about}>", report.n, row="RL-DSN-02"
            )
        if not report.messages:
            continue
        message = report.messages[0]
        if not any(other.sender for other in report.messages):
            finding.add_message_violation(
                message,
                f"{report.origin} reported its failure, though its reverse-path is null",
                report.n,
                row="RL-DSN-02",
            )
            continue
        senders = facts.context.normalize_addresses(other.sender for other in report.messages)
        if strangers := facts.context.normalize_addresses(sent.recipients) - senders:
            finding.add_message_violation(
                message,
                f"{report.origin} sent the report of its failure to {min(strangers)}, not to its sender",
                report.n,
                row="RL-DSN-01",
            )
        for recipient in report.failed:
            _check_failure(facts, finding, relaying, report, recipient)
            key = (report.origin, report.messages[0].message, recipient)
            times[key].add(report.body_hash)
            if len(times[key]) > _permitted_times(facts, relaying, report, recipient):
                finding.add_message_violation(
                    message,
                    f"{report.origin} reported {len(times[key])} times that it failed for {recipient}",
                    report.n,
                    row="RL-DSN-01",
                )
    return finding


def _permitted_times(facts: Facts, relaying: Relaying, report: _Report, recipient: str) -> float:
    """Return how often a server may report a recipient: once for each time that it was handed the message, and at least once.

    Infinite for a server that stopped, since it may have forgotten that it reported, and where messages are sent again on request.
    """
    again = is_resending_requested(facts) or facts.was_interrupted_between(report.origin, 0, report.n)
    handed = sum(len(relaying.handings.get((report.origin, m.message, recipient), ())) for m in report.messages)
    return float("inf") if again else max(handed, 1)


def _check_failure(facts: Facts, finding: Finding, relaying: Relaying, report: _Report, recipient: str) -> None:
    """Add a violation where a report names a recipient who had not failed at its origin.

    These excuse a report: a refusal, an unclear session, expiry, a possible loop, content, an address or a size that the next hops
    cannot take, and a failure that no transaction shows (`_may_have_failed_unseen`). With `timers: own` it is a violation only where the
    server was handed the message, and never for this recipient.
    """
    origin, message = report.origin, report.messages[0]
    handings = [h for m in report.messages for h in relaying.handings.get((origin, m.message, recipient), ())]
    if not handings:
        if any((origin, m.message) in relaying.handed_any for m in report.messages) and not _may_be_handed_unseen(
            facts, report
        ):
            sentence = f"{origin} reported that it failed for {recipient}, for whom it was never handed it"
            finding.add_message_violation(message, sentence, report.n, row="RL-RCP-01")
        return
    tries = [t for m in report.messages for t in relaying.tries.get((origin, m.message, recipient), ())]
    tries = [t for t in tries if t.transaction.n < report.n]
    if any(t.is_unclear or (t.outcome == 5 and t.end_n < report.n) for t in tries):
        return
    if any(h.transaction.digest is not None and h.transaction.digest.received >= _LONG_WAY for h in handings):
        return  # it may be returned as one in a loop (RFC 5321 6.3); `relay_loops` judges whether that was too soon
    if _may_have_failed_unseen(facts, relaying, origin, recipient, report.n):
        return
    if message.digest.eight_bit and any(
        "8BITMIME" not in (session.keywords or ()) for session in sessions_from(facts, origin) if session.n < report.n
    ):
        return  # a server that does not convert the content returns the message (RFC 6152 3)
    if needs_smtputf8(message.sender, recipient) and any(
        "SMTPUTF8" not in (session.keywords or ()) for session in sessions_from(facts, origin) if session.n < report.n
    ):
        return  # it can be sent on with SMTPUTF8 only (RFC 6531 3.2)
    if _may_be_too_large(facts, report, recipient):
        return
    lifetimes = facts.possible_parameter_values(origin, "MessageExpirationTimeout", 0, report.n)
    lifetime = min((float(v) for v in lifetimes if isinstance(v, int | float)), default=0.0)
    waited = (report.transaction.dot_t or report.transaction.t) - min(h.t for h in handings)
    if facts.context.cell.timers == "own" or waited >= lifetime - facts.slack:
        return
    last = max(tries, key=lambda t: t.end_n, default=None)
    reply = last.reply if last is not None else None
    if last is not None and last.outcome == 2:
        why, row = "though a next hop had accepted it for that recipient", "RL-RCP-01"
    elif last is not None and any(
        reply.code // 100 == 5 for reply in facts.trace.sessions[last.transaction.session].replies
    ):
        why, row = "though another recipient was refused", "RL-RCP-01"
    elif reply is not None and reply.code == 451 and reply.enhanced == "4.4.0":
        why, row = "though 451 4.4.0 is a transient failure", "RL-RTY-02"
    else:
        why, row = "though no next hop had refused it for good, and it had not expired", "RL-RTY-01"
    evidence = [reply.n] if reply is not None else []
    finding.add_message_violation(
        message, f"{origin} reported that it failed for {recipient}, {why}", report.n, *evidence, row=row
    )


def _may_be_too_large(facts: Facts, report: _Report, recipient: str) -> bool:
    """Return whether a next hop for a recipient had announced a SIZE, before a report, that the message may exceed at its origin.

    Its client may then return the message without MAIL (RFC 1870 6.1).
    """
    hops = facts.context.next_hop_servers(report.origin, recipient)
    largest = max(message.digest.size for message in report.messages) + ADDED_OCTETS
    return any(
        session.server in hops and session.n < report.n and 0 < announced_size(session) < largest
        for session in sessions_from(facts, report.origin)
    )


def _may_be_handed_unseen(facts: Facts, report: _Report) -> bool:
    """Return whether a fault altered a session in which the report's origin was handed a message that the report is about.

    The fault may hide that a RCPT was accepted.
    """
    return any(
        t.server == report.origin and t.session in facts.trace.altered_sessions
        for message in report.messages
        for t in facts.trace.transactions_of(message.message)
    )


def _may_have_failed_unseen(facts: Facts, relaying: Relaying, origin: str, recipient: str, before: int) -> bool:
    """Return whether before event `before` a recipient may have failed without a transaction of the message that shows it.

    There may be no next hop, or no such mailbox in a domain of mailboxes; a refusal may have come before RCPT, or as the answer to a
    command that a fault made unreadable.
    """
    domains = {mailbox.partition("@")[2] for mailbox in facts.context.mailboxes}
    if recipient not in facts.context.mailboxes and recipient.partition("@")[2] in domains:
        return True
    if next(facts.topology.next_hops(origin, recipient), None) is None:
        return True
    if any(
        session.client == origin and session.name in facts.trace.altered_sessions
        and any(reply.code // 100 == 5 and reply.n < before for reply in session.replies)
        for session in facts.trace.sessions.values()
    ):  # fmt: skip
        return True
    return any(contact.n < before and contact.may_be_final for contact in relaying.hop_connections.get(origin, ()))


@rule("RL-DSN-01")
def failures_are_reported(facts: Facts) -> Finding:
    """Check that a server that is responsible for a message reports each recipient for whom a next hop refused it for good.

    No clause says how soon, so this is judged at the end of the drain, unless the report may still wait for its own next hop;
    then it is undecided. Only candidates that claim `dsn` are judged. Messages with a null reverse-path, without a Message-ID, or
    with a NOTIFY that asks for no report of failures (RFC 3461) are not judged, nor are servers that were wiped, nor servers of
    2010 whose copy another server took over (ruling 19).
    """
    finding = Finding("each permanent failure is reported to the sender")
    if "dsn" not in facts.context.claims:
        return finding
    relaying, reports = facts.compute_once(Relaying), facts.compute_once(FailureReports)
    reported = {(r.origin, m.message, failed) for r in reports.all for m in r.messages for failed in r.failed or ("",)}
    for (server, name, recipient), tries in relaying.tries.items():
        message = facts.trace.messages[name]
        refusal = next((t for t in tries if t.outcome == 5 and not t.is_unclear), None)
        handings = relaying.handings.get((server, name, recipient), ())
        if refusal is None or not message.sender or not message.message_id or any(t.outcome == 2 for t in tries):
            continue
        if not any(h.acknowledged is not None for h in handings) or _wants_no_report(facts, server, name):
            continue
        if any(e.action == "wiped" and e.n > refusal.transaction.n for e in facts.node_events.get(server, ())):
            continue
        if facts.is_2010(server) and any(p.holder != server for p in facts.promotions_by_message.get(name, ())):
            continue
        finding.occasions += 1
        if not {(server, name, recipient), (server, name, "")}.isdisjoint(reported):
            continue
        if was_refused_a_report(facts, server, message, refusal.transaction.n):
            continue
        assert refusal.reply is not None
        sentence = (
            f"{server} got {refusal.reply.code} for {recipient} from {refusal.transaction.server}, and sent no report to "
            f"{message.sender}"
        )
        if may_be_under_way(facts, relaying, server, message, refusal.end_n):
            finding.add_undecided(f"{sentence} so far", refusal.reply.n, message=message)
        else:
            finding.add_message_violation(message, sentence, refusal.reply.n)
    return finding


def was_refused_a_report(facts: Facts, server: str, message: MessageMade, after_n: int) -> bool:
    """Return whether after event `after_n` the server tried in vain to send the message's sender mail with a null reverse-path.

    The RCPT for the sender was refused, or DATA got 5yz, or the transaction ended without any recipient: nothing shows that it
    was not the report.
    """
    sender = facts.context.normalize_address(message.sender)
    for sent in facts.trace.transactions:
        if sent.client != server or sent.n <= after_n or sent.sender or sent.dot_n is not None:
            continue
        if sender in facts.context.normalize_addresses(sent.refused) or not (sent.recipients or sent.refused):
            return True
        data = [
            x.reply
            for x in facts.trace.sessions[sent.session].exchanges
            if x.command.verb == "DATA" and x.command.n > sent.n
        ]
        if (
            sender in facts.context.normalize_addresses(sent.recipients)
            and data
            and data[0]
            and data[0].code // 100 == 5
        ):
            return True
    return False


def may_be_under_way(facts: Facts, relaying: Relaying, server: str, message: MessageMade, after: float) -> bool:
    """Return whether a report about a message may still wait when the history ends.

    The history has no drain, the server is down at its end, or the transport was not quiet in the drain and the server had, after
    event `after`, a connection to the next hop of the message's sender that shows no mail of a known message.
    """
    drained = facts.trace.events_of(Drained)
    if not drained or facts.is_down_at_end(server):
        return True
    if drained[-1].quiet:
        return False
    hops = facts.context.next_hop_servers(server, message.sender)
    return any(contact.n > after and contact.server in hops for contact in relaying.hop_connections.get(server, ()))


def _wants_no_report(facts: Facts, server: str, name: str) -> bool:
    """Return whether a server was handed the message with a NOTIFY that asks for no report of failures (RFC 3461 4.1).

    The NOTIFY of any recipient counts.
    """
    for sent in facts.trace.transactions_of(name):
        if sent.server != server:
            continue
        for exchange in facts.trace.sessions[sent.session].exchanges:
            _, notify, words = exchange.command.line.upper().partition("NOTIFY=")
            if exchange.command.verb == "RCPT" and notify and "FAILURE" not in words.split(" ")[0]:
                return True
    return False
