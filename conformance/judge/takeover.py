"""Seeing from outside that a shadow was taken over: its holder transmits it as its own."""

from dataclasses import dataclass

from conformance.history.events import CommandRun, NodeEvent
from conformance.judge.finding import Case
from conformance.judge.sessions import Transaction
from conformance.judge.trace import Copy


@dataclass(frozen=True, slots=True)
class Takeover:
    """A holder's transmission of a message of which it held only the shadow copies `held`."""

    sent: Transaction
    held: tuple[Copy, ...]

    @property
    def by(self) -> str:
        """The holder."""
        return self.sent.client


def takeovers(case: Case, message: str) -> list[Takeover]:
    """Return every takeover of a message's shadows, in the order of the transmissions.

    Into its own mailbox store, to a next hop, or to a shadow server of its own, it is all one. A server of 2010 keeps
    what it once sent: only what it sends to the same recipients again is a takeover. Whoever was handed the message in
    an ordinary transaction sends it on because of that, once for each time that it was handed it, and again as long as
    nobody took it.
    """
    found = []
    trace = case.trace
    for sent in trace.transactions_of(message):
        held = tuple(
            copy
            for copy in trace.copies_of(message)
            if copy.holder == sent.client and copy.stored.n < sent.n and _again(case, copy, sent)
        )
        if not held:
            continue
        handed = sum(_handed(case, given, sent) for given in trace.transactions_of(message) if given is not sent)
        tracked = sum(copy.transaction.way == "tracked" for copy in held)
        if (tracked or _done(case, message, sent)) >= handed:
            found.append(Takeover(sent, held))
    return found


def _done(case: Case, message: str, sent: Transaction) -> int:
    """Return how often the sender of a transaction had passed the message on to one of its recipients before.

    What it may have forgotten when it died, and what Safety Net may send again, is not done with; and nobody counts the
    shadows that it makes of what it was handed.
    """
    if sent.way == "shadow":
        return 0
    trace, client = case.trace, sent.client
    again = [event.n for event in trace.of(NodeEvent) if event.node == client] + [e.n for e in trace.of(CommandRun)]
    since = max((n for n in again if n < sent.n), default=-1)
    recipients = set(map(case.same, sent.recipients))
    return sum(
        any(reply.n < sent.n for reply in earlier.replies)
        and not recipients.isdisjoint(map(case.same, earlier.taken_for))
        for earlier in trace.transactions_of(message)
        if earlier.client == client and earlier.way != "shadow" and since < earlier.n < sent.n
    )


def _again(case: Case, copy: Copy, sent: Transaction) -> bool:
    if copy.transaction.way == "shadow":
        return True
    kept = set(map(case.same, copy.transaction.recipients))
    return copy.transaction is not sent and not kept.isdisjoint(map(case.same, sent.recipients))


def _handed(case: Case, given: Transaction, sent: Transaction) -> bool:
    """Whether the sender of a transaction had been handed the message in another one, or is being handed it.

    What was refused was not handed over. A mailbox server passes on what is delivered through it while that session
    waits for its reply.
    """
    if given.server != sent.client or given.way == "shadow" or given.dot is None or sent.dot is None:
        return False
    if given.dot > sent.dot:
        return False
    before = [reply for reply in given.replies if reply.n < sent.dot]
    if before:
        return any(reply.code // 100 == 2 for reply in before)
    closed = case.trace.sessions[given.session].closed
    return closed is None or closed.n > sent.n or given.listener != "delivery"
