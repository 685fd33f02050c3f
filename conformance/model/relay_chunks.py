"""Judges messages in chunks (BDAT, RFC 3030): their octets, replies, refused chunks, and the transaction that they belong to.

The rows bind a server that offers CHUNKING in the session, as a server; what it passes on in chunks itself is judged too. A chunk
is an exchange of BDAT; that of the last is answered by the final reply. `n` is an event's number.

Each rule judges one recorded history, `facts`, and returns a `Finding` of occasions (chances to fail) and violations, as
`conformance.model` describes (`timed=False`: it compares no times). Functions that take a `finding` add to it. A violation blames
its `row`, else the rule's first requirement. A `Transaction` is one mail transaction: `n` and `t` are those of its MAIL, `dot_n`
and `dot_t` those of its final dot (None before it), and `message` the scenario's name of the message or None. A session is
*altered* where a fault changed, added or removed octets in it.

Records: an `Exchange` is a command with its reply, None before it; a `Content` event is a content whose end passed a link.
"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping

from conformance.history.events import Content
from conformance.model.facts import Facts
from conformance.model.relaying import hidden_since
from conformance.model.rules import rule
from conformance.trace.finding import Finding
from conformance.trace.sessions import Exchange, Session, Transaction

_BDAT = re.compile(r"BDAT ([0-9]+)( LAST)?\s*", re.IGNORECASE)
_SYNTAX = frozenset({500, 501, 502, 503, 504})
"""Codes that refuse a command as such, and no content."""

_BREAKS_OFF = frozenset({"RSET", "EHLO", "HELO"})


def _is_chunked(facts: Facts, sent: Transaction) -> bool:
    """Return whether the content of a transaction came in chunks; False before the content is complete."""
    exchanges = facts.trace.sessions[sent.session].exchanges
    before = bisect_left(exchanges, sent.dot_n or sent.n, key=lambda x: x.command.n)
    return sent.dot_n is not None and before > 0 and exchanges[before - 1].command.verb == "BDAT"


@rule("RL-BDA-01", timed=False)
def chunks_are_the_content(facts: Facts) -> Finding:
    """Check that a body arrives at the next hop as the server was given it, if it is sent in chunks, or was always given in chunks.

    Given several bodies of the message, the server may pass any of them on. Contents with eight-bit octets, which a server may
    have to convert, and sessions that a fault altered are left out.
    """
    finding = Finding("the octets of chunks are the content")
    offered = [s for s in facts.trace.sessions.values() if "CHUNKING" in (s.keywords or ())]
    if not offered:
        return finding
    altered = facts.trace.altered_sessions
    for sent in facts.trace.transactions:
        if (
            sent.message is None
            or sent.digest is None
            or not facts.is_opened_by_tested_server(sent.client, sent.session)
        ):
            continue
        given = [g for g in facts.trace.transactions_of(sent.message) if g.server == sent.client and g.n < sent.n]
        if not given or sent.session in altered or any(g.session in altered for g in given):
            continue
        if not (_is_chunked(facts, sent) or all(_is_chunked(facts, g) for g in given)):
            continue
        if any(g.digest is not None and g.digest.eight_bit for g in given):
            continue
        finding.occasions += 1
        if sent.digest.body_sha256 not in {g.digest.body_sha256 for g in given if g.digest is not None}:
            finding.add_message_violation(
                facts.trace.messages[sent.message],
                f"{sent.client} passed it on to {sent.server} with {sent.digest.size} octets and another body than the "
                "one that it was given",
                sent.n,
                given[-1].dot_n if given[-1].dot_n is not None else given[-1].n,
            )
    return finding


@rule("RL-BDA-02", "RL-BDA-03", timed=False)
def chunks_are_answered(facts: Facts) -> Finding:
    """Check that no octets of a chunk are taken for a command, and that an empty chunk after accepted ones is understood.

    A reply that answers no command answers octets of a chunk: after a refused chunk that is blamed on RL-BDA-03, else on
    RL-BDA-02. The empty chunk, such as `BDAT 0 LAST`, must not be refused with a code about the command's syntax or order.
    """
    finding = Finding("one reply to each chunk, and none to what is in it")
    for session in _chunked_sessions(facts):
        chunks = _chunks(session)
        finding.occasions += len(chunks)
        for exchange, size in chunks:
            reply = exchange.reply
            if reply is not None and reply.code in _SYNTAX and not size and _may_end_message(session, exchange):
                finding.add_violation(
                    f"{session.server} answered {exchange.command.line} with {reply.code} after chunks that it had taken",
                    reply.n,
                )
        refused = next((x for x, size in chunks if size and x.reply is not None and x.reply.code >= 400), None)
        surplus = next(
            (r for r in session.replies if not r.to and r.code != 421 and r.n > chunks[0][0].command.n), None
        )
        if surplus is not None:
            after_refusal = refused is not None and refused.command.n < surplus.n
            finding.add_violation(
                f"{session.server} answered nothing with {surplus.code} {' '.join(surplus.lines)[:80]}"
                + (f", after it had refused {refused.command.line}" if after_refusal and refused is not None else ""),
                surplus.n,
                row="RL-BDA-03" if after_refusal else "RL-BDA-02",
            )
    return finding


@rule("RL-BDA-04", timed=False)
def chunks_are_one_transaction(facts: Facts) -> Finding:
    """Check that DATA amid chunks, and a chunk after the last, get 503, and that chunks before RSET are passed on to no next hop.

    In place of 503 a 421 is right too. EHLO and HELO end a transaction as RSET does. The bodies are judged by
    `_check_bodies_after_break`.
    """
    finding = Finding("chunks are of one transaction, until RSET")
    broken_off: dict[str, int] = {}
    """By server: the number of the first RSET, EHLO or HELO amid chunks, of all its sessions."""
    for session in _chunked_sessions(facts):
        state = ""  # `open` once a chunk was taken, `ended` after the last, until MAIL or RSET
        for exchange in session.exchanges:
            command, reply = exchange.command, exchange.reply
            chunk = _BDAT.fullmatch(command.line) if command.verb == "BDAT" else None
            if state and command.verb == ("DATA" if state == "open" else "BDAT"):
                finding.occasions += reply is not None
                if reply is not None and reply.code not in (503, 421):
                    where = "amid chunks" if state == "open" else "after the last chunk"
                    finding.add_violation(
                        f"{session.server} answered {command.verb} {where} with {reply.code}", reply.n
                    )
            if chunk is not None:
                taken = reply is not None and reply.code // 100 == 2
                state = "ended" if chunk[2] or state == "ended" else "open" if taken else ""
            elif command.verb in _BREAKS_OFF:
                if state == "open":
                    finding.occasions += 1
                    broken_off[session.server] = min(command.n, broken_off.get(session.server, command.n))
                state = ""
            elif command.verb == "MAIL":
                state = ""
    if broken_off:
        _check_bodies_after_break(facts, finding, broken_off)
    return finding


def _check_bodies_after_break(facts: Facts, finding: Finding, broken_off: Mapping[str, int]) -> None:
    """Add a violation for each body that a server passes on after chunks were broken off, and that no transaction gave it.

    `broken_off` has, by server, the number of the first RSET, EHLO or HELO amid chunks. Reports, other mail with a null
    reverse-path and eight-bit contents are left out: the server makes or converts these. So are contents outside of a transaction
    and in altered sessions, and servers from when a fault or STARTTLS hid what they were handed.
    """
    hidden = hidden_since(facts)
    given: dict[str, set[str]] = defaultdict(set)
    sent_at = {sent.dot_n: sent for sent in facts.trace.transactions if sent.dot_n is not None}
    for content in facts.trace.events_of(Content):
        session, sent = facts.trace.sessions[content.session], sent_at.get(content.n)
        since = broken_off.get(session.client)
        if since is not None and since < content.n and facts.is_opened_by_tested_server(session.client, session.name):
            is_mail = (
                sent is not None and sent.sender and content.digest.report is None and not content.digest.eight_bit
                and session.name not in facts.trace.altered_sessions
                and content.n < hidden.get(session.client, content.n + 1)
            )  # fmt: skip
            if is_mail and content.digest.body_sha256 not in given[session.client]:
                finding.add_violation(
                    f"{session.client} sent {session.server} a body that it was given by no one, after chunks and RSET",
                    content.n,
                    since,
                )
        given[session.server].add(content.digest.body_sha256)


def _chunked_sessions(facts: Facts) -> Iterator[Session]:
    """Yield the sessions with a server under test that offers CHUNKING in which BDAT was said.

    Those that a fault altered are left out.
    """
    for session in facts.trace.sessions.values():
        binds = "CHUNKING" in (session.keywords or ()) and facts.is_tested_server(session.server)
        if binds and session.name not in facts.trace.altered_sessions and _chunks(session):
            yield session


def _chunks(session: Session) -> list[tuple[Exchange, int]]:
    """Return each chunk of a session with its size in octets; lines of BDAT that are malformed are left out."""
    found = ((x, _BDAT.fullmatch(x.command.line)) for x in session.exchanges if x.command.verb == "BDAT")
    return [(exchange, int(chunk[1])) for exchange, chunk in found if chunk is not None]


def _may_end_message(session: Session, last: Exchange) -> bool:
    """Return whether the empty chunk `last` may end a message.

    Since MAIL, which was accepted, every chunk before it and some recipient were accepted, no chunk was the last one, and nothing
    broke the transaction off.
    """
    before = [x for x in session.exchanges if x.command.n < last.command.n]
    begun = max((i for i, x in enumerate(before) if x.command.verb == "MAIL"), default=None)
    if begun is None or any(x.command.verb in _BREAKS_OFF for x in before[begun:]):
        return False
    chunks = [x for x in before[begun:] if x.command.verb == "BDAT"]
    is_ended = any(x.command.line.upper().endswith(" LAST") for x in chunks)
    is_for_any = any(x.command.verb == "RCPT" and _is_taken(x) for x in before[begun:])
    return _is_taken(before[begun]) and is_for_any and bool(chunks) and all(map(_is_taken, chunks)) and not is_ended


def _is_taken(exchange: Exchange) -> bool:
    """Return whether a command has a positive reply."""
    return exchange.reply is not None and exchange.reply.code // 100 == 2
