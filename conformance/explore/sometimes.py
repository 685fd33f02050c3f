"""What an exploration must have seen at least sometimes: else the absence of violations proves nothing.

A *property* is a function that gets the `Facts` of one history, and returns whether the history shows what the sentence in its
decorator says. Nothing here is right or wrong. `trial.observe` asks all of them after each plan; the summary of a campaign counts the
plans that showed a property, and lists the properties that none did.

A *holder* is a server that keeps a shadow copy for another, the *primary*. A *promotion* is the transmission of a copy by its holder
as a message of its own. A transmission's `n` is the number of its MAIL in the history.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

from conformance.history.events import Attempt, CommandRun, Configured, Delivered, NodeEvent, StepEvent
from conformance.model.facts import Facts
from conformance.model.server_facts import STOPPING_ACTIONS
from conformance.trace.sessions import Transaction

Property = Callable[[Facts], bool]

SOMETIMES: dict[str, Property] = {}
"""The properties by the sentences that say what was seen."""


def sometimes(sentence: str) -> Callable[[Property], Property]:
    """Return a decorator that registers a function as the property with this sentence, and returns it unchanged."""

    def register(check: Property) -> Property:
        """Register the function, in place of an earlier one with the same sentence."""
        SOMETIMES[sentence] = check
        return check

    return register


def seen_in(facts: Facts) -> tuple[str, ...]:
    """Return the sentences of the properties that a history shows."""
    return tuple(sentence for sentence, check in SOMETIMES.items() if check(facts))


@sometimes("a shadow copy of 2013 or later was promoted")
def _promoted(facts: Facts) -> bool:
    """Return whether a holder of 2013 or later transmitted as its own what it held as a shadow copy."""
    return any(
        not facts.is_2010(promotion.holder) for found in facts.promotions_by_message.values() for promotion in found
    )


@sometimes("a shadow copy of 2010 was sent again")
def _promoted_2010(facts: Facts) -> bool:
    return any(facts.is_2010(promotion.holder) for found in facts.promotions_by_message.values() for promotion in found)


@sometimes("a promoted message got a new shadow copy")
def _redundant_again(facts: Facts) -> bool:
    """Return whether a holder that took a message over transmitted it as a shadow copy to another server."""
    return any(p.transmission.kind == "shadow" for found in facts.promotions_by_message.values() for p in found)


@sometimes("a server delivered what its shadow server had taken over")
def _returned(facts: Facts) -> bool:
    """Return whether the primary of a promoted copy transmitted the message itself after the promotion; shadow copies do not count."""
    return any(
        sent.client == copy.primary and sent.kind != "shadow" and sent.n > promotion.transmission.n
        for name, found in facts.promotions_by_message.items()
        for promotion in found
        for copy in promotion.held_copies
        for sent in facts.trace.transactions_of(name)
    )


@sometimes("two servers were down at once")
def _two_down(facts: Facts) -> bool:
    return any(len(down) >= 2 for _, down in _down_servers(facts))


@sometimes("the primary and the holder of a shadow copy were down at once")
def _both_down(facts: Facts) -> bool:
    """Return whether, after some event of a node, both servers of a copy were down while the copy was held."""
    return any(
        held.covers(n) and {held.copy.primary, held.copy.holder} <= down
        for n, down in _down_servers(facts)
        for held in facts.held_intervals
    )


def _down_servers(facts: Facts) -> Iterator[tuple[int, frozenset[str]]]:
    """Yield, after each event of any node, the number of the event and which servers are down then.

    A server is down from what stops, pauses or wipes it (`STOPPING_ACTIONS`) until it is ready or resumed.
    """
    down: set[str] = set()
    for event in facts.trace.events_of(NodeEvent):
        if event.action in ("ready", "resumed"):
            down.discard(event.node)
        elif event.action in STOPPING_ACTIONS:
            down.add(event.node)
        yield event.n, frozenset(down)


@sometimes("a server came back with a new queue database")
def _renewed(facts: Facts) -> bool:
    return any(event.action == "wiped" for event in facts.trace.events_of(NodeEvent))


@sometimes("a server died between a final dot and its reply")
def _died_with_mail(facts: Facts) -> bool:
    """Return whether a server was killed with a final dot that it had not answered, in a session that was open until then."""
    dead = {event.n: event.node for event in facts.trace.events_of(NodeEvent) if event.action == "killed"}
    return any(
        given.server == node and given.dot_n is not None and given.dot_n < n and not given.replies
        and facts.end_of_session(given.session) > n
        for n, node in dead.items()
        for given in facts.trace.transactions
    )  # fmt: skip


@sometimes("a discard notification was lost and given again")
def _notified_again(facts: Facts) -> bool:
    """Return whether discard notifications for one copy came in several sessions, so that one must have been lost."""
    return any(len({discard.session for discard in found}) > 1 for found in facts.discards_by_copy.values())


@sometimes("two faults hit one message")
def _two_faults(facts: Facts) -> bool:
    """Return whether faults of two names disturbed sessions in which one message was transmitted."""
    return any(
        len(
            {
                fault.fault
                for sent in facts.trace.transactions_of(name)
                for fault in facts.faults_by_session.get(sent.session, ())
            }
        )
        > 1
        for name in facts.trace.messages
    )


def _answered_messages(facts: Facts) -> Iterator[tuple[Transaction, int, int]]:
    """Yield each transaction in which a sender of the harness gave a message to a server of 2013 or later and got a final reply.

    Each comes with the number of its MAIL and of its first final reply.
    """
    for (server, _), receipts in facts.given_by_server_and_message.items():
        for given in receipts:
            if (
                not facts.is_2010(server)
                and not facts.is_tested_server(given.client)
                and given.replies
                and given.dot_n is not None
            ):
                yield given, given.n, given.replies[0].n


@sometimes("a message was acknowledged after a second try at a shadow copy")
def _tried_again(facts: Facts) -> bool:
    """Return whether a server tried to store a copy more than once between MAIL and the reply that accepted the message."""
    return any(
        given.acceptance is not None
        and sum(
            since < a.n < until and a.message == given.message
            for a in facts.shadow_attempts_by_primary.get(given.server, ())
        )
        > 1
        for given, since, until in _answered_messages(facts)
    )


@sometimes("a message was acknowledged without a shadow copy, after tries in vain")
def _without_copy(facts: Facts) -> bool:
    """Return whether a server accepted a message without a copy: of that message none was stored since its MAIL.

    It must have tried to store a copy meanwhile, of any message. Only what a sender of the harness gave to a server of 2013 or later
    counts.
    """
    return any(
        given.acceptance is not None
        and any(since < attempt.n < until for attempt in facts.shadow_attempts_by_primary.get(given.server, ()))
        and not any(since < copy.stored_reply.n < until for copy in facts.trace.copies_of(given.message or ""))
        for given, since, until in _answered_messages(facts)
    )


@sometimes("a message was refused because it could not be made redundant")
def _not_redundant(facts: Facts) -> bool:
    """Return whether a first final reply has the enhanced code 4.4.0, by which a server says that it could not store a copy."""
    return any(given.replies[0].enhanced == "4.4.0" for given, _, _ in _answered_messages(facts))


@sometimes("a sender tried again and was acknowledged")
def _sender_again(facts: Facts) -> bool:
    """Return whether a second or later attempt of the harness at one message got a positive final reply."""
    return any(a.attempt > 1 and a.code is not None and a.code // 100 == 2 for a in facts.trace.events_of(Attempt))


def _count_deliveries(facts: Facts) -> Counter[tuple[str, str]]:
    """Return how often each message reached each recipient, by (name of the message, normalized address)."""
    normalize = facts.context.normalize_address
    return Counter(
        (name, normalize(event.recipient)) for name in facts.trace.messages for event in facts.trace.deliveries_of(name)
    )


@sometimes("a recipient outside got a message twice")
def _twice(facts: Facts) -> bool:
    return any(count > 1 and to not in facts.context.mailboxes for (_, to), count in _count_deliveries(facts).items())


@sometimes("duplicate detection kept a second copy from a mailbox")
def _suppressed(facts: Facts) -> bool:
    """Return whether a recipient got a message, but less often than servers accepted it on their delivery listener."""
    delivered, normalize = _count_deliveries(facts), facts.context.normalize_address
    given = Counter(
        (name, normalize(recipient))
        for (_, name), receipts in facts.given_by_server_and_message.items()
        for transaction in receipts
        if transaction.listener == "delivery"
        for recipient in transaction.accepted_recipients
    )
    return any(0 < delivered[key] < count for key, count in given.items())


@sometimes("a message was reported as failed")
def _reported(facts: Facts) -> bool:
    return any(
        event.digest.report == "delivery-status" and event.digest.action == "failed"
        for event in facts.trace.events_of(Delivered)
    )


@sometimes("one recipient of a message got it, and a failure was reported for another")
def _different_fates(facts: Facts) -> bool:
    """Return whether a failure was reported for a recipient who never got the message, and another recipient got it."""
    failed = defaultdict[str | None, set[str]](set)
    for event in facts.trace.events_of(Delivered):
        if event.digest.report == "delivery-status":
            failed[event.digest.about] |= facts.context.normalize_addresses(event.digest.failed)
    arrived = _count_deliveries(facts)
    return any(
        any(not arrived[name, to] for to in failed[message.message_id]) and any(key[0] == name for key in arrived)
        for name, message in facts.trace.messages.items()
        if message.message_id in failed
    )


@sometimes("a message was deferred by its next hop, and delivered later")
def _deferred(facts: Facts) -> bool:
    """Return whether a next hop gave a 4yz reply to a message that was delivered at any time of the history."""
    return any(
        any(reply.code // 100 == 4 for reply in sent.replies) and facts.trace.deliveries_of(sent.message or "")
        for sent in facts.trace.transactions
        if facts.is_tested_server(sent.client) and not facts.is_tested_server(sent.server)
    )


@sometimes("a parameter was changed while a shadow copy was held")
def _changed_while_held(facts: Facts) -> bool:
    """Return whether a server accepted a configuration while any shadow copy was surely held anywhere."""
    changes = [event.n for event in facts.trace.events_of(Configured) if event.refused is None]
    return any(held.covers(n) for n in changes for held in facts.held_intervals)


@sometimes("a mailbox database was moved while mail was under way")
def _moved(facts: Facts) -> bool:
    """Return whether a mailbox database was moved after the harness had sent a message, and a delivery came after the move."""
    moves = [event.n for event in facts.trace.events_of(StepEvent) if event.verb == "activate"]
    last = max((event.n for event in facts.trace.events_of(Delivered)), default=0)
    return any(event.n < n < last for n in moves for event in facts.trace.events_of(Attempt))


@sometimes("an administrator had a server's queues moved to another")
def _redirected(facts: Facts) -> bool:
    """Return whether a server carried out the command `redirect-messages`."""
    return any(
        event.command == "redirect-messages" and event.failed is None for event in facts.trace.events_of(CommandRun)
    )


@sometimes("Safety Net was asked to send again")
def _resubmitted(facts: Facts) -> bool:
    return any(event.command == "resubmit" and event.failed is None for event in facts.trace.events_of(CommandRun))


@sometimes("a session was ended because its time was up")
def _timed_out(facts: Facts) -> bool:
    """Return whether a server replied 421 4.4.2, the reply to an idle or overlong session."""
    return any(
        reply.code == 421 and reply.enhanced == "4.4.2"
        for session in facts.trace.sessions.values()
        for reply in session.replies
    )
