"""Clients that send anything: the listener goes on, and its judgement raises nothing."""

import asyncio
import random
from contextlib import suppress

import pytest

from conformance.history.events import Connected
from conformance.listen.checks import judge_client
from conformance.listen.listener import Listener
from conformance.listen.record import ListenRecord
from tests.listen.test_every_behaviour import converse

pytestmark = pytest.mark.integration

WORDS = (
    b"EHLO a.test\r\n", b"HELO\r\n", b"MAIL FROM:<a@a.test>\r\n", b"MAIL FROM:<a@a.test> BODY=8BITMIME X=\xff\r\n", b"RCPT TO:<silent@b.test>\r\n",
    b"RCPT TO:<rcpt-451@b.test>\r\n", b"RCPT TO:<dot-421@b.test>\r\n", b"RCPT TO:<drop-data-x99@b.test>\r\n", b"RCPT TO:<-@>\r\n",
    b"RCPT TO:<drop-@b.test>\r\n", b"RCPT TO:<" + b"silent-" * 300 + b"@b.test>\r\n", b"DATA\r\n", b"x\r\n", b".\r\n", b".dot\r\n", b"\x00\xff\n", b"\r",
    b"RSET\r\n", b"QUIT\r\n", b"AUTH PLAIN\r\n", b"STARTTLS\r\n", b"BDAT 5 LAST\r\nhello", b"y" * 20_000, b"\r\n.\r\n", b"NOOP\r\n" * 50,
)  # fmt: skip


async def babble(host: str, port: int, rng: random.Random) -> None:
    """Send words in any order, with pauses and ends in any place."""
    reader, writer = await asyncio.open_connection(host, port)
    with suppress(OSError):
        for _ in range(rng.randrange(1, 25)):
            writer.write(rng.choice(WORDS))
            await writer.drain()
            if rng.random() < 0.6:
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.05):
                        await reader.read(4096)
        if rng.random() < 0.3:
            writer.write_eof()
    if rng.random() < 0.3:
        writer.transport.abort()
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


@pytest.mark.parametrize("seed", range(4))
def test_clients_that_send_random_words_are_judged(seed: int):
    async def main() -> None:
        lines: list[str] = []
        listener = Listener(lines.append, held_back=0.01)
        address = await listener.open(("127.0.0.1", 0))
        rng = random.Random(seed)
        async with asyncio.TaskGroup() as group:
            for _ in range(60):
                group.create_task(babble(*address, random.Random(rng.random())))
        assert not listener.stopping.is_set()
        conversation = await converse(*address, "alice@b.test")
        assert "250 2.0.0 delivered\r\n" in conversation.replies, "the listener goes on"
        record = await listener.close()
        assert len({event.session for event in record.events if isinstance(event, Connected)}) == 61
        assert [one.check for one in judge_client(record)] == [one.check for one in judge_client(ListenRecord())]
        assert all(line.isprintable() for line in lines)

    asyncio.run(main())


def test_an_exception_in_a_session_is_no_verdict(monkeypatch: pytest.MonkeyPatch):
    async def main() -> None:
        listener = Listener(lambda line: None)
        address = await listener.open(("127.0.0.1", 0))
        monkeypatch.setattr("conformance.listen.behaviour_injector.parse_behaviour", lambda address: 1 / 0)
        _, writer = await asyncio.open_connection(*address)
        writer.write(b"EHLO a.test\r\nMAIL FROM:<a@a.test>\r\nRCPT TO:<b@b.test>\r\n")
        await listener.stopping.wait()
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        with pytest.raises(ZeroDivisionError):
            await listener.close()

    asyncio.run(main())
