"""Mail in virtual time with aiosmtpd and aiosmtplib: STARTTLS, AUTH, implicit TLS, large bodies, timeouts."""

import asyncio
import ssl
from collections.abc import Callable
from email.message import EmailMessage

import aiosmtplib
import pytest
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from conformance.run.cell_loop import Clock, run_with_clock

Contexts = tuple[ssl.SSLContext, ssl.SSLContext]


class Sink:
    """Takes 30 seconds to accept a message; notes time, size, TLS and authentication of each."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.taken: list[tuple[float, int, bool, bool]] = []

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        await self.clock.sleep(30)
        assert isinstance(envelope.content, bytes)
        assert server.transport is not None
        over_tls = server.transport.get_extra_info("ssl_object") is not None
        self.taken.append((self.clock.elapsed(), len(envelope.content), over_tls, session.authenticated))
        return "250 2.0.0 OK"


def knows(server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: object) -> AuthResult:
    return AuthResult(success=data == LoginPassword(b"user", b"secret"))


def message(octets: int) -> EmailMessage:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"], mail["Message-ID"] = "a@one.test", "b@two.test", "x", "<1@one.test>"
    mail.set_content(("y" * 70 + "\n") * (octets // 71))
    return mail


async def send_every_two_hours(
    clock: Clock, make: Callable[[Sink], SMTP], client: Callable[[int], aiosmtplib.SMTP], times: int, octets: int = 2000,
    tls: ssl.SSLContext | None = None, login: bool = False,
) -> list[tuple[float, int, bool, bool]]:  # fmt: skip
    loop = asyncio.get_running_loop()
    sink = Sink(clock)
    server = await loop.create_server(lambda: make(sink), "127.0.0.1", 0, ssl=tls)
    for _ in range(times):
        await clock.sleep(7200)
        async with client(server.sockets[0].getsockname()[1]) as session:
            if login:
                await session.login("user", "secret")
            await session.send_message(message(octets))
    server.close()
    return sink.taken


def plain_server(sink: Sink) -> SMTP:
    return SMTP(sink, hostname="sink.test", loop=asyncio.get_running_loop(), data_size_limit=None)


def plain_client(port: int) -> aiosmtplib.SMTP:
    return aiosmtplib.SMTP(hostname="127.0.0.1", port=port, local_hostname="one.test", start_tls=False)


def test_two_days_of_mail_take_no_time_beyond_the_waits() -> None:
    taken = run_with_clock(lambda clock: send_every_two_hours(clock, plain_server, plain_client, 24), "virtual")
    assert [at for at, *_ in taken] == [7230.0 * (n + 1) for n in range(24)]


def test_mail_with_starttls_and_auth_takes_no_virtual_time(contexts: Contexts) -> None:
    served, trusting = contexts

    def server(sink: Sink) -> SMTP:
        loop = asyncio.get_running_loop()
        return SMTP(
            sink, hostname="sink.test", loop=loop, tls_context=served, require_starttls=True,
            authenticator=knows, auth_required=True,
        )  # fmt: skip

    def client(port: int) -> aiosmtplib.SMTP:
        return aiosmtplib.SMTP(
            hostname="localhost", port=port, local_hostname="one.test", start_tls=True, tls_context=trusting
        )

    taken = run_with_clock(lambda clock: send_every_two_hours(clock, server, client, 12, login=True), "virtual")
    assert [(at, secured, known) for at, _, secured, known in taken] == [
        (7230.0 * (n + 1), True, True) for n in range(12)
    ]


def test_mail_with_implicit_tls_takes_no_virtual_time(contexts: Contexts) -> None:
    served, trusting = contexts

    def client(port: int) -> aiosmtplib.SMTP:
        return aiosmtplib.SMTP(
            hostname="localhost", port=port, local_hostname="one.test", use_tls=True, tls_context=trusting
        )

    taken = run_with_clock(lambda clock: send_every_two_hours(clock, plain_server, client, 12, tls=served), "virtual")
    assert [(at, secured) for at, _, secured, _ in taken] == [(7230.0 * (n + 1), True) for n in range(12)]


def test_large_bodies_take_no_virtual_time() -> None:
    size = 8_000_000

    async def main(clock: Clock) -> list[tuple[float, int, bool, bool]]:
        return await send_every_two_hours(clock, plain_server, plain_client, 2, octets=size)

    taken = run_with_clock(main, "virtual")
    assert [at for at, *_ in taken] == [7230.0, 14460.0]
    assert all(octets > size for _, octets, *_ in taken)


def test_a_timeout_expires_at_its_own_time() -> None:
    async def main(clock: Clock) -> float:
        async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        server = await asyncio.start_server(mute, "127.0.0.1", 0)
        client = plain_client(server.sockets[0].getsockname()[1])
        client.timeout = 300
        with pytest.raises(aiosmtplib.SMTPConnectTimeoutError):
            await client.connect()
        at = clock.elapsed()
        client.close()
        server.close()
        return at

    assert run_with_clock(main, "virtual") == 300
