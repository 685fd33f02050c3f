"""Finds promotions: a holder transmits a message of which it held a shadow copy, as if it were its own.

Theory of operation
-------------------
A promotion happens inside a server; from outside only the transmission that follows is seen. Each transmission of a message
by a party that holds a stored copy of it is a candidate, whether it goes to a mailbox store, to a next hop or to a shadow
server. It is left out where it has another explanation:

- The party was also handed the message in an ordinary transaction, and passes that on. Each time that it was handed the
  message explains one complete transmission to a recipient, however many attempts that takes.
- A server of 2010 keeps a copy of what it transmitted: only a second transmission to one of the same recipients counts.

A party that died may have forgotten what it had passed on, and Safety Net may send messages again, so transmissions before
such an event are not counted as passed on. `name` is the scenario's name of the message; `n` is an event's number. A *holder* is
the server that keeps a shadow copy. A copy is *tracked* if it is one of a server of 2010, whose holder is the client of the
transaction. A `NodeEvent` is a change of a server's state, such as a stop or start. Expectations and rules of the model ask for
promotions.
"""

from dataclasses import dataclass

from conformance.history.events import CommandRun, NodeEvent
from conformance.trace.context import CheckContext
from conformance.trace.dials import find_dials
from conformance.trace.sessions import Transaction
from conformance.trace.shadows import ShadowCopy

_AT_ONCE_S = 1.0
"""Within this time of a lost session, a mailbox server may begin to pass on what it was given in it. Seconds."""


@dataclass(frozen=True, slots=True)
class PromotedTransmission:
    """A transmission of a message by a holder of the shadow copies `held_copies`, without another explanation."""

    transmission: Transaction
    held_copies: tuple[ShadowCopy, ...]

    @property
    def holder(self) -> str:
        """The server that promoted the copies and transmits the message."""
        return self.transmission.client


def find_promotions(context: CheckContext, name: str) -> list[PromotedTransmission]:
    """Return the promotions of a message's shadow copies, in the order of the transmissions.

    A transmission by a holder of copies is a promotion if the holder had passed the message on before at least as often as it
    was handed the message in ordinary transactions, so that it had nothing else to transmit.
    """
    promotions = []
    trace = context.trace
    for transmission in trace.transactions_of(name):
        held_copies = tuple(
            copy
            for copy in trace.copies_of(name)
            if copy.holder == transmission.client
            and copy.stored_reply.n < transmission.n
            and _may_be_of_copy(context, copy, transmission)
        )
        if not held_copies:
            continue
        # in 2010 each copy held is itself a transmission that has passed the message on
        tracked = sum(
            copy.transaction.kind == "tracked" and not _may_be_unknown_to_holder(context, copy, transmission.n)
            for copy in held_copies
        )
        passed_on = [] if tracked else _find_passed_on(context, name, transmission)
        # what explained an earlier transmission counts beside that, though its session was lost since
        times_handed = sum(
            any(given is not sent and _was_handed(context, given, sent) for sent in (transmission, *passed_on))
            for given in trace.transactions_of(name)
            if given is not transmission
        )
        if (tracked or len(passed_on)) >= times_handed:
            promotions.append(PromotedTransmission(transmission, held_copies))
    return promotions


def _find_passed_on(context: CheckContext, name: str, transmission: Transaction) -> list[Transaction]:
    """Return the earlier transmissions of the same client that were answered before, and accepted for one of the same recipients.

    Those before the client's last `NodeEvent`, or before the last command (`CommandRun`) to any node, do not count: the client may
    have forgotten them, or have been asked to send again. [] for a shadow transaction, since a server may make several copies of
    one message. Shadow transactions are not among the earlier ones either.
    """
    if transmission.kind == "shadow":
        return []
    trace, client = context.trace, transmission.client
    interruptions = [event.n for event in trace.events_of(NodeEvent) if event.node == client]
    interruptions += [event.n for event in trace.events_of(CommandRun)]
    since = max((n for n in interruptions if n < transmission.n), default=-1)
    recipients = context.normalize_addresses(transmission.recipients)
    return [
        earlier
        for earlier in trace.transactions_of(name)
        if earlier.client == client and earlier.kind != "shadow" and since < earlier.n < transmission.n
        and any(reply.n < transmission.n for reply in earlier.replies)
        and not recipients.isdisjoint(context.normalize_addresses(earlier.accepted_recipients))
    ]  # fmt: skip


def _may_be_unknown_to_holder(context: CheckContext, copy: ShadowCopy, before_n: int) -> bool:
    """Return whether a holder of 2010 may not have read that its message was accepted, so that it may send it again as its own.

    That is so if the holder sent no command after the reply in that session, and its node had any `NodeEvent` between the reply
    and event `before_n`.
    """
    stored = copy.stored_reply.n
    if any(x.command.n > stored for x in context.trace.sessions[copy.transaction.session].exchanges):
        return False
    return any(
        event.node == copy.holder and stored < event.n < before_n for event in context.trace.events_of(NodeEvent)
    )


def _may_be_of_copy(context: CheckContext, copy: ShadowCopy, transmission: Transaction) -> bool:
    """Return whether a transmission may be one of this copy: True for a copy of 2013.

    Of a tracked copy only a second transmission may be, to one of the recipients of the first, which made the copy.
    """
    if copy.transaction.kind == "shadow":
        return True
    recipients = context.normalize_addresses(copy.transaction.recipients)
    common = recipients & context.normalize_addresses(transmission.recipients)
    return copy.transaction is not transmission and bool(common)


def _was_handed(context: CheckContext, given: Transaction, transmission: Transaction) -> bool:
    """Return whether the client of a transmission was handed the message in `given` before.

    It was if the content of `given` ended before that of the transmission, and until then (until the transmission's MAIL, where
    a fault delayed its session)

    - a positive reply came, or any reply if a fault altered the session of `given`, and with it maybe the reply;
    - or no reply came. On the `delivery` listener that counts only if the session was still open at MAIL, or was lost _AT_ONCE_S
      before at most: there a mailbox server passes on what it is given before it replies.

    A shadow copy hands nothing over. What came by the `delivery` listener explains only a transmission with a common recipient
    that is no shadow copy.
    """
    if given.server != transmission.client or given.kind == "shadow":
        return False
    if given.listener == "delivery" and (
        transmission.kind == "shadow"
        or context.normalize_addresses(given.recipients).isdisjoint(
            context.normalize_addresses(transmission.recipients)
        )
    ):
        return False
    if given.dot_n is None or transmission.dot_n is None or given.dot_n > transmission.dot_n:
        return False
    # what a fault held back was begun before its content shows
    is_delayed = transmission.session in context.trace.delayed_sessions
    until_n = transmission.n if is_delayed else transmission.dot_n
    replies = [reply for reply in given.replies if reply.n < until_n]
    if replies:
        return given.session in context.trace.altered_sessions or any(reply.code // 100 == 2 for reply in replies)
    closed = context.trace.sessions[given.session].closed
    return (
        closed is None
        or closed.n > transmission.n
        or given.listener != "delivery"
        or _begin_t(context, transmission) - closed.t <= _AT_ONCE_S
    )


def _begin_t(context: CheckContext, transmission: Transaction) -> float:
    """Return when a client began a transmission, documented seconds: at MAIL, or at its dial where a fault held that back."""
    session = context.trace.sessions[transmission.session]
    dialled = find_dials(context.trace).ended.get(session.n)
    return transmission.t if dialled is None else dialled.t
