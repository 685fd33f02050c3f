"""Sessions with next hops: the mail transactions, and the commands before and after them.

The workers of the delivery queues (hop_queue.py) call the methods of `host.outbound`, in this order: `new_dialogue`,
`begin_session`, `transmit` for each message, `end_session`. A *dialogue* is this server's end of a session with another one
(send/dialogue.py). `hop` is a next hop, which may have several servers; `server` is the name of the one with which the session
is.
"""

from conformance.reference.config import Address
from conformance.reference.host import Component
from conformance.reference.message import Recipient
from conformance.reference.queue.hop_queue import DeliveryAttempt
from conformance.reference.replies import Reply
from conformance.reference.routing.next_hop import NextHop
from conformance.reference.send.dialogue import Dialogue
from conformance.reference.send.factory import create_dialogue


class Outbound(Component):
    """The send connector: makes sessions with next hops, transmits messages, and queries discard status in the same sessions.

    A next hop with the shadow verbs is asked which of the shadows kept here for it may be discarded: that is its discard status.
    """

    def new_dialogue(self, hop: NextHop, server: str, dial: Address) -> Dialogue:
        """Return a client session with a server of a next hop at address `dial`, not connected yet.

        It speaks SMTP or LMTP as the hop asks. With SMTP it authenticates if the server is a peer with a secret, and uses TLS
        with a server outside of the organisation that offers it.
        """
        idle = self.host.transport.SendConnectionInactivityTimeout
        peer = self.host.config.peers_by_name.get(server.casefold())
        return create_dialogue(
            dial,
            self.host.name,
            idle,
            hop.protocol_of(server),
            secret=peer.secret if peer else None,
            prefers_tls=peer is None,
        )

    async def begin_session(self, hop: NextHop, server: str, dialogue: Dialogue) -> None:
        """Send what precedes the first message of a session: nothing from 2013 on. Overrides raise SessionLost."""

    async def transmit(self, attempt: DeliveryAttempt, server: str, dialogue: Dialogue) -> dict[Recipient, Reply]:
        """Transmit a message to the remaining recipients of an attempt, and wait for it; return the final reply for each.

        The remaining ones are those that were not refused for good in an earlier session. Raises SessionLost.
        """
        content = self.host.messages.content(attempt.message.id)
        parameters = self.extra_mail_parameters(attempt, server, dialogue)
        return await dialogue.transmit(attempt.message.envelope.for_recipients(attempt.remaining), content, parameters)

    def extra_mail_parameters(self, attempt: DeliveryAttempt, server: str, dialogue: Dialogue) -> str:
        """Return further MAIL parameters for an attempt, each with a leading blank; "" here, for subclasses to override."""
        return ""

    async def end_session(self, hop: NextHop, server: str, dialogue: Dialogue) -> None:
        """Query discard status after the last message of a session, before QUIT (SR-MNT-02). Raises SessionLost.

        That asks the server which of the copies (shadows) that this server holds for it may be discarded. Does nothing if the
        server does not offer the shadow verbs, no shadow is held for it, or shadow redundancy is disabled here.
        """
        if "XSHADOWREQUEST" in dialogue.keywords:  # the server has the shadow verbs, XQDISCARD among them
            await self.host.manager.query_in_session(server, dialogue)
