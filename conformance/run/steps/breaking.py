"""Steps that break and heal links, script the answers of sinks, and make the disk under a server's data fail.

A handler returns the detail that is recorded with the end of its step, or "". The runner of steps calls it, with the world
of the cell and the step's model. A fault is *armed* when it begins to wait for its occasion, and has *fired* when it acted. A
*disk trouble* is in force from the `disk` step until it is healed by the step's name.
"""

from contextlib import suppress

from conformance.history.events import FaultArmed, FaultFired
from conformance.nodes.contract import CannotRestart
from conformance.run.steps.handlers import handles
from conformance.run.world import World
from conformance.scenarios.steps.breaking import Answer, Disk, Fault, Heal, Offer, Partition
from conformance.scenarios.steps.nodes import SurvivingNames


@handles(Fault)
async def fault(world: World, action: Fault) -> str:
    """Arm a fault on the links that the step selects, after healing one of the same name.

    Raises ValueError if there are no such links, or if the fault makes no sense.
    """
    world.links.arm(action)
    return "armed"


@handles(Partition)
async def partition(world: World, action: Partition) -> str:
    """Cut the links between two groups of parties, also for open sessions, after healing a cut of the same name.

    With `one-way` only links from the first group to the second are cut. Raises ValueError without such a link.
    """
    world.links.partition(action)
    return "cut"


@handles(Heal)
async def heal(world: World, action: Heal) -> str:
    """Heal the fault, partition or disk trouble of this name; with `all`, every one, and end the scripted answers of sinks.

    Raises ValueError if none has the name, and CannotRestart if a single disk trouble is healed and its server does not
    start again.
    """
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
    """Have a sink give the step's answer at its place from now on, `times` times (None: always); `accept` removes earlier ones.

    Raises KeyError for an unknown sink.
    """
    world.sink(action.sink).script_answer(action)
    return ""


@handles(Offer)
async def offer(world: World, action: Offer) -> str:
    """Set the keywords that a sink offers from the next EHLO on.

    Within TLS it offers the step's `within_tls`, or without that the same keywords except STARTTLS. Raises KeyError for an unknown
    sink.
    """
    sink, within_tls = world.sink(action.sink), action.within_tls
    sink.keywords = action.keywords
    sink.secured_keywords = (
        within_tls if within_tls is not None else tuple(k for k in action.keywords if k != "STARTTLS")
    )
    return ""


_POWER_CUT_DETAILS: dict[SurvivingNames, str] = {
    "what-file-systems-keep": "power cut: what it had not synced is gone",
    "what-posix-promises": "power cut: what it had not synced is gone, and so are names whose directory was not synced",
}


async def cut_power(world: World, server: str, keeps: SurvivingNames) -> None:
    """Kill a running server, then undo on its disk what was not synced; `keeps` says which file names survive.

    The caller holds the supervisor's lock. Raises NodeError.
    """
    await world.supervisors[server].kill(_POWER_CUT_DETAILS[keeps])
    await world.disks[server].cut_power(keeps)


@handles(Disk)
async def disk(world: World, action: Disk) -> str:
    """Make a server's disk full, read-only, slow or failing, until it is healed; if a test write proves that, record `fault-fired`.

    Only a disk that is full now (not from a later write on) or read-only is tested by a write of the harness. Each sync of a slow
    disk takes `action.lasting` longer, documented seconds. Raises ValueError when a trouble of this name, or of this kind on this
    server, is in force.
    """
    if action.name in world.disk_troubles:
        raise ValueError(f"the disk trouble {action.name!r} is in force already")
    for name, other in world.disk_troubles.items():
        if (other.node, other.trouble) == (action.node, action.trouble):
            raise ValueError(f"the disk of {action.node} is {action.trouble} already, by {name!r}")
    world.disk_troubles[action.name] = action
    _record_armed(world, action, healed=False)
    error = await world.disks[action.node].apply(action, world.clock.duration(action.lasting or 0))
    if error:
        _record_fired(world, action, f"a write failed: {error}")
    return "armed"


async def heal_disk(world: World, action: Disk) -> None:
    """End the trouble of a disk; record that, and before it `fault-fired` if the node has met the trouble.

    A running server is killed and started again if the disk has to be mounted again, as after read-only. Raises CannotRestart
    when it does not start again, KeyError when the trouble is not in force.
    """
    del world.disk_troubles[action.name]
    disk, supervisor = world.disks[action.node], world.supervisors[action.node]
    if faults := disk.faults_met(action):  # how often the node has met the trouble, in words
        _record_fired(world, action, faults)
    _record_armed(world, action, healed=True)
    async with supervisor.lock:
        restart = disk.needs_restart_to_heal(action) and supervisor.is_running
        if restart:
            await supervisor.kill("its disk is mounted anew")
        await disk.heal(action)
        if restart:
            await supervisor.start()


async def heal_disks(world: World) -> None:
    """End all troubles of disks; a server that has to be restarted for that and does not start is left stopped."""
    for action in tuple(world.disk_troubles.values()):
        with suppress(CannotRestart):  # it is recorded, and judged
            await heal_disk(world, action)


def _record_armed(world: World, action: Disk, *, healed: bool) -> None:
    """Record that a disk trouble has begun, or that it has ended (`healed`)."""
    world.recorder.record(
        FaultArmed, fault=action.name, action=f"disk-{action.trouble}", links=(f"{action.node} disk",), healed=healed
    )


def _record_fired(world: World, action: Disk, detail: str) -> None:
    """Record that a disk trouble has had an effect, which `detail` describes."""
    world.recorder.record(
        FaultFired,
        fault=action.name,
        action=f"disk-{action.trouble}",
        client=action.node,
        server=action.node,
        detail=detail,
    )
