"""Every kind of fault at every point of a session, as two plain sockets see it: the octets received, and how each closed."""

import asyncio
import itertools
from dataclasses import dataclass
from typing import Any, get_args

import pytest

from conformance.faults import Place, When
from conformance.scenarios.steps.breaking import Fault
from conformance.wire.fault_plan import check_fault
from tests.wire.plain_sockets import BODY, EXCHANGES, SocketPeer, SocketWorld, socket_world

KINDS = (
    "drop", "reset", "half-close", "stall", "delay", "throttle", "garble", "cut", "replace", "answer", "refuse", "mute",
    "split", "merge",
)  # fmt: skip
PLACES = ("connect", *(exchange.place for exchange in EXCHANGES))
WHENS = ("before", "heard", "after", "answered")
NEEDS: dict[str, dict[str, Any]] = {
    "delay": {"lasting": "5m"},
    "throttle": {"rate": 50},
    "replace": {"reply": "451-4.3.0 not\n451 4.3.0 now"},
    "answer": {"reply": "451-4.3.0 not\n451 4.3.0 now"},
}
OTHER = b"451-4.3.0 not\r\n451 4.3.0 now\r\n"
OFFSET = 17
"""Octet of the body at which faults in the body fire."""


def fields(does: str, at: str, when: str) -> dict[str, Any]:
    return {"does": does, "at": at, "when": when, **NEEDS.get(does, {}), **({"offset": OFFSET} if at == "body" else {})}


def is_valid(case: tuple[str, str, str]) -> bool:
    does, at, when = case
    if (at in ("connect", "body") and when != "before") or (at, when) == ("greeting", "before"):
        return False  # there is one such point only; before the greeting passes is after it arrived
    try:
        check_fault(Fault.model_validate({"as": "f", "from": "a", "to": "b", **fields(does, at, when)}))
    except ValueError:
        return False
    return True


CASES = [case for case in itertools.product(KINDS, PLACES, WHENS) if is_valid(case)]


@dataclass(frozen=True)
class Seen:
    """The octets that each side received, and how the other side closed; `server` is None when the link did not dial it."""

    server: bytes | None
    server_closed_with: str | None
    client: bytes
    client_closed_with: str | None


def up(count: int) -> bytes:
    """Return what the client sends in the first `count` exchanges."""
    return b"".join(exchange.sent for exchange in EXCHANGES[:count])


def down(count: int) -> bytes:
    """Return what the server sends in the first `count` exchanges."""
    return b"".join(exchange.answer for exchange in EXCHANGES[:count])


ALL = Seen(up(len(EXCHANGES)), None, down(len(EXCHANGES)), None)


