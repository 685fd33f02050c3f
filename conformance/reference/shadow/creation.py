"""Making a shadow copy: it is stored on another server of the boundary before anybody is told that we have the
message (SR-CRE-01, SR-CRE-02)."""

import asyncio

from conformance.reference.config import Peer
from conformance.reference.host import Host
from conformance.reference.message import Message
from conformance.reference.part import Part
from conformance.reference.replies import Reply
from conformance.reference.send.dialogue import Dialogue, SessionLost
from conformance.reference.send.open import open_dialogue

LEAVING = 16
"""Sessions that may be about their discard status and their end while others are opened."""
PATIENCE = 1.0
"""Seconds that a message waits at most for one of them to end, where there are more."""


class ShadowCreation(Part):
    """Tries one server after another until one has stored the copy (SR-PRF-01, SR-PRF-07)."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._leaving: set[asyncio.Task[None]] = set()

    async def make(self, message: Message, content: bytes, deadline: float | None) -> bool:
        """Have a shadow made; return whether a server has acknowledged one.

        `deadline` is the loop's time at which the effort ends at the latest: then it has timed out (SR-TMO-01).
        """
        if not self.host.transport.ShadowRedundancyEnabled:
            return False
        try:
            async with asyncio.timeout_at(deadline):
                for peer in self.host.choice.attempts():
                    if await self.attempt(peer, message, content):
                        break
                else:
                    return False
        except TimeoutError:
            self.host.log.warning("%s shadow: the time for making one is over", message.message_id)
            return False
        if len(self._leaving) > LEAVING:  # or sessions would pile up under a load that never ends
            await asyncio.wait(self._leaving, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        return True

    async def attempt(self, peer: Peer, message: Message, content: bytes) -> bool:
        """Try one server; return whether it has acknowledged the copy."""
        host = self.host
        dialogue = self.dialogue(peer)
        try:
            await dialogue.open()
            await self.request(peer, dialogue)
            await self.transmit(peer, message, content, dialogue)
        except SessionLost as lost:
            dialogue.abort()
            host.choice.failed(peer.name)
            host.log.warning("%s shadow: attempt at %s failed: %s", message.message_id, peer.name, lost)
            return False
        except BaseException:  # the time is over, or the node ends
            dialogue.abort()
            raise
        host.choice.answered(peer.name)
        host.log.info("%s shadow: stored by %s", message.message_id, peer.name)
        leaving = host.tasks.start(self._leave(peer, dialogue), f"{host.name}: leave {peer.name}")
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)
        return True

    def dialogue(self, peer: Peer) -> Dialogue:
        """Return a session with a server, still to be opened."""
        assert peer.dial.transport is not None
        host = self.host
        idle = host.transport.SendConnectionInactivityTimeout
        return open_dialogue(peer.dial.transport, host.name, idle, secret=peer.secret)

    async def request(self, peer: Peer, dialogue: Dialogue) -> None:
        """Name ourselves and our queue database to the shadow server (wire-profile.md). Raises SessionLost."""
        if "XSHADOWREQUEST" not in dialogue.keywords:
            raise SessionLost("it offers no XSHADOWREQUEST")
        answer = await dialogue.command(f"XSHADOWREQUEST {self.host.name} {self.host.identity.database}")
        if not answer.positive:
            raise SessionLost(f"it answered XSHADOWREQUEST with {answer}")
        self.host.manager.saw_database(peer.name, _named_database(answer))

    async def transmit(self, peer: Peer, message: Message, content: bytes, dialogue: Dialogue) -> None:
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
            if not stored and not dialogue.in_doubt:
                discards.remove_holder(message.id, peer.name)

    async def _leave(self, peer: Peer, dialogue: Dialogue) -> None:
        """End the session, and ask in it for discard status where we hold shadows of that server (SR-MNT-02).

        The message is not held up by it.
        """
        try:
            await self.host.manager.query_in(peer.name, dialogue)
            await dialogue.quit()
        except SessionLost as lost:
            self.host.log.info("session with %s: %s", peer.name, lost)
        finally:
            dialogue.abort()


def _named_database(answer: Reply) -> str:
    """Return the database that a peer names in its 250 to XSHADOWREQUEST: `<server> <database>`."""
    words = answer.text.split()
    return words[1] if len(words) > 1 else ""
