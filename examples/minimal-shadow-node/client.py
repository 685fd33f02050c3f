"""The client's side of SMTP and LMTP: one session to one next hop."""

import asyncio
import base64
import contextlib
import math
import re
from typing import Any, NamedTuple

from config import Config
from store import Message


class Lost(Exception):
    """The session cannot continue: it was refused, lost or silent for too long, or a reply was not the required one."""


class Reply(NamedTuple):
    """A reply: its code, and its lines without the codes."""

    code: int
    lines: tuple[str, ...]
    success: str = ""  # `relayed` or `delivered`: the next hop reports no success, so it is for this node to report

    def __str__(self) -> str:
        return " ".join((str(self.code), *self.lines))


class Client:
    """A session; `replies` has those that decided, `in_doubt` is true after a final dot and before the last reply to it."""

    def __init__(self, config: Config, protocol: str = "smtp", most: float = math.inf) -> None:
        self._name, self._lmtp = config.name, protocol == "lmtp"
        self._idle = min(config["SendConnectionInactivityTimeout"], most)
        self.keywords: dict[str, str] = {}
        self.replies: dict[str, Reply] = {}
        self.in_doubt = False
        self._writer: asyncio.StreamWriter | None = None

    async def open(self, host: str, port: int, secret: str | None = None) -> None:
        """Connect, send EHLO or LHLO, and authenticate if the pair has a secret. Raises Lost."""
        self._reader, self._writer = await self._bounded(asyncio.open_connection(host, port))
        await self._reply(expect=220)
        hello = await self.command(f"{'LHLO' if self._lmtp else 'EHLO'} {self._name}", expect=250)
        self.keywords = {line.partition(" ")[0].upper(): line for line in hello.lines[1:]}
        if secret and "PLAIN" in self.keywords.get("AUTH", ""):
            response = base64.b64encode(f"\0{self._name}\0{secret}".encode()).decode()
            await self.command(f"AUTH PLAIN {response}")  # refused: go on without the rights

    async def _bounded(self, what: Any) -> Any:
        try:
            return await asyncio.wait_for(what, self._idle)
        except (OSError, EOFError, TimeoutError, ValueError) as error:
            raise Lost(f"{type(error).__name__}: {error}") from error

    async def _reply(self, expect: int | None = None) -> Reply:
        lines: list[str] = []
        while not lines or lines[-1][3:4] == "-":
            line = await self._bounded(self._reader.readuntil(b"\n"))
            lines.append(line.decode("utf-8", "replace").rstrip("\r\n"))
            if not re.match(r"[2-5][0-9][0-9]([ -]|$)", lines[-1]):
                raise Lost(f"not a reply: {lines[-1][:80]}")
        reply = Reply(int(lines[-1][:3]), tuple(line[4:] for line in lines))
        if expect not in (None, reply.code):
            raise Lost(str(reply))
        return reply

    async def command(self, line: str, expect: int | None = None) -> Reply:
        """Send a command and return its reply. Raises Lost, also if the reply is not the one that `expect` requires."""
        await self._send(f"{line}\r\n".encode())
        return await self._reply(expect)

    async def _send(self, octets: bytes) -> None:
        for start in range(0, len(octets), 65536):  # a peer that reads slowly is not silent
            self._writer.write(octets[start : start + 65536])
            await self._bounded(self._writer.drain())

    async def transmit(self, message: Message, recipients: list[str], extra: str = "") -> dict[str, Reply]:
        """Transmit a message for some of its recipients; return `replies`, which count also if this raises Lost."""

        def words(parameters: dict[str, str]) -> str:
            return "".join(f" {key}={value}" for key, value in parameters.items() if "DSN" in self.keywords)

        if not message.content.isascii() and "8BITMIME" not in self.keywords:  # nothing is converted: return it
            self.replies = dict.fromkeys(recipients, Reply(554, ("5.6.3 the next hop takes no 8-bit content",)))
            return self.replies
        size = f" SIZE={len(message.content)}" if "SIZE" in self.keywords else ""
        body = "" if message.content.isascii() else " BODY=8BITMIME"
        reply = await self.command(f"MAIL FROM:<{message.sender}>{size}{body}{words(message.parameters)}{extra}")
        if reply.code // 100 != 2:
            self.replies = dict.fromkeys(recipients, reply)
            return self.replies
        accepted: list[str] = []
        for address in recipients:
            reply = await self.command(f"RCPT TO:<{address}>{words(message.recipients[address])}")
            if reply.code // 100 == 2:
                accepted.append(address)
            else:  # 552 after accepted ones means 452: too many recipients (RFC 5321 4.5.3.1.10)
                self.replies[address] = reply._replace(code=452) if accepted and reply.code == 552 else reply
        reply = await self.command("DATA" if accepted else "RSET")
        if reply.code != 354:
            if accepted and reply.code < 400:  # it has taken nothing
                raise Lost(str(reply))
            self.replies |= dict.fromkeys(accepted, reply)
            return self.replies
        end = b"" if message.content.endswith(b"\r\n") or not message.content else b"\r\n"
        await self._send((b"\r\n" + message.content + end).replace(b"\r\n.", b"\r\n..")[2:])
        self.in_doubt = True
        await self._send(b".\r\n")
        for address in accepted:  # LMTP answers for each recipient, SMTP once for all
            self.replies[address] = reply = await self._reply() if self._lmtp or address == accepted[0] else reply
        self.in_doubt = False
        return self.replies

    async def quit(self) -> None:
        """End the session with QUIT; ignore a server that does not answer."""
        with contextlib.suppress(Lost):
            await self.command("QUIT")
        self.close()

    def close(self) -> None:
        """End the session at once."""
        if self._writer is not None:
            self._writer.close()
