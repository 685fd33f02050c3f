"""Safety Net: how long messages are held, and which are resubmitted (SR-SFN-01 to SR-SFN-05, SR-IOP-03)."""

import asyncio
from pathlib import Path

import pytest

from conformance.reference.host import Host
from conformance.reference.message import Message, Place, Recipient
from tests.reference.hosts import HandClock, add_primary, configured, places, run_ready_tasks, run_with_host, shadow

DAY = 86400.0


def processed(host: Host, *recipients: str, crossed: bool = False) -> Message:
    return process(host, add_primary(host, *recipients), crossed=crossed)


def process(host: Host, message: Message, *, crossed: bool = False) -> Message:
    host.messages.set_fate(message.id, message.envelope.recipients, "delivered", crossed=crossed)
    host.completion.release_if_processed(message.id)
    return message


def resubmitted_messages(host: Host) -> list[Message]:
    return [message for message in host.messages.held_as("primary") if message.resubmitted]


@pytest.mark.parametrize(("hold", "expiration"), [(2 * DAY, 2 * DAY), (3600.0, 7200.0)])
@pytest.mark.parametrize("place", ["safety-net", "shadow-safety-net", "shadow"])
def test_messages_are_dropped_after_the_hold_time_of_their_place(
    tmp_path: Path, place: Place, hold: float, expiration: float
):
    async def steps(host: Host, clock: HandClock) -> None:
        message = add_primary(host) if place == "safety-net" else shadow(host, "mbx2", "s-1")
        if place != "shadow":  # the hold time begins when the message comes to its place
            clock.advance(100)
        if place == "safety-net":
            process(host, message)
        elif place == "shadow-safety-net":
            host.safety_net.hold(message.id, place)
        clock.advance(hold + (expiration if place == "shadow" else 0) - 1)
        host.safety_net.drop_expired()
        assert places(host) == [place]
        assert host.safety_net._alarm.due == clock.now() + 1
        clock.advance(1)
        host.safety_net.drop_expired()
        assert places(host) == []

    run_with_host(tmp_path, steps, SafetyNetHoldTime=hold, MessageExpirationTimeout=expiration)


def test_a_changed_hold_time_applies_to_held_messages(tmp_path: Path):
    async def steps(host: Host, clock: HandClock) -> None:
        processed(host)
        host.safety_net.hold(shadow(host, "mbx2", "s-1").id, "shadow-safety-net")
        shadow(host, "mbx2", "s-2")
        clock.advance(3601)
        host.safety_net.drop_expired()
        assert places(host) == ["safety-net", "shadow-safety-net", "shadow"]
        before = host.config
        host.config = configured("two-servers-one-dag", SafetyNetHoldTime=3600, MessageExpirationTimeout=3600)
        host.safety_net.reconfigured(before)
        assert places(host) == ["shadow"]
        assert host.safety_net._alarm.due == clock.now() + 3599
        clock.advance(3599)
        host.safety_net.drop_expired()
        assert places(host) == []

    run_with_host(tmp_path, steps)


def test_messages_are_resubmitted_to_the_mailboxes_of_the_database_only(tmp_path: Path):
    async def steps(host: Host, clock: HandClock) -> None:
        processed(host, "bob@corp.test", "dave@corp.test")
        processed(host, "dave@corp.test")
        assert host.safety_net.resubmit("DB1") == 1
        assert [r.address for message in resubmitted_messages(host) for r in message.envelope.recipients] == [
            "bob@corp.test"
        ]

    run_with_host(tmp_path, steps)


def test_messages_that_crossed_the_boundary_are_not_resubmitted(tmp_path: Path):
    async def steps(host: Host, clock: HandClock) -> None:
        processed(host, "bob@corp.test", crossed=True)
        processed(host, "victor@outside.test", crossed=True)
        assert host.safety_net.resubmit("DB1") == 0
        processed(host, "bob@corp.test")
        assert host.safety_net.resubmit("DB1") == 1

    run_with_host(tmp_path, steps)


def test_messages_for_a_mailbox_outside_the_boundary_are_not_resubmitted(tmp_path: Path):
    async def steps(host: Host, clock: HandClock) -> None:
        processed(host, "erin@corp.test")  # when it was processed, her database was in this site
        assert host.routing.next_hop("erin@corp.test").crosses_boundary
        assert host.safety_net.resubmit("DB3") == 0
        processed(host, "bob@corp.test")
        assert host.safety_net.resubmit("DB1") == 1

    run_with_host(tmp_path, steps, "two-sites-no-dag")


def test_a_resubmitted_copy_is_not_resubmitted_besides_its_original(tmp_path: Path):
    async def steps(host: Host, clock: HandClock) -> None:
        processed(host, "bob@corp.test")
        for _ in range(3):
            assert host.safety_net.resubmit("DB1") == 1
            for message in resubmitted_messages(host):
                host.messages.set_fate(message.id, message.envelope.recipients, "delivered")
                host.completion.release_if_processed(message.id)
        assert places(host) == ["safety-net"] * 4

    run_with_host(tmp_path, steps)


def test_the_shadow_safety_net_resubmits_only_for_a_primary_that_is_unreachable_or_has_a_new_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bob, carol = "bob@corp.test", "carol@corp.test"

    async def steps(host: Host, clock: HandClock) -> None:
        held = (
            shadow(host, "mbx2", "s-1", bob),
            shadow(host, "mbx2", "s-1", carol, database="db-0"),
            shadow(host, "mbx3", "s-1", bob, carol),
        )
        for message in held:
            host.safety_net.hold(message.id, "shadow-safety-net")

        query = host.manager.query_in_new_session

        async def reach(primary: str) -> str | None:
            return "db-1" if primary == "mbx2" else await query(primary)  # nothing listens at the address of mbx3

        monkeypatch.setattr(host.manager, "query_in_new_session", reach)
        assert host.safety_net.resubmit("DB1") == 0
        await asyncio.wait_for(wait_for_resubmissions(host, 2), 5)
        await run_ready_tasks()
        recipients = [one.envelope.recipients for one in resubmitted_messages(host)]
        assert recipients == [(Recipient(carol),), (Recipient(bob), Recipient(carol))]

    run_with_host(tmp_path, steps, "three-servers-one-dag")


async def wait_for_resubmissions(host: Host, number: int) -> None:
    while len(resubmitted_messages(host)) < number:
        await asyncio.sleep(0)
