"""Sends messages of the harness to a server over SMTP, one or many in a session, with deliberate ends of the session.

What goes wrong while sending is a `SendResult`, not an exception: a refusal, a lost session, a reply that does not come. Its
outcome is `answered` (a reply decided, positive or not), `lost`, or `abandoned` (the sender closed the connection on purpose).

A *transmission* is one message to send. Its *refusal* is the reply because of which it goes no further. `SmtpClient` holds the
session; limits of waits are in documented seconds (those of the scenario). The private methods that send commands wait for
their replies; they raise `SessionLost`, and `SessionRefused` for 421 before the final reply. `send` makes results of both.
*Shadowing* is a session in which the server has accepted XSHADOW, by which the sender acts as an Exchange 2010 server that
keeps a shadow copy.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from conformance.wire.client import (
    BLOCK_TIMEOUT,
    COMMAND_TIMEOUT,
    DATA_TIMEOUT,
    DOT_TIMEOUT,
    QUIT_TIMEOUT,
    Identity,
    ServerReply,
    SessionLost,
    SessionRefused,
    SmtpClient,
)
from conformance.wire.content import dot_stuffed
from conformance.wire.link import Address, RecordedSession

Abandon = Literal["before-dot", "at-dot", "after-reply"]
"""Where a sender closes the connection without QUIT: before the final dot, right after it, or after the reply to it."""


_EXTENSIONS = {"NOTIFY": "DSN", "ORCPT": "DSN", "RET": "DSN", "ENVID": "DSN", "SMTPUTF8": "SMTPUTF8"}
"""The extension of each parameter of MAIL and RCPT that a server may not know."""


@dataclass(frozen=True, slots=True)
class Recipient:
    """A recipient, and the parameters of its RCPT command (`NOTIFY=NEVER`, RFC 3461)."""

    address: str
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Transmission:
    """One message to be sent: envelope, content, and where to close the connection on purpose (`abandon`).

    `content` has CRLF lines and is not dot-stuffed; a `raw` one is sent octet for octet, without stuffing. `parameters` are
    those of MAIL; like those of a recipient they are sent if the server offers their extension. `pipelining`: send the envelope
    in one group, if the server offers PIPELINING. `chunks`: send the content by BDAT in chunks of this size, if it offers
    CHUNKING.
    """

    sender: str
    recipients: tuple[Recipient, ...]
    content: bytes
    raw: bool = False
    parameters: tuple[str, ...] = ()
    pipelining: bool = False
    abandon: Abandon | None = None
    chunks: int | None = None


@dataclass(frozen=True, slots=True)
class SendResult:
    """The result of a transmission; the fields are those of `conformance.history.events.Attempt`.

    `accepted` and `refused` are recipients. `text` is that of the reply, cut to 500 characters, or says how the session was
    lost.
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
    """How far a transmission has come; `last` is the latest reply to RCPT."""

    accepted: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    dot_sent: bool = False
    last: ServerReply | None = None


