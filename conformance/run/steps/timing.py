"""Steps that let time pass, and wait for what goes on in the background.

A handler returns the detail that is recorded with the end of its step, here always "".
"""

from conformance.run.steps.handlers import handles
from conformance.run.world import World
from conformance.scenarios.steps.timing import Advance, Await


@handles(Advance)
async def advance(world: World, action: Advance) -> str:
    """Wait for the documented seconds of the step, by the clock of the cell."""
    await world.clock.sleep(action.by)
    return ""


@handles(Await)
async def await_sends(world: World, action: Await) -> str:
    """Wait until the background sends of the named step or conversation have ended. Raises what the first that failed raised."""
    await world.outbox.wait_for_sends(action.of)
    return ""
