"""The step that holds one SMTP session, line by line."""

import asyncio

from conformance.history.events import Lag, Talked
from conformance.history.values import TalkExchange
from conformance.run.steps.handlers import handles
from conformance.run.world import World
from conformance.scenarios.messages import build_message, load_template
from conformance.scenarios.steps.talking import Talk
from conformance.wire.content import dot_stuffed
from conformance.wire.talk import talk as hold


@handles(Talk)
async def talk(world: World, action: Talk) -> str:
    """Say each line and read the replies that are to be read; what came of it is recorded for the judge."""
    if action.background:
        task = asyncio.get_running_loop().create_task(_talk(world, action), name=f"talk {action.name}")
        world.outbox.in_background(action.name, task)
        return "in the background"
    await _talk(world, action)
    return ""


async def _talk(world: World, action: Talk) -> None:
    made = 0

    def message(name: str) -> bytes:
        nonlocal made
        made += 1
        content = build_message(
            action.name,
            message=name,
            sequence=made,
            scenario=world.cell.scenario,
            seed=world.settings.seed,
            sender="alice@outside.test",
            recipients=("bob@corp.test",),
            date=world.today,
        )
        return content if load_template(name).raw else dot_stuffed(content)

    link = world.links.link(action.party, action.to, action.listener)
    said = await hold(
        link.address,
        action.lines,
        make_content=message,
        duration=world.clock.duration,
        elapsed=world.clock.elapsed,
        session_behind=world.links.session_behind,
        mark_keywords=link.dialect.mark_keywords,
        tolerance=world.settings.tolerance,
    )
    if said.late > 0:
        world.recorder.record(Lag, seconds=said.late / world.clock.duration(1.0))
    world.recorder.record(
        Talked,
        conversation=action.name,
        client=action.party,
        server=action.to,
        listener=action.listener,
        session=said.session,
        exchanges=tuple(
            TalkExchange(
                said=e.sent,
                code=e.code,
                enhanced=e.enhanced,
                text=e.text,
                closed=e.closed,
                waited=e.waited,
            )
            for e in said.exchanges
        ),
        problem=said.problem,
    )
