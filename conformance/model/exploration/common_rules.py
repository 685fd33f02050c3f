"""Rules of every generation: submission, delivery, discard status, duplicate detection, failover of a mailbox.

A rule is a generator: it gets the `World` (scope, running servers) and one `Message`, and yields each `Step` that it permits, with the
state of the message afterwards; `search.py` calls it for every state. A `Custody` is one server's responsibility for the message (`copy`:
what that server has of it), with what each other server holds of it as a shadow (`held`, by number of the server). In the bodies `p` is
the primary, `h` a server that may hold a shadow. The last arguments of a `Step` are its *cause*, what went wrong or which long interval
passed, and the kind of fault that it uses up.

Of the values in `held`, UNNOTED is a shadow of which the primary has no note, so that no discard notification will come for it;
DISCARDABLE is one whose discard notification waits at the primary; RELEASED is in the shadow server's Safety Net; NONE is nothing. Of
`copy`, RECEIVED is a message whose sender waits for the reply, QUEUED one on disk, ALONE one on disk that was taken over and has no shadow
yet.
"""

from collections.abc import Iterator

from conformance.model.exploration.rules import (
    Step,
    World,
    after_acceptance,
    custodies_after_handing_on,
    distinct_custodies,
    letter,
    nothing_held,
    rule,
    with_custody_replaced,
    with_held_by,
)
from conformance.model.exploration.state import WAITING_COPIES, Copy, Custody, Held, Message, Sender, with_custodies


@rule("SR-CRE-03", "SR-ENA-05", "RL-ACK-03")
def submit(world: World, message: Message) -> Iterator[Step]:
    """A sender that has no answer yet sends the message, for the first time or again, to a server that runs."""
    if message.sender not in (Sender.KEEPS, Sender.KEEPS_AGAIN):
        return
    for server in world.scope.entries:
        if world.up[server]:
            received = Custody(primary=server, copy=Copy.RECEIVED, held=nothing_held(world.scope))
            yield Step(
                f"the sender sends the message to {letter(server)}",
                with_custodies(message, [*message.custodies, received])._replace(sender=Sender(message.sender + 1)),
            )


@rule("SR-MNT-01", "SR-CRE-08", "SR-SFN-01", "SR-E10-04", "SR-DUP-01")
def deliver(world: World, message: Message) -> Iterator[Step]:
    """A server delivers what is queued. If the destination's reply is lost, it delivers again (RFC 1047)."""
    for custody in distinct_custodies(message):
        p = custody.primary
        at_once = custody.copy == Copy.RECEIVED and world.scope.generation == "ex2010"
        last_hop = not world.scope.next_hops or not world.scope.next_hops[p]
        if not world.up[p] or not last_hop or not (at_once or custody.copy in (Copy.QUEUED, Copy.ALONE)):
            continue
        after = after_acceptance(world, message)
        text = f"{letter(p)} delivers the message"
        if after is message:
            text += ", which is dropped as a duplicate"
        for done in custodies_after_handing_on(world, custody):
            yield Step(text, with_custody_replaced(after, custody, done))
        yield Step(f"{text}, but the reply is lost", after, cause="lost reply of the destination", cost="replies")


@rule("SR-MNT-03", "SR-MNT-06", "SR-E10-07", "SR-WIR-05")
def ask_for_discard_status(world: World, message: Message) -> Iterator[Step]:
    """A shadow server asks, and releases what it may discard. A notification in a lost reply may be gone (SR-WIR-05 is a should)."""
    for custody in distinct_custodies(message):
        p = custody.primary
        for h in world.others(p):
            if custody.held[h] != Held.DISCARDABLE or not world.linked(h, p):
                continue
            released = Held.RELEASED if world.keeps_processed else Held.NONE
            yield Step(
                f"{letter(h)} asks {letter(p)}, and releases its shadow copy",
                with_custody_replaced(message, custody, custody._replace(held=with_held_by(custody.held, h, released))),
            )
            yield Step(
                f"{letter(h)} asks {letter(p)}, but the reply with the discard notification is lost",
                with_custody_replaced(
                    message, custody, custody._replace(held=with_held_by(custody.held, h, Held.UNNOTED))
                ),
                cause="lost reply with a discard notification",
                cost="replies",
            )


@rule("SR-SFN-03", "SR-MNT-15", "SR-E10-12")
def unnoted_shadow_expires(world: World, message: Message) -> Iterator[Step]:
    """A shadow copy that is never discarded expires. That takes days: an outage of its primary comes to an end before (SR-MNT-09),
    and so does the stay of the message in the primary's queue (SR-MNT-14)."""
    for custody in distinct_custodies(message):
        if custody.copy in WAITING_COPIES:
            continue
        for h in world.others(custody.primary):
            if custody.held[h] == Held.UNNOTED and world.linked(h, custody.primary):
                yield Step(
                    f"{letter(h)} never got a discard notification for its shadow copy, which expires",
                    with_custody_replaced(
                        message, custody, custody._replace(held=with_held_by(custody.held, h, Held.NONE))
                    ),
                    cause="a shadow copy expires",
                )


@rule("SR-DUP-03")
def duplicate_window_passes(world: World, message: Message) -> Iterator[Step]:
    """The delivered-to table forgets the message after the tracking window."""
    if message.tracked:
        yield Step(
            "the window of duplicate detection passes",
            message._replace(tracked=False),
            cause="the window of duplicate detection passes",
        )


@rule("SR-SFN-05", "SR-DUP-06")
def mailbox_fails_over(world: World, message: Message) -> Iterator[Step]:
    """A mailbox moves to another copy of its database, which may lack the last deliveries, and asks Safety Net to resubmit.

    The delivered-to table stays behind.
    """
    if world.destination != "mailbox" or message.arrived != 1:
        return
    moved = message._replace(tracked=False, requested=True)
    yield Step("the mailbox fails over", moved, cause="failover of the mailbox", cost="failovers")
    yield Step(
        "the mailbox fails over, and the copy of its database lacks the message",
        moved._replace(arrived=0),
        cause="failover of the mailbox that loses the message",
        cost="failovers",
    )
