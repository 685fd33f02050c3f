"""Checks of what a client waits for: the greeting, replies (RFC 2920), and how it opens and closes a session.

`trace` has the recorded sessions; an *exchange* is a command with its reply. The party `link` is the listener itself. A
*tally* counts the occasions to violate a clause, and has what is wrong or cannot be decided.
"""

from conformance.history.events import Command, Content, FaultFired, Reply
from conformance.listen.checks.syntax import commands_with_keywords
from conformance.listen.checks.tally import Tally
from conformance.listen.record import ListenRecord
from conformance.trace.sessions import Session
from conformance.trace.trace import Trace

_LAST_IN_GROUP = frozenset({"EHLO", "HELO", "DATA", "VRFY", "EXPN", "TURN", "QUIT", "NOOP"})
"""Commands whose replies have to be awaited (RFC 2920 3.1); HELO is older than pipelining."""

_NOT_RECOGNIZED = (500, 502)
HARMLESS_ACTIONS = frozenset({"answer", "replace"})
"""Faults that only give a reply: the session goes on in order."""


def misbehaved_sessions(trace: Trace) -> set[str]:
    """Return the names of the sessions in which the listener did more than to give a reply."""
    return {
        e.session for e in trace.events_of(FaultFired) if e.session is not None and e.action not in HARMLESS_ACTIONS
    }


def check_hello(record: ListenRecord, trace: Trace) -> list[Tally]:
    """Check that EHLO or HELO comes before MAIL, that EHLO is the first of them, and HELO follows EHLO where that is not known."""
    hello = Tally("hello-first", "RFC 5321 4.1.1.1", "sends EHLO or HELO before the first MAIL")
    ehlo = Tally("ehlo-first", "RFC 5321 4.1.1.1", "begins with EHLO", should=True)
    fallback = Tally("helo-fallback", "RFC 5321 3.2", "sends HELO where EHLO is not recognized", should=True)
    for session in trace.sessions.values():
        verbs = [exchange.command.verb for exchange in session.exchanges]
        first_hello = next((verb for verb in verbs if verb in ("EHLO", "HELO")), None)
        if "MAIL" in verbs:
            if {"EHLO", "HELO"} & set(verbs[: verbs.index("MAIL")]):
                hello.occasions += 1
            else:
                hello.violate("MAIL came before EHLO and HELO", session.name)
        if first_hello == "EHLO":
            ehlo.occasions += 1
        elif first_hello == "HELO":
            ehlo.violate("the session began with HELO", session.name)
        _check_fallback(fallback, session)
    return [hello, ehlo, fallback]


def _check_fallback(tally: Tally, session: Session) -> None:
    """Check that HELO follows the first EHLO that was not recognized (500, 502).

    Without HELO nothing is counted in a session that is open or was closed by the listener.
    """
    exchanges = session.exchanges
    refused = next(
        (
            n
            for n, x in enumerate(exchanges)
            if x.command.verb == "EHLO" and x.reply and x.reply.code in _NOT_RECOGNIZED
        ),
        None,
    )
    if refused is None:
        return
    later = [exchange.command.verb for exchange in exchanges[refused + 1 :]]
    if "HELO" in later:
        tally.occasions += 1
    elif session.closed is not None and session.closed.by != "link":
        reply = exchanges[refused].reply
        tally.violate(f"EHLO was answered with {reply.code if reply else 0}, and no HELO followed", session.name)


