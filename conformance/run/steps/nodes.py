"""Steps that act on nodes: kill, stop, start, wipe, pause, resume; configuration and administration.

A handler returns the detail that is recorded with the end of its step, or "". The runner of steps calls it, with the world
of the cell and the step's model. Each supervisor controls one node; its `lock` is held while the node's state changes.
"""

from functools import partial

from conformance.history.events import CommandRun, Configured
from conformance.nodes.configuration import spelled
from conformance.nodes.contract import ConfigurationRefused, NodeError, Unsupported
from conformance.run.configuration_changes import ConfigurationChanges
from conformance.run.steps.breaking import cut_power
from conformance.run.steps.handlers import handles
from conformance.run.world import World
from conformance.scenarios.steps.nodes import (
    Activate,
    Configure,
    Inspect,
    Kill,
    KillOne,
    NodeAction,
    Pause,
    PowerCut,
    Redirect,
    Resubmit,
    Resume,
    Start,
    StartAnother,
    Stop,
    Wipe,
)
from conformance.topology import SiteLink


@handles(Kill, KillOne, PowerCut, Stop, Start, StartAnother, Wipe, Pause, Resume)
async def act_on_nodes(world: World, action: NodeAction) -> str:
    """Act on each of the nodes now, or with `at` when that moment of the protocol comes, which is once at most.

    With `at` the step ends at once with the detail `armed`, and the action is done while later steps run. `occasion` is the
    moment's name in the history. Raises NodeError if a node does not do its part or is in a wrong state; for an action at a
    moment the world of the cell raises it when the cell ends.
    """
    if action.at is not None:
        world.links.run_at_moment(action.at, lambda: _act_at_moment(world, action), name=action.occasion)
        return "armed"
    return await _act_now(world, action)


async def _act_at_moment(world: World, action: NodeAction) -> None:
    """Act on the nodes. The step has ended before, so its detail is not recorded. Raises NodeError."""
    await _act_now(world, action)


async def _act_now(world: World, action: NodeAction) -> str:
    """Act on each of the nodes, one after another as the step names them; return the detail of the step.

    The detail says what runs after `kill-one` and `start-another`, and is "" after all others. Raises NodeError; then the nodes
    after the one that failed are left as they are.
    """
    details: list[str] = []
    for name in world.server_names(action.node):
        supervisor = world.supervisors[name]
        async with supervisor.lock:
            match action:
                case Kill():
                    await supervisor.kill()
                case KillOne():
                    details.append(await supervisor.kill_one())
                case StartAnother():
                    make, dial = partial(world.make_another, name), partial(world.dial_process, name)
                    details.append(await supervisor.start_another(make, dial))
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
    return ", ".join(details)


@handles(Configure)
async def configure(world: World, action: Configure) -> str:
    """Offer nodes a changed configuration, and record for each whether it accepted that.

    A refusal is recorded and raises nothing: a scenario may expect it. A node that is down reads the changes when it starts: they
    are recorded then, by its supervisor, and the detail of the step names the node. Raises NodeError if a node fails to reload in
    another way.
    """
    details: list[str] = []
    changes = _changes_of(action)
    for name in world.server_names(action.node):
        supervisor = world.supervisors[name]
        is_read, refused = True, None
        try:
            async with supervisor.lock:
                is_read = await supervisor.reconfigure(changes)
        except ConfigurationRefused as error:
            refused = error.reason
        if is_read:
            world.recorder.record(Configured, node=name, changes=changes.recorded(), refused=refused)
        else:
            details.append(f"{name} reads it when it starts")
    return ", ".join(details)


def _changes_of(action: Configure) -> ConfigurationChanges:
    """Return the changes that a step makes in the configuration of each of its nodes."""
    links = action.site_links
    return ConfigurationChanges(
        transport=action.transport,
        listeners={str(name): settings for name, settings in action.listeners.items()},
        peers={right.peer: right.model_dump(exclude={"peer"}, exclude_none=True) for right in action.rights},
        site_links=None if links is None else tuple(SiteLink(between=one.between, cost=one.cost) for one in links),
        hub_sites=action.hub_sites,
        unknown=action.unknown,
    )


@handles(Activate)
async def activate(world: World, action: Activate) -> str:
    """Make mailbox databases active on another server in one change; every running node reloads its configuration once.

    `reconfigure` without changes makes the configuration anew, with the databases where they are active now. A node that is not
    running gets that when it starts. Raises NodeError (ConfigurationRefused when a node refuses that); later nodes are left out.
    """
    world.active_databases.update(dict.fromkeys(action.database, action.on))
    for supervisor in world.supervisors.values():
        async with supervisor.lock:
            if supervisor.is_running:
                await supervisor.reconfigure(ConfigurationChanges())  # renders `active_databases` anew
    return "; ".join(f"{database} is active on {action.on}" for database in action.database)


@handles(Redirect)
async def redirect(world: World, action: Redirect) -> str:
    """Move the active queues of a server to another (the documents' Redirect-Message), by a command of its node.

    A failure of the command is recorded and raises nothing. Raises Unsupported if the node has no such command.
    """
    await _run_command(world, action.sender, "redirect-messages", spelled(world.topology, action.to))
    return ""


@handles(Resubmit)
async def resubmit(world: World, action: Resubmit) -> str:
    """Have the Safety Net of a server send again what it holds for a mailbox database, by a command of its node.

    A failure of the command is recorded and raises nothing. Raises Unsupported if the node has no such command.
    """
    await _run_command(world, action.on, "resubmit", action.database)
    return ""


@handles(Inspect)
async def inspect(world: World, action: Inspect) -> str:
    """Run the command `inspect` of nodes, and record the queues that it prints. Raises NodeError when it fails."""
    for name in world.server_names(action.node):
        await world.supervisors[name].inspect()
    return ""


async def _run_command(world: World, node: str, command: str, *arguments: str) -> None:
    """Run a command of a node, wait for its end, and record it, with the reason if it failed, which raises nothing.

    What it printed is dropped. Raises Unsupported if the node has no such command: then nothing is recorded.
    """
    failed = None
    try:
        await world.supervisors[node].node.command(command, arguments)
    except Unsupported:
        raise
    except NodeError as error:
        failed = error.reason
    world.recorder.record(CommandRun, node=node, command=command, arguments=arguments, failed=failed)
