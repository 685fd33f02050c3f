"""Rules of Exchange 2010: the sender of a hop keeps the shadow of what it has handed on.

A rule gets the `World` (scope, running servers) and one `Message`, and yields each `Step` that it permits, with the message
afterwards, the *cause* (what went wrong or which long interval passed, '' for nothing) and the kind of fault that it uses up. A
`Custody` is one server's responsibility for the message: `copy` is what that server, the *primary* `p`, has of it; `held` is, by
number of the server, what each other server `h` holds of it as its *shadow server* or *holder*. Two servers are *linked* when
both run and the network is not cut.

Of the values in `held`, HELD is a shadow that the primary knows of, ORPHANED one whose primary has a new queue database; TAKEN
means that the shadow was taken over, and that its holder will notify the failed primary (SR-E10-08). SHADOWS are all values with
which there is a shadow. Of `copy`, RECEIVED is a message whose sender waits for the reply, HANDED_ON one that the next hop has
too, QUEUED one on disk after the reply, GONE nothing.
"""

from collections.abc import Iterator

from conformance.model.exploration.mailbox_rules import steps_after_250
from conformance.model.exploration.rules import (
    Step,
    World,
    custodies_after_handing_on,
    distinct_custodies,
    letter,
    nothing_held,
    rule,
    with_custody_replaced,
    with_held_by,
)
from conformance.model.exploration.state import SHADOWS, WAITING_COPIES, Copy, Custody, Held, Message

HUB = ("ex2010",)


@rule("SR-E10-03", "SR-E10-04", "SR-E10-01", generations=HUB)
def hand_on(world: World, message: Message) -> Iterator[Step]:
    """Yield the transmissions of servers to their next hops, each with the acknowledgement read or lost.

    The next hop acknowledges at once, and the server keeps its copy as a shadow for that hop. If the acknowledgement is lost, the
    next hop has the message, and the server still has it too, and transmits it again.
    """
    for custody in distinct_custodies(message):
        if custody.copy not in (Copy.RECEIVED, Copy.QUEUED):
            continue
        p = custody.primary
        for hop in world.scope.next_hops[p]:
            if not world.linked(p, hop):
                continue
            tracked = Custody(primary=hop, copy=Copy.QUEUED, held=with_held_by(nothing_held(world.scope), p, Held.HELD))
            for done in custodies_after_handing_on(world, custody):
                yield Step(
                    f"{letter(p)} hands the message on to {letter(hop)}, and keeps a shadow",
                    with_custody_replaced(message, custody, done, tracked),
                )
            yield Step(
                f"{letter(p)} hands the message on to {letter(hop)}, but the reply is lost",
                with_custody_replaced(
                    message, custody, custody, Custody(primary=hop, copy=Copy.QUEUED, held=nothing_held(world.scope))
                ),
                cause="lost reply of a next hop",
                cost="replies",
            )


@rule("SR-E10-15", "SR-E10-17", generations=HUB)
def release_acknowledgement(world: World, message: Message) -> Iterator[Step]:
    """Yield the ends of withheld acknowledgements once the next hop has the message.

    The sender reads 250, or the reply is lost.
    """
    for custody in distinct_custodies(message):
        if custody.copy == Copy.HANDED_ON:
            after = with_custody_replaced(message, custody, custody._replace(copy=Copy.GONE))
            yield from steps_after_250(after, f"{letter(custody.primary)} answers 250")


@rule("SR-E10-16", generations=HUB)
def acknowledgement_delay_passes(world: World, message: Message) -> Iterator[Step]:
    """Yield the acknowledgements that are sent after MaxAcknowledgementDelay although the next hop does not have the message.

    The sender reads 250, or the reply is lost; then the lost reply is the cause.
    """
    for custody in distinct_custodies(message):
        if custody.copy == Copy.RECEIVED:
            after = with_custody_replaced(message, custody, custody._replace(copy=Copy.QUEUED))
            text = f"MaxAcknowledgementDelay passes, and {letter(custody.primary)} answers 250 before it has handed the message on"
            for step in steps_after_250(after, text):
                yield step._replace(cause=step.cause or "MaxAcknowledgementDelay passes")


