"""Exchange 2010 (SR-E10): the shadows that a hub keeps, the heartbeat with their primaries, and when it promotes them."""

from pathlib import Path

import pytest

from conformance.reference.host import Host
from conformance.reference.hub2010.manager import HubManager, hub_manager_of
from conformance.reference.hub2010.shadow_queues import shadow_queues_of
from conformance.reference.message import Recipient
from tests.reference.hosts import CONTENT, HandClock, add_primary, places, run_with_hub, shadow

INTERVAL, COUNT = 300.0, 3
DAY = 86400.0


def fail_heartbeats(manager: HubManager, clock: HandClock, primary: str, times: int) -> None:
    """Let that many heartbeats with a primary fail, each when it is due."""
    for _ in range(times):
        clock.at = manager.next_session_at(primary)
        manager._answered.discard(primary)  # as each heartbeat does first
        manager.heartbeat_failed(primary)


def test_each_shadow_of_a_message_is_in_the_queue_of_its_next_hop(tmp_path: Path):
    async def steps(host: Host, clock: HandClock) -> None:
        queues = shadow_queues_of(host)
        message = add_primary(host, "victor@single.test", "xena@third.test")
        one, other = message.envelope.recipients
        queues.keep(message, CONTENT, [one], "hub2", "db-2", "id-1")
        queues.keep(message, CONTENT, [other], "hub3", "db-3", "id-2")
        assert [(held.next_hop, held.recipients) for held in queues.all_queued()] == [
            ("hub2", (one,)),
            ("hub3", (other,)),
        ]
        assert [[held.shadow_id for held in queues.messages_held_for(hop)] for hop in ("hub2", "hub3")] == [
            ["id-1"],
            ["id-2"],
        ]

    run_with_hub(tmp_path, steps)


def test_a_discard_notification_removes_one_shadow_and_an_unknown_one_none(tmp_path: Path):
    async def steps(host: Host, clock: HandClock) -> None:
        for number in range(2):
            shadow(host, "hub2", f"id-{number}")
        host.manager.discard_shadow("hub2", "db-1", "id-7")
        host.manager.discard_shadow("hub2", "another", "id-0")
        host.manager.discard_shadow("hub3", "db-1", "id-0")
        assert len(places(host)) == 2
        host.manager.discard_shadow("hub2", "db-1", "id-0")
        assert [held.shadow_id for held in shadow_queues_of(host).messages_held_for("hub2")] == ["id-1"]

    run_with_hub(tmp_path, steps)


@pytest.mark.parametrize(("interval", "count"), [(INTERVAL, COUNT), (70.0, COUNT), (INTERVAL, 5), (40.0, 2)])
def test_a_primary_fails_after_interval_times_count(tmp_path: Path, interval: float, count: int):
    async def steps(host: Host, clock: HandClock) -> None:
        manager, began = hub_manager_of(host), clock.at
        shadow(host, "hub2", "id-1")
        manager.watch("hub2")
        fail_heartbeats(manager, clock, "hub2", count - 1)
        assert places(host) == ["shadow"]
        fail_heartbeats(manager, clock, "hub2", 1)
        assert clock.at == began + interval * count
        assert places(host) == ["primary"]

    run_with_hub(tmp_path, steps, ShadowHeartbeatTimeoutInterval=interval, ShadowHeartbeatRetryCount=count)


def test_a_session_starts_the_count_again(tmp_path: Path):
    async def steps(host: Host, clock: HandClock) -> None:
        manager = hub_manager_of(host)
        shadow(host, "hub2", "id-1")
        manager.watch("hub2")
        fail_heartbeats(manager, clock, "hub2", COUNT - 1)
        manager.record_contact_and_database("hub2", "db-1")
        assert manager.next_session_at("hub2") == clock.at + INTERVAL
        fail_heartbeats(manager, clock, "hub2", COUNT - 1)
        assert places(host) == ["shadow"]
        fail_heartbeats(manager, clock, "hub2", 1)
        assert places(host) == ["primary"]

    run_with_hub(tmp_path, steps)


@pytest.mark.parametrize("shorter", [INTERVAL * 0.7, INTERVAL / 10])
def test_after_a_shorter_interval_came_into_force_that_interval_lies_between_two_heartbeats(
    tmp_path: Path, shorter: float
):
    async def steps(host: Host, clock: HandClock) -> None:
        manager = hub_manager_of(host)
        shadow(host, "hub2", "id-1")
        manager.watch("hub2")
        fail_heartbeats(manager, clock, "hub2", COUNT - 1)
        asked_at = clock.at
        clock.advance(INTERVAL / 2)
        before = host.config
        transport = before.transport.model_copy(update={"ShadowHeartbeatTimeoutInterval": shorter})
        host.config = before.model_copy(update={"transport": transport})
        manager.reconfigured(before)
        assert manager.next_session_at("hub2") == asked_at + shorter
        clock.at = changed_at = max(clock.at, asked_at + shorter)
        manager._answered.discard("hub2")
        manager.heartbeat_failed("hub2")
        assert manager.next_session_at("hub2") == changed_at + shorter

    run_with_hub(tmp_path, steps)


