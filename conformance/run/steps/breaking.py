"""Steps that break links, cut them, have sinks answer as told, and heal; and steps that break the disk under a
server's data: a power cut, and a disk that is full, read-only, slow or failing.
"""

from contextlib import suppress

from conformance.history.events import FaultArmed, FaultFired
from conformance.nodes.contract import CannotRestart
from conformance.run.steps.handlers import handles
from conformance.run.world import World
from conformance.scenarios.steps.breaking import Answer, Disk, Fault, Heal, Partition
from conformance.scenarios.steps.nodes import SurvivingNames


@handles(Fault)
async def fault(world: World, action: Fault) -> str:
    """Arm a fault."""
    world.links.arm(action)
    return "armed"


@handles(Partition)
async def partition(world: World, action: Partition) -> str:
    """Cut every link between two groups."""
    world.links.partition(action)
    return "cut"


@handles(Heal)
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


@handles(Answer)
async def answer(world: World, action: Answer) -> str:
    """Have a sink answer as told from now on."""
    world.sink(action.sink).script_answer(action)
    return ""


_WORDS: dict[SurvivingNames, str] = {
    "what-file-systems-keep": "power cut: what it had not synced is gone",
    "what-posix-promises": "power cut: what it had not synced is gone, and so are names whose directory was not synced",
}


async def cut_power(world: World, server: str, keeps: SurvivingNames) -> None:
    """Kill a server, and have its disk forget what was not synced."""
    await world.supervisors[server].kill(_WORDS[keeps])
    await world.disks[server].cut_power(keeps)


@handles(Disk)
async def disk(world: World, action: Disk) -> str:
    """Have a server's disk in trouble; full and read-only are proved by a write of the harness's own."""
    if action.name in world.disk_troubles:
        raise ValueError(f"the disk trouble {action.name!r} is in force already")
    world.disk_troubles[action.name] = action
    _note(world, action, healed=False)
    proof = await world.disks[action.node].apply(action, world.clock.duration(action.lasting or 0))
    if proof:
        _fired(world, action, f"a write failed: {proof}")
    return "armed"


async def heal_disk(world: World, action: Disk) -> None:
    """Have a disk well again; one that was read-only is mounted anew, which takes the server down."""
    del world.disk_troubles[action.name]
    disk, supervisor = world.disks[action.node], world.supervisors[action.node]
    if faults := disk.faults_met:
        _fired(world, action, faults)
    _note(world, action, healed=True)
    async with supervisor.busy:
        restart = disk.needs_restart and supervisor.up
        if restart:
            await supervisor.kill("its disk is mounted anew")
        await disk.heal()
        if restart:
            await supervisor.start()


async def heal_disks(world: World) -> None:
    """Have all disks well again."""
    for action in tuple(world.disk_troubles.values()):
        with suppress(CannotRestart):  # it is in the history, for the judge
            await heal_disk(world, action)


def _note(world: World, action: Disk, *, healed: bool) -> None:
    world.recorder.record(
        FaultArmed, fault=action.name, action=f"disk-{action.trouble}", links=(f"{action.node} disk",), healed=healed
    )


def _fired(world: World, action: Disk, detail: str) -> None:
    world.recorder.record(
        FaultFired,
        fault=action.name,
        action=f"disk-{action.trouble}",
        client=action.node,
        server=action.node,
        detail=detail,
    )
