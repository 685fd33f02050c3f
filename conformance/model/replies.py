"""Judges replies: exactly one to each command and each content (RL-RPL-01), and well-formed ones (RL-RPL-02, SR-WIR-03).

The content of a message is answered by its *final reply*; LMTP gives one for each accepted recipient. `Reply.to` is the verb that
a reply answers, `CONTENT` for a final reply, '' where no reply was due. An *enhanced* status code is one of RFC 2034, such as
5.5.4. `n` is an event's number.

Each rule judges one recorded history, `facts`, and returns a `Finding` of occasions (chances to fail) and violations, as
`conformance.model` describes (`timed=False`: it compares no times). Functions that take a `finding` add to it. A violation blames
its `row`, else the rule's first requirement. A function with the decorator `invariant` gets the `context` of the facts instead. A
`Transaction` is one mail transaction: `n` and `t` are those of its MAIL, `dot_n` and `dot_t` those of its final dot (None before
it), `replies` the final replies, and `message` the scenario's name of the message or None. A session is *altered* where a fault
changed, added or removed octets in it, and *disturbed* where any fault acted in it or may have delayed it. Of a server's
listeners `frontend` is for mail from outside, `transport` for other servers, `delivery` that of its mailbox store. `facts.slack`
is by how many seconds a time may miss a bound. `claims` are the capabilities that the candidate claims.
"""

import math
from bisect import bisect_right
from itertools import islice, takewhile

from conformance.history.dialects import OPERATIONS_BY_VERB
from conformance.history.events import Reply
from conformance.model.facts import Facts
from conformance.model.rules import invariant, rule
from conformance.trace.context import CheckContext, is_relay_only
from conformance.trace.finding import Finding, format_seconds
from conformance.trace.sessions import LAST_CHUNK, Session, Transaction

_WITHOUT_ENHANCED = frozenset({"GREETING", "EHLO", "HELO", "LHLO", "QUIT", "STARTTLS"})
"""What is answered without an enhanced status code (RFC 2034 3), or so in the examples of RFC 5321 and RFC 3207."""

_BEGIN_WITH_NAME = frozenset({"GREETING", "EHLO", "HELO", "LHLO"})
"""What is answered positively with the server's name in front (RFC 5321 4.2), and so with no enhanced status code."""

_ENHANCED_BY_CODE = {501: "5.5.4", 503: "5.5.1"}
"""Codes that refuse shadow verbs, and the enhanced status code of each (wire-profile.md)."""

_PATIENCE_S = 300.0
"""Documented seconds for which clients wait for the reply to most commands (RFC 5321 4.5.3.2)."""

_SHADOW_VERBS = frozenset(OPERATIONS_BY_VERB)


@invariant("one-final-reply", "RL-RPL-01", timed=False)
def one_final_reply(context: CheckContext) -> Finding:
    """Check that each command and each content gets no more than one reply, and gets it in order.

    It is wrong to reply where no reply is due (421 may come at any time, RFC 5321 3.8), and to answer QUIT with 221 where the
    reply to an earlier command is due: that reply is missing. Replies that never come are judged by `commands_are_answered`.
    Sessions that a fault altered are left out.
    """
    finding = Finding("one reply to each command and each message")
    for session in context.trace.sessions.values():
        if not context.is_tested_server(session.server) or session.name in context.trace.altered_sessions:
            continue
        finding.occasions += bool(session.replies)
        if not _check_final_replies(finding, session):
            _check_order(finding, session)
    return finding


@rule("RL-RPL-01")
def commands_are_answered(facts: Facts) -> Finding:
    """Check that no command waits for its reply for longer than `_PATIENCE_S`, or gets the 4.4.2 of a timeout in its place then.

    A wait that the session or the history ends counts from `_PATIENCE_S` on. Left out are the final dot and the last chunk
    of BDAT, since their reply may be withheld, disturbed sessions, and those whose server or client was stopped or paused.
    There is at most one violation in a session.
    """
    finding = Finding("each command is answered before the client gives up")
    for session in facts.trace.sessions.values():
        if not facts.is_tested_server(session.server) or facts.is_disturbed(session.name):
            continue
        end = session.closed
        for exchange in session.exchanges:
            command, reply = exchange.command, exchange.reply
            if LAST_CHUNK.fullmatch(command.line):
                continue
            until_n, until_t = (
                (reply.n, reply.t) if reply is not None else (end.n, end.t) if end else (facts.end_n, facts.end_t)
            )
            if until_t - command.t < _PATIENCE_S - facts.slack or facts.was_interrupted_between(
                session.server, session.n, until_n
            ):
                continue
            if facts.is_tested_server(session.client) and facts.was_interrupted_between(
                session.client, session.n, until_n
            ):
                continue  # a client that is paused reads nothing
            finding.occasions += 1
            if reply is None or reply.enhanced == "4.4.2" or until_t - command.t > _PATIENCE_S + facts.slack:
                finding.add_violation(
                    f"session {session.name}: {session.server} did not answer {command.verb or 'a command'} of {session.client} "
                    f"within {format_seconds(until_t - command.t)}",
                    command.n,
                )
                break
    return finding


