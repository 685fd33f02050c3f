"""A client session with one server: what SMTP and LMTP have in common.

A *dialogue* is this node's end of a session that it opens: to hand on a message, to have a shadow copy stored, or to ask for
discard status. Subclasses are in smtp.py and lmtp.py. A session begins with `open`, carries messages with `transmit` and ends
with `quit`. Each of its commands waits for the reply, `idle_timeout` seconds at most. `outcome_unknown` is True from the sending
of a message's content until the reply to its final dot: the server may have the message or not. SessionLost, which most methods
raise, means that the server could not be reached, was silent for too long, ended the session, or gave a reply with which it
cannot go on; after it the dialogue is only good for `abort`.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache

from conformance.reference.config import Address
from conformance.reference.headers import header_only
from conformance.reference.message import Envelope, Recipient
from conformance.reference.replies import Reply
from conformance.reference.send.connection import Connection, Refused, SessionLost

__all__ = ["Dialogue", "Refused", "SessionLost", "dot_stuffed"]

_NO_EIGHT_BITS = Reply(554, "5.6.3", "the content is 8-bit, and the next hop does not offer 8BITMIME (RFC 6152 3)")
_NO_UTF8_ADDRESS = Reply(
    553, "5.6.7", "an address is not ASCII, and the next hop does not offer SMTPUTF8 (RFC 6531 3.2)"
)
_NO_UTF8_HEADER = Reply(
    554, "5.6.9", "the header is not ASCII, and the next hop does not offer SMTPUTF8 (RFC 6531 3.2)"
)


class Dialogue(ABC):
    """One client session; `idle_timeout` is SendConnectionInactivityTimeout in seconds (SR-TMO-08).

    `keywords` are the EHLO keywords of the server (in upper case) with their parameters, and "" for none. `own_name` is the name
    that the client gives in EHLO. `outcome_unknown`: the content of a message was sent and its final dot has no reply, so the
    server may have the message or not. `server_ends_session`: the server has said 421 in the last transaction, so it ends the
    session (RFC 5321 3.8).
    """

    def __init__(self, address: Address, own_name: str, idle_timeout: float) -> None:
        self.address = address
        self.own_name = own_name
        self.idle_timeout = idle_timeout
        self.keywords: Mapping[str, str] = {}
        self._connection: Connection | None = None
        self.outcome_unknown = False
        self.server_ends_session = False
        self.sends_eight_bits_always = False
        """Whether the server is sent eight-bit content even if it does not offer 8BITMIME; False but in a defect."""
        self.sends_utf8_always = False
        """Whether the server is sent addresses and headers in UTF-8 even if it does not offer SMTPUTF8; False but in a defect."""

    # different in each protocol

    greeting_command: str
    """The command after the server's greeting: EHLO or LHLO."""
    connection_class = Connection
    """The class of connection; that of a defect reads replies wrongly."""

    @abstractmethod
    async def send_content(self, content: bytes, recipients: int) -> list[Reply]:
        """Send the content after 354, and return one final reply for each of the accepted recipients, in order. Raises SessionLost.

        `content` is dot-stuffed and ends with the final dot; `recipients` is the number of accepted recipients.
        """

    # the connection

    async def connect(self) -> Reply:
        """Connect, and return the server's greeting, whatever it is. Raises SessionLost.

        The connection may take `idle_timeout` seconds, and the greeting as long again.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self.idle_timeout):
                _, self._connection = await loop.create_connection(self.connection_class, *self.address)
        except (OSError, TimeoutError) as error:
            raise SessionLost(f"no connection: {error}") from error
        return await self._reply()

    async def command(self, line: str) -> Reply:
        """Send a command line, wait for the reply and return it. Raises SessionLost.

        A line with a character that is not printable is not sent: return 501 for it.
        """
        if not line.isprintable():
            return Reply(501, "5.5.2", "a control character cannot be sent")
        self._write(line.encode("utf-8", "replace") + b"\r\n")
        return await self._reply()

    def abort(self) -> None:
        """Drop the connection at once, in any state; do nothing if it is closed or was never opened."""
        if self._connection is not None:
            self._connection.abort()

    @property
    def is_alive(self) -> bool:
        """Whether the session is open, as far as this side knows."""
        return self._connection is not None and self._connection.is_open

    def _write(self, octets: bytes) -> None:
        """Put octets into the send buffer, and return at once. Raises SessionLost if the connection has ended."""
        assert self._connection is not None
        self._connection.write(octets)

    async def _reply(self) -> Reply:
        """Wait for the next reply and return it. Raises SessionLost, also if the server is silent for `idle_timeout` seconds."""
        assert self._connection is not None
        return await self._connection.read_reply(self.idle_timeout)

    # shared

    async def open(self) -> None:
        """Connect, and send EHLO or LHLO, and what else begins a session. Raises SessionLost, without leaving a connection open.

        A greeting, or a reply to EHLO or LHLO, that is not 2yz counts as a lost session.
        """
        try:
            greeting = await self.connect()
            if not greeting.positive:
                raise SessionLost(f"the greeting was {greeting}")
            await self.greet()
        except BaseException:
            self.abort()
            raise

    async def greet(self) -> None:
        """Send EHLO or LHLO, and store the offered keywords in place of earlier ones.

        Raises SessionLost, also for a reply other than 2yz.
        """
        answer = await self.command(f"{self.greeting_command} {self.own_name}")
        if not answer.positive:
            raise SessionLost(f"the reply to {self.greeting_command} was {answer}")
        self.keywords = _parse_keywords(answer.text)

    async def quit(self) -> None:
        """Send QUIT, wait for its reply, whatever it is, and close the connection. Raises SessionLost; the caller then calls `abort`."""
        await self.command("QUIT")
        self.abort()

    async def leave(self, lost: SessionLost) -> None:
        """Give the session up because of `lost`: with QUIT, whose reply is waited for, after a refusal, else by dropping it."""
        if isinstance(lost, Refused):
            with suppress(SessionLost):
                await self.quit()
        self.abort()

    async def transmit(self, envelope: Envelope, content: bytes, extra: str = "") -> dict[Recipient, Reply]:
        """Transmit a message in one transaction; return the final reply for each recipient, which may be that to MAIL, RCPT or DATA.

        `extra` is appended to the parameters of MAIL, such as ` XSHADOW=id`. Raises SessionLost; `outcome_unknown` then says
        whether the server may have the message, and `refused` of the exception which recipients it had refused for good.
        Nothing is sent, and the replies are ones that are made here, for eight-bit content if the server does not offer 8BITMIME,
        and for recipients, or the whole message, that need SMTPUTF8 if it does not offer that. If anything was sent,
        `server_ends_session` is set to whether a reply was 421.
        """
        if refused := self._without_smtputf8(envelope, content):
            others = tuple(one for one in envelope.recipients if one not in refused)
            return {
                **refused,
                **(await self.transmit(envelope.for_recipients(others), content, extra) if others else {}),
            }
        if not (content.isascii() or "8BITMIME" in self.keywords or self.sends_eight_bits_always):
            return dict.fromkeys(envelope.recipients, _NO_EIGHT_BITS)
        replies = await self._transmit(envelope, content, extra)
        self.server_ends_session = any(reply.code == 421 for reply in replies.values())
        return replies

    def _without_smtputf8(self, envelope: Envelope, content: bytes) -> dict[Recipient, Reply]:
        """Return the recipients to whom the message cannot be sent without SMTPUTF8, with a refusal for each (RFC 6531 3.2).

        Empty if the server offers SMTPUTF8. These are all recipients if the reverse-path or the header is not ASCII, else those
        with such an address. The header counts only if the message came with SMTPUTF8.
        """
        if "SMTPUTF8" in self.keywords or self.sends_utf8_always:
            return {}
        if not envelope.reverse_path.isascii():
            return dict.fromkeys(envelope.recipients, _NO_UTF8_ADDRESS)
        if envelope.smtputf8 and not header_only(content).isascii():
            return dict.fromkeys(envelope.recipients, _NO_UTF8_HEADER)
        return {one: _NO_UTF8_ADDRESS for one in envelope.recipients if not one.address.isascii()}

    async def _transmit(self, envelope: Envelope, content: bytes, extra: str) -> dict[Recipient, Reply]:
        """Transmit a message as `transmit` says: MAIL, RCPT for each recipient, DATA and the content.

        After 421 no further command is sent. After 421 to RCPT recipients that had no permanent refusal get the 421; after 421 to
        DATA those that were accepted. If no recipient is accepted, or DATA is refused, the transaction is reset with RSET, so
        that the session can carry another message. Raises SessionLost, also for a reply 2yz to DATA: the server does not expect
        the content then.
        """
        mail_reply = await self.command(self._mail_command(envelope, content) + extra)
        if not mail_reply.positive:
            return dict.fromkeys(envelope.recipients, mail_reply)
        replies: dict[Recipient, Reply] = {}
        try:
            return await self._transmit_to_recipients(envelope, content, replies)
        except SessionLost as lost:
            lost.refused = {recipient: reply for recipient, reply in replies.items() if reply.permanent}
            raise

    async def _transmit_to_recipients(
        self, envelope: Envelope, content: bytes, replies: dict[Recipient, Reply]
    ) -> dict[Recipient, Reply]:
        """Send RCPT for each recipient, DATA and the content, as `_transmit` says; return the final reply for each recipient.

        `replies`, empty at first, gets the replies to RCPT as they come, so that the caller has them if SessionLost is raised.
        """
        for recipient in envelope.recipients:
            replies[recipient] = reply = self.recipient_reply(
                await self.command(self._rcpt_command(recipient)), replies
            )
            if reply.code == 421:
                refused = {recipient: other for recipient, other in replies.items() if other.permanent}
                return {**dict.fromkeys(envelope.recipients, reply), **refused}
        accepted = [recipient for recipient, reply in replies.items() if reply.positive]
        if not accepted:
            await self._reset_transaction()
            return replies
        data_reply = await self.command("DATA")
        if data_reply.positive:
            raise SessionLost(f"the reply to DATA was {data_reply}")
        if data_reply.code != 354:
            if data_reply.code != 421:
                await self._reset_transaction()
            return {**replies, **dict.fromkeys(accepted, data_reply)}
        self.outcome_unknown = True
        finals = await self.send_content(dot_stuffed(content) + b".\r\n", len(accepted))
        self.outcome_unknown = False
        return {**replies, **dict(zip(accepted, finals, strict=True))}

    def recipient_reply(self, reply: Reply, before: Mapping[Recipient, Reply]) -> Reply:
        """Return what a reply to RCPT means: 452 for a 552 that says that there are too many recipients, else the reply unchanged.

        After an accepted recipient 552 means that, unless its enhanced status code says something else: the recipient is to be
        tried again (RFC 5321 4.5.3.1.10). `before` are the replies for the earlier recipients.
        """
        if reply.code == 552 and reply.enhanced in ("", "5.5.3") and any(other.positive for other in before.values()):
            return Reply(452, "4.5.3", reply.text)
        return reply

    async def _reset_transaction(self) -> None:
        """Send RSET and wait for its reply, whatever it is.

        Does not raise SessionLost: the replies so far count, and the next command raises it.
        """
        with suppress(SessionLost):
            await self.command("RSET")

    def _mail_command(self, envelope: Envelope, content: bytes) -> str:
        """Return the MAIL command, with those of SIZE, BODY, RET, ENVID and SMTPUTF8 that the server offers and the message has."""
        line = f"MAIL FROM:<{envelope.reverse_path}>"
        if "SIZE" in self.keywords:
            line += f" SIZE={len(content)}"
        if envelope.body and "8BITMIME" in self.keywords:
            line += f" BODY={envelope.body}"
        if "DSN" in self.keywords:
            line += f" RET={envelope.ret}" if envelope.ret else ""
            line += f" ENVID={envelope.envid}" if envelope.envid else ""
        if envelope.smtputf8 and "SMTPUTF8" in self.keywords:
            line += " SMTPUTF8"
        return line

    def _rcpt_command(self, recipient: Recipient) -> str:
        """Return the RCPT command, with NOTIFY and ORCPT (RFC 3461) if the server offers DSN and the recipient has them."""
        line = f"RCPT TO:<{recipient.address}>"
        if "DSN" in self.keywords:
            line += f" NOTIFY={recipient.notify}" if recipient.notify else ""
            line += f" ORCPT={recipient.orcpt}" if recipient.orcpt else ""
        return line


@lru_cache(maxsize=64)
def _parse_keywords(text: str) -> Mapping[str, str]:
    """Return the keywords (in upper case) in a reply to EHLO with their parameters; cached, as a server sends the same in each session.

    `text` is the text of the reply, with lines separated by LF; the first line has no keyword.
    """
    offered = (line.partition(" ") for line in text.split("\n")[1:])  # the first line names the server
    return {keyword.upper(): parameters for keyword, _, parameters in offered}


def dot_stuffed(content: bytes) -> bytes:
    """Return content as it is sent: leading dots doubled (RFC 5321 4.5.2), with CRLF at the end; empty content stays empty."""
    body = content if not content or content.endswith(b"\r\n") else content + b"\r\n"
    body = body.replace(b"\r\n.", b"\r\n..")
    return b"." + body if body.startswith(b".") else body
