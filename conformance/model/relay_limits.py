"""Judges the least number of recipients that a server takes in one transaction (RL-LIM-01).

`n` is an event's number, `t` its time in documented seconds. The judge calls each rule once for a recorded history (`timed=False`: it
compares no times). A rule returns a `Finding`, whose `occasions` count the chances to fail; a violation has the numbers of the events
that show it, and is blamed on its `row`, else on the decorator's first requirement.
"""

from conformance.model.facts import Facts
from conformance.model.rules import rule
from conformance.trace.finding import Finding

_LEAST = 100
"""Recipients that a server must be able to buffer (RFC 5321 4.5.3.1.8)."""

_TOO_MANY = frozenset({"4.5.3", "5.5.3"})
"""Enhanced status codes that say so (RFC 3463 3.6)."""


@rule("RL-LIM-01", timed=False)
def a_hundred_recipients_are_taken(facts: Facts) -> Finding:
    """Check that no recipient is refused as one too many before a hundred of the transaction were accepted.

    Without an enhanced status code 452 to RCPT may mean that a disk is full, and is no violation.
    """
    finding = Finding("a hundred recipients are taken in one transaction")
    for session in facts.trace.sessions.values():
        if not facts.is_tested_server(session.server) or session.name in facts.trace.altered_sessions:
            continue
        accepted = 0
        for exchange in session.exchanges:
            verb, reply = exchange.command.verb, exchange.reply
            if verb != "RCPT":
                accepted = 0
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
