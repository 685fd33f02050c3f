"""Rules of Exchange 2013 and later: the receiver makes the shadow before it acknowledges.

A rule gets the `World` (scope, running servers) and one `Message`, and yields each `Step` that it permits, with the message
afterwards, the *cause* (what went wrong or which long interval passed, '' for nothing) and the kind of fault that it uses up. A
`Custody` is one server's responsibility for the message: `copy` is what that server, the *primary* `p`, has of it; `held` is, by
number of the server, what each other server `h` holds of it as its *shadow server*. Two servers are *linked* when both run and
the network is not cut.

Of the values in `held`, HELD is a shadow that the primary knows of, UNNOTED one of which it has no note, DISCARDABLE one whose
discard notification waits at the primary, ORPHANED one whose primary has a new queue database; REFUSED means that the server
refused the copy while the sender waits, RELEASED that it keeps it in its Safety Net. SHADOWS are all values with which there is a
shadow. Of `copy`, RECEIVED is a message whose sender waits for the reply, QUEUED one on disk, ALONE one on disk that was taken
over and has no shadow yet, NET one in Safety Net, GONE nothing.
"""

from collections.abc import Iterator

from conformance.model.exploration.rules import (
    Step,
    World,
    distinct_custodies,
    letter,
    nothing_held,
    rule,
    with_custody_replaced,
    with_entries_replaced,
    with_held_by,
)
from conformance.model.exploration.state import SHADOWS, Copy, Custody, Held, Message, Sender, after_lost_session

MAILBOX = ("ex2013",)


def _queued_after_session(custody: Custody) -> Custody:
    """Return a custody after the sender's session: queued, without the notes about refusals."""
    return custody._replace(copy=Copy.QUEUED, held=with_entries_replaced(custody.held, REFUSED=Held.NONE))


def _have_all_attempts_failed(world: World, custody: Custody) -> bool:
    """Return whether each other server is not linked to the primary, has refused, or its reply was lost (SR-PRF-07)."""
    return all(
        not world.linked(custody.primary, other) or custody.held[other] in (Held.UNNOTED, Held.REFUSED)
        for other in world.others(custody.primary)
    )


@rule("SR-CRE-01", "SR-CRE-04", "SR-CRE-09", generations=MAILBOX)
def make_shadow(world: World, message: Message) -> Iterator[Step]:
    """Yield the attempts at a shadow before the primary answers: another server stores a copy, refuses it, or its reply is lost.

    Only while no shadow is stored that the primary knows of, and once for each other server that is linked.
    """
    for custody in distinct_custodies(message):
        if custody.copy != Copy.RECEIVED or Held.HELD in custody.held:
            continue
        p = custody.primary
        for h in world.others(p):
            if not world.linked(p, h) or custody.held[h] != Held.NONE:
                continue

            def after(held: Held, custody: Custody = custody, h: int = h) -> Message:
                """Return the message after server `h` holds `held` of the custody."""
                return with_custody_replaced(
                    message, custody, custody._replace(held=with_held_by(custody.held, h, held))
                )

            asks = f"{letter(p)} asks {letter(h)} for a shadow copy"
            yield Step(f"{asks}, and {letter(h)} stores it", after(Held.HELD))
            yield Step(
                f"{asks}, and {letter(h)} stores it, but its reply is lost",
                after(Held.UNNOTED),
                cause="lost reply of a shadow server",
                cost="replies",
            )
            yield Step(
                f"{asks}, and {letter(h)} refuses it", after(Held.REFUSED), cause="refused shadow copy", cost="refusals"
            )


@rule("SR-CRE-01", "SR-CRE-05", "SR-TMO-03", generations=MAILBOX)
def acknowledge(world: World, message: Message) -> Iterator[Step]:
    """Yield the acknowledgements of messages whose shadow is stored.

    The sender reads 250, or the reply is lost and the sender keeps the message.
    """
    for custody in distinct_custodies(message):
        if custody.copy == Copy.RECEIVED and Held.HELD in custody.held:
            yield from steps_after_250(
                with_custody_replaced(message, custody, _queued_after_session(custody)),
                f"{letter(custody.primary)} answers 250",
            )


