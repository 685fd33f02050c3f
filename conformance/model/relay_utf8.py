"""Judges what a relay does with SMTPUTF8 (RFC 6531): where a message that needs it goes, and where one that does not.

A message *needs* SMTPUTF8 if the local part of an address in its envelope is not ASCII: a domain could be written in A-labels.
One whose addresses and content are all ASCII does not need it; a content in UTF-8 may need it or not, which is not judged. A
message is *declared* if its sender said SMTPUTF8 in MAIL to a server that offers it: the rows bind that server. `keywords` of a
session are what the server offered in its last reply to EHLO, None before that. `n` is an event's number.

Each rule judges one recorded history, `facts`, and returns a `Finding` of occasions (chances to fail) and violations, as
`conformance.model` describes (`timed=False`: it compares no times). A `Transaction` is one mail transaction: `n` and `t` are
those of its MAIL, and `acceptance` the first positive final reply or None. Its `kind` is `shadow` (a copy that the server is to
hold, 2013 and later), `tracked` (2010: mail of which the client keeps the shadow) or `plain`. A session is *altered* where a
fault changed, added or removed octets in it. `Relaying.tries` has, by server, message and recipient, the server's tries to pass
the message on; `sessions_from` yields the sessions that a server opened itself and in which EHLO was answered.
"""

from collections.abc import Iterator

from conformance.history.events import Command, MessageMade
from conformance.model.facts import Facts
from conformance.model.relaying import Relaying, needs_smtputf8, sessions_from
from conformance.model.rules import rule
from conformance.trace.finding import Finding
from conformance.trace.sessions import Session, Transaction

_KEYWORD = "SMTPUTF8"


def _says_utf8(facts: Facts, transaction: Transaction) -> bool:
    """Return whether the MAIL of a transaction has SMTPUTF8."""
    exchanges = facts.trace.sessions[transaction.session].exchanges
    line = next((x.command.line for x in exchanges if x.command.n == transaction.n), "")
    return _KEYWORD in line.upper().rpartition(">")[2].split()


def _declared(facts: Facts) -> list[tuple[MessageMade, Transaction]]:
    """Return each declared message with the transaction in which a server under test accepted it; once for each of these."""
    if not any(c.verb == "MAIL" and _KEYWORD in c.line.upper() for c in facts.trace.events_of(Command)):
        return []
    return [
        (message, given)
        for name, message in facts.trace.messages.items()
        for given in facts.trace.transactions_of(name)
        if facts.is_tested_server(given.server)
        and given.acceptance is not None
        and _KEYWORD in (facts.trace.sessions[given.session].keywords or ())
        and _says_utf8(facts, given)
    ]


def _sent_after(facts: Facts, message: MessageMade, given: Transaction) -> Iterator[Transaction]:
    """Yield the transactions in which the server of `given` passed the message on after it.

    Shadow copies and altered sessions are left out.
    """
    for sent in facts.trace.transactions_of(message.message):
        if (
            sent.client == given.server
            and sent.n > given.n
            and sent.kind != "shadow"
            and facts.is_opened_by_tested_server(sent.client, sent.session)
            and sent.session not in facts.trace.altered_sessions
        ):
            yield sent


@rule("RL-UTF-01", timed=False)
def utf8_is_declared_again(facts: Facts) -> Finding:
    """Check that a declared message that needs SMTPUTF8 is passed on with SMTPUTF8 to a next hop that offers it.

    That addresses and content stay as they are is judged in `content`.
    """
    finding = Finding("what needs SMTPUTF8 is passed on with SMTPUTF8 to a next hop that offers it")
    for message, given in facts.compute_once(_declared):
        for sent in _sent_after(facts, message, given):
            is_offered = _KEYWORD in (facts.trace.sessions[sent.session].keywords or ())
            if not is_offered or not needs_smtputf8(message.sender, *sent.recipients):
                continue
            finding.occasions += 1
            if not _says_utf8(facts, sent):
                finding.add_message_violation(
                    message, f"{sent.client} passed it on to {sent.server} without SMTPUTF8, which is offered", sent.n
                )
    return finding


