"""Making a shadow copy: it is stored on another server of the boundary before anybody is told that we have the
message (SR-CRE-01, SR-CRE-02)."""

import asyncio

from conformance.reference.config import Peer
from conformance.reference.host import Component, Host
from conformance.reference.message import Message
from conformance.reference.replies import Reply
from conformance.reference.send.dialogue import Dialogue, SessionLost
from conformance.reference.send.factory import create_dialogue

LEAVING = 16
"""Sessions that may be about their discard status and their end while others are opened."""
PATIENCE = 1.0
"""Seconds that a message waits at most for one of them to end, where there are more."""


class ShadowCreation(Component):
    """Tries one server after another until one has stored the copy (SR-PRF-01, SR-PRF-07)."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._finishing: set[asyncio.Task[None]] = set()

    async def make_shadow(self, message: Message, content: bytes, deadline: float | None) -> bool:
        """Have a shadow made; return whether a server has acknowledged one.

        `deadline` is the loop's time at which the effort ends at the latest: then it has timed out (SR-TMO-01).
        """
        if not self.host.transport.ShadowRedundancyEnabled:
            return False
        try:
            async with asyncio.timeout_at(deadline):
                for peer in self.host.choice.attempts():
                    if await self.try_server(peer, message, content):
                        break
                else:
                    return False
        except TimeoutError:
            self.host.log.warning("%s shadow: the time for making one is over", message.message_id)
            return False
        if len(self._finishing) > LEAVING:  # or sessions would pile up under a load that never ends
            await asyncio.wait(self._finishing, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        return True

    async def try_server(self, peer: Peer, message: Message, content: bytes) -> bool:
        """Try one server; return whether it has acknowledged the copy."""
        host = self.host
        dialogue = self.new_dialogue(peer)
        try:
            await dialogue.open()
            await self.request_shadow(peer, dialogue)
            await self.transmit_shadow(peer, message, content, dialogue)
        except SessionLost as lost:
            dialogue.abort()
            host.choice.record_failure(peer.name)
            host.log.warning("%s shadow: attempt at %s failed: %s", message.message_id, peer.name, lost)
            return False
        except BaseException:  # the time is over, or the node ends
            dialogue.abort()
            raise
        host.choice.record_answer(peer.name)
        host.log.info("%s shadow: stored by %s", message.message_id, peer.name)
        leaving = host.tasks.start(self._finish_session(peer, dialogue), f"{host.name}: leave {peer.name}")
        self._finishing.add(leaving)
        leaving.add_done_callback(self._finishing.discard)
        return True

    def new_dialogue(self, peer: Peer) -> Dialogue:
        """Return a session with a server, still to be opened."""
        assert peer.dial.transport is not None
        host = self.host
        idle = host.transport.SendConnectionInactivityTimeout
        return create_dialogue(peer.dial.transport, host.name, idle, secret=peer.secret)

    async def request_shadow(self, peer: Peer, dialogue: Dialogue) -> None:
        """Name ourselves and our queue database to the shadow server (wire-profile.md). Raises SessionLost."""
        if "XSHADOWREQUEST" not in dialogue.keywords:
            raise SessionLost("it offers no XSHADOWREQUEST")
        answer = await dialogue.command(f"XSHADOWREQUEST {self.host.name} {self.host.identity.database}")
        if not answer.positive:
            raise SessionLost(f"it answered XSHADOWREQUEST with {answer}")
        self.host.manager.record_session(peer.name, _named_database(answer))

    async def transmit_shadow(self, peer: Peer, message: Message, content: bytes, dialogue: Dialogue) -> None:
        """Hand the copy over, and remember who holds it, or may hold it. Raises SessionLost."""
        discards = self.host.discards
        # noted while the outcome is open: should we be killed now, we know after the restart where a copy may be
        discards.add_holder(message.id, peer.name, message.shadow_id, acknowledged=False)
        stored = False
        try:
            replies = await dialogue.transmit(message.envelope, content, f" XSHADOW={message.shadow_id}")
            stored = all(reply.positive for reply in replies.values())
            if not stored:
                raise SessionLost(f"it would not keep the shadow: {next(iter(replies.values()))}")
            discards.add_holder(message.id, peer.name, message.shadow_id, acknowledged=True)
        finally:
            if not stored and not dialogue.outcome_unknown:
                discards.remove_holder(message.id, peer.name)

    async def _finish_session(self, peer: Peer, dialogue: Dialogue) -> None:
        """End the session, and ask in it for discard status where we hold shadows of that server (SR-MNT-02).

        The message is not held up by it.
        """
        try:
            await self.host.manager.query_in_session(peer.name, dialogue)
            await dialogue.quit()
        except SessionLost as lost:
            self.host.log.info("session with %s: %s", peer.name, lost)
        finally:
            dialogue.abort()


def _named_database(answer: Reply) -> str:
    """Return the database that a peer names in its 250 to XSHADOWREQUEST: `<server> <database>`."""
    words = answer.text.split()
    return words[1] if len(words) > 1 else ""


NOT_REDUNDANT = Reply(451, "4.4.0", "Message failed to be made redundant")


class Redundancy(Component):
    """Decides when a message may be acknowledged."""

    async def ensure_redundant(self, message: Message, content: bytes, deadline: float) -> Reply | None:
        """Make a message that is stored here redundant; return why it must be refused, or None.

        `deadline` is the loop's time at which the sender must have its reply.
        """
        redundant = await self.host.creation.make_shadow(message, content, deadline)
        return None if redundant or not self.is_mandatory else NOT_REDUNDANT

    async def make_redundant_in_background(self, message: Message, content: bytes) -> None:
        """Make a message that no sender waits for redundant: a report, or one taken over or sent again."""
        await self.host.creation.make_shadow(message, content, None)
        self.host.messages.clear_redundancy_pending(message.id)

    @property
    def is_mandatory(self) -> bool:
        """Whether a message without a shadow is refused; without shadow redundancy it never is (SR-ENA-06)."""
        transport = self.host.transport
        return transport.ShadowRedundancyEnabled and transport.RejectMessageOnShadowFailure
