"""A miniature mail server that obeys every clause that the probe judges; a subclass misbehaves in one way.

It keeps no mail: `messages` has what it accepted.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from conformance.probe.sink import ProbeSink
from conformance.wire.link import Address

OFFERS = (
    "PIPELINING", "SIZE 100000", "8BITMIME", "SMTPUTF8", "DSN", "CHUNKING", "ENHANCEDSTATUSCODES", "AUTH PLAIN",
    "VRFY", "HELP", "STARTTLS",
)  # fmt: skip


class Miniature:
    """One session. Each command is a method `on_verb(argument)` that returns a reply without its CRLF."""

    offers: tuple[str, ...] = OFFERS
    greeting = "220 mini.test ready"
    max_line = 2000
    messages: list[bytes]
    next_hop: ProbeSink | None
    context: ssl.SSLContext | None = None

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.buffer = b""
        self.sender: str | None = None
        self.recipients: list[str] = []
        self.chunks: bytes | None = None
        self.greeted = self.secured = self.leaving = False

    async def run(self) -> None:
        await self.write(self.greeting)
        while not self.leaving and (line := await self.line()) is not None:
            await self.dispatch(line)

    async def dispatch(self, line: bytes) -> None:
        verb, _, argument = line.decode("utf-8", "surrogateescape").partition(" ")
        handler = getattr(self, f"on_{verb.lower()}", None)
        if len(line) > self.max_line:
            await self.write("500 5.5.2 line too long")
        elif handler is None:
            await self.write(self.unknown(verb))
        elif (reply := await handler(argument.strip())) is not None:
            await self.write(reply)

    async def line(self) -> bytes | None:
        """Return a line up to CRLF, without it; None at the end of the connection."""
        while b"\r\n" not in self.buffer:
            if not await self.fill():
                return None
        line, _, self.buffer = self.buffer.partition(b"\r\n")
        return line

    async def fill(self) -> bool:
        octets = await self.reader.read(65536)
        self.buffer += octets
        return bool(octets)

    async def write(self, reply: str) -> None:
        self.writer.write(reply.encode("utf-8", "surrogateescape") + b"\r\n")
        await self.writer.drain()

    def unknown(self, verb: str) -> str:
        return "500 5.5.1 not recognized"

    def reset(self) -> None:
        self.sender, self.recipients, self.chunks = None, [], None

    async def on_ehlo(self, name: str) -> str | None:
        if not name:
            return "501 a name is missing"
        self.reset()
        self.greeted = True
        offers = [offer for offer in self.offers if offer != "STARTTLS" or not self.secured]
        lines = ["mini.test at your service", *offers]
        return "\r\n".join(f"250{'-' if n < len(lines) else ' '}{line}" for n, line in enumerate(lines, 1))

    async def on_helo(self, name: str) -> str | None:
        self.reset()
        return "250 mini.test"

    async def on_mail(self, argument: str) -> str | None:
        if self.sender is not None:
            return "503 5.5.1 MAIL was sent"
        path, *parameters = argument.split(" ")
        if not path.upper().startswith("FROM:<") or not path.endswith(">"):
            return "501 5.5.4 no path"
        if not argument.isascii() and "SMTPUTF8" not in parameters:
            return "553 5.6.7 not ASCII"
        names = [parameter.partition("=")[0].upper() for parameter in parameters]
        if len(names) != len(set(names)):
            return "501 5.5.4 twice"
        for parameter in parameters:
            name, _, value = parameter.upper().partition("=")
            if name not in ("SIZE", "BODY", "SMTPUTF8", "RET", "ENVID"):
                return "555 5.5.4 unknown parameter"
            if name == "SIZE" and int(value) > 100000:
                return "552 5.3.4 too large"
            if name == "BODY" and value not in ("7BIT", "8BITMIME"):
                return "501 5.5.4 unknown body"
        self.sender = path
        return "250 2.1.0 sender ok"

    async def on_rcpt(self, argument: str) -> str | None:
        if self.sender is None:
            return "503 5.5.1 MAIL first"
        if not argument.upper().startswith("TO:<") or not argument.endswith(">") or argument.endswith("<>"):
            return "501 5.5.4 no path"
        self.recipients.append(argument)
        return "250 2.1.5 recipient ok"

    async def on_data(self, argument: str) -> str | None:
        if self.chunks is not None:
            return "503 5.5.1 BDAT was used"
        if not self.recipients:
            return "503 5.5.1 RCPT first"
        await self.write("354 go on")
        content = await self.content()
        if content is None:
            return None
        reply = "552 5.3.4 too large" if len(content) > 100000 else self.accept(content)
        self.reset()
        return reply

    def accept(self, content: bytes) -> str:
        self.messages.append(content)
        self.deliver(content)
        return "250 2.0.0 accepted"

    def deliver(self, content: bytes, sender: str | None = None) -> None:
        if self.next_hop is not None:
            envelope = sender if sender is not None else (self.sender or "")[6:-1]
            self.next_hop.deliver(0, envelope, self.recipients, content)

    async def content(self) -> bytes | None:
        """Return the lines up to the final dot, without dot-stuffing; None at the end of the connection."""
        while not (self.buffer.startswith(b".\r\n") or b"\r\n.\r\n" in self.buffer):
            if not await self.fill():
                return None
        if self.buffer.startswith(b".\r\n"):
            self.buffer = self.buffer[3:]
            return b""
        content, _, self.buffer = self.buffer.partition(b"\r\n.\r\n")
        return (b"\r\n" + content + b"\r\n").replace(b"\r\n.", b"\r\n")[2:]

    async def on_bdat(self, argument: str) -> str | None:
        words = argument.upper().split()
        if not words or not words[0].isdecimal() or words[1:] not in ([], ["LAST"]):
            return "501 5.5.4 no size"
        chunk = await self.chunk(int(words[0]))
        if not self.recipients:
            return "503 5.5.1 RCPT first"
        self.chunks = (self.chunks or b"") + chunk
        if len(words) > 1:
            self.accept(self.chunks)
            self.reset()
        return f"250 2.0.0 {len(chunk)} octets"

    async def chunk(self, size: int) -> bytes:
        while len(self.buffer) < size and await self.fill():
            pass
        chunk, self.buffer = self.buffer[:size], self.buffer[size:]
        return chunk

    async def on_rset(self, argument: str) -> str | None:
        if argument:
            return "501 5.5.4 no argument"
        self.reset()
        return "250 2.0.0 reset"

    async def on_noop(self, argument: str) -> str | None:
        return "250 2.0.0 ok"

    async def on_vrfy(self, argument: str) -> str | None:
        return "252 2.1.5 try it"

    async def on_help(self, argument: str) -> str | None:
        return "214 2.0.0 RFC 5321"

    async def on_auth(self, argument: str) -> str | None:
        if argument.upper() != "PLAIN":
            return "504 5.5.4 no such mechanism"
        await self.write("334 ")
        return "501 5.5.2 cancelled" if await self.line() == b"*" else "535 5.7.8 no"

    async def on_starttls(self, argument: str) -> str | None:
        if argument:
            return "501 5.5.4 no argument"
        await self.write("220 2.0.0 begin")
        self.before_tls()
        assert self.context is not None
        await self.writer.start_tls(self.context)
        self.secured = True
        return None

    def before_tls(self) -> None:
        self.buffer = b""
        self.reset()

    async def on_quit(self, argument: str) -> str | None:
        self.leaving = True
        return "221 2.0.0 mini.test bye"


@asynccontextmanager
async def serve(
    kind: type[Miniature],
    context: ssl.SSLContext | None = None,
    *,
    tls: bool = False,
    next_hop: ProbeSink | None = None,
) -> AsyncIterator[Address]:
    """Serve each connection with a session of this kind, and yield the address; `tls`: TLS begins with the connection."""
    kind.context, kind.messages, kind.next_hop = context, [], next_hop
    tasks: set[asyncio.Task[None]] = set()

    async def session(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await kind(reader, writer).run()
        except (OSError, ssl.SSLError):  # the probe went away
            pass
        finally:
            writer.close()
            tasks.discard(task)

    server = await asyncio.start_server(session, "127.0.0.1", 0, ssl=context if tls else None)
    try:
        yield server.sockets[0].getsockname()
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
