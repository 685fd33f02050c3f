"""Every fault at every place that an address can ask for acts on its session, and on no other."""

import asyncio
import itertools
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import pytest

from conformance.faults import FAULTS, WHENS
from conformance.history.events import FaultFired
from conformance.listen.behaviours import UnknownBehaviour, parse_behaviour
from conformance.listen.checks import judge_client
from conformance.listen.listener import Listener
from conformance.listen.record import ListenRecord
from tests.listen.listening import WITHIN

pytestmark = pytest.mark.integration

PLACES = ("rcpt", "noop", "data", "body", "dot", "rset", "quit")
VALUES = {"delay": "-20ms", "throttle": "-4000", "merge": "-20ms"}
REPLIES = ("greeting", "ehlo", "mail", "rcpt", "noop", "data", "dot", "rset", "quit")
"""What a session of `converse` gets replies to, in order."""
USUAL = ("220", "250", "250", "250", "250", "354", "250", "250", "221")
ENDS = {"drop": "EOF", "cut": "EOF", "half-close": "EOF", "reset": "reset", "stall": "silence", "mute": "silence"}
"""How the faults that end a session, or its replies, end it for the client."""
PATIENCE_S = 6.0
"""How long a client waits for a reply that may never come; for one that must come it waits `WITHIN`."""


def behaviours(places: Sequence[str]) -> list[str]:
    """Return every reply and every valid fault at these places, as local parts."""
    names = [
        f"{place}-{code}"
        for place, code in itertools.product(places, (451, 421, 554))
        if place not in ("body", "connect")
    ]
    for kind, when, place in itertools.product(FAULTS, WHENS, places):
        name = f"{kind}-{when}-{place}{VALUES.get(kind, '')}"
        with suppress(UnknownBehaviour):
            if parse_behaviour(f"{name}@b.test") is not None:
                names.append(name)
    return names


class Conversation(NamedTuple):
    """The last line of each reply that a client got, and why it got no further one: ENDS, or '' after all replies."""

    replies: tuple[str, ...]
    end: str

    @property
    def final(self) -> str:
        """The reply to the final dot; '' if there was none."""
        return dict(zip(REPLIES, self.replies, strict=False)).get("dot", "")


async def converse(host: str, port: int, to: str, patience: float = WITHIN, hello: str = "EHLO") -> Conversation:
    """Hold a session with every command; it ends in silence if a reply takes longer than `patience`."""
    reader, writer = await asyncio.open_connection(host, port)
    replies: list[str] = []
    end = ""
    try:
        for line in (
            "",
            f"{hello} a.test",
            "MAIL FROM:<a@a.test>",
            f"RCPT TO:<{to}>",
            "NOOP",
            "DATA",
            "x\r\n.",
            "RSET",
            "QUIT",
        ):
            writer.write(f"{line}\r\n".encode() if line else b"")
            reply = "250-"
            while reply[3:4] == "-":
                async with asyncio.timeout(patience):
                    reply = (await reader.readuntil(b"\n")).decode("latin-1")
            replies.append(reply)
    except TimeoutError:
        end = "silence"
    except ConnectionError:
        end = "reset"
    except EOFError:
        end = "EOF"
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()
    return Conversation(tuple(replies), end)


def has_acted(name: str, met: Conversation) -> bool:
    """Whether a session with this behaviour shows its effect; what only delays or divides octets must change no reply."""
    codes = tuple(reply[:3] for reply in met.replies)
    place, _, code = name.partition("-")
    if code.isdigit():
        at = REPLIES.index(place)
        return codes[: at + 1] == (*USUAL[:at], code) and met.end == (
            "EOF" if code == "421" and place != "quit" else ""
        )
    kind = next(kind for kind in FAULTS if name.startswith(f"{kind}-"))
    when, place, *_ = name.removeprefix(f"{kind}-").split("-")
    at = REPLIES.index("dot" if place == "body" else place)
    if kind == "garble":
        return not codes[at].isascii() and (*codes[:at], *codes[at + 1 :]) == (*USUAL[:at], *USUAL[at + 1 :])
    if kind not in ENDS:
        return (codes, met.end) == (USUAL, "")
    replies = at + (when == "answered" or (when == "heard" and kind in ("stall", "half-close")))
    if codes == USUAL or (kind, place) == ("mute", "quit"):  # the server ends the session itself
        return replies in (len(USUAL), at) and place == "quit"
    return (codes, met.end) == (USUAL[:replies], ENDS[kind])


