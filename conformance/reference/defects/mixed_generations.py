"""Defects towards servers of Exchange 2010, and of switches, that show only for some messages.

A shadow is the copy of a message that another server, its holder, keeps until a discard notification says that the message has
been processed. To release a processed message is to queue its notifications and to move it to Safety Net.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

from conformance.reference.boundary import makes_shadows_on_receipt
from conformance.reference.defects.defect import defect
from conformance.reference.host import Host
from conformance.reference.message import Message
from conformance.reference.queue.delivery import Completion
from conformance.reference.shadow.creation import ShadowCreation


def goes_to_a_hub(host: Host, address: str) -> bool:
    """Return whether the next hop for the recipient `address` is a known server of Exchange 2010."""
    peer = host.config.peers_by_name.get(host.routing.next_hop(address).name.casefold())
    return peer is not None and not makes_shadows_on_receipt(peer.generation)


@defect("keeps-shadows-of-hub-mail", breaks="SR-IOP-02", slot="completion")
class KeepsShadowsOfHubMail(Completion):
    """Offers no discard notification for a message that a 2010 hub has acknowledged."""

    def release(self, message: Message) -> None:
        """Release a processed message, but queue no discard notifications for the holders of its shadow if it went to a 2010 hub."""
        if any(goes_to_a_hub(self.host, one.address) for one in message.envelope.recipients):
            self.host.safety_net.hold(message.id, "safety-net")
        else:
            super().release(message)


@defect("hub-mail-is-not-held", breaks="SR-IOP-02", slot="completion")
class HubMailIsNotHeld(Completion):
    """Deletes a message that a 2010 hub has acknowledged, in place of moving it to Safety Net."""

    def release(self, message: Message) -> None:
        """Release a processed message, and delete it if it went to a 2010 hub, so that it is not in Safety Net."""
        super().release(message)
        if any(goes_to_a_hub(self.host, one.address) for one in message.envelope.recipients):
            self.host.messages.drop(message.id)


@defect("redundant-again-once", breaks="SR-BND-03", slot="creation")
class RedundantAgainOnce(ShadowCreation):
    """Makes the first message redundant for which no sender waits, and none of the later ones."""

    made_one = False

    async def make_shadow(self, message: Message, content: bytes, deadline: float | None) -> bool:
        """Make a shadow of every message for which a sender waits (with a `deadline`), and of the first other one.

        The others are reports, or were promoted or resubmitted. Return whether a server has stored the shadow.
        """
        if deadline is None:
            if self.made_one:
                return False
            self.made_one = True
        return await super().make_shadow(message, content, deadline)
