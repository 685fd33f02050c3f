"""Defects of a client that sends commands in groups (PIPELINING, RFC 2920). The reference itself waits for each reply.

The client's end of a session is a `Dialogue`; `_transmit` sends one message in it, by `command` for each command line.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

from collections import deque

from conformance.reference.config import Address
from conformance.reference.defects.defect import defect
from conformance.reference.message import Envelope, Recipient
from conformance.reference.queue.outbound import Outbound
from conformance.reference.replies import Reply
from conformance.reference.routing.next_hop import NextHop
from conformance.reference.send.dialogue import Dialogue
from conformance.reference.send.smtp import SmtpDialogue


class _GroupedDialogue(SmtpDialogue):
    """A session with an SMTP server in which MAIL and all RCPT are sent in one group.

    `_sent_ahead` has the command lines of the group whose replies have not been read yet.
    """

    def __init__(self, address: Address, own_name: str, idle_timeout: float, secret: str | None = None) -> None:
        super().__init__(address, own_name, idle_timeout, secret)
        self._sent_ahead: deque[str] = deque()

    async def command(self, line: str) -> Reply:
        """Send a command line and return its reply; if it is the next one of the group that was sent, only read its reply."""
        if not self._sent_ahead or self._sent_ahead[0] != line:
            return await super().command(line)
        self._sent_ahead.popleft()
        return await self._reply()

    async def _transmit(self, envelope: Envelope, content: bytes, extra: str) -> dict[Recipient, Reply]:
        """Transmit a message; where the server offers PIPELINING, send MAIL and all RCPT in one group first.

        All replies to the group are read, also those that are not needed. Return the replies by recipient, as `matched` gives
        them.
        """
        if "PIPELINING" in self.keywords:
            lines = [self._mail_command(envelope, content) + extra, *map(self._rcpt_command, envelope.recipients)]
            self._write("".join(f"{line}\r\n" for line in lines).encode("ascii", "replace"))
            self._sent_ahead.extend(lines)
        replies = await super()._transmit(envelope, content, extra)
        while self._sent_ahead:
            await self.command(self._sent_ahead[0])
        return self.matched(replies)

    def matched(self, replies: dict[Recipient, Reply]) -> dict[Recipient, Reply]:
        """Return the replies by the recipients that they are for; here `replies` unchanged, for subclasses to override."""
        return replies


class _ShiftedDialogue(_GroupedDialogue):
    """Takes each reply for that to the recipient after its own."""

    def matched(self, replies: dict[Recipient, Reply]) -> dict[Recipient, Reply]:
        """Return each reply for the recipient after its own, and the last one for the first recipient."""
        values = list(replies.values())
        return dict(zip(replies, [*values[-1:], *values[:-1]], strict=True))


@defect("takes-replies-to-a-group-for-others", breaks="RL-PIP-02", slot="outbound")
class TakesRepliesToAGroupForOthers(Outbound):
    """Sends MAIL and RCPT in one group, and takes each reply for that to the recipient after its own."""

    def new_dialogue(self, hop: NextHop, server: str, dial: Address) -> Dialogue:
        """Return a session with a server of a next hop, not connected yet: a `_ShiftedDialogue` for SMTP, the correct one for LMTP.

        The former neither authenticates nor uses TLS.
        """
        dialogue = super().new_dialogue(hop, server, dial)
        if not isinstance(dialogue, SmtpDialogue):
            return dialogue
        return _ShiftedDialogue(dialogue.address, dialogue.own_name, dialogue.idle_timeout)
