"""The Shadow Redundancy Manager: when it queries a primary, what it discards, and when it promotes (SR-MNT-03, -09, -10, -11, -13)."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from conformance.reference.host import Host
from conformance.reference.replies import Reply, parse_reply
from conformance.reference.send.dialogue import Dialogue, SessionLost
from conformance.reference.shadow import manager
from conformance.reference.shadow.manager import PAGE
from tests.reference.hosts import HandClock, open_host, places, run_with_host, shadow
from tests.reference.test_connection import connected

HOUR = 3600.0


class Primary(Dialogue):
    """A session with a primary that answers XQDISCARD from a script."""

    def __init__(self, *answers: str) -> None:
        super().__init__(("127.0.0.1", 9), "mbx1", 1.0)
        self.answers = list(answers)
        self.said: list[str] = []

    async def command(self, line: str) -> Reply:
        self.said.append(line)
        return parse_reply(250, self.answers.pop(0))

    async def connect(self) -> Reply:
        raise AssertionError

    async def send_content(self, content: bytes, recipients: int) -> list[Reply]:
        raise AssertionError

    def abort(self) -> None: ...


def answer(database: str, *discards: str, left: int = 0) -> str:
    lines = [f"database {database}", *(f"discard {shadow_id}" for shadow_id in discards), f"end {left}"]
    return "\n".join(f"2.0.0 {line}" for line in lines)


run = partial(run_with_host, topology="three-servers-one-dag")


def test_a_primary_is_queried_until_no_discard_is_left(tmp_path: Path):
    async def steps(host: Host, clock: HandClock) -> None:
        for number in range(3):
            shadow(host, "mbx2", f"s-{number}")
        primary = Primary(answer("db-1", "s-0", left=2), answer("db-1", "s-1", "s-2"))
        await host.manager.query_in_session("mbx2", primary)
        assert primary.said == [f"XQDISCARD mbx1 {PAGE}"] * 2
        assert places(host) == ["shadow-safety-net"] * 3

    run(tmp_path, steps)


class PrimaryBehindAConnection(Primary):
    """Its answers are read from the octets that a server sends."""

    async def command(self, line: str) -> Reply:
        self.said.append(line)
        connection, _ = connected()
        *first, last = self.answers.pop(0).split("\n")
        connection.data_received("".join([*(f"250-{text}\r\n" for text in first), f"250 {last}\r\n"]).encode())
        return await connection.read_reply(1.0)


def test_a_full_page_of_the_longest_ids_is_read_to_its_end(tmp_path: Path):
    async def steps(host: Host, clock: HandClock) -> None:
        ids = [f"s-{number}-".ljust(64, "Z") for number in range(PAGE + 1)]
        for shadow_id in ids:
            shadow(host, "mbx2", shadow_id)
        primary = PrimaryBehindAConnection(answer("db-1", *ids[:-1], left=1), answer("db-1", ids[-1]))
        await host.manager.query_in_session("mbx2", primary)
        assert len(primary.said) == 2, "the last line says that one is left"
        assert places(host) == ["shadow-safety-net"] * (PAGE + 1)

    run(tmp_path, steps)


def test_an_unknown_id_or_one_of_another_primary_is_ignored(tmp_path: Path):
    async def steps(host: Host, clock: HandClock) -> None:
        shadow(host, "mbx2", "s-1")
        shadow(host, "mbx3", "s-2")
        await host.manager.query_in_session("mbx2", Primary(answer("db-1", "s-2", "never-heard-of")))
        assert places(host) == ["shadow", "shadow"]
        await host.manager.query_in_session("mbx2", Primary(answer("db-1", "s-1")))
        assert places(host) == ["shadow-safety-net", "shadow"]

    run(tmp_path, steps)


def test_a_primary_that_announces_more_discards_and_sends_none_is_queried_once(tmp_path: Path):
    async def steps(host: Host, clock: HandClock) -> None:
        shadow(host, "mbx2", "s-1")
        primary = Primary(answer("db-1", left=5))
        await host.manager.query_in_session("mbx2", primary)
        assert len(primary.said) == 1

    run(tmp_path, steps)


def test_a_primary_without_shadows_here_is_not_queried(tmp_path: Path):
    async def steps(host: Host, clock: HandClock) -> None:
        shadow(host, "mbx3", "s-1")
        primary = Primary(answer("db-1"))
        await host.manager.query_in_session("mbx2", primary)
        assert primary.said == []
        await host.manager.query_in_session("mbx3", primary)
        assert len(primary.said) == 1

    run(tmp_path, steps)


class UnreachablePrimary(Primary):
    async def connect(self) -> Reply:
        raise SessionLost("refused")


@pytest.mark.parametrize("enabled", [True, False])
def test_a_primary_is_queried_only_while_shadow_redundancy_is_enabled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, enabled: bool
):
    dialled: list[object] = []

    def create_dialogue(address: object, *_: object, secret: str | None) -> Dialogue:
        dialled.append(address)
        return UnreachablePrimary()

    monkeypatch.setattr(manager, "create_dialogue", create_dialogue)

    async def steps(host: Host, clock: HandClock) -> None:
        shadow(host, "mbx2", "s-1")
        primary = Primary(answer("db-1"))
        await host.manager.query_in_session("mbx2", primary)
        assert len(primary.said) == enabled
        assert await host.manager.query_in_new_session("mbx2") is None
        assert len(dialled) == enabled

    run(tmp_path, steps, ShadowRedundancyEnabled=enabled)


def test_a_new_database_promotes_only_the_shadows_of_the_old_one(tmp_path: Path):
    async def steps(host: Host, clock: HandClock) -> None:
        old, new = shadow(host, "mbx2", "s-1"), shadow(host, "mbx2", "s-1", database="db-2")
        another_old, other = shadow(host, "mbx2", "s-2"), shadow(host, "mbx3", "s-1", database="db-9")
        await host.manager.query_in_session("mbx2", Primary(answer("db-2")))
        for one in (old, another_old):
            taken = host.messages.get(one.id)
            assert taken is not None
            assert (taken.place, taken.primary, taken.redundancy_pending) == ("primary", "", True)
            assert taken.shadow_id not in ("s-1", "s-2")
        assert [host.messages.get(one.id).place for one in (new, other)] == ["shadow", "shadow"]

    run(tmp_path, steps)


@pytest.mark.parametrize("span", [3 * HOUR, HOUR / 2])
def test_shadows_are_promoted_after_the_resubmit_span_and_not_before(tmp_path: Path, span: float):
    async def steps(host: Host, clock: HandClock) -> None:
        for shadow_id in ("s-1", "s-2"):
            shadow(host, "mbx2", shadow_id)
        host.manager.watch("mbx2")
        clock.advance(span - 1)
        host.manager.heartbeat_failed("mbx2")
        assert places(host) == ["shadow", "shadow"]
        clock.advance(1)
        host.manager.heartbeat_failed("mbx2")
        assert places(host) == ["primary", "primary"]

    run(tmp_path, steps, ShadowResubmitTimeSpan=span)


def test_a_contact_with_the_primary_restarts_the_span(tmp_path: Path):
    async def steps(host: Host, clock: HandClock) -> None:
        shadow(host, "mbx2", "s-1")
        host.manager.watch("mbx2")
        clock.advance(3 * HOUR - 1)
        host.manager.record_contact("mbx2")
        clock.advance(3 * HOUR - 1)
        host.manager.heartbeat_failed("mbx2")
        assert places(host) == ["shadow"]
        clock.advance(1)
        host.manager.heartbeat_failed("mbx2")
        assert places(host) == ["primary"]

    run(tmp_path, steps)


def test_a_failed_primary_does_not_promote_shadows_of_another(tmp_path: Path):
    async def steps(host: Host, clock: HandClock) -> None:
        promoted, kept = shadow(host, "mbx2", "s-1"), shadow(host, "mbx3", "s-2")
        for primary in ("mbx2", "mbx3"):
            host.manager.watch(primary)
        clock.advance(4 * HOUR)
        host.manager.heartbeat_failed("mbx2")
        assert [host.messages.get(one.id).place for one in (promoted, kept)] == ["primary", "shadow"]

    run(tmp_path, steps)


@pytest.mark.parametrize("frequency", [120.0, 30.0])
def test_the_next_heartbeat_is_due_a_frequency_after_the_last_query(tmp_path: Path, frequency: float):
    async def steps(host: Host, clock: HandClock) -> None:
        shadow(host, "mbx2", "s-1")
        host.manager.watch("mbx2")
        assert host.manager.next_session_at("mbx2") == clock.now() + frequency
        clock.advance(10)
        await host.manager.query_in_session("mbx2", Primary(answer("db-1")))
        due = clock.now() + frequency
        assert host.manager.next_session_at("mbx2") == due
        clock.advance(10)
        host.manager.record_contact("mbx2")
        assert host.manager.next_session_at("mbx2") == due, "no query was made"

    run(tmp_path, steps, ShadowHeartbeatFrequency=frequency)


def test_a_restart_of_the_shadow_server_does_not_restart_the_span(tmp_path: Path):
    async def steps() -> None:
        clock = HandClock()
        async with open_host(tmp_path, clock=clock) as (host, _):
            shadow(host, "mbx2", "s-1")
            host.manager.watch("mbx2")
            began = clock.now()
        clock.advance(HOUR)
        async with open_host(tmp_path, clock=clock) as (host, _):
            host.manager.start()
            assert host.manager.promotion_at("mbx2") == began + 3 * HOUR
            clock.advance(2 * HOUR - 1)
            host.manager.heartbeat_failed("mbx2")
            assert places(host) == ["shadow"]
            clock.advance(1)
            host.manager.heartbeat_failed("mbx2")
            assert places(host) == ["primary"]

    asyncio.run(steps())
