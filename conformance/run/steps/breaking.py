"""Steps that break links, cut them, have sinks answer as told, and heal."""

from conformance.run.steps.breaking_disks import heal_disk, heal_disks
from conformance.run.steps.doing import does
from conformance.run.world import World
from conformance.scenarios.steps.breaking import Answer, Fault, Heal, Partition


@does(Fault)
async def fault(world: World, action: Fault) -> str:
    """Arm a fault."""
    world.links.arm(action)
    return "armed"


@does(Partition)
async def partition(world: World, action: Partition) -> str:
    """Cut every link between two groups."""
    world.links.partition(action)
    return "cut"


@does(Heal)
async def heal(world: World, action: Heal) -> str:
    """Take one fault or partition away, or all, and with all what sinks were told to answer."""
    if action.what == "all":
        world.heal_all()
        await heal_disks(world)
    elif action.what in world.disk_troubles:
        await heal_disk(world, world.disk_troubles[action.what])
    else:
        world.links.heal(action.what)
    return ""


@does(Answer)
async def answer(world: World, action: Answer) -> str:
    """Have a sink answer as told from now on."""
    world.sink(action.sink).answer(action)
    return ""
