"""Steps that send: the harness as a sender outside, as the submission service, or as another server."""

import asyncio
from collections.abc import Sequence

from conformance.history.events import Attempt, MessageMade
from conformance.run.outbox import OutMessage
from conformance.run.steps.handlers import handles
from conformance.run.world import World
from conformance.scenarios.messages import build_message, load_template
from conformance.scenarios.steps.sending import Resend, Send, Submit
from conformance.wire.client import Identity
from conformance.wire.content import digest, dot_unstuffed
from conformance.wire.sender import Recipient, Sender, SendResult, Transmission


@handles(Send, Submit)
async def send(world: World, action: Send) -> str:
    """Make the messages of the step and send them; in the background when it says so."""
    messages = [_make(world, action, number) for number in range(1, action.count + 1)]
    await _go(world, action, messages, background=action.background)
    return f"{len(messages)} messages"


@handles(Resend)
async def resend(world: World, action: Resend) -> str:
    """Transmit earlier messages once more, octet for octet, the way they were sent first."""
    messages = world.outbox.named(action.of)
    how = messages[0].how.model_copy(update={"via": action.via} if action.via else {})
    await _go(world, how, messages, background=action.background)
    return f"{len(messages)} messages"


async def _go(world: World, how: Send, messages: Sequence[OutMessage], *, background: bool) -> None:
    sending = _send_all(world, how, messages)
    if background:
        task = asyncio.get_running_loop().create_task(sending, name=f"send {how.name}")
        world.outbox.in_background(how.name, task)
    else:
        await sending


async def _send_all(world: World, how: Send, messages: Sequence[OutMessage]) -> None:
    """Send over as many sessions at a time as the step says, each taking its share of the messages in order."""
    shares = [messages[start :: how.concurrency] for start in range(min(how.concurrency, len(messages)))]
    async with asyncio.TaskGroup() as group:
        for number, share in enumerate(shares, 1):
            group.create_task(_send_share(world, how, share), name=f"send {how.name} over session {number}")


async def _send_share(world: World, how: Send, messages: Sequence[OutMessage]) -> None:
    sender: Sender | None = None
    for message in messages:
        patience = how.retry.times if how.retry else 0
        for attempt in range(patience + 1):
            server = how.via[attempt % len(how.via)]
            if sender is None or not sender.usable:
                sender = _sender(world, how, server)
            outcome = await sender.send(_transmission(how, message))
            world.recorder.record(
                Attempt,
                message=message.name,
                attempt=len(message.attempts) + 1,
                client=how.party,
                server=server,
                listener=how.listener,
                session=outcome.session,
                outcome=outcome.outcome,
                code=outcome.code,
                enhanced=outcome.enhanced,
                text=outcome.text,
                accepted=outcome.accepted,
                refused=outcome.refused,
                dot_sent=outcome.dot_sent,
            )
            message.attempts.append(outcome)
            if how.sessions == "each" or len(how.via) > 1:
                await sender.quit()
                sender = None
            if not _may_try_again(outcome) or attempt == patience:
                break
            assert how.retry is not None
            await world.clock.sleep(how.retry.every)
    if sender is not None:
        await sender.quit()


def _sender(world: World, how: Send, server: str) -> Sender:
    identity = Identity(
        ehlo=f"{how.party}.test" if how.party == "outside" else how.party,
        offers_xshadow=how.offers_xshadow,
        database=f"{how.party}-{world.settings.seed}",
    )
    address = world.links.address(how.party, server, how.listener)
    return Sender(address, identity, duration=world.clock.duration, session_behind=world.links.session_behind)


def _transmission(how: Send, message: OutMessage) -> Transmission:
    notify = (f"NOTIFY={how.notify}",) if how.notify else ()
    return Transmission(
        sender=how.sender,
        recipients=tuple(Recipient(address, notify) for address in how.to),
        content=message.content,
        raw=load_template(message.how.message).raw,
        parameters=tuple(
            f"{name}={value}" for name, value in (("RET", how.ret), ("ENVID", how.envid)) if value is not None
        ),
        pipelining=how.pipelining,
        abandon=how.abandon,
    )


def _make(world: World, action: Send, number: int) -> OutMessage:
    name = f"{action.name}#{number}"
    content = build_message(
        action.name,
        message=action.message,
        sequence=number,
        scenario=world.cell.scenario,
        seed=world.settings.seed,
        sender=action.sender,
        recipients=action.to,
        headers=action.headers,
        size=action.size,
        whole=action.whole,
        date=world.today,
    )
    # What is sent raw is read by the receiver as if it were stuffed.
    summary = digest(dot_unstuffed(content) if load_template(action.message).raw else content)
    made = OutMessage(name, content, action)
    world.outbox.add(made)
    world.recorder.record(
        MessageMade,
        message=name,
        message_id=summary.message_id,
        sender=action.sender,
        recipients=action.to,
        digest=summary,
        protocol="submission" if isinstance(action, Submit) else "outside",
    )
    return made


def _may_try_again(outcome: SendResult) -> bool:
    """Whether a sender keeps the message: the session was lost, or the answer was transient (RFC 5321 4.2.1)."""
    return outcome.outcome == "lost" or (outcome.code is not None and outcome.code // 100 == 4)
