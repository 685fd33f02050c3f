"""The client's connection reads the replies of any server, and leaves one that is silent or says something else."""

import asyncio
import ssl
from typing import Any

import pytest

from conformance.reference.send.connection import Connection, SessionLost
from conformance.run.cell_loop import run_with_clock


class Transport(asyncio.Transport):
    """A transport that sends nothing, and keeps what it was given."""

    aborted = False
    unsent = 0

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def write(self, data: Any) -> None:
        self.written.append(data)

    def abort(self) -> None:
        self.aborted = True

    def get_write_buffer_size(self) -> int:
        return self.unsent


def connected() -> tuple[Connection, Transport]:
    connection, transport = Connection(), Transport()
    connection.connection_made(transport)
    return connection, transport


async def read_all(parts: list[bytes]) -> list[str]:
    """Return all replies to these octets, and why there is no further one."""
    connection, _ = connected()
    for part in parts:
        connection.data_received(part)
    found = []
    try:
        while True:
            found.append(str(await connection.read_reply(1.0)))
    except SessionLost as lost:
        return [*found, f"lost: {lost}"]


SILENCE = "lost: no reply within 1 s"


@pytest.mark.parametrize(
    ("octets", "read"),
    [
        (b"250 ok\r\n", ["250 ok"]),
        (b"250-one \t\r\n250 two\r\n", ["250 one\ntwo"]),
        (b"250-2.0.0 database x\r\n250 2.0.0 end 0\r\n", ["250 2.0.0 database x\nend 0"]),
        (b"354\r\n", ["354"]),
        (b"250-\r\n250\r\n", ["250 \n"]),
        (b"220 \xc3\xa9 \xff\r\n", ["220 \xe9 ?"]),
        (b"250 one\r\n451 two\r\n", ["250 one", "451 two"]),
        (b"250-one\r\n", []),
        (b"250 one", []),
    ],
)
def test_replies_are_read_in_whatever_pieces_they_come(octets: bytes, read: list[str]) -> None:
    in_two = [[octets[:n], octets[n:]] for n in range(1, len(octets))]
    for parts in [[octets], *in_two, [octets[n : n + 1] for n in range(len(octets))]]:
        assert run_with_clock(lambda clock, parts=parts: read_all(parts), "virtual") == [*read, SILENCE]


INVALID, ENDLESS = "lost: not a valid reply", "lost: a line of a reply has no end"


@pytest.mark.parametrize(
    ("octets", "replies", "end"),
    [
        (b"\r\n", [], INVALID),
        (b"25 odd\r\n", [], INVALID),
        (b"25x odd\r\n", [], INVALID),
        (b"600 odd\r\n", [], INVALID),
        (b"199 odd\r\n", [], INVALID),
        (b"2500\r\n", [], INVALID),
        (b"250 ok\r\nno reply\r\n", ["250 ok"], INVALID),
        (b"x" * 65537, [], ENDLESS),
    ],
)
def test_something_else_than_a_reply_ends_the_connection(octets: bytes, replies: list[str], end: str) -> None:
    async def steps() -> tuple[list[str], bool, bool]:
        connection, transport = connected()
        connection.data_received(octets)
        return await read_all([octets]), connection.is_open, transport.aborted

    read, is_open, aborted = asyncio.run(steps())
    assert (is_open, aborted) == (False, True)
    assert read[:-1] == replies
    assert read[-1].startswith(end)


def test_a_line_of_the_greatest_length_does_not_end_the_connection() -> None:
    connection, transport = connected()
    connection.data_received(b"x" * 65536)
    assert (connection.is_open, transport.aborted) == (True, False)


def test_a_reply_that_came_unasked_answers_no_command() -> None:
    async def steps() -> str:
        connection, _ = connected()
        connection.data_received(b"250 again\r\n")
        connection.write(b"NOOP\r\n")
        connection.data_received(b"251 ok\r\n")
        return str(await connection.read_reply(1.0))

    assert asyncio.run(steps()) == "251 ok"


@pytest.mark.parametrize("behind", [b"250 whole\r\n", b"250-part\r\n", b"250 pa", b"250 whole\r\n250-part\r\n250 pa"])
def test_nothing_that_came_in_plaintext_answers_a_command_within_tls(
    behind: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def steps() -> str:
        connection, _ = connected()
        connection.data_received(b"220 go\r\n" + behind)
        await connection.read_reply(1.0)

        async def start_tls(*given: object, **options: object) -> asyncio.Transport:
            return Transport()

        monkeypatch.setattr(asyncio.get_running_loop(), "start_tls", start_tls)
        await connection.start_tls(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), 1.0)
        connection.data_received(b"250 ok\r\n")
        return str(await connection.read_reply(1.0))

    assert asyncio.run(steps()) == "250 ok"


def test_nothing_is_sent_over_a_connection_that_has_ended() -> None:
    connection, transport = connected()
    assert connection.is_open
    connection.write(b"NOOP\r\n")
    connection.connection_lost(None)
    assert not connection.is_open
    with pytest.raises(SessionLost, match="the server ended the connection"):
        connection.write(b"RSET\r\n")
    assert transport.written == [b"NOOP\r\n"]
    connection, transport = connected()
    connection.data_received(b"no reply\r\n")
    with pytest.raises(SessionLost, match="not a valid reply"):
        connection.write(b"NOOP\r\n")
    assert transport.written == []


def test_a_server_that_reads_on_is_not_silent() -> None:
    """It reads for 150 s; the first whole minute without a read is the fourth, which begins at 180 s."""

    async def steps(clock: Any) -> float:
        connection, transport = connected()
        transport.unsent = 3000
        reading = asyncio.create_task(connection.read_reply(60.0))
        for _ in range(15):
            await clock.sleep(10)
            transport.unsent -= 200
        with pytest.raises(SessionLost, match="no reply within 60 s"):
            await reading
        elapsed: float = clock.elapsed()
        return elapsed

    assert run_with_clock(steps, "virtual") == 240
