"""A session with one server, as its client: SMTP or LMTP, command by command."""

import asyncio
from typing import Literal

from conformance.reference.config import Address
from conformance.reference.message import Envelope, Recipient
from conformance.reference.replies import Reply, parsed

_LONGEST = 4096


class SessionLost(Exception):
    """The server could not be reached, was silent for too long, or ended the session."""


class Dialogue:
    """One session; `timeout` is SendConnectionInactivityTimeout, seconds (SR-TMO-08). Use as an async context
    manager."""

    def __init__(
        self, address: Address, hello: str, timeout: float, protocol: Literal["smtp", "lmtp"] = "smtp"
    ) -> None:
        self._address = address
        self._hello = hello
        self._timeout = timeout
        self._protocol = protocol
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self.keywords: dict[str, str] = {}

    async def __aenter__(self) -> "Dialogue":
        try:
            async with asyncio.timeout(self._timeout):
                self._reader, self._writer = await asyncio.open_connection(*self._address)
        except (OSError, TimeoutError) as error:
            raise SessionLost(f"no connection: {error}") from error
        try:
            greeting = await self.reply()
            if not greeting.positive:
                raise SessionLost(f"it greeted with {greeting}")
            answer = await self.command(("LHLO " if self._protocol == "lmtp" else "EHLO ") + self._hello)
            if not answer.positive:
                raise SessionLost(f"it answered the greeting with {answer}")
            for line in answer.text.split("\n")[1:]:
                keyword, _, parameters = line.partition(" ")
                self.keywords[keyword.upper()] = parameters
        except BaseException:
            self._abort()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """Leave with QUIT; after an exception (a cancelled task, a lost session) abort."""
        if kind is None:
            try:
                await self.command("QUIT")
            except SessionLost:
                self._abort()
                return
        self._abort()

    async def command(self, line: str) -> Reply:
        """Say a line and return the reply. Raises SessionLost."""
        self.write(line.encode("ascii", "replace") + b"\r\n")
        return await self.reply()

    def write(self, octets: bytes) -> None:
        """Send octets. Raises SessionLost when the session is over."""
        if self._writer is None or self._writer.is_closing():
            raise SessionLost("the session is over")
        self._writer.write(octets)

    async def reply(self) -> Reply:
        """Read one reply. Raises SessionLost when none comes in time, or it is none."""
        assert self._reader is not None
        lines: list[str] = []
        try:
            async with asyncio.timeout(self._timeout):
                while True:
                    line = (await self._reader.readuntil(b"\r\n")).decode("latin-1").rstrip("\r\n")
                    if len(line) > _LONGEST or not line[:3].isdigit():
                        raise SessionLost(f"it said {line[:80]!r}")
                    lines.append(line[4:])
                    if line[3:4] != "-":
                        return parsed(int(line[:3]), "\n".join(lines))
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise SessionLost(f"no reply: {error!r}") from error

    async def transmit(self, envelope: Envelope, content: bytes, extra: str = "") -> dict[Recipient, Reply]:
        """Hand over a message; return the final reply for each recipient. Raises SessionLost.

        `extra` stands behind the MAIL parameters, such as ` XSHADOW=id`.
        """
        refused = await self.command(self._mail(envelope, content) + extra)
        if not refused.positive:
            return dict.fromkeys(envelope.recipients, refused)
        replies: dict[Recipient, Reply] = {}
        for recipient in envelope.recipients:
            replies[recipient] = await self.command(self._rcpt(recipient))
        accepted = [recipient for recipient, reply in replies.items() if reply.positive]
        if not accepted:
            await self.command("RSET")
            return replies
        go = await self.command("DATA")
        if go.code != 354:
            return {**replies, **dict.fromkeys(accepted, go)}
        self.write(stuffed(content) + b".\r\n")
        finals = [await self.reply() for _ in (accepted if self._protocol == "lmtp" else accepted[:1])]
        if self._protocol == "smtp":
            finals *= len(accepted)
        return {**replies, **dict(zip(accepted, finals, strict=True))}

    def _mail(self, envelope: Envelope, content: bytes) -> str:
        line = f"MAIL FROM:<{envelope.reverse_path}>"
        if "SIZE" in self.keywords:
            line += f" SIZE={len(content)}"
        if envelope.body and "8BITMIME" in self.keywords:
            line += f" BODY={envelope.body}"
        if "DSN" in self.keywords:
            line += f" RET={envelope.ret}" if envelope.ret else ""
            line += f" ENVID={envelope.envid}" if envelope.envid else ""
        return line

    def _rcpt(self, recipient: Recipient) -> str:
        line = f"RCPT TO:<{recipient.address}>"
        if "DSN" in self.keywords:
            line += f" NOTIFY={recipient.notify}" if recipient.notify else ""
            line += f" ORCPT={recipient.orcpt}" if recipient.orcpt else ""
        return line

    def _abort(self) -> None:
        if self._writer is not None:
            self._writer.close()


def stuffed(content: bytes) -> bytes:
    """Return the content as it goes over the wire: dots at line beginnings doubled, a line end at the end."""
    body = content if not content or content.endswith(b"\r\n") else content + b"\r\n"
    body = body.replace(b"\r\n.", b"\r\n..")
    return b"." + body if body.startswith(b".") else body