def expected(does: str, at: str, when: str) -> Seen:
    """Return what is seen when the fault has fired and is not healed."""
    if at == "connect":
        return at_connect(does)
    place = [exchange.place for exchange in EXCHANGES].index(at)
    if at == "body":
        return in_body(does, place)
    server, client = {
        "before": (up(place), down(place)),
        "heard": (up(place + 1), down(place)),
        "after": (up(place + 1), down(place)),
        "answered": (up(place + 1), down(place + 1)),
    }[when]
    upwards = when in ("before", "heard")
    unit = EXCHANGES[place].sent if upwards else EXCHANGES[place].answer
    match does:
        case "drop" | "reset":
            how = {"drop": "fin", "reset": "reset"}[does]
            return Seen(server, how, client, how)
        case "cut":
            part = unit[: len(unit) // 2]
            return Seen(server + part if upwards else server, "fin", client if upwards else client + part, "fin")
        case "mute":
            return Seen(server, None, client, None)
        case "half-close" | "stall" | "delay":
            return one_way(does, place, when, server, client)
        case "replace":
            ended = "reset" if at == "DATA" else None  # the server waits for a content that will not come
            return Seen(up(place + 1), ended, down(place) + OTHER, None)
        case "answer":
            at_data = "reset" if at == "DATA" and not upwards else None
            return Seen(server, "reset" if (at, when) == ("dot", "before") else at_data, down(place) + OTHER, None)
        case "garble" if upwards:
            return Seen(server + garbled_unit(unit), None, client + b"500 5.5.1 what?\r\n", None)
        case "garble":
            return Seen(server, None, client + garbled_unit(unit), None)
    return ALL  # throttle, split, merge: the same octets, in other pieces


def one_way(does: str, place: int, when: str, server: bytes, client: bytes) -> Seen:
    """Return what is seen when one direction ends or is held and the other still passes."""
    last = place + 1 == len(EXCHANGES)
    over = "fin" if does == "half-close" else None
    match when:
        case "before":
            return Seen(server, over, client, None)
        case "heard":
            return Seen(server, over, down(place + 1), None)
        case "after":
            return Seen(server, None, client, over)
    following = place + (3 if EXCHANGES[place].place == "DATA" else 2)  # the client sends the body and the dot together
    return Seen(server if last else up(following), None, client, over)


def in_body(does: str, place: int) -> Seen:
    server, client = up(place) + BODY[:OFFSET], down(place)
    match does:
        case "drop" | "cut":
            return Seen(server, "fin", client, "fin")
        case "reset":
            return Seen(server, "reset", client, "reset")
        case "half-close":
            return Seen(server, "fin", client, None)
        case "stall" | "delay" | "mute":
            return Seen(server, None, client, None)
        case "garble":
            garbled = BODY[:OFFSET] + bytes([BODY[OFFSET] ^ 0x80]) + BODY[OFFSET + 1 :]
            return Seen(up(len(EXCHANGES)).replace(BODY, garbled), None, ALL.client, None)
    return ALL


def at_connect(does: str) -> Seen:
    match does:
        case "refuse" | "reset":
            return Seen(None, None, b"", "reset")
        case "drop":
            return Seen(None, None, b"", "fin")
        case "answer":
            return Seen(None, None, OTHER, None)
        case "mute" | "stall" | "delay":
            return Seen(None, None, b"", None)
    return ALL


def healed(does: str, at: str, when: str) -> Seen:
    """Return what is seen when the fault has fired and was healed: what was held has passed."""
    before = expected(does, at, when)
    match does:
        case "stall" | "delay":
            return ALL
        case "mute":
            return Seen(before.server, None if before.server is None else "reset", before.client, "reset")
    return before


def garbled_unit(raw: bytes) -> bytes:
    return bytes(octet if octet in b"\r\n" else octet ^ 0x80 for octet in raw)


def seen(world: SocketWorld, client: SocketPeer) -> Seen:
    """Return what the two sockets have seen so far."""
    (server,) = world.served or [None]
    return Seen(
        server.octets if server else None, server.closed_with if server else None, client.octets, client.closed_with
    )


async def wait_until_seen(world: SocketWorld, client: SocketPeer, wanted: Seen) -> None:
    """Wait until exactly this was seen, and check that a further conversation over another link adds nothing."""
    while (now := seen(world, client)) != wanted:
        try:
            async with asyncio.timeout(5):
                await world.wait_for_octets()
        except TimeoutError:
            assert now == wanted  # noqa: PT017  # so that pytest shows the difference
    await world.wait_round_trip()
    assert seen(world, client) == wanted


def test_the_table_has_every_kind_and_every_point() -> None:
    assert {does for does, _, _ in CASES} == set(KINDS) == set(Fault.model_fields["does"].annotation.__args__)  # type: ignore[union-attr]
    assert set(PLACES) >= set(get_args(Place)) - {"verb"}
    assert WHENS == get_args(When)
    assert {(at, when) for _, at, when in CASES} == {
        ("connect", "before"), ("body", "before"), ("greeting", "after"), ("greeting", "answered"),
        *itertools.product(("EHLO", "MAIL", "RCPT", "DATA", "dot", "QUIT"), WHENS),
    }  # fmt: skip
    assert len(CASES) == 252, "as many kinds at a point as `check_fault` is to accept"


@pytest.mark.parametrize(("does", "at", "when"), CASES)
def test_plain_sockets_see_the_expected_octets_and_closes(does: str, at: str, when: str) -> None:
    async def test() -> None:
        async with socket_world() as world:
            world.arm(**fields(does, at, when))
            client = await world.connect()
            await wait_until_seen(world, client, expected(does, at, when))
            assert [(fired.fault, fired.action) for fired in world.fired] == [("f", does)]
            assert [seconds for seconds in world.requested_waits if seconds > 1] == [300.0] * (does == "delay")
            world.links.heal("f")
            await wait_until_seen(world, client, healed(does, at, when))
            assert len(world.fired) == 1

    asyncio.run(test())
