"""Sessions with next hops, and what is said in them beside the mail."""

from conformance.reference.config import Address
from conformance.reference.message import Recipient
from conformance.reference.part import Part
from conformance.reference.queue.fork import Fork
from conformance.reference.queue.routing import NextHop
from conformance.reference.replies import Reply
from conformance.reference.send.dialogue import Dialogue
from conformance.reference.send.open import open_dialogue


class Outbound(Part):
    """The send connector: opens sessions, transmits messages, and asks for discard status on the way."""

    def dialogue(self, hop: NextHop, server: str, dial: Address) -> Dialogue:
        """Return a session with a server of a next hop, still to be opened."""
        idle = self.host.transport.SendConnectionInactivityTimeout
        peer = self.host.config.peer_named.get(server.casefold())
        return open_dialogue(dial, self.host.name, idle, hop.protocol, secret=peer.secret if peer else None)

    async def opened(self, hop: NextHop, server: str, dialogue: Dialogue) -> None:
        """Say what is to be said to a server before the first message. Raises SessionLost."""

    async def transmit(self, fork: Fork, server: str, dialogue: Dialogue) -> dict[Recipient, Reply]:
        """Hand one fork over; return the replies. Raises SessionLost."""
        content = self.host.messages.content(fork.message.id)
        parameters = self.mail_parameters(fork, server, dialogue)
        return await dialogue.transmit(fork.message.envelope.to(fork.recipients), content, parameters)

    def mail_parameters(self, fork: Fork, server: str, dialogue: Dialogue) -> str:
        """Return what stands behind the parameters of MAIL, each with a blank before it."""
        return ""

    async def closing(self, hop: NextHop, server: str, dialogue: Dialogue) -> None:
        """Say what is to be said after the last message: the query for discard status (SR-MNT-02). Raises SessionLost."""
        if "XSHADOWREQUEST" in dialogue.keywords:
            await self.host.manager.query_in(server, dialogue)
