"""Exchange 2010: rights, shadow queues, heartbeat and takeover, delayed acknowledgement (SR-E10)."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from conformance.reference.config import NodeConfiguration, Peer
from conformance.reference.host import Host
from conformance.reference.hub2010.delayed_acknowledgement import ID_IN_USE, DelayedAcknowledgement
from conformance.reference.hub2010.heartbeat import Heartbeat, heartbeat_of
from conformance.reference.hub2010.rights import accepts_xshadow, sends_xshadow
from conformance.reference.hub2010.shadow_queue import shadow_queues_of
from conformance.reference.hub2010.verbs import HubVerbs
from conformance.reference.message import Envelope, Recipient
from conformance.reference.parts import Parts
from conformance.reference.receive.acceptance import Origin
from conformance.reference.receive.verbs import Conversation
from tests.reference.furnished import CONTENT, HandClock, configured, furnished, places, settled, shadow, stored

INTERVAL, COUNT = 300.0, 3
DAY = 86400.0
ORIGIN = Origin("hub9", "127.0.0.1", True, float("inf"))

Life = Callable[[Host, HandClock], Awaitable[None]]


def run(tmp_path: Path, life: Life, **changes: object) -> None:
    async def whole() -> None:
        async with furnished(tmp_path, configured("hubs-one-site", **changes), parts=Parts().of("ex2010")) as ground:
            await life(*ground)

    asyncio.run(whole())


def hub(**changes: object) -> NodeConfiguration:
    return configured("hubs-one-site", **changes)


def with_rights(config: NodeConfiguration, **rights: object) -> Peer:
    return config.peer_named["hub2"].model_copy(update=rights)


def acceptance_of(host: Host) -> DelayedAcknowledgement:
    assert isinstance(host.acceptance, DelayedAcknowledgement)
    return host.acceptance


# rights


def test_each_right_is_looked_at_in_its_own_direction():
    config = hub()
    may_send_only = with_rights(config, accept_xshadow=False)
    may_accept_only = with_rights(config, send_xshadow=False)
    assert (accepts_xshadow(config, may_send_only), sends_xshadow(config, may_send_only)) == (False, True)
    assert (accepts_xshadow(config, may_accept_only), sends_xshadow(config, may_accept_only)) == (True, False)


def test_the_switch_overrides_the_rights():
    config = hub(ShadowRedundancyEnabled=False)
    assert not accepts_xshadow(config, with_rights(config))
    assert not sends_xshadow(config, with_rights(config))


def test_neither_strangers_nor_the_submission_service_take_part():
    config = hub()
    submission = config.peer_named["submission"].model_copy(update={"accept_xshadow": True, "send_xshadow": True})
    assert not accepts_xshadow(config, None)
    assert not accepts_xshadow(config, submission)
    assert not sends_xshadow(config, submission)


# verbs


@pytest.mark.parametrize(
    ("said", "reply"),
    [
        ("XSHADOW hub2 a-database", "250 2.0.0 hub1 "),
        ("XSHADOW HUB2 a-database", "250 2.0.0 hub1 "),
        ("XSHADOW hub3 a-database", "550 5.7.1 "),
        ("XSHADOW hub2", "501 5.5.4 "),
        ("XSHADOW hub2 no_database", "501 5.5.4 "),
        ("XQDISCARD hub2 0", "501 5.5.4 "),
        ("XQUERYDISCARD hub2 10", "250-2.0.0 database "),
        ("XSHADOWREQUEST hub2 a-database", "502 5.5.1 "),
    ],
)
def test_verbs_are_answered_as_the_profile_says(tmp_path: Path, said: str, reply: str):
    async def life(host: Host, clock: HandClock) -> None:
        conversation = Conversation("transport")
        conversation.greeted, conversation.peer = True, host.config.peer_named["hub2"]
        verb, *words = said.split()
        lines = await HubVerbs(host, conversation).said(verb, words)
        assert lines[0].startswith(reply)

    run(tmp_path, life)


def test_xshadow_is_said_once_in_a_session_and_outside_of_transactions(tmp_path: Path):
    async def life(host: Host, clock: HandClock) -> None:
        conversation = Conversation("transport")
        conversation.greeted, conversation.peer = True, host.config.peer_named["hub2"]
        verbs = HubVerbs(host, conversation)
        conversation.in_transaction = True
        assert (await verbs.said("XSHADOW", ["hub2", "db"]))[0].startswith("503 5.5.1")
        conversation.in_transaction = False
        assert (await verbs.said("XSHADOW", ["hub2", "db"]))[0].startswith("250 ")
        assert (await verbs.said("XSHADOW", ["hub2", "db"]))[0].startswith("503 5.5.1")

    run(tmp_path, life)


# acceptance


def test_a_tracked_message_names_its_sender_as_the_one_to_notify(tmp_path: Path):
    async def life(host: Host, clock: HandClock) -> None:
        envelope = Envelope("alice@outside.test", (Recipient("victor@single.test"),))
        reply = await acceptance_of(host).take_tracked(envelope, CONTENT, ORIGIN, "hub3", "theirs-1")
        assert reply.positive
        (message,) = host.messages.in_place("primary")
        assert [(one.server, one.shadow_id) for one in host.discards.holders(message.id)] == [("hub3", "theirs-1")]

    run(tmp_path, life)


def test_the_same_shadow_id_is_not_taken_twice_nor_for_another_message(tmp_path: Path):
    async def life(host: Host, clock: HandClock) -> None:
        acceptance = acceptance_of(host)
        envelope = Envelope("alice@outside.test", (Recipient("victor@single.test"),))
        first = await acceptance.take_tracked(envelope, CONTENT, ORIGIN, "hub3", "theirs-1")
        again = await acceptance.take_tracked(envelope, CONTENT, ORIGIN, "hub3", "theirs-1")
        other = CONTENT.replace(b"<one@test>", b"<two@test>")
        assert again == first
        assert await acceptance.take_tracked(envelope, other, ORIGIN, "hub3", "theirs-1") == ID_IN_USE
        assert places(host) == ["primary"]

    run(tmp_path, life)


def test_the_acknowledgement_is_withheld_until_the_last_next_hop_has_the_message(tmp_path: Path):
    async def life(host: Host, clock: HandClock) -> None:
        message = stored(host, "victor@direct.test", "wendy@second.test")
        withheld = asyncio.create_task(acceptance_of(host).withhold(message, float("inf")))
        for recipient in message.envelope.recipients:
            await settled()
            assert not withheld.done()
            host.messages.set_fate(message.id, [recipient], "relayed")
            host.completion.check(message.id)
        await withheld
        assert places(host) == []

    run(tmp_path, life, MaxAcknowledgementDelay=3600)


@pytest.mark.parametrize("changes", [{"MaxAcknowledgementDelay": 0.0}, {"ShadowRedundancyEnabled": False}])
def test_the_acknowledgement_is_given_though_delivery_is_pending(tmp_path: Path, changes: dict[str, object]):
    async def life(host: Host, clock: HandClock) -> None:
        await acceptance_of(host).withhold(stored(host), float("inf"))
        assert places(host) == ["primary"]

    run(tmp_path, life, **changes)


# shadow queues


def test_a_message_has_a_shadow_in_the_queue_of_each_next_hop(tmp_path: Path):
    async def life(host: Host, clock: HandClock) -> None:
        queues = shadow_queues_of(host)
        message = stored(host, "victor@single.test", "xena@third.test")
        one, other = message.envelope.recipients
        queues.keep(message, CONTENT, [one], "hub2", "db-2", "id-1")
        queues.keep(message, CONTENT, [other], "hub3", "db-3", "id-2")
        assert [(held.next_hop, held.recipients) for held in queues.held()] == [("hub2", (one,)), ("hub3", (other,))]
        assert [held.shadow_id for held in queues.held_for("hub3")] == ["id-2"]

    run(tmp_path, life)


def test_a_discard_notification_removes_one_shadow_and_an_unknown_one_none(tmp_path: Path):
    async def life(host: Host, clock: HandClock) -> None:
        for number in range(2):
            shadow(host, "hub2", f"id-{number}")
        host.manager.discard("hub2", "db-1", "id-7")
        host.manager.discard("hub2", "another", "id-0")
        host.manager.discard("hub3", "db-1", "id-0")
        assert len(places(host)) == 2
        host.manager.discard("hub2", "db-1", "id-0")
        assert [held.shadow_id for held in shadow_queues_of(host).held_for("hub2")] == ["id-1"]

    run(tmp_path, life)


# heartbeat


def miss(manager: Heartbeat, clock: HandClock, primary: str, times: int) -> None:
    """Let a primary be asked in vain when it is due, so many times."""
    for _ in range(times):
        clock.at = manager.due(primary)
        manager.unreached(primary)


def test_a_primary_fails_after_interval_times_count(tmp_path: Path):
    async def life(host: Host, clock: HandClock) -> None:
        manager, began = heartbeat_of(host), clock.at
        shadow(host, "hub2", "id-1")
        manager.watch("hub2")
        miss(manager, clock, "hub2", COUNT - 1)
        assert places(host) == ["shadow"]
        miss(manager, clock, "hub2", 1)
        assert clock.at == began + INTERVAL * COUNT
        assert places(host) == ["primary"]

    run(tmp_path, life)


def test_a_session_starts_the_count_again(tmp_path: Path):
    async def life(host: Host, clock: HandClock) -> None:
        manager = heartbeat_of(host)
        shadow(host, "hub2", "id-1")
        manager.watch("hub2")
        miss(manager, clock, "hub2", COUNT - 1)
        manager.saw_database("hub2", "db-1")
        assert manager.due("hub2") == clock.at + INTERVAL
        miss(manager, clock, "hub2", COUNT - 1)
        assert places(host) == ["shadow"]

    run(tmp_path, life)


def test_a_query_of_the_primary_is_no_session_of_ours(tmp_path: Path):
    async def life(host: Host, clock: HandClock) -> None:
        manager, began = heartbeat_of(host), clock.at
        shadow(host, "hub2", "id-1")
        manager.watch("hub2")
        clock.advance(INTERVAL / 2)
        manager.asked_by("hub2")
        assert manager.due("hub2") == began + INTERVAL

    run(tmp_path, life)


def test_what_has_no_alternative_route_stays_until_it_expires(tmp_path: Path):
    async def life(host: Host, clock: HandClock) -> None:
        manager = heartbeat_of(host)
        shadow(host, "hub2", "movable", "victor@outside.test")
        shadow(host, "hub2", "stuck", "victor@single.test")
        manager.watch("hub2")
        miss(manager, clock, "hub2", COUNT)
        assert places(host) == ["primary", "shadow"]
        clock.advance(2 * DAY - INTERVAL * COUNT - 1)
        manager.declare_failed("hub2")
        assert places(host) == ["primary", "shadow"]
        clock.advance(1)
        manager.declare_failed("hub2")
        assert places(host) == ["primary"]

    run(tmp_path, life)


def test_the_failed_primary_is_told_once_the_message_is_delivered(tmp_path: Path):
    async def life(host: Host, clock: HandClock) -> None:
        manager = heartbeat_of(host)
        shadow(host, "hub2", "id-1")
        manager.watch("hub2")
        miss(manager, clock, "hub2", COUNT)
        (message,) = host.messages.in_place("primary")
        assert host.discards.waiting("hub2", 10, set()) == ([], 0)
        host.messages.set_fate(message.id, message.envelope.recipients, "relayed")
        host.completion.check(message.id)
        events, _ = host.discards.waiting("hub2", 10, set())
        assert [event.shadow_id for event in events] == ["id-1"]

    run(tmp_path, life)


def test_a_failed_server_is_tried_last_for_a_while(tmp_path: Path):
    async def life(host: Host, clock: HandClock) -> None:
        recipient = Recipient("victor@outside.test")
        shadow(host, "hub2", "id-1")
        host.manager.watch("hub2")

        def servers() -> tuple[str, ...]:
            return next(iter(host.routing.forks([recipient]))).servers

        assert servers() == ("hub2", "hub3")
        miss(heartbeat_of(host), clock, "hub2", COUNT)
        assert servers() == ("hub3", "hub2")
        clock.advance(INTERVAL * COUNT)
        assert servers() == ("hub2", "hub3")

    run(tmp_path, life)


def test_a_new_database_gives_back_what_the_old_one_had(tmp_path: Path):
    async def life(host: Host, clock: HandClock) -> None:
        shadow(host, "hub2", "old", "victor@single.test", database="db-1")
        shadow(host, "hub2", "new", "victor@single.test", database="db-2")
        shadow(host, "hub3", "other", "xena@third.test", database="db-1")
        host.manager.noticed("hub2", "db-2")
        assert places(host) == ["primary", "shadow", "shadow"]
        (message,) = host.messages.in_place("primary")
        assert message.shadow_id == "old"

    run(tmp_path, life)


def test_time_in_which_it_was_down_itself_counts_against_nobody(tmp_path: Path):
    async def life(host: Host, clock: HandClock) -> None:
        shadow(host, "hub2", "id-1")
        host.shadows.set_contact("hub2", clock.at)
        clock.advance(10 * INTERVAL)
        host.manager.start()
        assert host.manager.due("hub2") == clock.at + INTERVAL

    run(tmp_path, life)
