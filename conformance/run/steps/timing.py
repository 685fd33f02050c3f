"""Steps that let time pass, and wait for what goes on in the background."""

from conformance.run.world import World
from conformance.scenarios.steps.timing import Advance, Await


async def advance(world: World, action: Advance) -> str:
    """Let time pass, in documented seconds."""
    await world.clock.sleep(action.by)
    return ""


async def await_sends(world: World, action: Await) -> str:
    """Wait until the background sends of these messages have ended."""
    await world.outbox.wait(action.of)
    return ""
