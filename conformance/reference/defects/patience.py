"""Defects of patience with a next hop, of the last reply to a sender, of loops, and of the null reverse-path.

The client's end of a session is a `Dialogue`; `new_dialogue` makes one for a session with a server of a next hop, and
`send_content` sends a message's content in it and waits for the reply. `idle_timeout` is how long each reply may take, in
seconds.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

import asyncio
from collections.abc import Mapping

from conformance.reference.config import Address
from conformance.reference.defects.defect import defect
from conformance.reference.message import Envelope, Recipient
from conformance.reference.queue.mailbox_store import MailboxStore
from conformance.reference.queue.outbound import Outbound
from conformance.reference.receive.acceptance import Acceptance, MessageOrigin
from conformance.reference.receive.session import Receiver
from conformance.reference.replies import Reply
from conformance.reference.routing.next_hop import NextHop
from conformance.reference.send.dialogue import Dialogue, SessionLost
from conformance.reference.send.smtp import SmtpDialogue


class _Impatient(SmtpDialogue):
    """A session that waits a minute for the reply to the final dot."""

    async def send_content(self, content: bytes, recipients: int) -> list[Reply]:
        """Send the content; return its reply once for each accepted recipient. Raises SessionLost, also after a minute without one."""
        try:
            async with asyncio.timeout(60):
                return await super().send_content(content, recipients)
        except TimeoutError as error:
            raise SessionLost("no reply to the message within a minute") from error


class _GoesOn(_Impatient):
    """A session that goes on after it has given up waiting for the reply to the final dot."""

    async def send_content(self, content: bytes, recipients: int) -> list[Reply]:
        """Send the content; return its reply once for each accepted recipient.

        If there is none within a minute, send RSET in the same session, wait for the reply to that, and raise SessionLost: the message
        is then tried again.
        """
        try:
            return await super().send_content(content, recipients)
        except SessionLost:
            await self.command("RSET")
            raise


class UsesOtherDialogue(Outbound):
    """Base class of defects whose sessions with SMTP servers are of another class."""

    dialogue: type[SmtpDialogue]

    def new_dialogue(self, hop: NextHop, server: str, dial: Address) -> Dialogue:
        """Return a session of the class `dialogue` with a server of a next hop, not connected yet; with an LMTP server the correct one."""
        usual = super().new_dialogue(hop, server, dial)
        if not isinstance(usual, SmtpDialogue):
            return usual
        peer = self.host.config.peers_by_name.get(server.casefold())
        other = self.dialogue(dial, usual.own_name, usual.idle_timeout, peer.secret if peer else None)
        other.prefers_tls = usual.prefers_tls
        return other


@defect("waits-a-minute-at-the-dot", breaks="RL-DOT-01", slot="outbound")
class WaitsAMinuteAtTheDot(UsesOtherDialogue):
    """Waits a minute for the reply to the final dot, and then sends the message again."""

    dialogue = _Impatient


@defect("goes-on-before-the-reply-to-the-dot", breaks="RL-DOT-02", slot="outbound")
class GoesOnBeforeTheReply(UsesOtherDialogue):
    """Waits a minute for the reply to the final dot, and then goes on in the same session."""

    dialogue = _GoesOn


@defect("waits-a-minute-for-replies", breaks="RL-TMO-01", slot="outbound")
class WaitsAMinute(Outbound):
    """Waits a minute for each reply of a next hop."""

    def new_dialogue(self, hop: NextHop, server: str, dial: Address) -> Dialogue:
        """Return a session with a server of a next hop that waits a minute for each reply, not SendConnectionInactivityTimeout."""
        dialogue = super().new_dialogue(hop, server, dial)
        dialogue.idle_timeout = 60.0
        return dialogue


@defect(
    "takes-a-long-session-for-a-silent-one",
    breaks="SR-TMO-08",
    slot="outbound",
    needs_expectation="a client may end a session after any reply, and say nothing of why",
)
class TakesALongSessionForASilentOne(Outbound):
    """Leaves a next hop when the session is as old as SendConnectionInactivityTimeout, though no reply took so long."""

    def new_dialogue(self, hop: NextHop, server: str, dial: Address) -> Dialogue:
        """Return a session, not connected yet, that is dropped SendConnectionInactivityTimeout from now.

        Correct is to count from each command.
        """
        dialogue = super().new_dialogue(hop, server, dial)
        asyncio.get_running_loop().call_later(dialogue.idle_timeout, dialogue.abort)
        return dialogue


@defect(
    "stops-without-a-word",
    breaks="RL-STP-01",
    slot="receiver",
    needs_expectation="a server may end an idle session as it stops; 421 is what it should say",
)
class StopsWithoutAWord(Receiver):
    """Drops idle sessions without 421 when it is stopped in an orderly way."""

    def shut_down(self) -> None:
        """Drop the session, or end it when the message in hand has its reply; correct is to send 421 first (RFC 5321 3.8)."""
        self._shutting_down = True
        if self.acceptance_task is None:
            self.abort()


@defect("waits-for-ever-for-a-goodbye", breaks="SR-TMO-08", slot="store")
class WaitsForEverForAGoodbye(MailboxStore):
    """Waits for the reply to QUIT of its mailbox store for as long as it takes."""

    async def _end_session(self, session: Dialogue) -> None:
        """Send QUIT, if the session is open, and wait for its reply, at most a year; correct is SendConnectionInactivityTimeout."""
        session.idle_timeout = 365 * 86400.0
        await super()._end_session(session)


@defect("hangs-up-on-what-it-has-taken", breaks="RL-DOT-03", slot="receiver")
class HangsUpOnWhatItHasTaken(Receiver):
    """Closes the session in place of acknowledging the message, and delivers it."""

    async def handle_message(self, content: bytes) -> str:
        """Accept or refuse a message, and on the frontend listener close the connection before the reply, which is returned, is sent."""
        reply = await super().handle_message(content)
        if self.session_state.listener == "frontend" and self.transport is not None:
            self.transport.close()
        return reply


@defect("counts-no-hops", breaks="RL-LOP-01", slot="acceptance")
class CountsNoHops(Acceptance):
    """Passes a message on however often it has been through servers."""

    async def accept(self, envelope: Envelope, content: bytes, origin: MessageOrigin) -> Reply:
        """Rename the Received fields of a message, so that the check for loops does not count them, and accept it; return the reply.

        `add_trace_field`, which is called after that check, gives them their name back.
        """
        hidden = content.replace(b"Received:", b"X-Seen:")
        return await super().accept(envelope, hidden, origin)

    def add_trace_field(self, content: bytes, origin: MessageOrigin, protocol: str) -> tuple[str, bytes]:
        """Return a new message id, and the content with its Received fields under their right name and this server's at the beginning."""
        return super().add_trace_field(content.replace(b"X-Seen:", b"Received:"), origin, protocol)


