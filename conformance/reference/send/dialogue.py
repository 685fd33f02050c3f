"""A session with one server, as its client: what SMTP and LMTP have in common."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import lru_cache

from conformance.reference.config import Address
from conformance.reference.message import Envelope, Recipient
from conformance.reference.replies import Reply


class SessionLost(Exception):
    """The server could not be reached, was silent for too long, or ended the session."""


class Dialogue(ABC):
    """One session; `idle` is SendConnectionInactivityTimeout, seconds (SR-TMO-08).

    `in_doubt` says that a message's final dot was sent and not answered: the server may have the message or not.
    """

    def __init__(self, address: Address, hello: str, idle: float) -> None:
        self.address = address
        self.own_name = hello
        self.idle_timeout = idle
        self.keywords: Mapping[str, str] = {}
        self.outcome_unknown = False

    # what a protocol has of its own

    @abstractmethod
    async def connect(self) -> Reply:
        """Connect, and return the greeting. Raises SessionLost."""

    @abstractmethod
    async def command(self, line: str) -> Reply:
        """Say a line and return the reply. Raises SessionLost."""

    @abstractmethod
    async def send_content(self, content: bytes, recipients: int) -> list[Reply]:
        """Send a message's content after 354, and return its final replies. Raises SessionLost."""

    @abstractmethod
    def abort(self) -> None:
        """End the connection at once, whatever state it is in."""

    greeting_command: str
    """The command that follows the server's greeting."""

    # what they share

    async def open(self) -> None:
        """Connect and say hello. Raises SessionLost, and leaves no connection behind then."""
        try:
            greeting = await self.connect()
            if not greeting.positive:
                raise SessionLost(f"it greeted with {greeting}")
            await self.greet()
        except BaseException:
            self.abort()
            raise

    async def greet(self) -> None:
        """Say hello, and note what the server offers. Raises SessionLost."""
        answer = await self.command(f"{self.greeting_command} {self.own_name}")
        if not answer.positive:
            raise SessionLost(f"it answered {self.greeting_command} with {answer}")
        self.keywords = _offered(answer.text)

    async def quit(self) -> None:
        """Leave with QUIT. Raises SessionLost."""
        await self.command("QUIT")
        self.abort()

    async def transmit(self, envelope: Envelope, content: bytes, extra: str = "") -> dict[Recipient, Reply]:
        """Hand over a message; return the final reply for each recipient. Raises SessionLost.

        `extra` stands behind the MAIL parameters, such as ` XSHADOW=id`.
        """
        self.outcome_unknown = False
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
            await self.command("RSET")
            return {**replies, **dict.fromkeys(accepted, go)}
        self.outcome_unknown = True
        finals = await self.send_content(dot_stuffed(content) + b".\r\n", len(accepted))
        self.outcome_unknown = False
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


@lru_cache(maxsize=64)
def _offered(text: str) -> Mapping[str, str]:
    """Return the keywords of a reply to a greeting, with their parameters; servers say the same in each session."""
    offers = (line.partition(" ") for line in text.split("\n")[1:])
    return {keyword.upper(): parameters for keyword, _, parameters in offers}


def dot_stuffed(content: bytes) -> bytes:
    """Return the content as it goes over the wire: dots at line beginnings doubled, a line end at the end."""
    body = content if not content or content.endswith(b"\r\n") else content + b"\r\n"
    body = body.replace(b"\r\n.", b"\r\n..")
    return b"." + body if body.startswith(b".") else body