@rule("SR-ENA-03", "SR-TMO-01", "SR-PRF-07", "SR-BND-08", generations=MAILBOX)
def accept_without_shadow(world: World, message: Message) -> Iterator[Step]:
    """Yield the acknowledgements without a shadow, where every attempt has failed and RejectMessageOnShadowFailure is false.

    The sender reads 250, or the reply is lost and the sender keeps the message.
    """
    for custody in distinct_custodies(message):
        if custody.copy != Copy.RECEIVED or Held.HELD in custody.held or not _have_all_attempts_failed(world, custody):
            continue
        if not world.scope.mandatory:
            yield from steps_after_250(
                with_custody_replaced(message, custody, _queued_after_session(custody)),
                f"{letter(custody.primary)} answers 250 without a shadow",
            )


@rule("SR-ENA-04", "SR-TMO-02", "SR-PRF-07", "SR-BND-08", generations=MAILBOX)
def reject_without_shadow(world: World, message: Message) -> Iterator[Step]:
    """Yield the rejections with 451 where every attempt has failed and RejectMessageOnShadowFailure is true.

    The sender keeps the message, and may send it again as if it had not sent it.
    """
    for custody in distinct_custodies(message):
        if custody.copy != Copy.RECEIVED or Held.HELD in custody.held or not _have_all_attempts_failed(world, custody):
            continue
        if world.scope.mandatory:
            gone = _queued_after_session(custody)._replace(copy=Copy.GONE)
            yield Step(
                f"{letter(custody.primary)} answers 451 4.4.0",
                with_custody_replaced(message, custody, gone)._replace(sender=Sender(message.sender - 1)),
            )


def steps_after_250(after: Message, text: str) -> Iterator[Step]:
    """Yield the two ends of a session with 250: the sender reads it, or the reply is lost and the sender keeps the message.

    `after` is the message as the server has it then, `text` the begin of the steps' sentence. Not a rule, but what several rules
    yield.
    """
    yield Step(text, after._replace(sender=Sender.ANSWERED))
    yield Step(
        f"{text}, but the sender does not see it",
        after_lost_session(after),
        cause="lost reply to the sender",
        cost="replies",
    )


@rule("SR-MNT-09", "SR-OUT-03", generations=MAILBOX)
def promote_after_interval(world: World, message: Message) -> Iterator[Step]:
    """Yield the promotions of shadows whose holder runs and could not reach the primary for ShadowResubmitTimeSpan."""
    for custody in distinct_custodies(message):
        for h in world.others(custody.primary):
            if custody.held[h] in SHADOWS and world.up[h] and not world.linked(h, custody.primary):
                yield Step(
                    f"{letter(h)} has not reached {letter(custody.primary)} for ShadowResubmitTimeSpan, and takes the message over",
                    after_promotion(world, message, custody, h),
                    cause="ShadowResubmitTimeSpan passes",
                )


@rule("SR-MNT-11", "SR-OUT-01", generations=MAILBOX)
def promote_for_new_database(world: World, message: Message) -> Iterator[Step]:
    """Yield the promotions of shadows whose holder finds a new queue database at the primary."""
    for custody in distinct_custodies(message):
        for h in world.others(custody.primary):
            if custody.held[h] == Held.ORPHANED and world.linked(h, custody.primary):
                yield Step(
                    f"{letter(h)} finds a new database at {letter(custody.primary)}, and takes the message over",
                    after_promotion(world, message, custody, h),
                )


def after_promotion(world: World, message: Message, custody: Custody, holder: int) -> Message:
    """Return the message after `holder` has become the primary of what it held, a shadow or a copy in its Safety Net.

    Its new custody is ALONE; in the old one it holds NONE.
    """
    return with_custody_replaced(
        message,
        custody,
        custody._replace(held=with_held_by(custody.held, holder, Held.NONE)),
        Custody(primary=holder, copy=Copy.ALONE, held=nothing_held(world.scope)),
    )


