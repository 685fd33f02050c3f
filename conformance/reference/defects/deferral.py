"""Defects where a next hop does not take a message for now (421, greylisting, codes that no document lists), and at a stop.

A 4yz reply of a next hop defers a recipient, who is tried again later; after a 5yz reply the sender gets a report of the failure.
`transmit` sends one message in a session with a next hop, and returns the final reply for each recipient.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

from dataclasses import replace
from typing import ClassVar

from conformance.reference.config import Address
from conformance.reference.defects.defect import defect
from conformance.reference.defects.sending import AltersReplies, Replies
from conformance.reference.message import Envelope, Recipient
from conformance.reference.queue.hop_queue import DeliveryAttempt
from conformance.reference.queue.mailbox_store import MailboxStore
from conformance.reference.queue.outbound import Outbound
from conformance.reference.receive.session import Receiver
from conformance.reference.replies import Reply
from conformance.reference.routing.next_hop import NextHop
from conformance.reference.send.dialogue import Dialogue, SessionLost
from conformance.reference.send.lmtp import NO_REPLY, LmtpDialogue

_LISTED = (421, 450, 451, 452, 454, 455)
"""The 4yz reply codes that RFC 5321 and its extensions list."""


@defect("takes-421-for-a-refusal", breaks="RL-421-01", slot="outbound")
class Takes421ForARefusal(AltersReplies):
    """Gives a message up when the next hop says 421."""

    def altered_replies(self, replies: Replies) -> Replies:
        """Return the next hop's replies by recipient, with 521 (permanent) in place of each 421 (temporary)."""
        return {to: replace(reply, code=521) if reply.code == 421 else reply for to, reply in replies.items()}


@defect("goes-on-after-421", breaks="RL-421-02", slot="outbound")
class GoesOnAfter421(Outbound):
    """Sends its next message in the session in which the next hop has said 421."""

    async def transmit(self, attempt: DeliveryAttempt, server: str, dialogue: Dialogue) -> Replies:
        """Transmit a message, and forget that the next hop has said 421; return its replies by recipient.

        `server_ends_session` is true after 421: then the queue sends no further message in the session (RFC 5321 3.8).
        """
        replies = await super().transmit(attempt, server, dialogue)
        dialogue.server_ends_session = False
        return replies


@defect("forgets-refusals-with-the-session", breaks="RL-RCP-01", slot="outbound")
class ForgetsRefusalsWithTheSession(Outbound):
    """Tries a recipient again that the next hop had refused for good, when the session is lost before the message has passed."""

    async def transmit(self, attempt: DeliveryAttempt, server: str, dialogue: Dialogue) -> Replies:
        """Transmit a message; return its replies by recipient.

        If the session is lost, raise SessionLost without the refusals that the next hop had given in it.
        """
        try:
            return await super().transmit(attempt, server, dialogue)
        except SessionLost as lost:
            lost.refused = {}
            raise


@defect("refuses-for-good-as-it-stops", breaks="RL-STP-01", slot="receiver")
class RefusesForGoodAsItStops(Receiver):
    """Ends open sessions with 550 when it is stopped."""

    def shut_down(self) -> None:
        """End the session with 550 in place of 421: at once, or when the message in hand has its reply."""
        self._shutting_down = True
        if self.acceptance_task is None:
            self._send_and_close(b"550 5.3.2 the server is going down\r\n")


@defect("forgets-the-deferred-among-accepted", breaks="RL-GRY-01", slot="outbound")
class ForgetsTheDeferred(AltersReplies):
    """Takes a message for delivered to all its recipients when the next hop has accepted it for one of them."""

    def altered_replies(self, replies: Replies) -> Replies:
        """Return the next hop's replies by recipient, with a positive reply, if there is one, in place of each temporary one (4yz)."""
        accepted = next((reply for reply in replies.values() if reply.positive), None)
        return {
            to: accepted if accepted is not None and 400 <= reply.code < 500 else reply for to, reply in replies.items()
        }


@defect("gives-up-on-unlisted-codes", breaks="RL-RTY-03", slot="outbound")
class GivesUpOnUnlistedCodes(AltersReplies):
    """Takes a 4yz code that it does not know for a permanent refusal."""

    def altered_replies(self, replies: Replies) -> Replies:
        """Return the next hop's replies by recipient, with 554 in place of each 4yz code that RFC 5321 does not list (`_LISTED`)."""
        return {
            to: Reply(554, "5.0.0", reply.text) if reply.code // 100 == 4 and reply.code not in _LISTED else reply
            for to, reply in replies.items()
        }


class OtherLmtpSessions(Outbound):
    """Base class of defects that make a mistake in their sessions by LMTP; those by SMTP are the correct ones."""

    lmtp_sessions: ClassVar[type[LmtpDialogue]]

    def new_dialogue(self, hop: NextHop, server: str, dial: Address) -> Dialogue:
        """Return a session with a server of a next hop, not connected yet; one by LMTP is of the class `lmtp_sessions`."""
        dialogue = super().new_dialogue(hop, server, dial)
        if not isinstance(dialogue, LmtpDialogue):
            return dialogue
        return self.lmtp_sessions(dialogue.address, dialogue.own_name, dialogue.idle_timeout)


class _OneReply(LmtpDialogue):
    """A session that leaves all replies to a content but the first unread."""

    async def send_content(self, content: bytes, recipients: int) -> list[Reply]:
        """Send the content, and return its first reply once for each of the accepted recipients, whose number is `recipients`.

        The other replies stay unread: those that have come by the next command are dropped.
        """
        return await super().send_content(content, 1) * recipients


@defect("takes-one-lmtp-reply-for-all", breaks="RL-LMT-01", slot="outbound")
class TakesOneReplyForAll(OtherLmtpSessions):
    """Takes the first reply of an LMTP server to the final dot for that of all recipients."""

    lmtp_sessions = _OneReply


@defect("one-mailbox-answers-for-all", breaks="RL-LMT-01", slot="store")
class OneMailboxAnswersForAll(MailboxStore):
    """Takes the positive reply of the mailbox store for one recipient of a message for that of the others."""

    async def deliver(self, sink: Address, envelope: Envelope, recipient: Recipient, content: bytes) -> Reply:
        """Deliver into one mailbox; return the last positive reply that the store gave for the same content, to whichever mailbox.

        If it gave none since the start of the node, return the correct reply. `sink` is the address of the mailbox store.
        """
        accepted: dict[bytes, Reply] = self.__dict__.setdefault("_accepted", {})
        reply = await super().deliver(sink, envelope, recipient, content)
        if reply.positive:
            accepted[content] = reply
        return accepted.get(content, reply)


class _AllReplies(LmtpDialogue):
    """A session that has all replies to a content or none."""

    async def send_content(self, content: bytes, recipients: int) -> list[Reply]:
        """Send the content, and return the reply for each of the accepted recipients. Raises SessionLost also after some of them."""
        replies = await super().send_content(content, recipients)
        if NO_REPLY in replies:
            raise SessionLost("before the last reply")
        return replies


@defect("forgets-replies-with-the-session", breaks="RL-RCP-01", slot="outbound")
class ForgetsRepliesWithTheSession(OtherLmtpSessions):
    """Forgets the replies that an LMTP server gave for some recipients when the session is lost before the others."""

    lmtp_sessions = _AllReplies