def check_waits(record: ListenRecord, trace: Trace) -> list[Tally]:
    """Check that nothing is sent before a reply that has to be awaited.

    Left out is what a client sends in a session after a fault there, other than one that only gives a reply: it may have given
    up waiting, which `check_timeouts` judges.
    """
    greeting = Tally("greeting-wait", "RFC 5321 4.3.1", "waits for the greeting", should=True)
    replies = Tally("reply-wait", "RFC 5321 4.3.1", "waits for each reply where PIPELINING was not offered")
    groups = Tally("pipelining", "RFC 2920 3.1", "waits for the reply to each command that ends a group")
    early = {octets.session: octets.t for octets in record.early}
    disturbing = [e for e in trace.events_of(FaultFired) if e.action not in HARMLESS_ACTIONS]
    for session in trace.sessions.values():
        keywords = [words for _, _, words in commands_with_keywords(session)]
        disturbed = next((e for e in disturbing if e.session == session.name), None)
        pending = ["GREETING"]
        number = -1
        for event in _conversation(session, trace):
            if disturbed is not None and event.n > disturbed.n:
                break
            if isinstance(event, Reply):
                pending = pending[1:]
                continue
            if isinstance(event, Content):
                pending.append("CONTENT")
                continue
            number += 1
            pipelined = "PIPELINING" in keywords[number]
            _check_command(event, pending, session.name, (greeting, replies, groups), pipelined=pipelined)
            pending.append(event.verb)
            sent_early = early.get(session.name) if event.verb == "DATA" else None
            if sent_early is not None and sent_early >= event.t and (disturbed is None or sent_early < disturbed.t):
                tally = groups if pipelined else replies
                tally.violate("content was sent before the reply to DATA", session.name)
                del early[session.name]
    return [greeting, replies, groups]


def _conversation(session: Session, trace: Trace) -> list[Command | Reply | Content]:
    """Return what was said in a session, in order."""
    events = [x.command for x in session.exchanges]
    contents = [event for event in trace.events_of(Content) if event.session == session.name]
    return sorted([*events, *session.replies, *contents], key=lambda event: event.n)


def _check_command(
    event: Command, pending: list[str], session: str, tallies: tuple[Tally, Tally, Tally], *, pipelined: bool
) -> None:
    """Check one command against the replies in `pending`, which were not yet sent when it came.

    `tallies` are those of the greeting, of replies, and of groups of commands, which `_LAST_IN_GROUP` end. A command that came
    before the greeting violates the first alone. `pipelined`: EHLO had offered PIPELINING, so that groups are allowed.
    """
    greeting, replies, groups = tallies
    if pending[:1] == ["GREETING"]:
        greeting.violate(f"{event.verb or 'a line'} was sent before the greeting", session)
        return
    greeting.occasions += event.verb in ("EHLO", "HELO")
    ended = next((verb for verb in pending if verb in _LAST_IN_GROUP), None)
    what = f"{event.verb or 'a line'} was sent before the reply to "
    if pipelined and ended is not None:
        groups.violate(what + ended, session)
    elif not pipelined and pending:
        replies.violate(what + pending[0], session)
    elif pipelined:
        groups.occasions += 1
    else:
        replies.occasions += 1


def check_quit(record: ListenRecord, trace: Trace) -> list[Tally]:
    """Check that a client ends a session with QUIT, and reads the reply.

    Left out are sessions without a command, those that are still open, and those that the listener broke, held or ended itself.
    """
    sends = Tally("quit", "RFC 5321 4.1.1.10", "sends QUIT before it closes the connection")
    waits = Tally("quit-wait", "RFC 5321 4.1.1.10", "waits for the reply to QUIT", should=True)
    misbehaved = misbehaved_sessions(trace)
    for session in trace.sessions.values():
        if session.name in misbehaved or session.closed is None or session.closed.by == "link" or not session.exchanges:
            continue
        quits = [exchange for exchange in session.exchanges if exchange.command.verb == "QUIT"]
        if not quits:
            sends.violate(f"the client closed the connection after {session.exchanges[-1].command.verb}", session.name)
        elif quits[-1].reply is None or session.closed.how == "reset" or session.name in record.unread:
            sends.occasions += 1
            waits.violate("the client closed the connection before it had read the reply to QUIT", session.name)
        else:
            sends.occasions += 1
            waits.occasions += 1
    return [sends, waits]
