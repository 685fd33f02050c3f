"""Judges the least sizes that a server takes: recipients of a transaction, addresses, command lines (RL-LIM-01, RL-LIM-02).

`n` is an event's number. Each rule judges one recorded history, `facts`, and returns a `Finding` of occasions (chances to fail)
and violations, as `conformance.model` describes (`timed=False`: it compares no times). A `Transaction` is one mail transaction:
`n` and `t` are those of its MAIL. A session is *altered* where a fault changed, added or removed octets in it, and *held* where a
fault kept octets back (`stall`).
"""

from conformance.history.events import Reply
from conformance.model.facts import Facts
from conformance.model.rules import rule
from conformance.trace.finding import Finding
from conformance.trace.sessions import parse_path

_LEAST = 100
"""Recipients that a server must be able to buffer (RFC 5321 4.5.3.1.8)."""

_BEGINS_ANEW = frozenset({"MAIL", "RSET", "EHLO", "HELO", "LHLO"})
"""Commands that end a transaction, or begin one."""

_TOO_MANY = frozenset({"4.5.3", "5.5.3"})
"""Enhanced status codes that say so (RFC 3463 3.6)."""


_OF_THE_DOMAIN = frozenset({"5.1.2", "5.1.8"})
"""Enhanced status codes of a domain to which, or from which, no mail can go (RFC 3463 3.2)."""

_MAX_LOCAL_PART, _MAX_DOMAIN, _MAX_PATH, _MAX_LINE = 64, 255, 256, 512
"""Octets that a server must take (RFC 5321 4.5.3.1.1 to 4.5.3.1.4); a path has its brackets, a line its CRLF."""

_LONG_PATH, _LONG_LINE = 100, 256
"""Octets from which on the length may be why a path, or a line, is refused."""


@rule("RL-LIM-01", timed=False)
def a_hundred_recipients_are_taken(facts: Facts) -> Finding:
    """Check that no recipient is refused as one too many before a hundred in a row were accepted.

    In a row: no MAIL, RSET, EHLO, HELO or LHLO lies between the RCPTs, unless it was refused and so ended no transaction; refused
    RCPTs are not counted. The refusal has the enhanced status code 4.5.3
    or 5.5.3. A 452 to RCPT without these may mean that a disk is full, and is no violation. Sessions that a fault altered are left
    out.
    """
    finding = Finding("a hundred recipients are taken in one transaction")
    for session in facts.trace.sessions.values():
        if not facts.is_tested_server(session.server) or session.name in facts.trace.altered_sessions:
            continue
        accepted = 0
        for exchange in session.exchanges:
            verb, reply = exchange.command.verb, exchange.reply
            if verb in _BEGINS_ANEW and (reply is None or reply.code < 400):
                accepted = 0
            elif verb != "RCPT":
                continue
            elif reply is not None and reply.code // 100 == 2:
                accepted += 1
                finding.occasions += accepted == _LEAST
            elif reply is not None and reply.enhanced in _TOO_MANY and accepted < _LEAST:
                finding.occasions += 1
                finding.add_violation(
                    f"session {session.name}: {session.server} answered RCPT with {reply.code} {reply.enhanced} after "
                    f"{accepted} recipients",
                    reply.n,
                )
    return finding


@rule("RL-LIM-02", timed=False)
def long_paths_and_lines_are_taken(facts: Facts) -> Finding:
    """Check that no long path or line within the limits is refused for good where the server took a short one in the session.

    The rule compares lines with the same verb, MAIL, RCPT or NOOP. A line is refused for good with 500, 501 or 553. Lines with
    parameters, whose limits are greater, addresses that are not ASCII, and sessions that a fault altered or held are left out, and so
    are refusals whose enhanced status code names another reason (`_is_for_another_reason`).
    """
    finding = Finding("paths of 256 octets and lines of 512 are taken")
    for session in facts.trace.sessions.values():
        if not facts.is_tested_server(session.server) or facts.is_altered_or_held(session.name):
            continue
        taken: dict[str, set[str]] = {}  # by verb, the domains of the paths that were taken
        for exchange in session.exchanges:
            verb, line, reply = exchange.command.verb, exchange.command.line, exchange.reply
            if reply is None:
                continue
            domain = parse_path(line).rpartition("@")[2].lower()
            if reply.code // 100 == 2 and not _is_long(verb, line):
                taken.setdefault(verb, set()).add(domain)
            elif verb in taken and _is_long(verb, line):
                finding.occasions += 1
                if reply.code in (500, 501, 553) and not _is_for_another_reason(reply, domain in taken[verb]):
                    what = f"NOOP with {len(line) + 2} octets" if verb == "NOOP" else f"{verb} with {_describe(line)}"
                    finding.add_violation(f"{session.server} answered {what} with {reply.code}", reply.n)
    return finding


def _is_for_another_reason(reply: Reply, is_domain_taken: bool) -> bool:
    """Return whether a refusal's enhanced status code names a policy, or a domain that was not taken in a shorter path."""
    enhanced = reply.enhanced or ""
    return enhanced.startswith("5.7.") or (enhanced in _OF_THE_DOMAIN and not is_domain_taken)


def _is_long(verb: str, line: str) -> bool:
    """Return whether the path of MAIL or RCPT, or the line of NOOP, is long and within the limits; False for other verbs.

    False too for MAIL and RCPT with parameters or with octets that are not ASCII.
    """
    if verb == "NOOP":
        return _LONG_LINE <= len(line) + 2 <= _MAX_LINE
    path = parse_path(line)
    local_part, _, domain = path.rpartition("@")
    is_long = len(path) + 2 >= _LONG_PATH or len(local_part) == _MAX_LOCAL_PART
    fits = len(local_part) <= _MAX_LOCAL_PART and len(domain) <= _MAX_DOMAIN and len(path) + 2 <= _MAX_PATH
    return verb in ("MAIL", "RCPT") and is_long and fits and line.isascii() and line.endswith(">")


def _describe(line: str) -> str:
    """Return how long the path in a line is, in words."""
    path = parse_path(line)
    return f"a path of {len(path) + 2} octets and a local part of {len(path.rpartition('@')[0])}"
