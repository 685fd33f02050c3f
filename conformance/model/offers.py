"""Judges the offers of shadow verbs and the replies to them (SR-WIR-01, SR-WIR-03).

A server of 2013 or later offers XSHADOWREQUEST on `transport` to the peers that may ask it for copies, and to no other: mailbox
servers of its boundary of 2013 or later, whose `accept_xshadow` it grants, while ShadowRedundancyEnabled is true. Offers are
judged in sessions between servers under test on an externally secured listener only, where EHLO says who the peer is.

A shadow verb with malformed arguments gets 501 5.5.4, one out of order 503 5.5.1; where several refusals of the wire profile fit,
any of them is right (ruling 33). After a refusal the session stays usable: the server does not end it (RFC 5321 3.8).

`n` is an event's number. Each rule judges one recorded history, `facts`, and returns a `Finding` of occasions (chances to fail)
and violations, as `conformance.model` describes (`timed=False`: it compares no times). Functions that take a `finding` add to it.

An `Exchange` is a command with its reply, None before it. `keywords` of a session are those of the last reply to EHLO, None
before it. A `Transaction` is one mail transaction: `n` and `t` are those of its MAIL. A session is *altered* where a fault
changed, added or removed octets in it, and *disturbed* where any fault acted in it or may have delayed it. Of a server's
listeners `frontend` is for mail from outside, `transport` for other servers, `delivery` that of its mailbox store. `claims` are
the capabilities that the candidate claims.
"""

import re

from conformance.history.events import Command, Reply
from conformance.model.facts import Facts
from conformance.model.rules import rule
from conformance.trace.context import is_relay_only
from conformance.trace.finding import Finding
from conformance.trace.sessions import LAST_CHUNK, Exchange, Session

_REQUEST = "XSHADOWREQUEST"
_VERBS = {"XSHADOWREQUEST": "XSHADOWREQUEST", "XSHADOW": "XSHADOW", "XQDISCARD": "", "XQUERYDISCARD": ""}
"""The shadow verbs of the wire profile; the keyword that offers the verb, '' where any shadow keyword does."""

_WORD = re.compile(r"[A-Za-z0-9-]{1,64}")
_NUMBER = re.compile(r"0*[1-9][0-9]*")

_REFUSALS = frozenset({500, 501, 502, 503, 504, 550, 555})


@rule("SR-WIR-01", timed=False)
def copies_are_offered_to_those_who_may_ask(facts: Facts) -> Finding:
    """Check that XSHADOWREQUEST is in the reply to EHLO of each peer that may ask for copies, and of no other.

    Nothing is judged for candidates that do not claim `shadow-2013`, and where ShadowRedundancyEnabled or the peer's right was changed
    during the session.
    """
    finding = Finding("XSHADOWREQUEST is offered to the peers that may ask for copies, and to no others")
    if "shadow-2013" not in facts.context.claims or not facts.topology.externally_secured:
        return finding
    for session in facts.trace.sessions.values():
        server, peer = session.server, session.client
        if session.listener != "transport" or session.keywords is None or session.name in facts.trace.altered_sessions:
            continue
        if (
            not facts.is_tested_server(server)
            or facts.is_2010(server)
            or not facts.is_opened_by_tested_server(peer, session.name)
        ):
            continue
        end_n = session.closed.n if session.closed is not None else facts.end_n
        enabled = set(map(bool, facts.possible_parameter_values(server, "ShadowRedundancyEnabled", session.n, end_n)))
        granted = facts.possible_rights(server, peer, "accept_xshadow", session.n, end_n)
        if len(enabled) > 1 or len(granted) > 1:
            continue  # changed while the session was open: either value may have been in force at its EHLO
        may_ask = (
            enabled == {True}
            and facts.topology.by_name[peer].role == "mailbox"
            and not facts.is_2010(peer)
            and peer in facts.topology.boundary(server) - {server}
            and granted == {True}
        )
        finding.occasions += 1
        if may_ask is not (_REQUEST in session.keywords):
            does = "offers it" if not may_ask else "does not offer it"
            finding.add_violation(
                f"{server} {does} to {peer}, which {'may' if may_ask else 'may not'} ask for copies (session {session.name})",
                session.n,
            )
    return finding


@rule("SR-WIR-03", timed=False)
def wrong_shadow_verbs_are_refused(facts: Facts) -> Finding:
    """Check the replies to shadow verbs that are malformed or out of order, and that the session goes on after a refusal.

    Nothing is judged for candidates that claim only a relay's capabilities. A 421 is right at any time.
    """
    finding = Finding("malformed shadow verbs get 501 5.5.4, those out of order 503 5.5.1, and the session goes on")
    if is_relay_only(facts.context.claims):
        return finding
    for session in facts.trace.sessions.values():
        if not facts.is_tested_server(session.server) or session.name in facts.trace.altered_sessions:
            continue
        asked = [x for x in session.exchanges if x.command.verb in _VERBS]
        for exchange in asked:
            if exchange.reply is not None and exchange.reply.code != 421:
                _check_reply(finding, session, exchange, exchange.reply)
        if asked:
            _check_goes_on(facts, finding, session)
    return finding


