"""Exchange 2010: the sender of a hop keeps the shadow of what it has handed on."""

from collections.abc import Iterator

from conformance.model.exploration.mailbox_rules import replied
from conformance.model.exploration.rules import Step, World, changed, distinct, name, nothing_held, outcomes, put, rule
from conformance.model.exploration.state import SHADOWS, WAITING_COPIES, Copy, Custody, Held, Message

HUB = ("ex2010",)


@rule("SR-E10-03", "SR-E10-04", "SR-E10-01", generations=HUB)
def hand_on(world: World, message: Message) -> Iterator[Step]:
    """A server transmits to a next hop, which acknowledges at once; the server keeps its copy as a shadow for that hop.

    If the acknowledgement is lost, the next hop has the message, and the server transmits it again.
    """
    for custody in distinct(message):
        if custody.copy not in (Copy.RECEIVED, Copy.QUEUED):
            continue
        p = custody.primary
        for hop in world.scope.next_hops[p]:
            if not world.linked(p, hop):
                continue
            tracked = Custody(hop, Copy.QUEUED, put(nothing_held(world.scope), p, Held.HELD))
            for done in outcomes(world, custody):
                yield Step(
                    f"{name(p)} hands the message on to {name(hop)}, and keeps a shadow",
                    changed(message, custody, done, tracked),
                )
            yield Step(
                f"{name(p)} hands the message on to {name(hop)}, but the reply is lost",
                changed(message, custody, custody, Custody(hop, Copy.QUEUED, nothing_held(world.scope))),
                "lost reply of a next hop",
                "replies",
            )


@rule("SR-E10-15", "SR-E10-17", generations=HUB)
def release_acknowledgement(world: World, message: Message) -> Iterator[Step]:
    """The withheld acknowledgement is sent once the next hop has the message."""
    for custody in distinct(message):
        if custody.copy == Copy.HANDED_ON:
            after = changed(message, custody, custody._replace(copy=Copy.GONE))
            yield from replied(after, f"{name(custody.primary)} answers 250")


@rule("SR-E10-16", generations=HUB)
def acknowledgement_delay_passes(world: World, message: Message) -> Iterator[Step]:
    """After MaxAcknowledgementDelay the acknowledgement is sent although the next hop does not have the message."""
    for custody in distinct(message):
        if custody.copy == Copy.RECEIVED:
            after = changed(message, custody, custody._replace(copy=Copy.QUEUED))
            text = f"MaxAcknowledgementDelay passes, and {name(custody.primary)} answers 250 before it has handed the message on"
            for step in replied(after, text):
                yield step._replace(cause=step.cause or "MaxAcknowledgementDelay passes")


def _alternative(world: World, holder: int, primary: int) -> bool:
    """Return whether the holder has another next hop than a failed one, up or not (ruling 35)."""
    return any(hop != primary for hop in world.scope.next_hops[holder])


@rule("SR-E10-08", "SR-E10-10", "SR-E10-11", generations=HUB)
def take_over(world: World, message: Message) -> Iterator[Step]:
    """After ShadowHeartbeatRetryCount failed intervals the holder takes its shadow over, if it has an alternative route."""
    for custody in distinct(message):
        p = custody.primary
        for h in world.others(p):
            if custody.held[h] not in SHADOWS or not world.up[h] or world.linked(h, p):
                continue
            if _alternative(world, h, p):
                yield Step(
                    f"{name(h)} has not reached {name(p)} for three heartbeat intervals, and takes the message over",
                    changed(
                        message,
                        custody,
                        custody._replace(held=put(custody.held, h, Held.TAKEN)),
                        Custody(h, Copy.QUEUED, nothing_held(world.scope)),
                    ),
                    "heartbeat intervals pass",
                )


@rule("SR-E10-08", "SR-E10-07", generations=HUB)
def tell_failed_primary(world: World, message: Message) -> Iterator[Step]:
    """A failed primary that is back hears what was taken over from it and handed on, and may drop that (rulings 19 and 36).

    Discard status is about delivered messages (SR-E10-07): a holder that still has the message itself says nothing. If it did,
    the loss of its disk alone would lose the message.
    """
    for custody in distinct(message):
        p = custody.primary
        for h in world.others(p):
            handed_on = not any(c.primary == h and c.copy in WAITING_COPIES for c in message.custodies)
            if custody.held[h] == Held.TAKEN and world.linked(h, p) and handed_on:
                dropped = Copy.GONE if custody.copy == Copy.QUEUED else custody.copy
                yield Step(
                    f"{name(p)} hears that {name(h)} took the message over, and drops it",
                    changed(message, custody, custody._replace(copy=dropped, held=put(custody.held, h, Held.NONE))),
                )


@rule("SR-E10-21", "SR-E10-20", generations=HUB)
def resubmit_for_new_database(world: World, message: Message) -> Iterator[Step]:
    """A holder that finds a new queue database at the primary sends its shadow again."""
    for custody in distinct(message):
        for h in world.others(custody.primary):
            if custody.held[h] == Held.ORPHANED and world.linked(h, custody.primary):
                yield Step(
                    f"{name(h)} finds a new database at {name(custody.primary)}, and queues the message again",
                    changed(
                        message,
                        custody,
                        custody._replace(held=put(custody.held, h, Held.NONE)),
                        Custody(h, Copy.QUEUED, nothing_held(world.scope)),
                    ),
                )


@rule("SR-E10-12", generations=HUB)
def routeless_shadow_expires(world: World, message: Message) -> Iterator[Step]:
    """A shadow that has no alternative route while its primary is away is removed in the end."""
    for custody in distinct(message):
        p = custody.primary
        for h in world.others(p):
            away = world.up[h] and not world.linked(h, p)
            if custody.held[h] in SHADOWS and away and not _alternative(world, h, p):
                yield Step(
                    f"{name(h)} has no other route for so long that the shadow copy expires",
                    changed(message, custody, custody._replace(held=put(custody.held, h, Held.NONE))),
                    "a shadow copy expires",
                )