@defect(
    "takes-a-hundred-hops-for-a-loop",
    breaks="RL-LOP-02",
    slot="acceptance",
    needs_expectation="RFC 5321 leaves the limit to the server, as long as it is 100 at least",
)
class TakesAHundredHopsForALoop(Acceptance):
    """Refuses a message that has been through a hundred servers."""

    async def accept(self, envelope: Envelope, content: bytes, origin: MessageOrigin) -> Reply:
        """Refuse (554) a message with a hundred Received fields or more; correct is more than a hundred. Handle any other correctly."""
        if f"\r\n{content.decode('latin-1')}".count("\r\nReceived:") >= 100:
            return Reply(554, "5.4.6", "too many hops")
        return await super().accept(envelope, content, origin)


@defect("takes-thirty-hops-for-a-loop", breaks="RL-LOP-02", slot="acceptance")
class TakesThirtyHopsForALoop(Acceptance):
    """Refuses a message that has been through thirty servers."""

    async def accept(self, envelope: Envelope, content: bytes, origin: MessageOrigin) -> Reply:
        """Refuse (554) a message with more than thirty Received fields, one in its first line not counted; handle any other correctly.

        Correct is to refuse more than a hundred.
        """
        if content.count(b"\r\nReceived:") > 30:
            return Reply(554, "5.4.6", "too many hops")
        return await super().accept(envelope, content, origin)


@defect("refuses-the-null-reverse-path", breaks="RL-NUL-01", slot="receiver")
class RefusesTheNullReversePath(Receiver):
    """Answers MAIL FROM:<> with 501, as if it were malformed."""

    async def smtp_MAIL(self, arg: str | None) -> None:
        """Refuse MAIL with a null reverse-path (501), which should be accepted; handle any other MAIL correctly."""
        if (arg or "").upper().startswith("FROM:<>"):
            await self.push("501 5.1.7 an address is missing")
        else:
            await super().smtp_MAIL(arg)


@defect("takes-eighty-recipients", breaks="RL-LIM-01", slot="receiver")
class TakesEightyRecipients(Receiver):
    """Takes no more than eighty recipients in one transaction."""

    def recipient_reply(self, address: str) -> str:
        """Return the correct reply to RCPT for the first eighty recipients of a transaction, and 452 for all later ones."""
        if len(self._recipients) >= 80:
            return "452 4.5.3 too many recipients"
        return super().recipient_reply(address)


@defect("refuses-paths-of-256-octets", breaks="RL-LIM-02", slot="receiver")
class RefusesLongPaths(Receiver):
    """Takes paths of 255 octets at most."""

    def recipient_reply(self, address: str) -> str:
        """Return the reply to RCPT with this address: 553 if it has more than 253 octets (255 with brackets), else the correct one."""
        too_long = len(address.encode()) + 2 > 255
        return "553 5.1.0 the path is too long" if too_long else super().recipient_reply(address)


class _Takes552ForAFailure(SmtpDialogue):
    """A session that takes 552 to RCPT for a permanent failure."""

    def recipient_reply(self, reply: Reply, before: Mapping[Recipient, Reply]) -> Reply:
        """Return `reply`, that to RCPT, as it is: 552 is a permanent failure.

        Correct is 452, to be tried again, for a recipient behind accepted ones.
        """
        return reply


@defect("takes-552-to-a-recipient-for-a-failure", breaks="RL-LIM-03", slot="outbound")
class Takes552ForAFailure(UsesOtherDialogue):
    """Returns the message to the sender for a recipient who was one too many for the next hop."""

    dialogue = _Takes552ForAFailure