def _check_final_replies(finding: Finding, session: Session) -> bool:
    """Add a violation for each message with too many final replies: more than accepted recipients with LMTP, else more than one.

    Return whether any was added.
    """
    before = len(finding.violations)
    for t in session.transactions:
        if t.dot_n is None or not t.replies:
            continue
        allowed = len(t.recipients) if session.listener in ("delivery", "lmtp") else 1  # both listeners are of LMTP
        surplus = [*t.replies[allowed:], *_unsolicited_after(session, t)]
        if surplus:
            finding.add_violation(
                f"session {session.name}: {session.server} gave {allowed + len(surplus)} final replies to {session.client}",
                *[reply.n for reply in (*surplus, *t.replies[:allowed])],
                message=t.message,
            )
    return len(finding.violations) > before


def _unsolicited_after(session: Session, transaction: Transaction) -> list[Reply]:
    """Return the replies, 421 aside, that no command asked for, between a message's last final reply and the next command but QUIT."""
    final = transaction.replies[-1].n
    first = bisect_right(session.exchanges, final, key=lambda exchange: exchange.command.n)
    later = (x.command.n for x in islice(session.exchanges, first, None) if x.command.verb != "QUIT")
    until = next(later, math.inf)
    replies = islice(session.replies, bisect_right(session.replies, final, key=lambda reply: reply.n), None)
    return [
        reply for reply in takewhile(lambda reply: reply.n < until, replies) if reply.to == "" and reply.code != 421
    ]


def _check_order(finding: Finding, session: Session) -> None:
    """Add a violation for the first reply where none was due, or 221 to QUIT in place of another reply; no more than one."""
    quits = [x.command.n for x in session.exchanges if x.command.verb == "QUIT" and x.reply is None]
    for reply in session.replies:
        if reply.to == "" and reply.code != 421:
            finding.add_violation(
                f"session {session.name}: {session.server} said {_format_reply(reply)} to {session.client}, where no reply "
                "was due",
                reply.n,
            )
            return
        if reply.code == 221 and reply.to not in ("", "QUIT") and any(n < reply.n for n in quits):
            unanswered = "a message" if reply.to == "CONTENT" else reply.to
            finding.add_violation(
                f"session {session.name}: {session.server} gave {session.client} no reply to {unanswered}: its goodbye "
                f"({_format_reply(reply)}) came in its place",
                reply.n,
            )
            return


@invariant("replies-well-formed", "RL-RPL-02", "SR-WIR-03", timed=False)
def replies_well_formed(context: CheckContext) -> Finding:
    """Check that each reply has the form of RFC 5321 4.2 and a code from 200 to 599 (RL-RPL-02).

    For a candidate that claims more than a relay's capabilities, enhanced status codes are checked too (SR-WIR-03).
    Sessions that a fault altered are left out.
    """
    finding = Finding("well-formed replies with codes from 200 to 599 and, where promised, enhanced status codes")
    check_enhanced = not is_relay_only(context.claims)
    for session in context.trace.sessions.values():
        if not context.is_tested_server(session.server) or session.name in context.trace.altered_sessions:
            continue
        promised = "ENHANCEDSTATUSCODES" in (session.keywords or ())
        for reply in session.replies:
            finding.occasions += 1
            problem, row = _form_problem(reply), "RL-RPL-02"
            if not problem and check_enhanced:
                problem, row = _enhanced_problem(reply, promised=promised), "SR-WIR-03"
            if problem:
                sentence = (
                    f"session {session.name}: {session.server} answered {reply.to or 'nothing'} with "
                    f"{_format_reply(reply)}: {problem}"
                )
                finding.add_violation(sentence, reply.n, row=row)
    return finding


def _form_problem(reply: Reply) -> str:
    """Return in words what is wrong with the form or code of a reply, '' for a well-formed one.

    The link that recorded the reply has checked the form: `malformed` says what is wrong.
    """
    return reply.malformed or ("" if 200 <= reply.code <= 599 else f"{reply.code} is not a valid reply code")


def _enhanced_problem(reply: Reply, *, promised: bool) -> str:
    """Return in words what is wrong with a reply's enhanced status code, '' for nothing.

    It must be there where ENHANCEDSTATUSCODES `promised` it, have the class of the reply's code, and be the one of
    wire-profile.md where a shadow verb is refused. It must not be where the server's name belongs.
    """
    if reply.enhanced is None:
        missing = promised and reply.code // 100 in (2, 4, 5) and reply.to not in _WITHOUT_ENHANCED
        return "without the promised enhanced status code" if missing else ""
    if reply.to in _BEGIN_WITH_NAME and reply.code // 100 == 2:
        return "with an enhanced status code in place of the server's name"
    if reply.enhanced[0] != str(reply.code)[0]:
        return f"{reply.enhanced} is of another class"
    if reply.to in _SHADOW_VERBS and _ENHANCED_BY_CODE.get(reply.code, reply.enhanced) != reply.enhanced:
        return f"a {reply.code} to a shadow verb has the enhanced status code {_ENHANCED_BY_CODE[reply.code]}"
    return ""


def _format_reply(reply: Reply) -> str:
    """Return a reply's code and the text of its last line; the code alone for a reply without text."""
    return f"{reply.code} {reply.lines[-1] if reply.lines else ''}".strip()
