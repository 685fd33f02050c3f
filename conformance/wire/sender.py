"""The sender: hands messages of the harness to a server, with control of every point of the session.

What goes wrong on the way is an outcome, not an exception: a refusal, a lost session, silence.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from conformance.wire.client import (
    BLOCK,
    DATA,
    DOT,
    MAIL,
    QUIT,
    RCPT,
    Identity,
    ServerReply,
    SessionLost,
    SessionRefused,
    SmtpClient,
)
from conformance.wire.content import dot_stuffed
from conformance.wire.link import Address, RecordedSession

Abandon = Literal["before-dot", "at-dot", "after-reply"]


@dataclass(frozen=True, slots=True)
class Recipient:
    """A recipient with its parameters (`NOTIFY=...` of RFC 3461), as they stand in the line."""

    address: str
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Transmission:
    """One message to be sent: envelope, content (CRLF lines, not dot-stuffed), and where to give up on purpose.

    A `raw` content goes out as it is, its dots too.
    """

    sender: str
    recipients: tuple[Recipient, ...]
    content: bytes
    raw: bool = False
    parameters: tuple[str, ...] = ()
    pipelining: bool = False
    abandon: Abandon | None = None


@dataclass(frozen=True, slots=True)
class SendResult:
    """What came of a transmission; the fields are those of `conformance.history.events.Attempt`.

    `text` is that of the reply, or says how the session was lost.
    """

    outcome: Literal["answered", "lost", "abandoned"]
    session: str | None = None
    code: int | None = None
    enhanced: str | None = None
    text: str = ""
    accepted: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    dot_sent: bool = False


@dataclass(slots=True)
class _Progress:
    """How far a transmission has come."""

    accepted: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    dot_sent: bool = False
    last: ServerReply | None = None


class Sender:
    """One session with a server, for one message or many. Not opened yet until `open`, or the first `send`."""

    def __init__(
        self,
        address: Address,
        identity: Identity | None = None,
        *,
        duration: Callable[[float], float] = lambda seconds: seconds,
        session_behind: Callable[[int, int], RecordedSession | None] = lambda port, dialled: None,
    ) -> None:
        self._client = SmtpClient(address, identity or Identity(), duration, session_behind)
        self._sent = 0

    @property
    def session(self) -> str | None:
        """The session's name in the history, once the link knows it."""
        return self._client.session

    @property
    def usable(self) -> bool:
        """Whether the session is open as far as is known."""
        return self._client.usable

    async def send(self, transmission: Transmission) -> SendResult:
        """Send a message, over the open session or a new one."""
        progress = _Progress()
        try:
            if not self.usable:
                await self.drop()
                await self._client.open()
            return await self._transmit(transmission, progress)
        except SessionRefused as refused:
            outcome = self._outcome("answered", progress, refused.reply)
            await self._leave(refused.reply)
            return outcome
        except SessionLost as lost:
            outcome = self._outcome("lost", progress, None, str(lost))
            await self.drop()
            return outcome
        except asyncio.CancelledError:
            self._client.abort()
            raise

    async def quit(self) -> None:
        """End the session in an orderly way (and ask for discards first, as a server of EX2010 does); then drop it."""
        if self.usable:
            with contextlib.suppress(SessionLost):  # the session is at its end, and every outcome known
                if self._client.shadowing:
                    await self._client.command(f"XQDISCARD {self._client.identity.ehlo} 100", MAIL)
                await self._client.command("QUIT", QUIT)
        await self.drop()

    async def drop(self) -> None:
        """Close the connection without a word."""
        await self._client.drop()

    async def _leave(self, refusal: ServerReply) -> None:
        """End a session that the server has refused: after 421 it is the server's to close (RFC 5321 3.8)."""
        await (self._client.let_close() if refusal.code == 421 else self._client.drop())

    async def _transmit(self, transmission: Transmission, progress: _Progress) -> SendResult:
        self._sent += 1
        # Only a server that offers it may be sent commands in groups (RFC 2920 3.1).
        pipelined = transmission.pipelining and "PIPELINING" in self._client.keywords
        ready = await (self._pipelined if pipelined else self._one_by_one)(transmission, progress)
        if ready is not None:
            return self._outcome("answered", progress, ready)
        content = transmission.content if transmission.raw else dot_stuffed(transmission.content)
        await self._client.write(content, BLOCK)
        if transmission.abandon == "before-dot":
            return await self._abandon(progress)
        await self._client.write(b".\r\n", BLOCK)
        progress.dot_sent = True
        if transmission.abandon == "at-dot":
            return await self._abandon(progress)
        reply = await self._client.reply(DOT)
        outcome = self._outcome("answered", progress, reply)
        if transmission.abandon == "after-reply":
            await self.drop()
        elif reply.code == 421:
            await self._leave(reply)
        return outcome

    async def _one_by_one(self, transmission: Transmission, progress: _Progress) -> ServerReply | None:
        """Give the envelope; return the refusing reply, or None when the server waits for the content."""
        reply = await self._client.command(self._mail(transmission), MAIL)
        if not reply.positive:
            return await self._end_transaction(reply)
        for line, address in _recipients(transmission):
            self._take(await self._client.command(line, RCPT), address, progress)
        if not progress.accepted:
            return await self._end_transaction(progress.last or reply)
        reply = await self._client.command("DATA", DATA)
        return None if reply.code == 354 else await self._end_transaction(reply)

    async def _pipelined(self, transmission: Transmission, progress: _Progress) -> ServerReply | None:
        """The same in one group of commands (RFC 2920)."""
        recipients = _recipients(transmission)
        lines = [self._mail(transmission), *(line for line, _ in recipients), "DATA"]
        await self._client.write("".join(line + "\r\n" for line in lines).encode("utf-8", "surrogateescape"), MAIL)
        mail = await self._client.reply(MAIL)
        for _, address in recipients:
            self._take(await self._client.reply(RCPT), address, progress)
        reply = await self._client.reply(DATA)
        if reply.code != 354:
            first = next((r for r in (mail, progress.last, reply) if r is not None and not r.positive), reply)
            return await self._end_transaction(first)
        if not progress.accepted:  # the server waits for a content all the same (RFC 2920 3.1)
            await self._client.write(b".\r\n", BLOCK)
            await self._client.reply(DOT)
            return progress.last
        return None

    def _mail(self, transmission: Transmission) -> str:
        parameters = list(transmission.parameters)
        if "SIZE" in self._client.keywords:
            parameters.insert(0, f"SIZE={len(transmission.content)}")
        if "8BITMIME" in self._client.keywords and not transmission.content.isascii():
            parameters.append("BODY=8BITMIME")
        if self._client.shadowing:
            parameters.append(f"XSHADOW={self._client.identity.database}-{self._sent}")
        return " ".join([f"MAIL FROM:<{transmission.sender}>", *parameters])

    def _take(self, reply: ServerReply, address: str, progress: _Progress) -> None:
        if reply.code == 421:
            raise SessionRefused(reply)
        progress.last = reply
        (progress.accepted if reply.positive else progress.refused).append(address)

    async def _end_transaction(self, refusal: ServerReply) -> ServerReply:
        """Leave the transaction that was refused, so that the session can carry another message."""
        if refusal.code == 421:
            raise SessionRefused(refusal)
        try:
            await self._client.command("RSET", MAIL)
        except SessionLost:
            await self.drop()  # the outcome is the refusal, whatever became of the session
        return refusal

    async def _abandon(self, progress: _Progress) -> SendResult:
        outcome = self._outcome("abandoned", progress, None)
        await self.drop()
        return outcome

    def _outcome(
        self,
        kind: Literal["answered", "lost", "abandoned"],
        progress: _Progress,
        reply: ServerReply | None,
        text: str = "",
    ) -> SendResult:
        return SendResult(
            outcome=kind,
            session=self.session,
            code=reply.code if reply else None,
            enhanced=reply.enhanced if reply else None,
            text=(reply.text if reply else text)[:500],
            accepted=tuple(progress.accepted),
            refused=tuple(progress.refused),
            dot_sent=progress.dot_sent,
        )


def _recipients(transmission: Transmission) -> Sequence[tuple[str, str]]:
    return [(" ".join([f"RCPT TO:<{to.address}>", *to.parameters]), to.address) for to in transmission.recipients]