@rule("SR-BND-03", generations=MAILBOX)
def make_redundant_again(world: World, message: Message) -> Iterator[Step]:
    """Yield the attempts at a new shadow for what was taken over or resubmitted: it is stored, and the reply read or lost.

    With a lost reply the message still has no shadow that counts. Its delivery does not wait for that (ruling 24).
    """
    for custody in distinct_custodies(message):
        if custody.copy != Copy.ALONE:
            continue
        p = custody.primary
        for h in world.others(p):
            if not world.linked(p, h) or custody.held[h] != Held.NONE:
                continue
            asks = f"{letter(p)} asks {letter(h)} for a shadow copy of what it took over"
            yield Step(
                f"{asks}, and {letter(h)} stores it",
                with_custody_replaced(
                    message, custody, custody._replace(copy=Copy.QUEUED, held=with_held_by(custody.held, h, Held.HELD))
                ),
            )
            yield Step(
                f"{asks}, and {letter(h)} stores it, but its reply is lost",
                with_custody_replaced(
                    message, custody, custody._replace(held=with_held_by(custody.held, h, Held.UNNOTED))
                ),
                cause="lost reply of a shadow server",
                cost="replies",
            )


@rule("SR-MNT-12", generations=MAILBOX)
def delete_discard_notification(world: World, message: Message) -> Iterator[Step]:
    """Yield the deletions of notifications for which the shadow server has not asked for ShadowMessageAutoDiscardInterval.

    Only where the primary runs and is not linked to it. The shadow server keeps its copy, unnoted.
    """
    for custody in distinct_custodies(message):
        p = custody.primary
        for h in world.others(p):
            if custody.held[h] == Held.DISCARDABLE and world.up[p] and not world.linked(p, h):
                yield Step(
                    f"{letter(h)} has not asked for ShadowMessageAutoDiscardInterval, and {letter(p)} deletes the notification",
                    with_custody_replaced(
                        message, custody, custody._replace(held=with_held_by(custody.held, h, Held.UNNOTED))
                    ),
                    cause="ShadowMessageAutoDiscardInterval passes",
                )


@rule("SR-SFN-02", "SR-SFN-03", generations=MAILBOX)
def safety_net_expires(world: World, message: Message) -> Iterator[Step]:
    """Yield the removals of a processed message from the Safety Net of a server that runs, after SafetyNetHoldTime."""
    for custody in distinct_custodies(message):
        if custody.copy == Copy.NET and world.up[custody.primary]:
            yield Step(
                f"SafetyNetHoldTime passes, and {letter(custody.primary)} drops the message from its Safety Net",
                with_custody_replaced(message, custody, custody._replace(copy=Copy.GONE)),
                cause="SafetyNetHoldTime passes",
            )
        for h in world.others(custody.primary):
            if custody.held[h] == Held.RELEASED and world.up[h]:
                yield Step(
                    f"SafetyNetHoldTime passes, and {letter(h)} drops the message from its Safety Net",
                    with_custody_replaced(
                        message, custody, custody._replace(held=with_held_by(custody.held, h, Held.NONE))
                    ),
                    cause="SafetyNetHoldTime passes",
                )


@rule("SR-SFN-05", generations=MAILBOX)
def resubmit_from_safety_net(world: World, message: Message) -> Iterator[Step]:
    """Yield the resubmissions from Safety Net for a mailbox that has failed over.

    Those of primaries that run; only without any, those of shadow servers that run. Any one of these steps serves the request.
    """
    if not message.requested:
        return
    asked = message._replace(requested=False)
    primaries = [c for c in distinct_custodies(message) if c.copy == Copy.NET and world.up[c.primary]]
    for custody in primaries:
        yield Step(
            f"{letter(custody.primary)} resubmits the message from its Safety Net",
            with_custody_replaced(asked, custody, custody._replace(copy=Copy.ALONE)),
        )
    if primaries:
        return
    for custody in distinct_custodies(message):
        for h in world.others(custody.primary):
            if custody.held[h] == Held.RELEASED and world.up[h]:
                yield Step(
                    f"{letter(h)} resubmits the message from its Safety Net", after_promotion(world, asked, custody, h)
                )
