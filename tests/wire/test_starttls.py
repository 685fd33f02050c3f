"""STARTTLS through a link: sender and server go on under TLS, and the history records nothing after it."""

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from aiosmtpd.controller import SMTP

from conformance.history.events import Closed, Command, Content, Reply
from conformance.run.virtual.loop import VirtualClockEventLoop
from conformance.scenarios.steps.talking import Line
from conformance.wire.client import Identity
from conformance.wire.sender import Recipient, Sender, Transmission
from conformance.wire.talk import talk
from tests.wire.peers import World, run
from tests.wire.scripted_server import scripted_server

openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")


class Box:
    def __init__(self) -> None:
        self.contents: list[bytes] = []

    async def handle_DATA(self, server: object, session: object, envelope: object) -> str:
        self.contents.append(envelope.original_content)  # type: ignore[attr-defined]
        return "250 2.0.0 taken"


@openssl
def test_a_message_sent_after_starttls_arrives_and_the_history_ends_at_starttls(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    names = ["-keyout", str(key), "-out", str(certificate), "-subj", "/CN=localhost", "-days", "2"]
    subprocess.run([*command, *names, "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(certificate, key)
    trusting = ssl.create_default_context(cafile=str(certificate))

    async def test(world: World) -> None:
        box, loop = Box(), asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: SMTP(box, hostname="t", tls_context=served, loop=loop), "127.0.0.1", 0
        )
        link = await world.links.open("a", "t", "smtp", server.sockets[0].getsockname())
        sender = Sender(link.address, Identity(tls=trusting), session_behind=world.links.session_behind)
        outcome = await sender.send(Transmission("a@x", (Recipient("b@x"),), b"A: b\r\n\r\nx\r\n"))
        assert (outcome.code, outcome.session) == (250, "s1")
        assert box.contents == [b"A: b\r\n\r\nx\r\n"]
        await sender.quit()
        closed = await world.wait_for_event(Closed)
        assert closed.how == "secured"
        assert [e.verb for e in world.events(Command)] == ["EHLO", "STARTTLS"]
        assert [e.to for e in world.events(Reply)] == ["GREETING", "EHLO", "STARTTLS"]
        assert not world.events(Content)
        server.close()

    run(test)


INJECTING = (b"220 t\r\n", b"250-t\r\n250 STARTTLS\r\n", b"220 go\r\n250 injected\r\n")


def test_the_sender_refuses_tls_after_octets_behind_the_220() -> None:
    async def main() -> None:
        over = asyncio.Event()
        async with asyncio.timeout(10), scripted_server(*INJECTING, over=over) as (address, heard):
            identity = Identity(tls=ssl.create_default_context())
            outcome = await Sender(address, identity).send(
                Transmission("a@x", (Recipient("b@x"),), b"A: b\r\n\r\nx\r\n")
            )
            assert (outcome.outcome, outcome.text) == ("lost", "no TLS: the server sent octets behind its 220")
            await over.wait()
            assert heard == [b"EHLO outside.test\r\n", b"STARTTLS\r\n"]

    asyncio.run(main())


def test_talk_refuses_tls_after_octets_behind_the_220() -> None:
    lines = [{"code": 220}, {"say": "EHLO x", "code": 250}, {"say": "STARTTLS", "code": 220, "secure": True}]

    async def main() -> None:
        over = asyncio.Event()
        async with asyncio.timeout(10), scripted_server(*INJECTING, over=over) as (address, heard):
            said = await talk(address, [Line.model_validate(line) for line in lines], make_content=lambda name: b"")
            assert said.problem == "expected TLS, but the server sent octets behind its 220"
            await over.wait()
        assert heard == [b"EHLO x\r\n", b"STARTTLS\r\n"]

    asyncio.run(main())


@pytest.mark.parametrize("new_loop", [asyncio.SelectorEventLoop, VirtualClockEventLoop])
def test_octets_in_a_segment_behind_that_of_the_220_are_refused_too(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """The server sends them once the 220 was read: they are in the kernel then, and not in the client's reader."""
    lines = [{"code": 220}, {"say": "STARTTLS", "code": 220, "secure": True}]
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        writer.write(b"220 t\r\n")
        await reader.readline()
        writer.write(b"220 go\r\n")

    async def main() -> None:
        asked = 0

        def elapsed() -> float:
            nonlocal asked
            asked += 1
            if asked == 4:  # at the beginning and at the end of each exchange
                writers[0].write(b"250 injected\r\n")
            return 0.0

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with asyncio.timeout(10):
            said = await talk(
                server.sockets[0].getsockname(),
                [Line.model_validate(line) for line in lines],
                make_content=lambda name: b"",
                elapsed=elapsed,
            )
        assert said.problem == "expected TLS, but the server sent octets behind its 220"
        writers[0].close()
        server.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())