def _has_alternative_hop(world: World, holder: int, primary: int) -> bool:
    """Return whether the holder has another next hop than `primary`, up or not (ruling 35)."""
    return any(hop != primary for hop in world.scope.next_hops[holder])


@rule("SR-E10-08", "SR-E10-10", "SR-E10-11", generations=HUB)
def take_over(world: World, message: Message) -> Iterator[Step]:
    """Yield the takeovers of shadows by holders that have not reached the primary for ShadowHeartbeatRetryCount intervals.

    Only a holder that runs and has an alternative route takes its shadow over. The message is queued there, without a shadow.
    """
    for custody in distinct_custodies(message):
        p = custody.primary
        for h in world.others(p):
            if custody.held[h] not in SHADOWS or not world.up[h] or world.linked(h, p):
                continue
            if _has_alternative_hop(world, h, p):
                yield Step(
                    f"{letter(h)} has not reached {letter(p)} for three heartbeat intervals, and takes the message over",
                    with_custody_replaced(
                        message,
                        custody,
                        custody._replace(held=with_held_by(custody.held, h, Held.TAKEN)),
                        Custody(primary=h, copy=Copy.QUEUED, held=nothing_held(world.scope)),
                    ),
                    cause="heartbeat intervals pass",
                )


@rule("SR-E10-08", "SR-E10-07", generations=HUB)
def tell_failed_primary(world: World, message: Message) -> Iterator[Step]:
    """Yield the notifications to a failed primary that is back, about what was taken over from it and handed on.

    The primary drops the message if it has it queued; rulings 19 and 36 permit that. Discard status is about delivered messages
    (SR-E10-07): a holder that still has the message itself says nothing. If it did, the loss of its disk alone would lose the
    message.
    """
    for custody in distinct_custodies(message):
        p = custody.primary
        for h in world.others(p):
            handed_on = not any(c.primary == h and c.copy in WAITING_COPIES for c in message.custodies)
            if custody.held[h] == Held.TAKEN and world.linked(h, p) and handed_on:
                dropped = Copy.GONE if custody.copy == Copy.QUEUED else custody.copy
                yield Step(
                    f"{letter(p)} hears that {letter(h)} took the message over, and drops it",
                    with_custody_replaced(
                        message, custody, custody._replace(copy=dropped, held=with_held_by(custody.held, h, Held.NONE))
                    ),
                )


@rule("SR-E10-21", "SR-E10-20", generations=HUB)
def resubmit_for_new_database(world: World, message: Message) -> Iterator[Step]:
    """Yield the resubmissions by holders that find a new queue database at the primary: they queue the message again."""
    for custody in distinct_custodies(message):
        for h in world.others(custody.primary):
            if custody.held[h] == Held.ORPHANED and world.linked(h, custody.primary):
                yield Step(
                    f"{letter(h)} finds a new database at {letter(custody.primary)}, and queues the message again",
                    with_custody_replaced(
                        message,
                        custody,
                        custody._replace(held=with_held_by(custody.held, h, Held.NONE)),
                        Custody(primary=h, copy=Copy.QUEUED, held=nothing_held(world.scope)),
                    ),
                )


@rule("SR-E10-12", generations=HUB)
def routeless_shadow_expires(world: World, message: Message) -> Iterator[Step]:
    """Yield the expiry of shadows whose holder runs, cannot reach the primary and has no alternative route."""
    for custody in distinct_custodies(message):
        p = custody.primary
        for h in world.others(p):
            away = world.up[h] and not world.linked(h, p)
            if custody.held[h] in SHADOWS and away and not _has_alternative_hop(world, h, p):
                yield Step(
                    f"{letter(h)} has no other route for so long that the shadow copy expires",
                    with_custody_replaced(
                        message, custody, custody._replace(held=with_held_by(custody.held, h, Held.NONE))
                    ),
                    cause="a shadow copy expires",
                )
