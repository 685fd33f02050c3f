"""Defects of replies: one too many, one too few, and replies that do not have the form of RFC 5321 4.2.

`push` sends a reply, whose lines are separated by CR LF; a method named `smtp_VERB` handles a command and sends its reply by
`push`.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

from conformance.reference.defects.defect import defect
from conformance.reference.message import Envelope
from conformance.reference.receive.acceptance import Acceptance, MessageOrigin
from conformance.reference.receive.session import Receiver
from conformance.reference.replies import Reply


@defect("answers-rset-twice", breaks="RL-RPL-01", slot="receiver")
class AnswersRsetTwice(Receiver):
    """Gives two replies to RSET."""

    async def smtp_RSET(self, arg: str | None) -> None:
        """Handle RSET, which sends its reply, and send that reply once more."""
        await super().smtp_RSET(arg)
        await self.push("250 2.0.0 forgotten")


@defect("answers-a-message-twice", breaks="RL-RPL-01", slot="receiver")
class AnswersAMessageTwice(Receiver):
    """Gives two final replies to a message."""

    async def handle_message(self, content: bytes) -> str:
        """Accept or refuse a message, and return its reply twice, as two replies of one line each."""
        reply = await super().handle_message(content)
        return f"{reply}\r\n{reply}"


@defect("noop-has-no-answer", breaks="RL-RPL-01", slot="receiver")
class NoopHasNoAnswer(Receiver):
    """Does what NOOP says, and answers nothing."""

    async def smtp_NOOP(self, arg: str | None) -> None:
        """Handle NOOP, and send no reply; correct is 250."""


@defect("ends-reply-lines-with-lf", breaks="RL-RPL-02", slot="receiver")
class EndsReplyLinesWithLf(Receiver):
    """Ends the lines of a reply of several lines with LF alone, but for the last."""

    async def push(self, status: str | bytes) -> None:
        """Send a reply with LF in place of CR LF between its lines; `super().push` adds CR LF after the last."""
        text = status.decode("ascii") if isinstance(status, bytes) else status
        await super().push(text.replace("\r\n", "\n"))


@defect("reply-lines-of-different-codes", breaks="RL-RPL-02", slot="receiver")
class ReplyLinesOfDifferentCodes(Receiver):
    """Begins a reply of several lines with another code than it ends it with."""

    async def push(self, status: str | bytes) -> None:
        """Send a reply; in one of several lines with 250 the first line has 251. Any other reply is correct."""
        text = status.decode("ascii") if isinstance(status, bytes) else status
        await super().push(text.replace("250-", "251-", 1))


@defect("reply-line-of-600-octets", breaks="RL-RPL-02", slot="receiver")
class ReplyLineOf600Octets(Receiver):
    """Answers RSET with a line of 600 octets."""

    async def push(self, status: str | bytes) -> None:
        """Send a reply; that to RSET is filled up with dots to 600 octets, CR LF included."""
        text = status.decode("ascii") if isinstance(status, bytes) else status
        # `push` adds CR LF
        await super().push(text.ljust(598, ".") if text.startswith("250 2.0.0 forgotten") else text)


@defect(
    "answers-each-mailbox-once",
    breaks="RL-RPL-01",
    slot="acceptance",
    needs_expectation="a client that waits for a reply in vain leaves, and nobody sees whether that reply was still to come",
)
class AnswersEachMailboxOnce(Acceptance):
    """Over LMTP, gives one final reply for a mailbox that was named in two RCPT commands (RFC 2033 4.2)."""

    async def deliver_to_mailboxes(self, envelope: Envelope, content: bytes, origin: MessageOrigin) -> list[Reply]:
        """Deliver a message as is correct, and return one reply for each different recipient, in order."""
        replies = await super().deliver_to_mailboxes(envelope, content, origin)
        return list(dict(zip(envelope.recipients, replies, strict=True)).values())