def test_a_query_from_the_primary_does_not_postpone_the_heartbeat(tmp_path: Path):
    async def steps(host: Host, clock: HandClock) -> None:
        manager, began = hub_manager_of(host), clock.at
        shadow(host, "hub2", "id-1")
        manager.watch("hub2")
        clock.advance(INTERVAL / 2)
        manager.record_query_from("hub2")
        assert manager.next_session_at("hub2") == began + INTERVAL
        manager.record_contact("hub2")  # as a session that this hub has opened does
        assert manager.next_session_at("hub2") == clock.at + INTERVAL

    run_with_hub(tmp_path, steps)


@pytest.mark.parametrize("expiration", [2 * DAY, 5000.0])
def test_a_shadow_without_an_alternative_route_stays_until_it_expires(tmp_path: Path, expiration: float):
    async def steps(host: Host, clock: HandClock) -> None:
        manager = hub_manager_of(host)
        shadow(host, "hub2", "movable", "victor@outside.test")
        shadow(host, "hub2", "stuck", "victor@single.test")
        manager.watch("hub2")
        fail_heartbeats(manager, clock, "hub2", COUNT)
        assert places(host) == ["primary", "shadow"]
        clock.advance(expiration - INTERVAL * COUNT - 1)
        manager.declare_failed("hub2")
        assert places(host) == ["primary", "shadow"]
        clock.advance(1)
        manager.declare_failed("hub2")
        assert places(host) == ["primary"]

    run_with_hub(tmp_path, steps, MessageExpirationTimeout=expiration)


def test_the_failed_primary_gets_a_discard_once_the_message_is_delivered(tmp_path: Path):
    async def steps(host: Host, clock: HandClock) -> None:
        manager = hub_manager_of(host)
        shadow(host, "hub2", "id-1")
        manager.watch("hub2")
        fail_heartbeats(manager, clock, "hub2", COUNT)
        (message,) = host.messages.held_as("primary")
        assert host.discards.oldest_for_server("hub2", 10, set()) == ([], 0)
        host.messages.set_fate(message.id, message.envelope.recipients, "relayed")
        host.completion.release_if_processed(message.id)
        events, _ = host.discards.oldest_for_server("hub2", 10, set())
        assert [event.shadow_id for event in events] == ["id-1"]

    run_with_hub(tmp_path, steps)


def test_a_failed_server_is_the_last_to_try_for_a_while(tmp_path: Path):
    async def steps(host: Host, clock: HandClock) -> None:
        recipient = Recipient("victor@outside.test")
        shadow(host, "hub2", "id-1")
        host.manager.watch("hub2")
        (route,) = [one for one in host.config.routes if one.domain == "outside.test"]
        third = route.next_hops[0].model_copy(update={"name": "hub4"})
        longer = route.model_copy(update={"next_hops": (*route.next_hops, third)})
        others = tuple(one for one in host.config.routes if one is not route)
        host.config = host.config.model_copy(update={"routes": (*others, longer)})

        def servers() -> tuple[str, ...]:
            return next(iter(host.routing.group_by_next_hop([recipient]))).servers

        assert servers() == ("hub2", "hub3", "hub4")
        fail_heartbeats(hub_manager_of(host), clock, "hub2", COUNT)
        assert servers() == ("hub3", "hub4", "hub2")
        clock.advance(INTERVAL * COUNT - 1)
        assert servers() == ("hub3", "hub4", "hub2")
        clock.advance(1)
        assert servers() == ("hub2", "hub3", "hub4")

    run_with_hub(tmp_path, steps)


def test_a_new_database_of_a_primary_promotes_the_shadows_of_its_old_ones_only(tmp_path: Path):
    async def steps(host: Host, clock: HandClock) -> None:
        shadow(host, "hub2", "old", "victor@single.test", database="db-1")
        shadow(host, "hub2", "older", "victor@single.test", database="db-0")
        shadow(host, "hub2", "new", "victor@single.test", database="db-2")
        shadow(host, "hub3", "other", "xena@third.test", database="db-1")
        host.manager.promote_if_new_database("hub2", "db-2")
        assert [message.shadow_id for message in host.messages.held_as("primary")] == ["old", "older"]
        assert [message.shadow_id for message in host.messages.held_as("shadow")] == ["new", "other"]

    run_with_hub(tmp_path, steps)


def test_a_hub_s_own_downtime_does_not_count_as_missed_heartbeats(tmp_path: Path):
    async def steps(host: Host, clock: HandClock) -> None:
        shadow(host, "hub2", "id-1")
        host.shadows.set_contact("hub2", clock.at)
        clock.advance(10 * INTERVAL)
        host.manager.start()
        assert host.manager.next_session_at("hub2") == clock.at + INTERVAL
        fail_heartbeats(hub_manager_of(host), clock, "hub2", COUNT - 1)
        assert places(host) == ["shadow"]
        fail_heartbeats(hub_manager_of(host), clock, "hub2", 1)
        assert places(host) == ["primary"]

    run_with_hub(tmp_path, steps)
