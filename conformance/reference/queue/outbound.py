"""Sessions with next hops, and what is said in them beside the mail."""

from conformance.reference.config import Address
from conformance.reference.host import Component
from conformance.reference.message import Recipient
from conformance.reference.queue.hop_queue import DeliveryAttempt
from conformance.reference.replies import Reply
from conformance.reference.routing.next_hop import NextHop
from conformance.reference.send.dialogue import Dialogue
from conformance.reference.send.factory import create_dialogue


class Outbound(Component):
    """The send connector: opens sessions, transmits messages, and asks for discard status on the way."""

    def new_dialogue(self, hop: NextHop, server: str, dial: Address) -> Dialogue:
        """Return a session with a server of a next hop, still to be opened."""
        idle = self.host.transport.SendConnectionInactivityTimeout
        peer = self.host.config.peers_by_name.get(server.casefold())
        return create_dialogue(dial, self.host.name, idle, hop.protocol, secret=peer.secret if peer else None)

    async def begin_session(self, hop: NextHop, server: str, dialogue: Dialogue) -> None:
        """Say what is to be said to a server before the first message. Raises SessionLost."""

    async def transmit(self, attempt: DeliveryAttempt, server: str, dialogue: Dialogue) -> dict[Recipient, Reply]:
        """Hand one fork over; return the replies. Raises SessionLost."""
        content = self.host.messages.content(attempt.message.id)
        parameters = self.extra_mail_parameters(attempt, server, dialogue)
        return await dialogue.transmit(attempt.message.envelope.for_recipients(attempt.recipients), content, parameters)

    def extra_mail_parameters(self, attempt: DeliveryAttempt, server: str, dialogue: Dialogue) -> str:
        """Return what stands behind the parameters of MAIL, each with a blank before it."""
        return ""

    async def end_session(self, hop: NextHop, server: str, dialogue: Dialogue) -> None:
        """Say what is to be said after the last message: the query for discard status (SR-MNT-02). Raises SessionLost."""
        if "XSHADOWREQUEST" in dialogue.keywords:
            await self.host.manager.query_in_session(server, dialogue)