def _check_reply(finding: Finding, session: Session, exchange: Exchange, reply: Reply) -> None:
    """Add a violation where an offered verb is malformed or out of order, and the reply is none of those that may refuse it.

    A verb that is well-formed and in order is no occasion, nor is one that no reply to EHLO of the session offered. One before its EHLO
    is out of order, and 502 is right for it too. One that is out of order with white space at its end may get 501 as well.
    """
    command = exchange.command
    if not _is_offered(session, command):
        return  # 502 fits; invariant.shadow-verbs-only-where-offered checks the refusal
    right = []
    if not _is_well_formed(command.line) or (command.line[-1:].isspace() and _is_out_of_order(session, command)):
        right.append((501, "5.5.4"))
    if _is_out_of_order(session, command):
        right.append((503, "5.5.1"))
    if not right:
        return
    if not any(x.command.verb == "EHLO" and x.command.n < command.n for x in session.exchanges):
        right.append((502, "5.5.1"))  # it has not been offered yet
    finding.occasions += 1
    words = command.line.split(" ")
    if len(words) > 1 and words[1].casefold() != session.client.casefold():
        right += [(550, "5.7.1")]  # the verb names another server than the one that says it
    if (reply.code, reply.enhanced) not in right:
        names = " or ".join(f"{code} {enhanced}" for code, enhanced in right)
        finding.add_violation(
            f"{session.server} answered `{command.line}` with {reply.code} {reply.enhanced or ''}: right is {names} "
            f"(session {session.name})",
            reply.n,
            command.n,
        )


def _check_goes_on(facts: Facts, finding: Finding, session: Session) -> None:
    """Add a violation where the server ended the session on its own right after it had refused a shadow verb.

    The occasions are sessions whose last reply to a command refused a shadow verb. A disturbed session is no violation, nor is one
    whose server was stopped meanwhile.
    """
    last = next((x for x in reversed(session.exchanges) if x.reply is not None), None)
    if last is None or last.command.verb not in _VERBS or last.reply is None or last.reply.code not in _REFUSALS:
        return
    finding.occasions += 1
    closed = session.closed
    if closed is None or closed.by != "server" or session.replies[-1] is not last.reply:
        return
    if facts.is_disturbed(session.name) or facts.was_interrupted_between(session.server, session.n, closed.n):
        return
    finding.add_violation(
        f"{session.server} ended session {session.name} after it had refused `{last.command.line}` with {last.reply.code}",
        closed.n,
        last.reply.n,
    )


def _is_offered(session: Session, command: Command) -> bool:
    """Return whether the session's reply to EHLO offered a verb; also if EHLO came later than the verb, which is then out of order."""
    keyword = _VERBS[command.verb]
    offered = session.keywords or frozenset()
    return keyword in offered if keyword else not offered.isdisjoint(("XSHADOWREQUEST", "XSHADOW"))


def _is_well_formed(line: str) -> bool:
    """Return whether a shadow verb has two arguments: a server's name, and the name of a database or, in a query, a number above 0.

    White space at the end of the line does not count: a server should tolerate it (RFC 5321 4.1.1), but need not.
    """
    verb, *arguments = line.rstrip(" \t").split(" ")
    form = _NUMBER if verb.upper() in ("XQDISCARD", "XQUERYDISCARD") else _WORD
    return len(arguments) == 2 and bool(arguments[0]) and form.fullmatch(arguments[1]) is not None


def _is_out_of_order(session: Session, command: Command) -> bool:
    """Return whether a verb comes before an accepted EHLO, inside a mail transaction, or a second time after it was granted.

    The last is about XSHADOWREQUEST and XSHADOW only: queries may be repeated. A transaction counts from an accepted MAIL until RSET, EHLO
    or HELO is accepted, DATA gets 354, or the last chunk (`BDAT n LAST`) is answered.
    """
    before = [x for x in session.exchanges if x.command.n < command.n]
    greeted = any(x.command.verb == "EHLO" and x.reply is not None and x.reply.code == 250 for x in before)
    again = command.verb in ("XSHADOWREQUEST", "XSHADOW") and any(
        x.command.verb == command.verb and x.reply is not None and x.reply.code == 250 for x in before
    )
    inside = False
    for x in before:
        if x.command.verb == "MAIL":
            inside = inside or (x.reply is not None and x.reply.code == 250)
        elif x.reply is not None and (
            (x.command.verb in ("RSET", "EHLO", "HELO", "DATA") and x.reply.code in (250, 354))
            or LAST_CHUNK.fullmatch(x.command.line)
        ):
            inside = False
    return not greeted or again or inside
