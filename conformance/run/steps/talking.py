"""The step that holds one SMTP session, line by line."""

from conformance.run.world import World
from conformance.scenarios.steps import Talk
from conformance.wire.talk import converse


async def talk(world: World, action: Talk) -> str:
    """Say each line and read the replies that are to be read; what came is in the history."""
    address = world.links.address(action.party, action.to, action.listener)
    return await converse(world, address, action)
