"""Replies: one final one to each message (SR-CRE-05), and whole ones (SR-WIR-03, RFC 5321 4.2, RFC 2034)."""

from conformance.history.events import Reply
from conformance.judge.finding import Case, Finding
from conformance.judge.sessions import Session

WITHOUT_ENHANCED = frozenset({"GREETING", "EHLO", "HELO", "LHLO", "QUIT", "STARTTLS"})
"""Replies that need no enhanced status code (RFC 2034 3), and those that RFC 5321 and RFC 3207 show without one."""

CODES = {501: "5.5.4", 503: "5.5.1"}
"""Refusals of shadow verbs, and the enhanced status code that each has (wire.md)."""

SHADOW_VERBS = frozenset({"XSHADOW", "XSHADOWREQUEST", "XQDISCARD", "XQUERYDISCARD"})


def one_final_reply(case: Case) -> Finding:
    """A message gets one final reply (LMTP: one for each accepted recipient), and nothing unasked follows it."""
    finding = Finding("one final reply to each message")
    for session in case.trace.sessions.values():
        if not case.tested(session.server) or session.name in case.trace.tampered:
            continue
        for t in session.transactions:
            if t.dot is None or not t.replies:
                continue
            finding.occasions += 1
            allowed = len(t.recipients) if session.listener in ("delivery", "lmtp") else 1
            surplus = [*t.replies[allowed:], *_unasked(session, t.replies[-1].n)]
            if surplus:
                finding.violated(
                    f"session {session.name}: {session.server} gave {allowed + len(surplus)} final replies to {session.client}",
                    *[reply.n for reply in (*surplus, *t.replies[:allowed])],
                    message=t.message,
                )
    return finding


def _unasked(session: Session, final: int) -> list[Reply]:
    """Return the replies behind a final one that answer nothing; 421 may come at any time (RFC 5321 3.8)."""
    later = [t.dot for t in session.transactions if t.dot is not None and t.dot > final]
    until = min(later, default=None)
    return [
        reply
        for reply in session.replies
        if reply.to == "" and reply.code != 421 and reply.n > final and (until is None or reply.n < until)
    ]


def replies_are_whole(case: Case) -> Finding:
    """Every reply of a server under test has three digits from 200 to 599, and the enhanced status code it promised.

    The promise is ENHANCEDSTATUSCODES in the EHLO reply; a code that is there all the same has the reply's own class.
    """
    finding = Finding("replies with codes from 200 to 599 and, where promised, enhanced status codes of the same class")
    for session in case.trace.sessions.values():
        if not case.tested(session.server) or session.name in case.trace.tampered:
            continue
        promised = "ENHANCEDSTATUSCODES" in (session.keywords or ())
        for reply in session.replies:
            finding.occasions += 1
            if problem := _problem(reply, promised=promised):
                finding.violated(
                    f"session {session.name}: {session.server} answered {reply.to or 'nothing'} with {_told(reply)}: {problem}",
                    reply.n,
                )
    return finding


def _problem(reply: Reply, *, promised: bool) -> str:
    if not 200 <= reply.code <= 599:
        return f"{reply.code} is no reply code"
    if reply.enhanced is None:
        owed = promised and reply.code // 100 in (2, 4, 5) and reply.to not in WITHOUT_ENHANCED
        return "without the promised enhanced status code" if owed else ""
    if reply.enhanced[0] != str(reply.code)[0]:
        return f"{reply.enhanced} is of another class"
    if reply.to in SHADOW_VERBS and CODES.get(reply.code, reply.enhanced) != reply.enhanced:
        return f"a {reply.code} to a shadow verb is {CODES[reply.code]}"
    return ""


def _told(reply: Reply) -> str:
    return f"{reply.code} {reply.lines[-1] if reply.lines else ''}".strip()
