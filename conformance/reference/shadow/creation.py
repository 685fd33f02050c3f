"""Creating shadow copies: another server of the boundary stores the message before this one acknowledges it
(SR-CRE-01, SR-CRE-02), and what happens if that fails (SR-ENA-03, SR-ENA-04, SR-PRF-07, SR-TMO-01).

This is the side of the *primary*, the server that must deliver the message; the copy is its *shadow*, the server that stores it a
*shadow server*. `Redundancy` is called by the acceptance of a message and, for messages that no sender waits for, by its
delivery; it has `ShadowCreation` send the copy. The session, with XSHADOWREQUEST and MAIL ... XSHADOW=id, is described in
wire-profile.md. In the same session this server may *query discard status*: ask which of the copies that it keeps for the other
server it may give up.
"""

import asyncio
from weakref import WeakSet

from conformance.reference.config import Peer
from conformance.reference.host import Component, Host
from conformance.reference.message import Message
from conformance.reference.replies import Reply
from conformance.reference.send.dialogue import Dialogue, Refused, SessionLost
from conformance.reference.send.factory import create_dialogue

MAX_FINISHING = 16
"""Shadow sessions that may be querying discard status or closing before further messages have to wait."""
FINISHING_WAIT = 1.0
"""The longest time that a message waits for one of them to end, seconds."""


class ShadowCreation(Component):
    """Tries one server after another until one has stored the copy (SR-PRF-01, SR-PRF-07).

    The session then queries discard status and closes in the background (`_finishing` has the tasks), so that the message is not
    delayed. SessionLost stands for a failed attempt: the server refuses, cannot be reached, or is silent for too long.
    """

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._finishing: WeakSet[asyncio.Task[None]] = WeakSet()

    async def make_shadow(self, message: Message, content: bytes, deadline: float | None) -> bool:
        """Have a shadow stored on another server, and wait for that; return whether one has acknowledged it.

        False if all attempts have failed, no server may be asked, the time is over, or shadow redundancy is disabled. `deadline`
        is the event loop's time at which the attempts end (SR-TMO-01); None: they may take any time. After a success it may wait
        up to FINISHING_WAIT seconds more, even beyond `deadline`, if many sessions that carried copies are still closing.
        """
        if not self.host.transport.ShadowRedundancyEnabled:
            return False
        try:
            async with asyncio.timeout_at(deadline):
                for peer in self.host.choice.servers_to_try():
                    if await self.try_server(peer, message, content):
                        break
                else:
                    return False
        except TimeoutError:
            self.host.log.warning("%s shadow: timed out", message.message_id)
            return False
        if len(self._finishing) > MAX_FINISHING:  # else sessions would pile up under constant load
            await asyncio.wait(self._finishing, timeout=FINISHING_WAIT, return_when=asyncio.FIRST_COMPLETED)
        return True

    async def try_server(self, peer: Peer, message: Message, content: bytes) -> bool:
        """Send the copy to one server in a session of its own; return whether the server has acknowledged it.

        A failed attempt is recorded for the choice of servers. After a success, and after a refusal, the session goes on in the
        background (`_finish_session`). If it is cancelled, as at the deadline of `make_shadow`, it drops the session, and records
        no failure.
        """
        host = self.host
        dialogue = self.new_dialogue(peer)
        try:
            await dialogue.open()
            await self.request_shadow(peer, dialogue)
            await self.transmit_shadow(peer, message, content, dialogue)
        except SessionLost as lost:
            if isinstance(lost, Refused):
                self._finish_in_background(peer, dialogue)
            else:
                dialogue.abort()
            host.choice.record_failure(peer.name)
            host.log.warning("%s shadow: attempt at %s failed: %s", message.message_id, peer.name, lost)
            return False
        except BaseException:  # timed out or cancelled
            dialogue.abort()
            raise
        host.log.info("%s shadow: stored by %s", message.message_id, peer.name)
        self._finish_in_background(peer, dialogue)
        return True

    def new_dialogue(self, peer: Peer) -> Dialogue:
        """Return a client session with a server, not connected yet; it authenticates if the two share a secret."""
        # the address of the peer's transport listener: every shadow server has one
        assert peer.dial.transport is not None
        host = self.host
        idle = host.transport.SendConnectionInactivityTimeout
        return create_dialogue(peer.dial.transport, host.name, idle, secret=peer.secret)

    async def request_shadow(self, peer: Peer, dialogue: Dialogue) -> None:
        """Send XSHADOWREQUEST with the name and queue database of this server (wire-profile.md), and record the contact.

        Raises Refused if the request is refused or not offered, and SessionLost. The queue database of the other server, which the reply
        names, is not read here: XQDISCARD at the end of the session gives it too, if shadows are held here for that server.
        """
        if "XSHADOWREQUEST" not in dialogue.keywords:
            raise Refused("it does not offer XSHADOWREQUEST")
        answer = await dialogue.command(f"XSHADOWREQUEST {self.host.name} {self.host.identity.database}")
        if not answer.positive:
            raise Refused(f"the reply to XSHADOWREQUEST was {answer}")
        self.host.manager.record_contact(peer.name)

    async def transmit_shadow(self, peer: Peer, message: Message, content: bytes, dialogue: Dialogue) -> None:
        """Send the copy, and record that the server holds it, or may hold it (SR-MNT-01).

        Raises Refused if the server refuses it, and SessionLost if it is not stored for another reason. It counts as stored if the
        server has accepted it for all recipients. The record stays if the server holds a copy for some of them, or may hold one
        since the reply to the final dot was lost; after any other failure it is removed.
        """
        discards = self.host.discards
        # recorded before the outcome is known: after a kill it is still known where a copy may be
        discards.add_holder(message.id, peer.name, message.shadow_id)
        accepted_for_some = False
        try:
            replies = await dialogue.transmit(message.envelope, content, f" XSHADOW={message.shadow_id}")
            accepted_for_some = any(reply.positive for reply in replies.values())
            if (refusal := next((reply for reply in replies.values() if not reply.positive), None)) is not None:
                raise Refused(f"it refused the shadow: {refusal}")
        except BaseException:  # refused, lost, timed out or cancelled
            if not (accepted_for_some or dialogue.outcome_unknown):  # unknown: the final dot was sent, and has no reply
                discards.remove_holder(message.id, peer.name)
            raise

    def _finish_in_background(self, peer: Peer, dialogue: Dialogue) -> None:
        """Have a task query discard status, and end the session, while this node goes on."""
        finishing = self.host.tasks.start(
            self._finish_session(peer, dialogue), f"{self.host.name}: finish session with {peer.name}"
        )
        self._finishing.add(finishing)

    async def _finish_session(self, peer: Peer, dialogue: Dialogue) -> None:
        """Query discard status if shadows of that server are held here (SR-MNT-02), and close the session.

        Nothing is queried after 421, nor where the server does not offer the shadow verbs. If the session is lost, only log that.
        """
        try:
            if "XSHADOWREQUEST" in dialogue.keywords and not dialogue.server_ends_session:
                await self.host.manager.query_in_session(peer.name, dialogue)
            await dialogue.quit()
        except SessionLost as lost:
            self.host.log.info("session with %s: %s", peer.name, lost)
            await dialogue.leave(lost)
        finally:
            dialogue.abort()


