"""The end of every scenario: heal everything, let the transport do its work, then stop. Bounded, and recorded."""

import asyncio
from collections import Counter
from collections.abc import Sequence

from conformance.history.events import AnyEvent, Attempt, Command, Delivered, Drained, Lag, MessageMade
from conformance.run.world import World

_GRACE = 2.5
"""Heartbeats to wait after the last message arrived: whoever wants to deliver twice or to discard has the time to do
it."""


async def drain(world: World) -> None:
    """Heal all, thaw and start what is down, and wait until every accepted message is accounted for.

    Then wait a few heartbeats more. Records `Drained`; what is missing is for the judge to say.
    """
    world.heal_all()
    for keeper in world.keepers.values():
        if keeper.frozen:
            await keeper.resume()
        if not keeper.up and keeper.node.failure is None:
            await keeper.start()
    began = world.clock.elapsed()
    until = began + world.cell.drain
    quiet = await _wait(world, until)
    if quiet:
        await world.clock.sleep(_GRACE * world.heartbeat)
        quiet = not unaccounted(world.recorder.events)
    for keeper in world.keepers.values():
        keeper.note_failure()
    missing = ", ".join(sorted(unaccounted(world.recorder.events)))
    waited = round(world.clock.elapsed() - began, 6)
    world.recorder.record(
        Drained, quiet=quiet, waited=waited, detail=f"not accounted for: {missing}" if missing else ""
    )
    world.recorder.record(Lag, seconds=world.clock.lag())


def unaccounted(events: Sequence[AnyEvent]) -> set[str]:
    """Return `message to recipient` for what was acknowledged and has neither arrived nor been reported.

    Only to know how long to wait: the judge has its own rule.
    """
    arrived = Counter((e.digest.body_sha256, e.recipient.lower()) for e in events if isinstance(e, Delivered))
    reported = {e.digest.about for e in events if isinstance(e, Delivered) and e.digest.report == "delivery-status"}
    made = {e.message: e for e in events if isinstance(e, MessageMade)}
    accepted = {
        (attempt.message, recipient)
        for attempt in events
        if isinstance(attempt, Attempt) and attempt.code is not None and attempt.code // 100 == 2 and attempt.dot_sent
        for recipient in attempt.accepted
    }
    return {
        f"{message} to {recipient}"
        for message, recipient in accepted
        if not arrived[made[message].digest.body_sha256, recipient.lower()] and made[message].message_id not in reported
    }


async def _wait(world: World, until: float) -> bool:
    """Wait until nothing is sent any more and all is accounted for; return whether that came before `until`."""
    news = asyncio.Event()

    def look(event: AnyEvent) -> None:
        if not isinstance(event, Command):
            news.set()

    forget = world.recorder.subscribe(look)
    try:
        while world.outbox.sending or unaccounted(world.recorder.events):
            left = until - world.clock.elapsed()
            if left <= 0:
                return False
            news.clear()
            try:
                async with asyncio.timeout(world.clock.duration(left)):
                    await news.wait()
            except TimeoutError:
                return False
        return True
    finally:
        forget()
