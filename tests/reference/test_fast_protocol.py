"""The SMTP client's fast parser of replies gives the same results as aiosmtplib's."""

import asyncio
from typing import Any

import pytest
from aiosmtplib import SMTPResponse
from aiosmtplib.protocol import SMTPProtocol

from conformance.reference.send.smtp import FastProtocol

REPLIES = [
    b"250 ok\r\n",
    b"250-one\r\n250 two\r\n",
    b"250-\r\n250-one \t\r\n250 two\r\n",
    b"250-2.0.0 database x\r\n250 2.0.0 end 0\r\n",
    b"354\r\n",
    b"220 \xc3\xa9 \xff\r\n",
    b"250 one\n",
    b"250-one\n250 two\r\n",
    b"250-one\r\n",
    b"250 one",
    b"250-one\r\n550 two\r\n",
    b"250 one\r\n250 two\r\n",
    b"250 one\r\n250-two\r\n",
    b" 25 odd\r\n",
    b"25x odd\r\n",
    b"\r\n",
    b"no reply at all\r\n",
    b"250 " + b"x" * 2000 + b"\r\n",
    b"250-" + b"x" * 40000 + b"\r\n250 two\r\n",
]


class NullTransport(asyncio.Transport):
    def write(self, data: Any) -> None: ...

    def is_closing(self) -> bool:
        return False


def states_after(kind: type[SMTPProtocol], parts: list[bytes]) -> list[SMTPResponse | str | None]:
    """Return the state of the greeting after each part: None (incomplete), the reply, or the error as text."""

    async def listen() -> list[SMTPResponse | str | None]:
        protocol = kind(asyncio.get_running_loop())
        protocol.connection_made(NullTransport())
        waiter = protocol._response_waiter
        found: list[SMTPResponse | str | None] = []
        for part in parts:
            protocol.data_received(part)
            failed = waiter.exception() if waiter.done() else None
            found.append(None if not waiter.done() else repr(failed) if failed else waiter.result())
        return found

    return asyncio.run(listen())


@pytest.mark.parametrize("reply", REPLIES, ids=[repr(reply[:40]) for reply in REPLIES])
def test_a_reply_is_parsed_as_aiosmtplib_parses_it(reply: bytes) -> None:
    for parts in [[reply], [reply[:5], reply[5:]], [reply, b"250 late\r\n"]]:
        assert states_after(FastProtocol, parts) == states_after(SMTPProtocol, parts)
