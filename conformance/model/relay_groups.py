"""Judges groups of commands (PIPELINING, RFC 2920): the replies of a server to them, and what a client takes the replies for.

A *group* is a sequence of commands of which each was sent before the one in front of it was answered, and within `_TOGETHER_S` of
it; the final dot of a content may be in front. The rows bind a server that offers PIPELINING in the session, and a client that
sends a group. `n` is an event's number in the history, `t` its time in documented seconds.

Each rule judges one recorded history, `facts`, and returns a `Finding` of occasions (chances to fail) and violations, as
`conformance.model` describes (`timed=False`: it compares no times). Functions that take a `finding` add to it. A `Transaction` is
one mail transaction: `n` and `t` are those of its MAIL, `dot_n` and `dot_t` those of its final dot (None before it), `replies`
the final replies, `message` the scenario's name of the message or None, and `recipients` those that were not refused. A session
is *altered* where a fault changed, added or removed octets in it, *held* where a fault kept octets back (`stall`), and
*disturbed* where any fault acted in it or may have delayed it. `facts.slack` is by how many seconds a time may miss a bound.

Records: an `Exchange` is a command with its reply, None before it; `FailureReports` has the reports of failures, each with the
server that made it (`origin`) and the recipients (`failed`).
"""

from collections.abc import Iterator

from conformance.history.events import Reply
from conformance.model.facts import Facts
from conformance.model.reports import FailureReports
from conformance.model.rules import rule
from conformance.trace.finding import Finding, format_seconds
from conformance.trace.sessions import Exchange, Session, Transaction

_TOGETHER_S = 1.0
"""Documented seconds after which a command was not sent together with what is in front of it."""

_PATIENCE_S = 300.0
"""Documented seconds for which clients wait for the reply to most commands (RFC 5321 4.5.3.2)."""


@rule("RL-PIP-01")
def groups_are_answered(facts: Facts) -> Finding:
    """Check that each command of a group has its reply in its turn, and that a group without accepted recipients brings no mail.

    A reply is out of turn where DATA has 2yz or another command 354. A group is judged up to QUIT; the 421 of a timeout is no
    reply to a command. Sessions with a fault are left out. A session with a problem is judged no further.
    """
    finding = Finding("each command of a group is answered in its turn")
    for session in facts.trace.sessions.values():
        if "PIPELINING" not in (session.keywords or ()) or not facts.is_tested_server(session.server):
            continue
        if facts.is_disturbed(session.name) or facts.is_altered_or_held(session.name):
            continue
        for group in _groups_in_session(session):
            finding.occasions += 1
            words = " ".join(x.command.verb for x in group)
            problem = next((p for x in group if (p := _find_problem(facts, session, x))), None)
            if problem is not None:
                finding.add_violation(
                    f"session {session.name}: {session.server} {problem[0]}, in the group {words}", problem[1]
                )
                break
            _check_without_recipients(facts, finding, session, group)
    return finding


def _groups_in_session(session: Session) -> Iterator[list[Exchange]]:
    """Yield the groups of a session up to QUIT: two or more commands, or one that was sent with the final dot before it."""
    sent: list[tuple[int, float, Reply | None, Exchange | None]] = [
        (x.command.n, x.command.t, x.reply, x) for x in session.exchanges
    ]
    sent.extend(
        (one.dot_n, one.dot_t, one.replies[0] if one.replies else None, None)
        for one in session.transactions
        if one.dot_n is not None and one.dot_t is not None
    )
    group: list[Exchange] = []
    size = 0  # with the final dot in front
    before: tuple[float, Reply | None] | None = None
    for n, t, reply, exchange in sorted(sent, key=lambda one: one[0]):
        if exchange is not None and exchange.command.verb == "QUIT":
            break
        together = before is not None and t - before[0] <= _TOGETHER_S and (before[1] is None or before[1].n > n)
        if not together:
            yield from [group] if size > 1 else []
            group, size = [], 0
        size += 1
        group += [exchange] if exchange is not None else []
        before = (t, reply)
    yield from [group] if size > 1 else []