NOT_REDUNDANT = Reply(451, "4.4.0", "Message failed to be made redundant")


class Redundancy(Component):
    """Makes messages redundant, and decides whether one without a shadow may be acknowledged."""

    async def make_redundant_or_refuse(self, message: Message, content: bytes, deadline: float) -> Reply | None:
        """Try to have a shadow of a stored message made; return None if the message may be acknowledged, else the refusal.

        Without a shadow it may be acknowledged unless redundancy is mandatory (`is_mandatory`), when the refusal is 451.
        `deadline` is the event loop's time by which the sender must have its reply. The caller records that the attempt has
        ended.
        """
        redundant = await self.host.creation.make_shadow(message, content, deadline)
        return None if redundant or not self.is_mandatory else NOT_REDUNDANT

    async def try_to_make_redundant(self, message: Message, content: bytes) -> None:
        """Try to make a message redundant for which no sender waits: a report, or one that was promoted or resubmitted.

        Waits, without limit, for the attempts, and records that they have ended, with or without a shadow.
        """
        await self.host.creation.make_shadow(message, content, None)
        self.host.messages.clear_redundancy_pending(message.id)

    @property
    def is_mandatory(self) -> bool:
        """Whether a message without a shadow is refused; never if shadow redundancy is disabled (SR-ENA-06)."""
        transport = self.host.transport
        return transport.ShadowRedundancyEnabled and transport.RejectMessageOnShadowFailure