class Sender:
    """Sends messages over one session with a server, which the first `send` opens; after it was lost the next opens another.

    `duration` converts documented seconds to seconds of the loop. `session_behind` finds the session's name in the
    history.
    """

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
        """The name, in the history, of the open session or else the last one; None before its link has reached the server."""
        return self._client.session

    @property
    def usable(self) -> bool:
        """Whether the session is connected, and no end of it has been received."""
        return self._client.usable

    async def send(self, transmission: Transmission) -> SendResult:
        """Send a message over the open session or a new one, and return the result.

        The session is closed after a 421, after a greeting or other step before mail that the server refuses, after a
        loss, and where `abandon` asks for it. Raises OSError if this machine has run out of something. A cancellation
        and such an OSError close the connection at once.
        """
        progress = _Progress()
        try:
            if not self.usable or self._client.has_unread_octets():
                await self.close()
                await self._client.open()
            return await self._transmit(transmission, progress)
        except SessionRefused as refused:
            result = self._result("answered", progress, refused.reply)
            await self._close_after_refusal(refused.reply)
            return result
        except SessionLost as lost:
            result = self._result("lost", progress, None, str(lost))
            await self.close()
            return result
        except (asyncio.CancelledError, OSError):
            self._client.abort()
            raise

    async def quit(self) -> None:
        """Send QUIT, wait for the reply, and close the connection; without a usable session only close.

        A session that has given XSHADOW asks for discards before (XQDISCARD), as EX2010 does: for 100 at most, and does
        nothing with them. A session that is lost meanwhile raises nothing.
        """
        if self.usable:
            with contextlib.suppress(SessionLost, OSError):  # the session is at its end, and every result known
                if self._client.shadowing:
                    await self._client.send_command(f"XQDISCARD {self._client.identity.ehlo} 100", COMMAND_TIMEOUT)
                await self._client.send_command("QUIT", QUIT_TIMEOUT)
        await self.close()

    async def close(self) -> None:
        """Close the connection, if there is one, without QUIT, and wait until it is closed."""
        await self._client.close()

    async def _close_after_refusal(self, refusal: ServerReply) -> None:
        """Close a session that the server has refused; after 421 the server is given time to close it first (RFC 5321 3.8)."""
        await (self._client.close_after_421() if refusal.code == 421 else self._client.close())

    async def _transmit(self, transmission: Transmission, progress: _Progress) -> SendResult:
        """Send envelope and content over the open session; update `progress`, from which `_result` makes the result.

        A reply that refuses the envelope or the message is a result ("answered") like a positive one. Raises SessionLost,
        SessionRefused.
        """
        self._sent += 1  # part of the shadow id: each transmission has an id of its own
        if transmission.chunks is not None and "CHUNKING" in self._client.keywords:
            return await self._send_chunks(transmission, transmission.chunks, progress)
        # Only a server that offers it may be sent commands in groups (RFC 2920 3.1).
        pipelined = transmission.pipelining and "PIPELINING" in self._client.keywords
        # None means that the server waits for the content.
        refusal = await (self._send_pipelined if pipelined else self._send_envelope)(transmission, progress)
        if refusal is not None:
            return self._result("answered", progress, refusal)
        content = transmission.content if transmission.raw else dot_stuffed(transmission.content)
        await self._client.write(content, BLOCK_TIMEOUT)
        if transmission.abandon == "before-dot":
            return await self._abandon(progress)
        await self._client.write(b".\r\n", BLOCK_TIMEOUT)
        progress.dot_sent = True
        if transmission.abandon == "at-dot":
            return await self._abandon(progress)
        return await self._end(transmission, progress, await self._client.read_reply(DOT_TIMEOUT))

    async def _send_chunks(self, transmission: Transmission, size: int, progress: _Progress) -> SendResult:
        """Send the envelope, and the content by BDAT in chunks, each once the one before was accepted (RFC 3030 2).

        `size` is that of a chunk, octets. The final chunk stands for the final dot (`dot_sent`). After an earlier chunk
        that is refused RSET is sent, and the refusal is the result.
        """
        refusal = await self._send_recipients(transmission, progress)
        if refusal is not None:
            return self._result("answered", progress, refusal)
        content = transmission.content
        for start in range(0, max(len(content), 1), size):
            last = start + size >= len(content)
            if last and transmission.abandon == "before-dot":
                return await self._abandon(progress)
            chunk = content[start : start + size]
            command = f"BDAT {len(chunk)}{' LAST' if last else ''}\r\n".encode("ascii")
            await self._client.write(command + chunk, BLOCK_TIMEOUT)
            progress.dot_sent = last
            if last and transmission.abandon == "at-dot":
                return await self._abandon(progress)
            reply = await self._client.read_reply(DOT_TIMEOUT)
            if not last and not reply.positive:
                return self._result("answered", progress, await self._reset_transaction(reply))
        return await self._end(transmission, progress, reply)

    async def _end(self, transmission: Transmission, progress: _Progress, reply: ServerReply) -> SendResult:
        """Return the result of a content that was answered; close the session where that is asked for, or announced by 421."""
        result = self._result("answered", progress, reply)
        if transmission.abandon == "after-reply":
            await self.close()
        elif reply.code == 421:
            await self._close_after_refusal(reply)
        return result

    async def _send_recipients(self, transmission: Transmission, progress: _Progress) -> ServerReply | None:
        """Send MAIL and RCPT one by one; return the reply that refuses the message, None if the content may follow.

        That is the reply to MAIL, or to the last RCPT if no recipient was accepted. After it RSET is sent.
        """
        reply = await self._client.send_command(self._mail_command(transmission), COMMAND_TIMEOUT)
        if not reply.positive:
            return await self._reset_transaction(reply)
        for line, address in self._rcpt_commands(transmission):
            self._note_recipient(await self._client.send_command(line, COMMAND_TIMEOUT), address, progress)
        return None if progress.accepted else await self._reset_transaction(progress.last or reply)

    async def _send_envelope(self, transmission: Transmission, progress: _Progress) -> ServerReply | None:
        """Send MAIL, RCPT and DATA one by one; return the reply that refuses the message, None if the content may follow.

        After a refusal the transaction is reset by RSET.
        """
        if (refusal := await self._send_recipients(transmission, progress)) is not None:
            return refusal
        reply = await self._client.send_command("DATA", DATA_TIMEOUT)
        return None if reply.code == 354 else await self._reset_transaction(reply)

    async def _send_pipelined(self, transmission: Transmission, progress: _Progress) -> ServerReply | None:
        """Do what `_send_envelope` does in one group of commands (RFC 2920); return the refusal, None if the content may follow.

        The refusal is the reply to MAIL, to the last RCPT if no recipient was accepted, or to DATA: the first that is not
        positive. RSET is sent after it. If the server waits for a content although no recipient was accepted, an empty one
        is sent instead, and the refusal is that of the last RCPT.
        """
        recipients = self._rcpt_commands(transmission)
        lines = [self._mail_command(transmission), *(line for line, _ in recipients), "DATA"]
        await self._client.write(
            "".join(line + "\r\n" for line in lines).encode("utf-8", "surrogateescape"), COMMAND_TIMEOUT
        )
        mail = await self._client.read_reply(COMMAND_TIMEOUT)
        if mail.code == 421:
            raise SessionRefused(mail)
        for _, address in recipients:
            self._note_recipient(await self._client.read_reply(COMMAND_TIMEOUT), address, progress)
        reply = await self._client.read_reply(DATA_TIMEOUT)
        if reply.code != 354:
            recipient = None if progress.accepted else progress.last
            first = next((r for r in (mail, recipient, reply) if r is not None and not r.positive), reply)
            return await self._reset_transaction(first)
        if not progress.accepted:  # the server waits for a content all the same (RFC 2920 3.1)
            await self._client.write(b".\r\n", BLOCK_TIMEOUT)
            await self._client.read_reply(DOT_TIMEOUT)
            return progress.last
        return None

    def _mail_command(self, transmission: Transmission) -> str:
        """Return the MAIL command: with SIZE, BODY and XSHADOW where the server offers them and they apply."""
        parameters = self._offered(transmission.parameters)
        if "SIZE" in self._client.keywords:
            parameters.insert(0, f"SIZE={len(transmission.content)}")
        if "8BITMIME" in self._client.keywords and not transmission.content.isascii():
            parameters.append("BODY=8BITMIME")
        if self._client.shadowing:
            parameters.append(f"XSHADOW={self._client.identity.database}-{self._sent}")
        return " ".join([f"MAIL FROM:<{transmission.sender}>", *parameters])

    def _rcpt_commands(self, transmission: Transmission) -> Sequence[tuple[str, str]]:
        """Return (RCPT command, address) for each recipient, in their order."""
        return [
            (" ".join([f"RCPT TO:<{to.address}>", *self._offered(to.parameters)]), to.address)
            for to in transmission.recipients
        ]

    def _offered(self, parameters: Sequence[str]) -> list[str]:
        """Return the parameters of MAIL or RCPT whose extension the server offers; those of no known extension too."""
        extensions = ((parameter, _EXTENSIONS.get(parameter.partition("=")[0])) for parameter in parameters)
        return [parameter for parameter, one in extensions if one is None or one in self._client.keywords]

    def _note_recipient(self, reply: ServerReply, address: str, progress: _Progress) -> None:
        """Note a recipient as accepted or refused, by the reply to RCPT. Raises SessionRefused for 421."""
        if reply.code == 421:
            raise SessionRefused(reply)
        progress.last = reply
        (progress.accepted if reply.positive else progress.refused).append(address)

    async def _reset_transaction(self, refusal: ServerReply) -> ServerReply:
        """Send RSET, so that the session can carry another message, and return the refusal unchanged.

        A session that is lost meanwhile is closed. Raises SessionRefused if the refusal is 421.
        """
        if refusal.code == 421:
            raise SessionRefused(refusal)
        try:
            await self._client.send_command("RSET", COMMAND_TIMEOUT)
        except SessionLost:
            await self.close()  # the result is the refusal, also if the session is lost now
        return refusal

    async def _abandon(self, progress: _Progress) -> SendResult:
        """Close the connection on purpose, without QUIT, and return the result `abandoned`."""
        result = self._result("abandoned", progress, None)
        await self.close()
        return result

    def _result(
        self,
        outcome: Literal["answered", "lost", "abandoned"],
        progress: _Progress,
        reply: ServerReply | None,
        text: str = "",
    ) -> SendResult:
        """Return the result of a transmission that ends now; without a `reply` it has `text`."""
        return SendResult(
            outcome=outcome,
            session=self.session,
            code=reply.code if reply else None,
            enhanced=reply.enhanced if reply else None,
            text=(reply.text if reply else text)[:500],
            accepted=tuple(progress.accepted),
            refused=tuple(progress.refused),
            dot_sent=progress.dot_sent,
        )