@pytest.mark.long
def test_each_acts_on_its_own_session_alone():
    async def main() -> None:
        lines: list[str] = []
        listener = Listener(lines.append, held_back=0.01)
        host, port = await listener.open(("127.0.0.1", 0))
        names = behaviours(PLACES)
        assert len(names) > 100
        async with asyncio.TaskGroup() as group:
            tried = {name: group.create_task(converse(host, port, f"{name}@b.test", PATIENCE_S)) for name in names}
            plain = [group.create_task(converse(host, port, f"alice+{n}@b.test")) for n in range(20)]
        assert {task.result().final for task in plain} == {"250 2.0.0 delivered\r\n"}
        assert [(name, task.result()) for name, task in tried.items() if not has_acted(name, task.result())] == []
        record = await listener.close()
        fired = [event for event in record.events if isinstance(event, FaultFired)]
        asked = {attempt.session: attempt.behaviour for attempt in record.attempts if attempt.behaviour}
        assert sorted(asked.values()) == sorted(names)
        replies_at_dot = {"dot-451": "451 4.3.0 dot-451\r\n", "dot-554": "554 5.3.0 dot-554\r\n"}  # of the sink
        assert {asked[event.session] for event in fired} == set(names) - replies_at_dot.keys()
        assert {name: tried[name].result().final for name in replies_at_dot} == replies_at_dot
        parsed = {session: parse_behaviour(f"{name}@b.test") for session, name in asked.items()}
        assert [e for e in fired if e.action not in {fault.does for fault in parsed[e.session].faults}] == []
        assert [one.check for one in judge_client(record)] == [one.check for one in judge_client(ListenRecord())]

    asyncio.run(main())


@pytest.mark.long
def test_each_at_a_place_before_rcpt_acts_on_the_next_session():
    async def attempt(name: str) -> tuple[str, str, str, list[tuple[str | None, str]]]:
        """Return the name, the replies to the final dot of the first and third session, and where which faults have fired."""
        listener = Listener(lambda line: None, held_back=0.01)
        at = await listener.open(("127.0.0.1", 0))
        first = await converse(*at, f"{name}@b.test")
        await converse(*at, "alice@b.test", PATIENCE_S, "HELO" if "-helo" in f"-{name}" else "EHLO")
        third = await converse(*at, f"{name}@b.test")
        record = await listener.close()
        fired = [e for e in record.events if isinstance(e, FaultFired) and e.detail[:12] != "before RCPT:"]
        return name, first.final, third.final, [(event.session, event.action) for event in fired]

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            places = ("connect", "greeting", "ehlo", "helo", "mail")
            tasks = [group.create_task(attempt(name)) for name in behaviours(places)]
        assert len(tasks) > 50
        for name, first, third, fired in (task.result() for task in tasks):
            assert not first.startswith("250"), name  # its recipient was refused
            assert {session for session, _ in fired} in ({"s2"}, {None}), name  # a refused connection is no session
            behaviour = parse_behaviour(f"{name}@b.test")
            assert behaviour is not None
            assert {action for _, action in fired} <= {fault.does for fault in behaviour.faults}, name
            assert third == "250 2.0.0 delivered\r\n", name

    asyncio.run(main())


@pytest.mark.parametrize(
    ("local", "then", "said"),
    [
        ("drop-noop", (), "drop before NOOP had no occasion"),
        (
            "drop-data",
            ("RSET", "MAIL FROM:<a@a.test>", "RCPT TO:<alice@b.test>", "DATA", "x\r\n."),
            "drop before DATA had no occasion",
        ),
    ],
    ids=["in-the-session", "in-the-transaction"],
)
def test_what_does_not_come_to_pass_is_said(local: str, then: tuple[str, ...], said: str):
    async def main() -> list[str]:
        lines: list[str] = []
        listener = Listener(lines.append, held_back=0.01)
        host, port = await listener.open(("127.0.0.1", 0))
        reader, writer = await asyncio.open_connection(host, port)
        recipients = (f"RCPT TO:<{local}@b.test>", "RCPT TO:<rcpt-451@b.test>")  # the second comes to pass
        for line in ("", "EHLO a.test", "MAIL FROM:<a@a.test>", *recipients, *then, "QUIT"):
            writer.write(f"{line}\r\n".encode() if line else b"")
            while (await reader.readuntil(b"\n"))[3:4] == b"-":
                pass
        writer.close()
        await writer.wait_closed()
        await listener.close()
        return lines

    (line,) = (line for line in asyncio.run(main()) if "had no occasion" in line)
    assert f"s1   !  {said}" in line
