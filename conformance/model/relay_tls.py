"""Judges STARTTLS (RFC 3207): what a server forgets, and what a client does where TLS fails or has begun (group TLS).

The rows of the server bind one that offers STARTTLS. They are judged by the conversations of the scenario (`Talked`), since the
link sees encrypted octets only: each `TalkExchange` has the line that was `said`, and the reply's `code` and `text`. What a
client says within TLS is recorded by the sink. `n` is an event's number, `t` its time in documented seconds.

Each rule judges one recorded history, `facts`, and returns a `Finding` of occasions (chances to fail) and violations, as
`conformance.model` describes (`timed=False`: it compares no times). A `Transaction` is one mail transaction: `n` and `t` are
those of its MAIL. `facts.slack` is by how many seconds a time may miss a bound.

Records: `Relaying` has, by server, message and recipient (a `Key`), each `Handing` (the server was handed the message, and
`acknowledged` it or not) and each `Try` (it tried to pass it on); `FailureReports` has the reports of failures.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from conformance.history.events import ConnectFailed, FaultFired, Talked
from conformance.history.values import TalkExchange
from conformance.model.facts import Facts, operation_name
from conformance.model.relaying import Key, Relaying, needs_smtputf8
from conformance.model.reports import FailureReports
from conformance.model.rules import rule
from conformance.trace.finding import Finding, format_seconds
from conformance.trace.sessions import Exchange, Session, Transaction

_PATIENCE_S = 3600.0
"""Documented seconds within which mail goes on after TLS has failed; no clause gives a bound."""

_BEHIND = re.compile(r"STARTTLS\\r\\n.+", re.IGNORECASE)
"""What a conversation shows of octets behind STARTTLS that were sent together with it."""

_EXTENSIONS = {
    "BODY": "8BITMIME", "SMTPUTF8": "SMTPUTF8", "RET": "DSN", "ENVID": "DSN", "NOTIFY": "DSN", "ORCPT": "DSN", "BDAT": "CHUNKING"
}  # fmt: skip
"""The extension of each parameter and command that a client may use only where it is offered."""


def _secured_talks(facts: Facts) -> Iterator[tuple[Talked, list[TalkExchange], TalkExchange, list[TalkExchange]]]:
    """Yield each conversation with a server under test in which STARTTLS was answered with 220.

    Each comes with what was said before, the exchange of STARTTLS, and what came after it: within TLS, unless that failed (then
    the exchange `(TLS)`).
    """
    for event in facts.trace.events_of(Talked):
        if not facts.is_tested_server(event.server):
            continue
        for number, exchange in enumerate(event.exchanges):
            if exchange.said.upper().startswith("STARTTLS") and exchange.code == 220:
                yield event, list(event.exchanges[:number]), exchange, list(event.exchanges[number + 1 :])
                break


@rule("RL-TLS-01", timed=False)
def plaintext_behind_starttls_is_dropped(facts: Facts) -> Finding:
    """Check that a command that came in plaintext behind STARTTLS is not answered within TLS (CVE-2011-0411).

    Its reply would stand in the place of that to the first command within TLS, so that QUIT gets another than 221 or 421. Only
    conversations are judged that say QUIT within TLS.
    """
    finding = Finding("a command in plaintext behind STARTTLS is not answered within TLS")
    for event, _, starttls, within in _secured_talks(facts):
        quitting = next((x for x in within if x.said.upper() == "QUIT"), None)
        if not _BEHIND.fullmatch(starttls.said) or quitting is None or (quitting.code is None and not quitting.closed):
            continue
        finding.occasions += 1
        if quitting.code is not None and quitting.code not in (221, 421):
            finding.add_violation(
                f"{event.server} answered QUIT within TLS with {quitting.code}, after {starttls.said!r} in plaintext",
                event.n,
            )
    return finding


@rule("RL-TLS-02", timed=False)
def tls_begins_anew(facts: Facts) -> Finding:
    """Check that a transaction from before TLS is gone within it, and that STARTTLS is not offered there.

    It is not gone if the first command within TLS, RCPT, is accepted.
    """
    finding = Finding("what the client said before TLS is forgotten within it")
    for event, before, _, within in _secured_talks(facts):
        verbs = [x.said.upper().partition(" ")[0] for x in before]
        is_open = any(
            verb == "MAIL" and x.code == 250 and not {"RSET", "EHLO", "HELO"} & set(verbs[number + 1 :])
            for number, (verb, x) in enumerate(zip(verbs, before, strict=True))
        )
        first = within[0] if within else None
        if is_open and first is not None and first.said.upper().startswith("RCPT") and first.code is not None:
            finding.occasions += 1
            if first.code // 100 == 2:
                finding.add_violation(
                    f"{event.server} answered {first.said} within TLS with {first.code}, after MAIL in plaintext",
                    event.n,
                )
        for exchange in within:
            if exchange.said.upper().startswith("EHLO") and exchange.code == 250:
                finding.occasions += 1
                if "STARTTLS" in exchange.text.upper().split():
                    finding.add_violation(f"{event.server} offers STARTTLS within TLS", event.n)
    return finding


@dataclass(frozen=True, slots=True)
class _FailedTls:
    """A session of a server with a next hop in which STARTTLS was refused for now, or TLS did not begin.

    `n` and `t` are those of the reply to STARTTLS, `reply` says in words what it was.
    """

    session: Session
    n: int
    t: float
    reply: str


def _failures(facts: Facts) -> dict[tuple[str, str], list[_FailedTls]]:
    """Return the sessions in which TLS failed, by client and next hop.

    STARTTLS got 4yz, or 220 from a sink and then the other side or the link ended the session. Where the client left, TLS did not
    fail. With another server under test nothing is recorded within TLS, so that it may have begun there.
    """
    found: dict[tuple[str, str], list[_FailedTls]] = {}
    for session in facts.trace.sessions.values():
        if not facts.is_opened_by_tested_server(session.client, session.name):
            continue
        asked = next((x for x in session.exchanges if x.command.verb == "STARTTLS"), None)
        if asked is None or asked.reply is None:
            continue
        is_refused = asked.reply.code // 100 == 4
        is_broken = (
            asked.reply.code == 220
            and asked is session.exchanges[-1]
            and session.closed is not None
            and session.closed.by != "client"
            and not facts.is_tested_server(session.server)
        )
        if is_refused or is_broken:
            said = f"answered STARTTLS with {asked.reply.code}" + (", and TLS did not begin" if is_broken else "")
            failed = _FailedTls(session, asked.reply.n, asked.reply.t, said)
            found.setdefault((session.client, session.server), []).append(failed)
    return found


@dataclass(frozen=True, slots=True)
class _Concerned:
    """A message that a server had for a recipient, and was not done with, when TLS failed with one of its next hops.

    It was handed the message at `handed_t`; `failed` is the first such failure since. `hops` are all parties to which it may pass
    the message, also where the mailbox has moved.
    """

    key: Key
    handed_t: float
    failed: _FailedTls
    hops: frozenset[str]


def _concerned(facts: Facts) -> Iterator[_Concerned]:
    """Yield each message and recipient for which TLS failed with a next hop since the server acknowledged the message.

    Left out are those with a try, begun before that failure, in which a next hop accepted or refused the message for good, or may
    have. Nothing is yielded with `timers: own`, where the server's intervals are not known.
    """
    failures = facts.compute_once(_failures)
    if not failures or facts.context.cell.timers == "own":
        return
    relaying = facts.compute_once(Relaying)
    for key, handings in relaying.handings.items():
        server, _, recipient = key
        acknowledged = next((h for h in handings if h.acknowledged is not None), None)
        if acknowledged is None:
            continue
        hops = facts.topology.next_hop_servers(server, recipient)
        since = [f for hop in hops for f in failures.get((server, hop), ()) if f.n > acknowledged.n]
        if not since:
            continue
        failed = min(since, key=lambda f: f.n)
        earlier = [t for t in relaying.tries.get(key, ()) if t.transaction.n < failed.n]
        if not any(t.is_unclear or t.outcome in (2, 5) for t in earlier):
            possible = facts.context.next_hop_servers(server, recipient)
            yield _Concerned(key=key, handed_t=acknowledged.t, failed=failed, hops=possible)


@rule("RL-TLS-03")
def failed_tls_is_transient(facts: Facts) -> Finding:
    """Check that mail is neither reported as failed nor left untried where STARTTLS got 4yz, or the handshake was cut.

    A report after the message's lifetime is right, and so is one of a failure that need not be that of TLS (`_may_be_refused`).
    Another session with any next hop of the message counts as a try, and so does a connection that failed. A server that had no
    time to try again (`_has_had_time`) is no occasion.
    """
    finding = Finding("mail goes on, or is tried again, after TLS has failed")
    relaying = facts.compute_once(Relaying)
    for one in _concerned(facts):
        key, failed = one.key, one.failed
        server, name, recipient = key
        message = facts.trace.messages[name]
        lifetime = facts.possible_parameter_range(server, "MessageExpirationTimeout", 0, facts.end_n).least
        reported = _find_report(facts, key, failed.n)
        tried = any(t.transaction.n > failed.n for t in relaying.tries.get(key, ()))
        if tried or facts.context.deliveries_of(name, recipient):
            finding.occasions += 1
        elif reported is not None:
            if reported.t - one.handed_t < lifetime - facts.slack and not _may_be_refused(facts, one, reported.n):
                finding.occasions += 1
                problem = (
                    f"{server} reported it as failed for {recipient}, after {failed.session.server} had {failed.reply}"
                )
                finding.add_message_violation(message, problem, reported.n, failed.n)
        elif any(_dials_since(facts, one)) or any(_sessions_since(facts, one)):
            finding.occasions += 1
        elif _has_had_time(facts, server, failed):
            finding.occasions += 1
            problem = f"{server} did not try again for {recipient}, after {failed.session.server} had {failed.reply}"
            finding.add_message_violation(message, problem, failed.n)
    return finding


@rule("RL-TLS-04")
def mail_goes_on_in_the_clear(facts: Facts) -> Finding:
    """Check that a server that sends mail in the clear in any session with a sink does so, too, where TLS keeps failing.

    Such a server does not require TLS (RFC 3207 4 leaves it to the client's policy). Within `_patience` of the failure it must
    have begun a transaction with the message, or delivered it. A server that stopped, or had no time for that, is no occasion,
    nor is one for which something else than TLS failed within that time (`_fails_otherwise`).
    """
    finding = Finding("where TLS is optional, mail goes on without it when it fails")
    relaying = facts.compute_once(Relaying)
    for one in _concerned(facts):
        key, failed = one.key, one.failed
        server, name, recipient = key
        is_optional = any(
            facts.is_opened_by_tested_server(server, s.name) and s.transactions and not _has_starttls(s)
            for (client, _), sessions in facts.sessions_by_client_and_server.items()
            for s in sessions
            if client == server and s.listener == "smtp"
        )
        if not is_optional:
            continue
        until = failed.t + _patience(facts, server)
        tried = [t.transaction.t for t in relaying.tries.get(key, ()) if t.transaction.n > failed.n]
        if min([*tried, *(d.t for d in facts.context.deliveries_of(name, recipient))], default=math.inf) <= until:
            finding.occasions += 1
        elif _has_had_time(facts, server, failed) and not _fails_otherwise(facts, one, until):
            finding.occasions += 1
            finding.add_message_violation(
                facts.trace.messages[name],
                f"{server} did not send it for {recipient} within {format_seconds(until - failed.t)} after "
                f"{failed.session.server} had {failed.reply}, and sends other mail in the clear",
                failed.n,
            )
    return finding


def _find_report(facts: Facts, key: Key, after_n: int) -> Transaction | None:
    """Return the first report after an event, made by the server of `key`, that the key's message failed for its recipient.

    None without one. `key` is server, message and recipient.
    """
    server, name, recipient = key
    for report in facts.compute_once(FailureReports).all:
        is_about = any(m.message == name for m in report.messages) and recipient in (report.failed or {recipient})
        if report.origin == server and is_about and report.n > after_n:
            return report.transaction
    return None


def _sessions_since(facts: Facts, one: _Concerned) -> Iterator[Session]:
    """Yield the sessions that the server opened with the message's next hops after TLS had failed.

    Those for shadow copies and discard status are left out.
    """
    for hop in one.hops:
        for session in facts.sessions_by_client_and_server.get((one.key[0], hop), ()):
            is_own = session.n > one.failed.n and facts.is_opened_by_tested_server(session.client, session.name)
            if is_own and not any(operation_name(x) for x in session.exchanges):
                yield session


def _dials_since(facts: Facts, one: _Concerned) -> Iterator[ConnectFailed | FaultFired]:
    """Yield the failed connections of the server to the message's next hops after TLS had failed, and the dials with a fault."""
    dials: list[ConnectFailed | FaultFired] = [
        *facts.trace.events_of(ConnectFailed),
        *(fault for fault in facts.trace.events_of(FaultFired) if fault.session is None),
    ]
    for dial in dials:
        if dial.client == one.key[0] and dial.server in one.hops and dial.n > one.failed.n:
            yield dial


def _may_be_refused(facts: Facts, one: _Concerned, before_n: int) -> bool:
    """Return whether a message may have failed for good after TLS had failed and before an event, without a try that shows it.

    A next hop said 5yz to something else than a recipient or a content, as in its greeting; or it said 5yz where nothing shows for
    which message; or the message needs an extension that the next hop may lack in the clear: 8BITMIME or SMTPUTF8.
    """
    server, name, recipient = one.key
    connections = facts.compute_once(Relaying).hop_connections.get(server, ())
    refusals = [c.refusal for c in connections if c.server in one.hops and c.refusal is not None]
    message = facts.trace.messages[name]
    return (
        message.digest.eight_bit
        or needs_smtputf8(message.sender, recipient)
        or any(
            reply.code // 100 == 5 and reply.to not in ("RCPT", "CONTENT") and one.failed.n < reply.n < before_n
            for session in (one.failed.session, *_sessions_since(facts, one))
            for reply in session.replies
        )
        or any(reply.code // 100 == 5 and one.failed.n < reply.n < before_n for reply in refusals)
    )


def _fails_otherwise(facts: Facts, one: _Concerned, until_t: float) -> bool:
    """Return whether, up to time `until_t`, something else than TLS may have kept the server from sending the message.

    It failed to reach a next hop of the message, or had a session with one that does not show why the message was not sent. Such
    a session has neither mail nor a STARTTLS that failed: the next hop may have refused its greeting, or the mail may have passed
    within TLS.
    """
    failures = facts.compute_once(_failures)
    failed = {f.session.name for hop in one.hops for f in failures.get((one.key[0], hop), ())}
    return any(dial.t <= until_t for dial in _dials_since(facts, one)) or any(
        session.t <= until_t and not session.transactions and session.name not in failed
        for session in _sessions_since(facts, one)
    )


def _has_had_time(facts: Facts, server: str, failed: _FailedTls) -> bool:
    """Return whether the server worked on for so long after a failure, up to the history's end, that it must have tried again."""
    has_ended = facts.end_t - failed.t < _patience(facts, server)
    return not has_ended and not facts.was_interrupted_between(server, failed.n)


def _patience(facts: Facts, server: str) -> float:
    """Return the documented seconds within which a server tries again, and sends in the clear what it may.

    These are an hour, or twice its greatest MessageRetryInterval if that is longer.
    """
    interval = facts.possible_parameter_range(server, "MessageRetryInterval", 0, facts.end_n).greatest
    return max(_PATIENCE_S, 2 * interval) + facts.slack


def _has_starttls(session: Session) -> bool:
    """Return whether STARTTLS was said in a session."""
    return any(x.command.verb == "STARTTLS" for x in session.exchanges)


@rule("RL-TLS-05", timed=False)
def only_what_tls_has_offered_counts(facts: Facts) -> Finding:
    """Check that a client uses no extension within TLS that was not offered there.

    It would where it keeps the list from before TLS, and where it takes octets behind the reply to STARTTLS for the reply to its
    EHLO. Sessions without a MAIL within TLS are no occasion.
    """
    finding = Finding("a client uses within TLS only the extensions that are offered there")
    for session in facts.trace.sessions.values():
        if not facts.is_opened_by_tested_server(session.client, session.name):
            continue
        number = next((i for i, x in enumerate(session.exchanges) if x.command.verb == "STARTTLS"), None)
        within = session.exchanges[number + 1 :] if number is not None else []
        started = number is not None and (reply := session.exchanges[number].reply) is not None and reply.code == 220
        if not started or not any(x.command.verb == "MAIL" for x in within):
            continue
        finding.occasions += 1
        if problem := _find_unoffered(within):
            finding.add_violation(
                f"{session.client} {problem[0]}, which {session.server} did not offer within TLS", problem[1]
            )
    return finding


def _find_unoffered(within: list[Exchange]) -> tuple[str, int] | None:
    """Return the first use of an extension that the last EHLO reply within TLS does not offer, in words, and its event.

    None without one. `within` are the exchanges within TLS.
    """
    offered: set[str] = set()
    for exchange in within:
        verb, reply, line = exchange.command.verb, exchange.reply, exchange.command.line
        if verb in ("EHLO", "LHLO") and reply is not None and reply.code == 250:
            offered = {text.partition(" ")[0].upper() for text in reply.lines[1:]}
        words = [verb] if verb == "BDAT" else []
        if verb in ("MAIL", "RCPT"):
            words = [word.partition("=")[0].upper() for word in line.rpartition(">")[2].split()]
        for word in words:
            if _EXTENSIONS.get(word, "") not in {"", *offered}:
                return f"said {line}", exchange.command.n
    return None
