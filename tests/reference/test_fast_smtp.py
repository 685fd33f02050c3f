"""FastSMTP behaves as aiosmtpd's own SMTP server: the same shared attributes, replies and idle time-out."""

import asyncio
import ssl
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from aiosmtpd.lmtp import LMTP
from aiosmtpd.smtp import SMTP

from conformance.reference.receive.fast_smtp import FastSMTP
from conformance.reference.receive.prefixed_methods import PrefixedDir
from conformance.run.cell_loop import Clock, run_with_clock


class Hooks(PrefixedDir):
    async def handle_EHLO(self, server: SMTP, session: Any, envelope: Any, name: str, lines: list[str]) -> list[str]:
        session.host_name = name
        return lines

    async def handle_DATA(self, server: SMTP, session: Any, envelope: Any) -> str:
        return "250 taken"


class FastLMTP(FastSMTP, LMTP):
    pass


def authenticator(*given: object) -> None:
    raise NotImplementedError


NOT_SHARED = {
    "_stream_reader_wr", "_strong_reader", "_source_traceback", "_client_connected_cb",
    "require_starttls", "_proxy_timeout", "_enforce_call_limit", "_tls_handshake_okay",
}  # fmt: skip
"""Attributes of aiosmtpd's server alone: the fast one makes a stream only when a command waits for one, and dispatches lines itself."""


def attributes_of(kind: Callable[..., SMTP], names: Iterable[str] | None, options: dict[str, Any]) -> dict[str, Any]:
    """Return attributes of a server, all of its own without `names`, in a comparable form.

    Functions are given by their names, other objects by their types.
    """

    async def make() -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        server = kind(
            Hooks(), loop=loop, hostname="a.test", ident="i", data_size_limit=7, timeout=5.0, authenticator=authenticator,
            **options,
        )  # fmt: skip
        return {name: getattr(server, name) for name in names or vars(server)}

    return {name: _comparable(value) for name, value in asyncio.run(make()).items()}


def _comparable(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: _comparable(each) for name, each in value.items()}
    if isinstance(value, tuple):
        return tuple(_comparable(each) for each in value)
    if isinstance(value, (str, int, float, bool, type(None), ssl.SSLContext)):
        return value
    return getattr(value, "__name__", type(value).__name__)


@pytest.mark.parametrize(
    "options",
    [{}, {"tls_context": ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)}],
    ids=["plain", "tls"],
)
@pytest.mark.parametrize(("fast", "own"), [(FastSMTP, SMTP), (FastLMTP, LMTP)], ids=["smtp", "lmtp"])
def test_the_attributes_that_a_fast_server_shares_with_aiosmtpd_s_are_the_same_but_for_auth_login(
    fast: type[SMTP], own: type[SMTP], options: dict[str, Any]
) -> None:
    without_login = {**options, "auth_exclude_mechanism": ["LOGIN"]}
    expected = {
        name: value for name, value in attributes_of(own, None, without_login).items() if name not in NOT_SHARED
    }
    assert attributes_of(fast, expected, options) == expected
    methods = attributes_of(own, ["_auth_methods"], options)["_auth_methods"]
    assert methods == {**expected["_auth_methods"], "LOGIN": ("auth_LOGIN", True)}


@pytest.mark.parametrize(("kind", "code"), [(FastSMTP, b"250 "), (SMTP, b"500 ")], ids=["fast", "aiosmtpd"])
def test_a_session_shortens_the_lines_of_another_only_in_aiosmtpd_s_server(kind: type[SMTP], code: bytes) -> None:
    """aiosmtpd adds the parameters of its extensions to the limit at EHLO, and takes that back for all when a session begins."""

    async def main(clock: Clock) -> bytes:
        loop = asyncio.get_running_loop()
        options: dict[str, Any] = {"hostname": "a.test", "ident": "i", "timeout": 300.0, "data_size_limit": 1000}
        server = await loop.create_server(
            lambda: kind(Failing(), loop=loop, authenticator=authenticator, **options), "127.0.0.1", 0
        )
        address = server.sockets[0].getsockname()
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"EHLO me\r\n")
        await reader.readuntil(b"250 HELP\r\n")
        _, other = await asyncio.open_connection(*address)
        await clock.sleep(1)
        writer.write(b"MAIL FROM:<a@" + b"b" * 500 + b".test> SIZE=1\r\n")
        reply = await reader.readline()
        writer.close()
        other.close()
        server.close()
        return reply

    assert run_with_clock(main, "virtual").startswith(code)


@pytest.mark.parametrize("fast", [True, False], ids=["fast", "aiosmtpd"])
def test_a_silent_client_times_out_after_its_last_command(fast: bool) -> None:
    """Commands 120 s and 320 s after the greeting, and a time-out of 300 s: 620 s in all."""

    async def main(clock: Clock) -> float:
        loop = asyncio.get_running_loop()
        options: dict[str, Any] = {
            "hostname": "a.test",
            "ident": "i",
            "timeout": 300.0,
            "data_size_limit": None,
            "authenticator": authenticator,
        }
        kind = FastSMTP if fast else SMTP
        server = await loop.create_server(lambda: kind(Hooks(), loop=loop, **options), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        await reader.readline()
        for wait in (120, 200):
            await clock.sleep(wait)
            writer.write(b"NOOP\r\n")
            await reader.readline()
        assert await reader.read() == b""
        at = clock.elapsed()
        writer.close()
        server.close()
        return at

    assert run_with_clock(main, "virtual") == 620


def test_an_idle_limit_that_is_shorter_than_the_timer_that_is_set_holds() -> None:
    class ShorterAfterTheGreeting(FastSMTP):
        async def smtp_NOOP(self, arg: str | None) -> None:
            self._reset_timeout(10.0)
            await self.push("250 ok")

    async def main(clock: Clock) -> float:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: ShorterAfterTheGreeting(
                Hooks(), loop=loop, hostname="a.test", ident="i", timeout=300.0, data_size_limit=None,
                authenticator=authenticator,
            ),
            "127.0.0.1", 0,
        )  # fmt: skip
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"NOOP\r\n")
        await reader.read()
        writer.close()
        server.close()
        return clock.elapsed()

    assert run_with_clock(main, "virtual") == 10


