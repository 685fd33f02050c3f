"""Replies: exactly one to each command and body (RL-RPL-01), and well-formed ones (RL-RPL-02, SR-WIR-03)."""

from conformance.history.dialects import OPERATIONS
from conformance.history.events import Reply
from conformance.judge.finding import Case, Finding
from conformance.judge.invariants.check import invariant
from conformance.judge.rows import OF_ANY_RELAY
from conformance.judge.sessions import Session, Transaction

WITHOUT_ENHANCED = frozenset({"GREETING", "EHLO", "HELO", "LHLO", "QUIT", "STARTTLS"})
"""Replies that need no enhanced status code (RFC 2034 3), and those that RFC 5321 and RFC 3207 show without one."""

CODES = {501: "5.5.4", 503: "5.5.1"}
"""Refusals of shadow verbs, and the enhanced status code that each has (wire-profile.md)."""

SHADOW_VERBS = frozenset(OPERATIONS)


@invariant("one-final-reply", "RL-RPL-01")
def one_final_reply(case: Case) -> Finding:
    """Each command and each body gets one reply (LMTP: a body one for each accepted recipient), in their order.

    Seen as wrong are a reply that answers nothing (421 may come at any time, RFC 5321 3.8), and a 221 that comes after
    QUIT where the reply to an earlier command is due: then a reply is missing.
    """
    finding = Finding("one reply to each command and each message")
    for session in case.trace.sessions.values():
        if not case.tested(session.server) or session.name in case.trace.tampered:
            continue
        finding.occasions += bool(session.replies)
        if not _too_many_final(finding, session):
            _out_of_step(finding, session)
    return finding


def _too_many_final(finding: Finding, session: Session) -> bool:
    """Note the messages of a session that got more final replies than they may; return whether there were any."""
    before = len(finding.wrong)
    for t in session.transactions:
        if t.dot is None or not t.replies:
            continue
        allowed = len(t.recipients) if session.listener in ("delivery", "lmtp") else 1
        surplus = [*t.replies[allowed:], *_unsolicited(session, t)]
        if surplus:
            finding.violated(
                f"session {session.name}: {session.server} gave {allowed + len(surplus)} final replies to {session.client}",
                *[reply.n for reply in (*surplus, *t.replies[:allowed])],
                message=t.message,
            )
    return len(finding.wrong) > before


def _unsolicited(session: Session, t: Transaction) -> list[Reply]:
    """Return the replies that answer nothing between a message's final reply and the next command, QUIT aside."""
    final = t.replies[-1].n
    later = (x.command for x in session.exchanges if x.command.n > final and x.command.verb != "QUIT")
    until = min((command.n for command in later), default=None)
    return [
        reply
        for reply in session.replies
        if reply.to == "" and reply.code != 421 and reply.n > final and (until is None or reply.n < until)
    ]


def _out_of_step(finding: Finding, session: Session) -> None:
    """Note the first reply of a session that answers nothing, or that is the goodbye to QUIT in another one's place."""
    quits = [x.command.n for x in session.exchanges if x.command.verb == "QUIT" and x.reply is None]
    for reply in session.replies:
        if reply.to == "" and reply.code != 421:
            finding.violated(
                f"session {session.name}: {session.server} said {_shown(reply)} to {session.client}, where no reply was due",
                reply.n,
            )
            return
        if reply.code == 221 and reply.to not in ("", "QUIT") and any(n < reply.n for n in quits):
            said = "a message" if reply.to == "CONTENT" else reply.to
            finding.violated(
                f"session {session.name}: {session.server} gave {session.client} no reply to {said}: its goodbye "
                f"({_shown(reply)}) came in its place",
                reply.n,
            )
            return


@invariant("replies-well-formed", "RL-RPL-02", "SR-WIR-03")
def replies_well_formed(case: Case) -> Finding:
    """Replies have the form of RFC 5321 4.2 with a code from 200 to 599 (RL-RPL-02), and the status codes of wire-profile.md
    (SR-WIR-03).

    Of a server that shadows, a reply has the enhanced status code that ENHANCEDSTATUSCODES promised, and one that is
    there all the same is of the reply's own class.
    """
    finding = Finding("well-formed replies with codes from 200 to 599 and, where promised, enhanced status codes")
    shadows = not case.claims <= OF_ANY_RELAY
    for session in case.trace.sessions.values():
        if not case.tested(session.server) or session.name in case.trace.tampered:
            continue
        promised = "ENHANCEDSTATUSCODES" in (session.keywords or ())
        for reply in session.replies:
            finding.occasions += 1
            problem, row = _form_error(reply), "RL-RPL-02"
            if not problem and shadows:
                problem, row = _status_error(reply, promised=promised), "SR-WIR-03"
            if problem:
                finding.violated(
                    f"session {session.name}: {session.server} answered {reply.to or 'nothing'} with {_shown(reply)}: {problem}",
                    reply.n,
                    row=row,
                )
    return finding


def _form_error(reply: Reply) -> str:
    return reply.malformed or ("" if 200 <= reply.code <= 599 else f"{reply.code} is no reply code")


def _status_error(reply: Reply, *, promised: bool) -> str:
    if reply.enhanced is None:
        missing = promised and reply.code // 100 in (2, 4, 5) and reply.to not in WITHOUT_ENHANCED
        return "without the promised enhanced status code" if missing else ""
    if reply.enhanced[0] != str(reply.code)[0]:
        return f"{reply.enhanced} is of another class"
    if reply.to in SHADOW_VERBS and CODES.get(reply.code, reply.enhanced) != reply.enhanced:
        return f"a {reply.code} to a shadow verb is {CODES[reply.code]}"
    return ""


def _shown(reply: Reply) -> str:
    return f"{reply.code} {reply.lines[-1] if reply.lines else ''}".strip()
