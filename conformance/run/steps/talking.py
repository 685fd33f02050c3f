"""The step `talk`, a *conversation*: the harness holds one SMTP session, line by line.

The handler returns the detail that is recorded with the end of its step. A reply that is not as the step says raises
nothing: the `Talked` event describes it, and the judge decides.
"""

import asyncio

from conformance.history.events import Lag, Talked
from conformance.history.values import TalkExchange
from conformance.run.steps.handlers import handles
from conformance.run.world import World
from conformance.scenarios.messages import build_message, load_template
from conformance.scenarios.steps.talking import Talk
from conformance.wire.content import dot_stuffed
from conformance.wire.talk import talk as hold_conversation


@handles(Talk)
async def talk(world: World, action: Talk) -> str:
    """Send each line of the step and read the replies; with `background`, start a task that does, and return at once.

    Raises KeyError when the party cannot reach that listener of the server.
    """
    if action.background:
        task = asyncio.get_running_loop().create_task(_run_talk(world, action), name=f"talk {action.name}")
        world.outbox.add_background_send(action.name, task)
        return "in the background"
    await _run_talk(world, action)
    return ""


async def _run_talk(world: World, action: Talk) -> None:
    """Hold the conversation and record it when it has ended; also record lag if the harness itself was late in it.

    Raises KeyError when the party has no link to that listener, OSError when this machine has run out of something.
    """
    number = 0

    def make_content(name: str) -> bytes:
        """Return the content of the conversation's next message, from the template `name`; dot-stuffed unless that is raw."""
        nonlocal number
        number += 1
        content = build_message(
            action.name,
            message=name,
            sequence=number,
            scenario=world.cell.scenario,
            seed=world.settings.seed,
            sender="alice@outside.test",
            recipients=("bob@corp.test",),
            date=world.now,
        )
        return content if load_template(name).raw else dot_stuffed(content)

    link = world.links.link(action.party, action.to, action.listener)
    result = await hold_conversation(
        link.address,
        action.lines,
        make_content=make_content,
        duration=world.clock.duration,
        elapsed=world.clock.elapsed,
        session_behind=world.links.session_behind,
        mark_keywords=link.dialect.mark_keywords,
        tolerance=world.settings.tolerance,
    )
    if result.late > 0:
        world.recorder.record(Lag, seconds=result.late / world.clock.duration(1.0))
    world.recorder.record(
        Talked,
        conversation=action.name,
        client=action.party,
        server=action.to,
        listener=action.listener,
        session=result.session,
        exchanges=tuple(
            TalkExchange(
                said=e.sent,
                code=e.code,
                enhanced=e.enhanced,
                text=e.text,
                closed=e.closed,
                waited=e.waited,
            )
            for e in result.exchanges
        ),
        problem=result.problem,
    )
