"""Judges the announced SIZE: what is above it is refused with 552, and nothing else is (RL-CNT-02, RL-ACK-04).

A server announces the size of the largest message in its reply to EHLO; 0, or no number, is no limit (RFC 1870 4). The size is
that of the content, dots as they were before stuffing. Between servers of one organisation a message that one of them may accept
is not refused as too large by another (docs/wire-profile.md): the trace fields that they add do not count. On `frontend` the
limit is MaxMessageSize, so that is what a server with the documented parameters announces there. `n` is an event's number.

Each rule judges one recorded history, `facts`, and returns a `Finding` of occasions (chances to fail) and violations, as
`conformance.model` describes (`timed=False`: it compares no times). Functions that take a `finding` add to it. A violation blames
its `row`, else the rule's first requirement. `limit` is the size that the server announced in the session, in octets; 0 for none.
A `Transaction` is one mail transaction: `n` and `t` are those of its MAIL, `replies` the final replies, and `message` the
scenario's name of the message or None. A session is *altered* where a fault changed, added or removed octets in it. Of a server's
listeners `frontend` is for mail from outside, `transport` for other servers, `delivery` that of its mailbox store. `claims` are
the capabilities that the candidate claims.
"""

import re
from functools import lru_cache

from conformance.history.events import Reply
from conformance.model.facts import Facts
from conformance.model.rules import rule
from conformance.trace.context import is_relay_only
from conformance.trace.finding import Finding
from conformance.trace.sessions import Session, Transaction

_DECLARED = re.compile(r"\sSIZE=(\d+)(?:\s|$)", re.IGNORECASE)

_OTHER_REASONS = frozenset({500, 501, 503, 530, 550, 553, 555})
"""Codes with which MAIL is refused for another reason than its size."""


@rule("RL-CNT-02", "RL-ACK-04", timed=False)
def announced_size_is_kept(facts: Facts) -> Finding:
    """Check each declared and each sent size against the one that the server announced in the session.

    On `frontend` the announced size itself is checked too, unless the candidate claims relaying only. Sessions without a reply to EHLO, and altered ones, are left out.
    """
    finding = Finding("messages above the announced SIZE are refused with 552, and no others")
    for session in facts.trace.sessions.values():
        if session.keywords is None or not facts.is_tested_server(session.server):
            continue
        if session.name in facts.trace.altered_sessions:
            continue
        limit = announced_size(session)
        if session.listener == "frontend" and not is_relay_only(facts.context.claims):
            _check_announced(facts, finding, session, limit)
        for sent in session.transactions:
            _check_declared_size(facts, finding, session, sent, limit)
            _check_sent_size(facts, finding, session, sent, limit)
    return finding


def _check_announced(facts: Facts, finding: Finding, session: Session, limit: int) -> None:
    """Add a violation for an announced size (`limit`) that MaxMessageSize was at no time from the session's begin to the reply.

    0, no limit, is not judged.
    """
    if not limit:
        return
    n = _last_ehlo_reply(session).n
    bounds = facts.possible_parameter_values(session.server, "MaxMessageSize", session.n, n)
    finding.occasions += 1
    if limit not in bounds:
        finding.add_violation(f"{session.server} announced a size of {limit}, and MaxMessageSize is {bounds[-1]}", n)


def _check_declared_size(facts: Facts, finding: Finding, session: Session, sent: Transaction, limit: int) -> None:
    """Add a violation for a wrong reply to the size that MAIL declares; without one, or without a reply, nothing is judged.

    It is wrong to answer a size within the limit with 552, and to refuse one above it in another form (`_check_refusal`). That
    MAIL is accepted above the limit is right: the content may be refused.
    """
    mail = next(x for x in session.exchanges if x.command.n == sent.n)
    declared = _DECLARED.search(mail.command.line)
    if declared is None or mail.reply is None:
        return
    size, code = int(declared[1]), mail.reply.code
    words = f"{session.server} answered a declared size of {size} with {code}, and had announced {limit or 'no limit'}"
    finding.occasions += 1
    if code == 552 and (not limit or size <= limit):
        finding.add_violation(words, mail.reply.n)
    elif limit and size > limit and code // 100 == 5 and code not in _OTHER_REASONS:
        _check_refusal(finding, session, mail.reply, words)


def _check_sent_size(facts: Facts, finding: Finding, session: Session, sent: Transaction, limit: int) -> None:
    """Add a violation for each wrong final reply to the size that was sent.

    These are wrong: 552 for a size within the limit, 2yz above it, a refusal for the size in another form, and 552 between
    servers of one organisation for a message that was within MaxMessageSize when it came from outside (RL-ACK-04).
    """
    if sent.digest is None or not sent.replies:
        return
    size = sent.digest.size
    message = facts.trace.messages[sent.message] if sent.message is not None else None
    for reply in sent.replies:
        finding.occasions += 1
        words = f"{session.server} answered a content of {size} octets with {reply.code}, and had announced {limit or 'no limit'}"
        is_above = bool(limit) and size > limit
        if reply.code == 552 if not is_above else reply.code // 100 == 2:
            finding.add_message_violation(message, words, reply.n)
        elif is_above and reply.code // 100 == 5:
            _check_refusal(finding, session, reply, words)
        if reply.code == 552 and message is not None and _is_passed_on(facts, session):
            bound = facts.numeric_parameter(session.server, "MaxMessageSize", reply.n)
            if bound is not None and message.digest.size <= bound:
                finding.add_message_violation(
                    message,
                    f"{session.server} refused it to {session.client} as too large, though it had {message.digest.size} octets "
                    f"when it came from outside, and MaxMessageSize is {bound:.0f}",
                    reply.n,
                    row="RL-ACK-04",
                )


def _is_passed_on(facts: Facts, session: Session) -> bool:
    """Return whether in a session one server of an organisation passes mail on to another; relays are in no organisation."""
    return (
        session.listener in ("transport", "delivery")
        and facts.is_opened_by_tested_server(session.client, session.name)
        and not is_relay_only(facts.context.claims)
    )


def _check_refusal(finding: Finding, session: Session, reply: Reply, words: str) -> None:
    """Add a violation where a refusal for the size is not 552, or lacks 5.3.4 where enhanced status codes are offered."""
    wants_enhanced = "ENHANCEDSTATUSCODES" in (session.keywords or ())
    if reply.code != 552 or (wants_enhanced and reply.enhanced != "5.3.4"):
        right = "552 5.3.4" if wants_enhanced else "552"
        finding.add_violation(
            f"{words}: the right reply is {right}, not {reply.code} {reply.enhanced or ''}".rstrip(), reply.n
        )


def announced_size(session: Session) -> int:
    """Return the size that the server announced last in a session, 0 for no limit and where it accepted no EHLO or LHLO."""
    if session.keywords is None:
        return 0
    return _parse_size(_last_ehlo_reply(session).lines)


def _last_ehlo_reply(session: Session) -> Reply:
    """Return the last reply that accepts EHLO or LHLO; callers have seen that the session has one."""
    return next(reply for reply in reversed(session.replies) if reply.to in ("EHLO", "LHLO") and reply.code // 100 == 2)


@lru_cache(maxsize=256)  # servers send the same lines in each session
def _parse_size(lines: tuple[str, ...]) -> int:
    """Return the number after the keyword SIZE in the lines of a reply to EHLO, 0 without a keyword or a number; cached."""
    for line in lines[1:]:
        word, _, number = line.partition(" ")
        if word.upper() == "SIZE" and number.strip().isdigit():
            return int(number)
    return 0