LONG = b"NOOP " + b"x" * 600 + b"\r\n"
BEYOND = b"NOOP " + b"x" * 3000 + b"\r\n"
CONVERSATIONS = {
    "one command at a time": [b"EHLO me\r\n", b"NOOP\r\n", b"QUIT\r\n"],
    "a line in two parts": [b"EH", b"LO me\r\nNO", b"OP\r\n", b"QUIT\r\n"],
    "all at once": [b"EHLO me\r\nNOOP\r\nNOPE\r\nRSET\r\nQUIT\r\nNOOP\r\n"],
    "a message": [b"EHLO me\r\n", b"MAIL FROM:<a@b.test>\r\nRCPT TO:<c@d.test>\r\nDATA\r\n", b"x\r\n.\r\nNOOP\r\n", b"QUIT\r\n"],
    "a message all at once": [b"HELO me\r\nMAIL FROM:<a@b.test>\r\nRCPT TO:<c@d.test>\r\nDATA\r\nx\r\n..\r\n.\r\nQUIT\r\n"],
    "a line that is too long": [b"EHLO me\r\n", LONG, LONG + b"NOOP\r\n", b"QUIT\r\n"],
    "a line beyond all bounds": [b"EHLO me\r\n", BEYOND, BEYOND[:2000], BEYOND[2000:] + b"NOOP\r\n" + BEYOND, b"QUIT\r\n"],
    "nothing that can be read": [b"\r\n", b" \r\n", b" NOOP\r\n", b"\xff\r\n", b"NOOP \xff\r\n", b"NOOP  \r\n", b"QUIT now\r\n"],
    "nothing that is known": [b"ONE\r\nTWO\r\nTHREE\r\nFOUR\r\nFIVE\r\nSIX\r\n"],
    "help": [b"EHLO me\r\n", b"HELP\r\n", b"HELP MAIL\r\nHELP nope\r\nHELP help\r\n", b"VRFY bob\r\nVRFY\r\nEXPN bob\r\n", b"QUIT\r\n"],
    "out of order": [b"MAIL FROM:<a@b.test>\r\n", b"EHLO me\r\nRCPT TO:<c@d.test>\r\nDATA\r\n", b"MAIL FROM:<a@b.test>\r\nDATA\r\n", b"QUIT\r\n"],
    "malformed": [b"EHLO\r\nHELO\r\n", b"EHLO me\r\n", b"MAIL a@b.test\r\nMAIL FROM:a b\r\nMAIL FROM:<a@b.test> X=1\r\n", b"DATA x\r\nRSET x\r\n"],
    "a hook that fails": [b"EHLO me\r\n", b"MAIL FROM:<fail@b.test>\r\n", b"NOOP\r\n", b"QUIT\r\n"],
    "gone amid a line": [b"EHLO me\r\n", b"NOO"],
    "gone amid a message": [b"HELO me\r\n", b"MAIL FROM:<a@b.test>\r\nRCPT TO:<c@d.test>\r\n", b"DATA\r\n", b"x\r\n"],
}  # fmt: skip


class Failing(Hooks):
    async def handle_MAIL(self, server: SMTP, session: Any, envelope: Any, address: str, options: list[str]) -> str:
        if address.startswith("fail"):
            raise ValueError(address)
        envelope.mail_from = address
        return "250 sender"

    async def handle_DATA(self, server: SMTP, session: Any, envelope: Any) -> str:
        await asyncio.sleep(1)
        return f"250 taken {envelope.original_content!r}"

    async def handle_exception(self, error: Exception) -> str:
        return f"451 {error}"


def replies_of(kind: Callable[..., SMTP], said: list[bytes]) -> bytes:
    """Return all replies of a server to a client that sends these parts, 10 s apart, and then closes its side."""

    async def main(clock: Clock) -> bytes:
        loop = asyncio.get_running_loop()
        options: dict[str, Any] = {
            "hostname": "a.test",
            "ident": "i",
            "timeout": 300.0,
            "data_size_limit": None,
            "authenticator": authenticator,
        }
        server = await loop.create_server(lambda: kind(Failing(), loop=loop, **options), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        for part in said:
            writer.write(part)
            await clock.sleep(10)
        writer.write_eof()
        replies = await reader.read()
        writer.close()
        server.close()
        return replies

    return run_with_clock(main, "virtual")


@pytest.mark.parametrize("said", CONVERSATIONS.values(), ids=CONVERSATIONS.keys())
def test_a_fast_server_sends_the_same_replies_as_aiosmtpd_s(said: list[bytes]) -> None:
    own = replies_of(SMTP, said)
    assert replies_of(FastSMTP, said) == own
    assert own.startswith(b"220 a.test i\r\n")
