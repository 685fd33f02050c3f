"""Exchange 2010 (SR-E10): what a hub accepts is tracked by its sender, or acknowledged late."""

import asyncio
from pathlib import Path

import pytest

from conformance.reference.host import Host
from conformance.reference.hub2010.delayed_acknowledgement import SHADOW_ID_IN_USE, DelayedAcknowledgement
from conformance.reference.message import Envelope, Recipient
from conformance.reference.receive.acceptance import MessageOrigin
from tests.reference.furnished import CONTENT, HandClock, live_as_hub, places, settled, stored

ORIGIN = MessageOrigin("hub9", "127.0.0.1", True, float("inf"))


def acceptance_of(host: Host) -> DelayedAcknowledgement:
    assert isinstance(host.acceptance, DelayedAcknowledgement)
    return host.acceptance


def test_a_tracked_message_names_its_sender_as_the_one_to_notify(tmp_path: Path):
    async def life(host: Host, clock: HandClock) -> None:
        envelope = Envelope("alice@outside.test", (Recipient("victor@single.test"),))
        reply = await acceptance_of(host).accept_with_shadow(envelope, CONTENT, ORIGIN, "hub3", "theirs-1")
        assert reply.positive
        (message,) = host.messages.in_place("primary")
        assert [(one.server, one.shadow_id) for one in host.discards.holders(message.id)] == [("hub3", "theirs-1")]

    live_as_hub(tmp_path, life)


def test_the_same_shadow_id_is_not_taken_twice_nor_for_another_message(tmp_path: Path):
    async def life(host: Host, clock: HandClock) -> None:
        acceptance = acceptance_of(host)
        envelope = Envelope("alice@outside.test", (Recipient("victor@single.test"),))
        first = await acceptance.accept_with_shadow(envelope, CONTENT, ORIGIN, "hub3", "theirs-1")
        again = await acceptance.accept_with_shadow(envelope, CONTENT, ORIGIN, "hub3", "theirs-1")
        other = CONTENT.replace(b"<one@test>", b"<two@test>")
        assert again == first
        assert await acceptance.accept_with_shadow(envelope, other, ORIGIN, "hub3", "theirs-1") == SHADOW_ID_IN_USE
        assert places(host) == ["primary"]

    live_as_hub(tmp_path, life)


def test_the_acknowledgement_is_withheld_until_the_last_next_hop_has_the_message(tmp_path: Path):
    async def life(host: Host, clock: HandClock) -> None:
        message = stored(host, "victor@direct.test", "wendy@second.test")
        withheld = asyncio.create_task(acceptance_of(host).wait_until_delivered(message, float("inf")))
        for recipient in message.envelope.recipients:
            await settled()
            assert not withheld.done()
            host.messages.set_fate(message.id, [recipient], "relayed")
            host.completion.release_if_processed(message.id)
        await withheld
        assert places(host) == []

    live_as_hub(tmp_path, life, MaxAcknowledgementDelay=3600)


@pytest.mark.parametrize("changes", [{"MaxAcknowledgementDelay": 0.0}, {"ShadowRedundancyEnabled": False}])
def test_the_acknowledgement_is_given_though_delivery_is_pending(tmp_path: Path, changes: dict[str, object]):
    async def life(host: Host, clock: HandClock) -> None:
        await acceptance_of(host).wait_until_delivered(stored(host), float("inf"))
        assert places(host) == ["primary"]

    live_as_hub(tmp_path, life, **changes)
