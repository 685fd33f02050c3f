"""Safety Net: how long what is held, and what is sent again (SR-SFN-01 to SR-SFN-05, SR-IOP-03)."""

import asyncio
from pathlib import Path

import pytest

from conformance.reference.host import Host
from conformance.reference.message import Message, Place
from tests.reference.furnished import HandClock, configured, live, places, shadow, stored

DAY = 86400.0


def processed(host: Host, *recipients: str, crossed: bool = False) -> Message:
    message = stored(host, *recipients)
    host.messages.set_fate(message.id, message.envelope.recipients, "delivered", crossed=crossed)
    host.completion.release_if_processed(message.id)
    return message


def again(host: Host) -> list[Message]:
    return [message for message in host.messages.in_place("primary") if message.resubmitted]


@pytest.mark.parametrize(("hold", "expiration"), [(2 * DAY, 2 * DAY), (3600.0, 7200.0)])
@pytest.mark.parametrize("place", ["safety-net", "shadow-safety-net", "shadow"])
def test_each_place_has_its_time(tmp_path: Path, place: Place, hold: float, expiration: float):
    async def life(host: Host, clock: HandClock) -> None:
        if place == "safety-net":
            processed(host)
        else:
            held = shadow(host, "mbx2", "s-1")
            if place == "shadow-safety-net":
                host.safety_net.hold(held.id, place)
        clock.advance(hold + (expiration if place == "shadow" else 0) - 1)
        host.safety_net.drop_expired()
        assert places(host) == [place]
        clock.advance(1)
        host.safety_net.drop_expired()
        assert places(host) == []

    live(tmp_path, life, SafetyNetHoldTime=hold, MessageExpirationTimeout=expiration)


def test_a_changed_hold_time_counts_for_what_is_held_already(tmp_path: Path):
    async def life(host: Host, clock: HandClock) -> None:
        processed(host)
        clock.advance(3601)
        before, host.config = host.config, configured("two-servers-one-dag", SafetyNetHoldTime=3600)
        host.safety_net.reconfigured(before)
        assert places(host) == []

    live(tmp_path, life)


def test_a_database_s_messages_are_sent_again_for_its_mailboxes_only(tmp_path: Path):
    async def life(host: Host, clock: HandClock) -> None:
        processed(host, "bob@corp.test", "dave@corp.test")
        processed(host, "dave@corp.test")
        assert host.safety_net.resubmit("DB1") == 1
        assert [r.address for message in again(host) for r in message.envelope.recipients] == ["bob@corp.test"]

    live(tmp_path, life)


def test_nothing_that_crossed_the_boundary_is_sent_again(tmp_path: Path):
    async def life(host: Host, clock: HandClock) -> None:
        processed(host, "bob@corp.test", crossed=True)
        processed(host, "victor@outside.test", crossed=True)
        assert host.safety_net.resubmit("DB1") == 0

    live(tmp_path, life)


def test_nothing_is_sent_to_a_mailbox_that_is_now_beyond_the_boundary(tmp_path: Path):
    async def life(host: Host, clock: HandClock) -> None:
        processed(host, "erin@corp.test")  # when it was processed, her database was in this site
        assert host.routing.next_hop("erin@corp.test").crosses_boundary
        assert host.safety_net.resubmit("DB3") == 0

    live(tmp_path, life, "two-sites-no-dag")


def test_what_was_sent_again_is_not_sent_again_a_second_time_besides_its_original(tmp_path: Path):
    async def life(host: Host, clock: HandClock) -> None:
        processed(host, "bob@corp.test")
        for _ in range(3):
            assert host.safety_net.resubmit("DB1") == 1
            for message in again(host):
                host.messages.set_fate(message.id, message.envelope.recipients, "delivered")
                host.completion.release_if_processed(message.id)
        assert places(host) == ["safety-net"] * 4

    live(tmp_path, life)


def test_the_shadow_safety_net_stands_in_only_where_the_primary_does_not_answer(tmp_path: Path, monkeypatch):
    async def life(host: Host, clock: HandClock) -> None:
        for primary in ("mbx2", "mbx3"):
            held = shadow(host, primary, "s-1", "bob@corp.test")
            host.safety_net.hold(held.id, "shadow-safety-net")

        async def reach(primary: str) -> str | None:
            return "db-1" if primary == "mbx2" else None

        monkeypatch.setattr(host.manager, "query_in_new_session", reach)
        assert host.safety_net.resubmit("DB1") == 0
        await asyncio.wait_for(sent_again(host), 5)
        assert len(again(host)) == 1

    live(tmp_path, life, "three-servers-one-dag")


async def sent_again(host: Host) -> None:
    while not again(host):
        await asyncio.sleep(0)
