"""The small relay with STARTTLS and AUTH at its door, and STARTTLS with next hops that offer it; AUTH is offered within TLS."""

import asyncio
import base64
import binascii
import ssl

from conformance.wire.certificate import sink_context
from tests.relays.extended import ExtendedHop, ExtendedRelay, parameters
from tests.relays.relay import PATH

TESTER = base64.b64encode(b"\0tester\0for-the-test")


def client_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


class SecuredHop(ExtendedHop):
    """Begins TLS with a next hop that offers it, and goes on in the clear where that fails."""

    tls = True

    async def open(self) -> None:
        await super().open()
        if not self.tls or "STARTTLS" not in self.offered:
            return
        assert self.writer is not None
        if (code := await self.say("STARTTLS")) != 220:
            await self.refused(code)
            return
        try:
            await self.secure()
        except OSError as error:
            await self.broken(error)
            return
        await self.greet_again()

    async def secure(self) -> None:
        """Drop what has come in plaintext, and begin TLS."""
        assert self.writer is not None
        self.reader._buffer.clear()  # type: ignore[attr-defined]
        await self.writer.start_tls(client_context())

    async def greet_again(self) -> None:
        await self.say("EHLO mini")

    async def refused(self, code: int) -> None:
        """Go on after a refusal of STARTTLS."""

    async def broken(self, error: OSError) -> None:
        """Go on after a handshake that failed: in another session, without TLS."""
        self.tls, self.usable = False, True
        await self.open()


class SecuredRelay(ExtendedRelay):
    """One node."""

    hop = SecuredHop

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one client until it leaves."""
        writer.write(b"220 mini ready\r\n")
        self.secured = self.authenticated = False
        self.forget()
        while True:
            line = (await reader.readuntil(b"\r\n")).decode("latin-1").rstrip()
            verb = line.partition(" ")[0].upper()
            if verb == "EHLO":
                self.forget()
                words = ["mini", "8BITMIME", "DSN", *self.keywords()]
                writer.write("".join(f"250{'-' if w is not words[-1] else ' '}{w}\r\n" for w in words).encode())
            elif verb == "STARTTLS":
                writer.write(b"220 go ahead\r\n")
                await self.secure(reader, writer)
            elif verb == "AUTH":
                await self.authenticate(line, reader, writer)
            elif verb == "DATA" and self.recipients:
                writer.write(b"354 go on\r\n")
                code = await self.take(self.sender or "", self.recipients, await self.read_content(reader))
                self.forget()
                writer.write(b"%d done\r\n" % code)
            else:
                code = self.answer(line, self.recipients)
                if verb == "MAIL":
                    self.sender, self.mail = PATH.search(line)[1], parameters(line)  # type: ignore[index]
                elif verb == "RCPT" and self.sender is None:
                    code = 503
                elif verb == "RCPT" and code == 250:
                    self.recipients.append(to := PATH.search(line)[1])  # type: ignore[index]
                    self.rcpt[to] = parameters(line)
                elif verb == "RSET":
                    self.forget()
                writer.write(b"%d said the miniature\r\n" % code)
                if verb == "QUIT":
                    return

    def keywords(self) -> list[str]:
        """Return the keywords of the EHLO reply that concern security."""
        return ["AUTH PLAIN"] if self.secured else ["STARTTLS"]

    async def secure(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Drop what has come in plaintext and what the client has said, and begin TLS."""
        reader._buffer.clear()  # type: ignore[attr-defined]
        await writer.start_tls(sink_context())
        self.secured, self.authenticated = True, False
        self.forget()

    async def authenticate(self, line: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer AUTH PLAIN."""
        words = line.split()
        if self.out_of_order():
            writer.write(b"503 not now\r\n")
            return
        response = words[2].encode() if len(words) > 2 else None
        if response == b"=":
            response = b""
        if response is None:
            response = await self.ask(reader, writer)
        if response == b"*":
            writer.write(b"%d cancelled\r\n" % self.cancelled)
            return
        try:
            base64.b64decode(response, validate=True)
        except binascii.Error:
            writer.write(b"501 not Base64\r\n")
            return
        self.authenticated = response == TESTER
        writer.write(b"235 welcome\r\n" if self.authenticated else b"535 no\r\n")
        if not self.authenticated:
            await self.after_failure()

    cancelled = 501

    def out_of_order(self) -> bool:
        """Return whether AUTH is refused with 503."""
        return self.authenticated or self.sender is not None

    async def ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        """Ask for the response, and return it."""
        writer.write(b"334 \r\n")
        return (await reader.readuntil(b"\r\n")).rstrip()

    async def after_failure(self) -> None:
        """Do what follows wrong credentials: nothing."""
