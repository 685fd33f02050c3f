"""Steps that send messages: as a sender outside of the organisation, as the submission service, or as another server.

A handler returns the detail that is recorded with the end of its step. An *attempt* is one transmission of a message, with the
reply to it. A message of a step `m` has the name `m#1`, `m#2`, ...; the outbox of the world has the messages by name. A message
that a server refuses, and a session that is lost, raise nothing: the `Attempt` event describes it.
"""

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
    """Make the messages of the step and send them; with `background`, start a task that sends them, and return at once.

    Raises KeyError when messages of this name were made before.
    """
    messages = [_make_message(world, action, number) for number in range(1, action.count + 1)]
    await _start_or_send(world, action, messages, background=action.background)
    return f"{len(messages)} messages"


@handles(Resend)
async def resend(world: World, action: Resend) -> str:
    """Send messages of an earlier step again, octet for octet, as that step says; `via` may name other servers.

    Raises KeyError when there is no message of this name. With `background`, start a task that sends them, and return at once.
    """
    messages = world.outbox.find(action.of)
    step = messages[0].step.model_copy(update={"via": action.via} if action.via else {})
    await _start_or_send(world, step, messages, background=action.background)
    return f"{len(messages)} messages"


async def _start_or_send(world: World, step: Send, messages: Sequence[OutMessage], *, background: bool) -> None:
    """Send messages as a step says: in a new task (`background`), or wait until they are sent."""
    sending = _send_all(world, step, messages)
    if background:
        task = asyncio.get_running_loop().create_task(sending, name=f"send {step.name}")
        world.outbox.add_background_send(step.name, task)
    else:
        await sending


async def _send_all(world: World, step: Send, messages: Sequence[OutMessage]) -> None:
    """Divide the messages among as many concurrent senders as the step says, and wait until all are sent or given up.

    Each sender has one session at a time. What one of them raises (OSError when this machine has run out of something) cancels
    the others, and is raised in a group.
    """
    shares = [messages[start :: step.concurrency] for start in range(min(step.concurrency, len(messages)))]
    async with asyncio.TaskGroup() as group:
        for number, share in enumerate(shares, 1):
            group.create_task(_send_share(world, step, share), name=f"send {step.name} over session {number}")


async def _send_share(world: World, step: Send, messages: Sequence[OutMessage]) -> None:
    """Send messages one after another, over one session where possible, with the retries of the step; record each attempt.

    `step.via` are servers, one for each attempt in turn. `step.sessions` is `one`, or `each` for a new session for each attempt,
    which several servers imply. A message is sent again only after a lost session or a transient reply, `step.retry.times`
    times at most and `step.retry.every` documented seconds later. The session is ended with QUIT.
    """
    sender: Sender | None = None
    for message in messages:
        retries = step.retry.times if step.retry else 0
        for attempt in range(retries + 1):
            server = step.via[attempt % len(step.via)]
            if sender is None or not sender.usable:
                sender = _make_sender(world, step, server)
            result = await sender.send(_transmission(step, message))
            world.recorder.record(
                Attempt,
                message=message.name,
                attempt=len(message.attempts) + 1,
                client=step.party,
                server=server,
                listener=step.listener,
                session=result.session,
                outcome=result.outcome,
                code=result.code,
                enhanced=result.enhanced,
                text=result.text,
                accepted=result.accepted,
                refused=result.refused,
                dot_sent=result.dot_sent,
            )
            message.attempts.append(result)
            if step.sessions == "each" or len(step.via) > 1:
                await sender.quit()
                sender = None
            if not _may_retry(result) or attempt == retries:
                break
            assert step.retry is not None
            await world.clock.sleep(step.retry.every)
    if sender is not None:
        await sender.quit()


def _make_sender(world: World, step: Send, server: str) -> Sender:
    """Return a sender for a server, whose session is not opened yet and introduces itself as the step says.

    The step's `party` is who connects, its `listener` the server's that is dialled.
    """
    identity = Identity(
        ehlo=f"{step.party}.test" if step.party == "outside" else step.party,
        offers_xshadow=step.offers_xshadow,
        database=f"{step.party}-{world.settings.seed}",
    )
    address = world.links.address(step.party, server, step.listener)
    return Sender(address, identity, duration=world.clock.duration, session_behind=world.links.session_behind)


def _transmission(step: Send, message: OutMessage) -> Transmission:
    """Return what to send: the envelope parameters of a step, and the recipients and content of a message.

    The step may be a `resend` of a message that an earlier step has made.
    """
    of_recipients = _parameters(NOTIFY=step.notify, ORCPT=step.orcpt)
    return Transmission(
        sender=step.sender,
        recipients=tuple(Recipient(address, of_recipients) for address in message.recipients),
        content=message.content,
        raw=load_template(message.step.message).raw,
        parameters=(*_parameters(RET=step.ret, ENVID=step.envid), *(("SMTPUTF8",) if step.smtputf8 else ())),
        chunks=step.chunks,
        pipelining=step.pipelining,
        abandon=step.abandon,
    )


def _parameters(**values: str | None) -> tuple[str, ...]:
    """Return `NAME=value` for each argument that is not None: the parameters of an SMTP command."""
    return tuple(f"{name}={value}" for name, value in values.items() if value is not None)


def _make_message(world: World, action: Send, number: int) -> OutMessage:
    """Make the message with this number of a step, add it to the outbox, record it, and return it.

    Its name is that of the step and the number: `m#3`. Raises KeyError when there is a message of this name.
    """
    name = f"{action.name}#{number}"
    recipients = action.recipients_of(number)
    content = build_message(
        action.name,
        message=action.message,
        sequence=number,
        scenario=world.cell.scenario,
        seed=world.settings.seed,
        sender=action.sender,
        recipients=recipients,
        headers=action.headers,
        size=action.size,
        whole=action.whole,
        date=world.now,
    )
    # A raw content is sent without dot-stuffing, and its receiver removes dots from it all the same, but not in chunks.
    is_unstuffed = load_template(action.message).raw and action.chunks is None
    summary = digest(dot_unstuffed(content) if is_unstuffed else content)
    made = OutMessage(name, recipients, content, action)
    world.outbox.add(made)
    world.recorder.record(
        MessageMade,
        message=name,
        message_id=summary.message_id,
        sender=action.sender,
        recipients=recipients,
        digest=summary,
        protocol="submission" if isinstance(action, Submit) else "outside",
    )
    return made


def _may_retry(result: SendResult) -> bool:
    """Whether a sender has to try again: the session was lost, or the reply was transient (RFC 5321 4.2.1)."""
    return result.outcome == "lost" or (result.code is not None and result.code // 100 == 4)