@rule("RL-UTF-02", timed=False)
def utf8_goes_where_it_is_offered(facts: Facts) -> Finding:
    """Check that no address in UTF-8, and no message under altered addresses, is sent to a next hop that does not offer SMTPUTF8.

    An occasion is a declared message that needs SMTPUTF8 at a server that later had a session with such a next hop. That the
    message is reported is judged by RL-ACK-01. Altered sessions give no violation.
    """
    finding = Finding("what needs SMTPUTF8 goes only to next hops that offer it")
    for message, given in facts.compute_once(_declared):
        if not needs_smtputf8(message.sender, *given.recipients):
            continue
        lacking = [
            s for s in sessions_from(facts, given.server) if _KEYWORD not in (s.keywords or ()) and s.n > given.n
        ]
        finding.occasions += bool(lacking)
        lacking = [s for s in lacking if s.name not in facts.trace.altered_sessions]
        for session in lacking:
            for command in (x.command for x in session.exchanges):
                if command.verb in ("MAIL", "RCPT") and not command.line.isascii():
                    finding.add_message_violation(
                        message,
                        f"{session.client} sent {command.line} to {session.server}, which does not offer SMTPUTF8",
                        command.n,
                    )
        normalize_all = facts.context.normalize_addresses
        names = {session.name for session in lacking}
        for sent in _sent_after(facts, message, given):
            others = normalize_all(sent.recipients) - normalize_all(message.recipients)
            if sent.session in names and (needs_smtputf8(message.sender) or others):
                finding.add_message_violation(
                    message,
                    f"{sent.client} sent it from <{sent.sender}> for {', '.join(sent.recipients)} to {sent.server}, "
                    "which does not offer SMTPUTF8",
                    sent.n,
                )
    return finding


@rule("RL-UTF-03")
def ascii_goes_anywhere(facts: Facts) -> Finding:
    """Check that a declared message that is ASCII is not returned because a next hop does not offer SMTPUTF8.

    A violation is a report of failure, before the message expired, by a server that did not try to pass the message on for the
    recipient in any session, and was refused nothing in the sessions that it had, before the report, with the recipient's next hops
    without SMTPUTF8. Such a session with a next hop of any recipient is an occasion.
    """
    finding = Finding("what came with SMTPUTF8 and does not need it goes on where SMTPUTF8 is not offered")
    for message, given in facts.compute_once(_declared):
        if message.digest.eight_bit or not all(map(str.isascii, (message.sender, *message.recipients))):
            continue
        server, tries = given.server, facts.compute_once(Relaying).tries
        lacking = {
            r: _sessions_without_utf8(facts, server, r, given.n)
            for r in facts.context.normalize_addresses(message.recipients)
        }
        finding.occasions += any(lacking.values())
        lifetime = facts.possible_parameter_range(server, "MessageExpirationTimeout", 0, facts.end_n).least
        expires_t = (given.dot_t if given.dot_t is not None else given.t) + lifetime
        for report in facts.trace.transactions:
            digest = report.digest
            if digest is None or digest.report != "delivery-status" or digest.about != message.message_id:
                continue
            if (
                not message.message_id
                or not facts.is_opened_by_tested_server(server, report.session)
                or report.client != server
                or report.t >= expires_t - facts.slack
            ):
                continue
            for recipient in sorted(facts.context.normalize_addresses(digest.failed)):
                before = [s for s in lacking.get(recipient, ()) if s.n < report.n and s.name != report.session]
                is_refused = any(reply.code >= 400 for session in before for reply in session.replies)
                if before and not is_refused and not tries.get((server, message.message, recipient)):
                    finding.add_message_violation(
                        message,
                        f"{server} reported it failed for {recipient}, and had not tried to pass it on to "
                        f"{before[0].server}, which does not offer SMTPUTF8",
                        report.n,
                        before[0].n,
                    )
    return finding


def _sessions_without_utf8(facts: Facts, server: str, recipient: str, since_n: int) -> list[Session]:
    """Return the sessions, opened by a server after an event, in which a next hop for a recipient does not offer SMTPUTF8."""
    hops = facts.topology.next_hop_servers(server, recipient)
    return [
        session
        for session in sessions_from(facts, server)
        if session.server in hops and session.n > since_n and _KEYWORD not in (session.keywords or ())
    ]