def _find_problem(facts: Facts, session: Session, exchange: Exchange) -> tuple[str, int] | None:
    """Return what is wrong with the reply to a command of a group, in words, and the number of the event; None for nothing.

    A reply is missing after `_PATIENCE_S`, unless the server was stopped or paused.
    """
    command, reply = exchange.command, exchange.reply
    if reply is not None and reply.code != 421:
        if (command.verb == "DATA" and reply.code // 100 == 2) or (command.verb != "DATA" and reply.code == 354):
            return f"answered {command.verb} with {reply.code}", reply.n
        return None
    end = next((r for r in session.replies if r.code == 421), session.closed)
    until_n, until_t = (end.n, end.t) if end is not None else (facts.end_n, facts.end_t)
    if until_t - command.t < _PATIENCE_S - facts.slack or facts.was_interrupted_between(
        session.server, session.n, until_n
    ):
        return None
    return f"did not answer {command.verb} within {format_seconds(until_t - command.t)}", command.n


def _check_without_recipients(facts: Facts, finding: Finding, session: Session, group: list[Exchange]) -> None:
    """Add a violation where a server sends mail that comes from a group of which it refused every recipient, or mail about it.

    Only for groups with DATA, whose reverse-path is in no other mail that the server was handed: so mail from or to it comes from
    the group. At most one violation is added.
    """
    numbers = {x.command.n for x in group}
    if not any(x.command.verb == "DATA" for x in group):
        return
    for empty in session.transactions:
        if empty.n not in numbers or empty.recipients or not empty.refused or not empty.sender:
            continue
        if any(
            _has_address(t, empty.sender) and t is not empty
            for t in facts.trace.transactions
            if t.server == empty.server
        ):
            continue
        for sent in facts.trace.transactions:
            about = sent.sender == empty.sender or empty.sender in (*sent.recipients, *sent.refused)
            if (
                about
                and sent.client == empty.server
                and sent.n > empty.n
                and facts.is_opened_by_tested_server(sent.client, sent.session)
            ):
                finding.add_violation(
                    f"{sent.client} sent {sent.server} a message from <{sent.sender}> to "
                    f"{', '.join((*sent.recipients, *sent.refused))}, after it had refused every recipient of a group",
                    sent.n,
                    empty.n,
                )
                return


def _has_address(sent: Transaction, sender: str) -> bool:
    """Return whether an address is the reverse-path or an accepted recipient of a transaction."""
    return sender in (sent.sender, *sent.recipients)


@rule("RL-PIP-02", timed=False)
def replies_to_a_group_are_each_taken_for_their_command(facts: Facts) -> Finding:
    """Check that a client sends a message to those recipients of a group who were accepted, and reports no failure of them.

    The rule judges transactions with a RCPT in a group, of which some recipients were accepted and some refused. Sessions with a
    fault are left out.
    """
    finding = Finding("each reply to a group is taken for that to its own command")
    for session in facts.trace.sessions.values():
        if "PIPELINING" not in (session.keywords or ()) or facts.is_disturbed(session.name):
            continue
        if not facts.is_opened_by_tested_server(session.client, session.name):
            continue
        if facts.is_altered_or_held(session.name):
            continue
        grouped = {x.command.n for group in _groups_in_session(session) for x in group if x.command.verb == "RCPT"}
        for sent in session.transactions:
            end_n = next((later.n for later in session.transactions if later.n > sent.n), facts.end_n)
            if sent.recipients and sent.refused and any(sent.n < n < end_n for n in grouped):
                finding.occasions += 1
                _check_accepted(facts, finding, session, sent, end_n)
    return finding


def _check_accepted(facts: Facts, finding: Finding, session: Session, sent: Transaction, end_n: int) -> None:
    """Add a violation where the accepted recipients of a transaction got no content, or an empty one, or were reported as failed.

    No content is a violation if the client left after 354, was not stopped, and had not received 421, by which the server says that
    it closes the session (RFC 5321 3.8). `end_n` is the number of the next MAIL in the session, or one behind the last event.
    """
    if sent.dot_n is None:
        commands = (x for x in session.exchanges if sent.n < x.command.n < end_n)
        data = next((x for x in commands if x.command.verb == "DATA"), None)
        is_left = session.closed is not None and session.closed.by == "client"
        is_server_going = any(reply.code == 421 and sent.n < reply.n < end_n for reply in session.replies)
        if is_server_going or facts.was_interrupted_between(session.client, session.n):
            return
        if data is not None and data.reply is not None and data.reply.code == 354 and is_left:
            finding.add_violation(
                f"{sent.client} left after 354 without a content, though {sent.server} had accepted {sent.recipients[0]}",
                data.reply.n,
            )
        return
    if sent.digest is not None and sent.digest.size == 0:
        finding.add_violation(
            f"{sent.client} sent an empty content, which {sent.server} took for {sent.recipients[0]}", sent.dot_n
        )
        return
    accepted = facts.context.normalize_addresses(sent.accepted_recipients)
    for report in facts.compute_once(FailureReports).all:
        is_about = any(message.message == sent.message for message in report.messages)
        if report.origin == sent.client and is_about and report.n > sent.n and (wrong := accepted & report.failed):
            finding.add_violation(
                f"{sent.client} reported the failure of {min(wrong)}, whom {sent.server} had accepted", report.n, sent.n
            )
            return
