"""Steps that act on nodes: kill, stop, start, wipe, pause, resume; configuration and administration."""

from conformance.history.events import CommandRun, Configured
from conformance.nodes.contract import ConfigurationRefused, NodeError, Unsupported
from conformance.run.steps.breaking import cut_power
from conformance.run.steps.handlers import handles
from conformance.run.world import World
from conformance.scenarios.steps.nodes import (
    Activate,
    Configure,
    Inspect,
    Kill,
    NodeAction,
    Pause,
    PowerCut,
    Redirect,
    Resubmit,
    Resume,
    Start,
    Stop,
    Wipe,
)


@handles(Kill, PowerCut, Stop, Start, Wipe, Pause, Resume)
async def node_action(world: World, action: NodeAction) -> str:
    """Do it to each node now, or (with `at`) when the moment comes."""
    if action.at is not None:
        world.at_moment(action.at, lambda: do_to_nodes(world, action), action.occasion)
        return "armed"
    await do_to_nodes(world, action)
    return ""


async def do_to_nodes(world: World, action: NodeAction) -> None:
    """Do a node action to each of its nodes, in the order named."""
    for name in world.named_servers(action.node):
        supervisor = world.supervisors[name]
        async with supervisor.busy:
            match action:
                case Kill():
                    await supervisor.kill()
                case PowerCut():
                    await cut_power(world, name, action.keeps)
                case Stop():
                    await supervisor.stop()
                case Start():
                    await supervisor.start()
                case Wipe():
                    await supervisor.wipe()
                case Pause():
                    await supervisor.pause()
                case Resume():
                    await supervisor.resume()
                case _:
                    raise TypeError(f"{type(action).__name__} is no action on nodes")


@handles(Configure)
async def configure(world: World, action: Configure) -> str:
    """Offer changed parameters; a refusal is recorded, and is for the scenario to expect or not."""
    for name in world.named_servers(action.node):
        supervisor = world.supervisors[name]
        changes = {**action.transport, **{f"listeners.{door}": dict(to) for door, to in action.listeners.items()}}
        refused = None
        try:
            async with supervisor.busy:
                await supervisor.reconfigure(
                    action.transport, {door: dict(to) for door, to in action.listeners.items()}, action.unknown
                )
        except ConfigurationRefused as error:
            refused = error.reason
        world.recorder.record(Configured, node=name, changes={**changes, **action.unknown}, refused=refused)
    return ""


@handles(Activate)
async def activate(world: World, action: Activate) -> str:
    """Make a mailbox database active elsewhere; every server that runs reads its file again."""
    world.active_databases[action.database] = action.on
    for supervisor in world.supervisors.values():
        async with supervisor.busy:
            if supervisor.up:
                await supervisor.reconfigure({}, {}, {})
    return f"{action.database} is active on {action.on}"


@handles(Redirect)
async def redirect(world: World, action: Redirect) -> str:
    """Redirect-Message: drain the active queues of a server to another."""
    await _command(world, action.sender, "redirect-messages", action.to)
    return ""


@handles(Resubmit)
async def resubmit(world: World, action: Resubmit) -> str:
    """Ask Safety Net to send again what it holds for a mailbox database."""
    await _command(world, action.on, "resubmit", action.database)
    return ""


@handles(Inspect)
async def inspect(world: World, action: Inspect) -> str:
    """Have the nodes print their queues into the history."""
    for name in world.named_servers(action.node):
        await world.supervisors[name].inspect()
    return ""


async def _command(world: World, node: str, command: str, *arguments: str) -> None:
    failed = None
    try:
        await world.supervisors[node].node.command(command, arguments)
    except Unsupported:
        raise
    except NodeError as error:
        failed = error.reason
    world.recorder.record(CommandRun, node=node, command=command, arguments=arguments, failed=failed)
