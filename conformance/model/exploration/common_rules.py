"""Rules of every generation: submission, delivery, discard status, duplicate detection, failover of a mailbox.

A rule gets the `World` (scope, running servers) and one `Message`, and yields each `Step` that it permits, with the message
afterwards, the *cause* (what went wrong or which long interval passed, '' for nothing) and the kind of fault that it uses up. A
`Custody` is one server's responsibility for the message: `copy` is what that server, the *primary* `p`, has of it; `held` is, by
number of the server, what each other server `h` holds of it as its *shadow server*. Two servers are *linked* when both run and
the network is not cut.

Of the values in `held`, UNNOTED is a shadow of which the primary has no note, so that no discard notification will come for it;
DISCARDABLE is one whose discard notification waits at the primary; RELEASED is in the shadow server's Safety Net; NONE is
nothing. Of `copy`, RECEIVED is a message whose sender waits for the reply, QUEUED one on disk, ALONE one on disk that was taken
over and has no shadow yet.
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
    """Yield the transmissions by a sender that has no answer yet, to each server that runs and that it may submit to.

    The sender, which sends the message for the first or the second time, then waits for the reply.
    """
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
    """Yield the deliveries of what is queued by servers that run and are the last hop; by 2010 servers also before they answer.

    Each may end with its reply, or with the reply lost; then the server has the message still, and delivers it again (RFC 1047).
    """
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
    """Yield the questions of shadow servers for copies that they may discard, each with the reply read or lost.

    With the reply a shadow server releases its copy, into Safety Net where that matters. A notification in a lost reply may be
    gone (SR-WIR-05 is a should).
    """
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
    """Yield the expiry of shadow copies for which no discard notification will come.

    That takes days: an outage of the primary comes to an end before (SR-MNT-09), and so does the stay of the message in the
    primary's queue (SR-MNT-14). So the servers are linked, and the message no longer waits at the primary.
    """
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
    """Yield the step after which the delivered-to table of the mailbox has forgotten the message, if the table has it."""
    if message.tracked:
        yield Step(
            "the window of duplicate detection passes",
            message._replace(tracked=False),
            cause="the window of duplicate detection passes",
        )


@rule("SR-SFN-05", "SR-DUP-06")
def mailbox_fails_over(world: World, message: Message) -> Iterator[Step]:
    """Yield the failovers of a mailbox that has the message once: to a copy of its database that has it, or lacks it.

    The mailbox then asks Safety Net to resubmit. The delivered-to table stays behind.
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
