"""Exchange 2010 (SR-E10): a hub's sender keeps a shadow of what it accepts, or the hub delays its acknowledgement."""

import asyncio
from pathlib import Path

import pytest

from conformance.reference.host import Host
from conformance.reference.hub2010.delayed_acknowledgement import SHADOW_ID_IN_USE, DelayedAcknowledgement
from conformance.reference.message import Envelope, Recipient
from conformance.reference.receive.acceptance import MessageOrigin
from tests.reference.hosts import CONTENT, HandClock, add_primary, places, run_ready_tasks, run_with_hub

ORIGIN = MessageOrigin("hub9", "127.0.0.1", True, float("inf"))


def acceptance_of(host: Host) -> DelayedAcknowledgement:
    assert isinstance(host.acceptance, DelayedAcknowledgement)
    return host.acceptance


def test_the_sender_of_a_tracked_message_is_the_one_to_notify(tmp_path: Path):
    async def steps(host: Host, clock: HandClock) -> None:
        envelope = Envelope("alice@outside.test", (Recipient("victor@single.test"),))
        reply = await acceptance_of(host).accept_with_shadow(envelope, CONTENT, ORIGIN, "hub3", "theirs-1")
        assert reply.positive
        (message,) = host.messages.held_as("primary")
        assert [(one.server, one.shadow_id) for one in host.discards.holders_of_shadow(message.id)] == [
            ("hub3", "theirs-1")
        ]
        assert host.discards.oldest_for_server("hub3", 10, set()) == ([], 0)
        host.messages.set_fate(message.id, message.envelope.recipients, "relayed")
        host.completion.release_if_processed(message.id)
        notified = list(host.discards.all_notifications())
        assert [(one.server, one.shadow_id) for one in notified] == [("hub3", "theirs-1")]

    run_with_hub(tmp_path, steps)


def test_a_shadow_id_is_accepted_once_and_for_one_message(tmp_path: Path):
    async def steps(host: Host, clock: HandClock) -> None:
        acceptance = acceptance_of(host)
        envelope = Envelope("alice@outside.test", (Recipient("victor@single.test"),))
        first = await acceptance.accept_with_shadow(envelope, CONTENT, ORIGIN, "hub3", "theirs-1")
        again = await acceptance.accept_with_shadow(envelope, CONTENT, ORIGIN, "hub3", "theirs-1")
        other = CONTENT.replace(b"<one@test>", b"<two@test>")
        assert again == first
        assert await acceptance.accept_with_shadow(envelope, other, ORIGIN, "hub3", "theirs-1") == SHADOW_ID_IN_USE
        assert places(host) == ["primary"]

    run_with_hub(tmp_path, steps)


def test_the_acknowledgement_is_withheld_until_the_last_next_hop_has_the_message(tmp_path: Path):
    async def steps(host: Host, clock: HandClock) -> None:
        message = add_primary(host, "victor@direct.test", "wendy@second.test")
        withheld = asyncio.create_task(acceptance_of(host).wait_until_delivered(message, float("inf")))
        for recipient in message.envelope.recipients:
            await run_ready_tasks()
            assert not withheld.done()
            host.messages.set_fate(message.id, [recipient], "relayed")
            host.completion.release_if_processed(message.id)
        await withheld
        assert places(host) == []

    run_with_hub(tmp_path, steps, MaxAcknowledgementDelay=3600)


@pytest.mark.parametrize(
    ("changes", "at_once"),
    [
        ({"MaxAcknowledgementDelay": 0.0}, True),
        ({"ShadowRedundancyEnabled": False}, True),
        ({"MaxAcknowledgementDelay": 3600.0}, False),
    ],
)
def test_the_acknowledgement_is_given_at_once_only_without_delay_or_shadow_redundancy(
    tmp_path: Path, changes: dict[str, object], at_once: bool
):
    async def steps(host: Host, clock: HandClock) -> None:
        waiting = asyncio.create_task(acceptance_of(host).wait_until_delivered(add_primary(host), float("inf")))
        await run_ready_tasks()
        assert waiting.done() is at_once
        if at_once:
            waiting.result()  # raises what the task raised
        waiting.cancel()
        assert places(host) == ["primary"]

    run_with_hub(tmp_path, steps, **changes)
