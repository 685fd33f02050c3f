"""Judges mail loops and the null reverse-path, which prevents loops of reports (RL-LOP-01, RL-LOP-02, RL-NUL-01).

A server that counts hops counts Received fields, and should let a hundred pass; whichever way it uses, it must end a loop (RFC
5321 6.3). `n` is an event's number.

Each rule judges one recorded history, `facts`, and returns a `Finding` of occasions (chances to fail) and violations, as
`conformance.model` describes (`timed=False`: it compares no times). A `Transaction` is one mail transaction: `n` and `t` are
those of its MAIL, `dot_n` and `dot_t` those of its final dot (None before it), `replies` the final replies, and `message` the
scenario's name of the message or None. A session is *altered* where a fault changed, added or removed octets in it.
"""

import re

from conformance.history.events import Reply
from conformance.model.facts import Facts
from conformance.model.rules import rule
from conformance.trace.finding import Finding

_FEW, _USUAL, _IN_A_LOOP = 20, 100, 300
"""Numbers of Received fields: what ordinary mail never has, what a server should let pass, and what no mail has but in a loop."""

_NAMES_A_LOOP = re.compile(r"\b(loop|hops?\b|received\W+(header|field|line))", re.IGNORECASE)

_OTHER_REASONS = frozenset({501, 503, 530, 552, 555})
"""Codes with which MAIL is refused for another reason than its reverse-path, unless the enhanced status code is one of addresses."""


_KNOWN_PARAMETERS = frozenset({"SIZE", "BODY", "SMTPUTF8", "RET", "ENVID", "AUTH"})
"""Parameters of MAIL that no server takes for unknown, if it offers their extension."""


@rule("RL-LOP-01", timed=False)
def loops_are_ended(facts: Facts) -> Finding:
    """Check that no server passes on a message with `_IN_A_LOOP` or more Received fields.

    Each such content on any link is an occasion, except in altered sessions.
    """
    finding = Finding("a message that has been through hundreds of servers is not passed on")
    for sent in facts.trace.transactions:
        if sent.digest is None or sent.digest.received < _IN_A_LOOP or sent.session in facts.trace.altered_sessions:
            continue
        finding.occasions += 1
        if facts.is_opened_by_tested_server(sent.client, sent.session):
            finding.add_violation(
                f"{sent.client} passed a message with {sent.digest.received} Received fields on to {sent.server}",
                sent.dot_n or sent.n,
                message=sent.message,
            )
    return finding


@rule("RL-LOP-02", timed=False)
def long_ways_are_no_loops(facts: Facts) -> Finding:
    """Check that a message with at least `_FEW` and fewer than a hundred Received fields is not refused as one in a loop.

    Altered sessions are left out.
    """
    finding = Finding("a message with fewer than a hundred Received fields is no loop")
    for sent in facts.trace.transactions:
        if sent.digest is None or not _FEW <= sent.digest.received < _USUAL or not facts.is_tested_server(sent.server):
            continue
        if sent.session in facts.trace.altered_sessions:
            continue
        finding.occasions += 1
        for reply in sent.replies:
            if reply.code // 100 == 5 and is_about_a_loop(reply):
                finding.add_violation(
                    f"{sent.server} answered a message with {sent.digest.received} Received fields with {reply.code} "
                    f"{' '.join(reply.lines)}"[:200],
                    reply.n,
                    message=sent.message,
                )
    return finding


def is_about_a_loop(reply: Reply) -> bool:
    """Return whether a refusal says that the message is in a loop."""
    return reply.enhanced == "5.4.6" or _NAMES_A_LOOP.search(" ".join(reply.lines)) is not None


@rule("RL-NUL-01", timed=False)
def null_reverse_path_is_taken_and_kept(facts: Facts) -> Finding:
    """Check that MAIL FROM:<> is not refused for good, and that the message is passed on with a null reverse-path.

    A 5yz for another reason than the reverse-path is no violation: one of `_OTHER_REASONS`, or any for a parameter that the server may
    not know, where a refusal in any form that fits is right (ruling 33). 5.1.x is about the reverse-path. The second part is
    not judged for reports.
    """
    finding = Finding("a message with a null reverse-path is taken, and passed on with it")
    null: set[tuple[str, str]] = set()
    for session in facts.trace.sessions.values():
        if not facts.is_tested_server(session.server) or session.name in facts.trace.altered_sessions:
            continue
        for exchange in session.exchanges:
            reply = exchange.reply
            if reply is None or not exchange.command.line.upper().startswith("MAIL FROM:<>"):
                continue
            finding.occasions += 1
            parameters = {w.partition("=")[0] for w in exchange.command.line.upper().rpartition(">")[2].split()}
            has_other_reason = reply.code in _OTHER_REASONS or not parameters <= _KNOWN_PARAMETERS
            is_of_the_path = (reply.enhanced or "").startswith("5.1.") or not has_other_reason
            if reply.code // 100 == 5 and is_of_the_path:
                finding.add_violation(f"{session.server} answered MAIL FROM:<> with {reply.code}", reply.n)
    for sent in facts.trace.transactions:
        name = sent.message
        if name is None or sent.digest is None or sent.digest.report is not None or facts.trace.messages[name].sender:
            continue
        null.add((sent.server, name))
        if sent.sender and facts.is_opened_by_tested_server(sent.client, sent.session) and (sent.client, name) in null:
            finding.occasions += 1
            finding.add_message_violation(
                facts.trace.messages[name], f"{sent.client} passed it on with the reverse-path <{sent.sender}>", sent.n
            )
    return finding
