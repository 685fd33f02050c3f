"""The client's side of SMTP and LMTP: one session to one next hop."""

import asyncio
import base64
import contextlib
import re
import ssl
from dataclasses import dataclass

from store import Message


class Lost(Exception):
    """The session cannot go on: refused, broken, silent for too long, or not answered as it must be."""


@dataclass(frozen=True)
class Reply:
    """A reply: its code, and its lines without the codes."""

    code: int
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        """The reply in one line."""
        return " ".join((str(self.code), *self.lines))


class Client:
    """A session; `in_doubt` is true while a final dot has gone out and its reply has not come."""

    def __init__(self, protocol: str, name: str, idle: float) -> None:
        self._lmtp, self._name, self._idle = protocol == "lmtp", name, idle
        self.keywords: dict[str, str] = {}
        self.in_doubt = False
        self._writer: asyncio.StreamWriter | None = None

    async def open(self, host: str, port: int, secret: str | None = None) -> None:
        """Connect, greet, and authenticate where the pair has a secret. Raises Lost."""
        self._reader, self._writer = await self._bounded(asyncio.open_connection(host, port))
        greeting = await self.reply()
        if greeting.code != 220:
            raise Lost(greeting.text)
        await self._hello()
        if secret and "AUTH" not in self.keywords and "STARTTLS" in self.keywords:
            await self.command("STARTTLS", expect=220)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            await self._bounded(self._writer.start_tls(context))
            await self._hello()
        if secret and "PLAIN" in self.keywords.get("AUTH", ""):
            words = base64.b64encode(f"\0{self._name}\0{secret}".encode()).decode()
            await self.command(f"AUTH PLAIN {words}")  # refused: go on without the rights

    async def _hello(self) -> None:
        reply = await self.command(f"{'LHLO' if self._lmtp else 'EHLO'} {self._name}", expect=250)
        words = [line.partition(" ") for line in reply.lines[1:]]
        self.keywords = {keyword.upper(): rest for keyword, _, rest in words}

    async def _bounded(self, what):
        try:
            return await asyncio.wait_for(what, self._idle)
        except (OSError, EOFError, TimeoutError, ValueError) as error:
            raise Lost(f"{type(error).__name__}: {error}") from error

    async def reply(self) -> Reply:
        """Read one reply. Raises Lost."""
        lines = []
        while True:
            line = (await self._bounded(self._reader.readuntil(b"\n"))).decode("utf-8", "replace").rstrip("\r\n")
            if not re.match(r"[2-5][0-9][0-9]([ -]|$)", line):
                raise Lost(f"not a reply: {line[:80]}")
            lines.append(line[4:])
            if line[3:4] != "-":
                return Reply(int(line[:3]), tuple(lines))

    async def command(self, line: str, expect: int | None = None) -> Reply:
        """Send a command and read its reply. Raises Lost, also where another reply is `expect`ed."""
        await self._send(line.encode() + b"\r\n")
        reply = await self.reply()
        if expect is not None and reply.code != expect:
            raise Lost(f"{line.split()[0]}: {reply.text}")
        return reply

    async def _send(self, octets: bytes) -> None:
        assert self._writer is not None
        self._writer.write(octets)
        await self._bounded(self._writer.drain())

    async def transmit(self, message: Message, recipients: list[str], extra: str = "") -> dict[str, Reply]:
        """Hand a message over for some of its recipients; return the reply that decided about each. Raises Lost."""
        eight = "8BITMIME" in self.keywords and any(octet > 127 for octet in message.content)
        words = f" SIZE={len(message.content)}" if "SIZE" in self.keywords else ""
        words += " BODY=8BITMIME" if eight else ""
        dsn = "DSN" in self.keywords
        words += "".join(f" {key}={value}" for key, value in message.parameters.items() if dsn)
        reply = await self.command(f"MAIL FROM:<{message.sender}>{words}{extra}")
        if reply.code != 250:
            return dict.fromkeys(recipients, reply)
        found: dict[str, Reply] = {}
        for address in recipients:
            words = "".join(f" {key}={value}" for key, value in message.recipients[address].items() if dsn)
            found[address] = await self.command(f"RCPT TO:<{address}>{words}")
        accepted = [address for address, reply in found.items() if reply.code // 100 == 2]
        if not accepted:
            await self.command("RSET")
            return found
        reply = await self.command("DATA")
        if reply.code != 354:
            return found | dict.fromkeys(accepted, reply)
        content = (
            message.content if message.content.endswith(b"\r\n") or not message.content else message.content + b"\r\n"
        )
        await self._send((b"\r\n" + content).replace(b"\r\n.", b"\r\n..")[2:])
        self.in_doubt = True
        await self._send(b".\r\n")
        if self._lmtp:
            for address in accepted:
                found[address] = await self.reply()
        else:
            found |= dict.fromkeys(accepted, await self.reply())
        self.in_doubt = False
        return found

    async def quit(self) -> None:
        """End the session in an orderly way, as far as the other side lets us."""
        with contextlib.suppress(Lost):
            await self.command("QUIT")
        self.close()

    def close(self) -> None:
        """End the session at once."""
        if self._writer is not None:
            self._writer.close()
