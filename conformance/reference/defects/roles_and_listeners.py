"""Defects that show at one listener, one role or one generation of servers.

A node has up to three listeners: `frontend` (clients and the Internet), `transport` (other servers, which may use the shadow
verbs) and `delivery` (LMTP). A shadow is the copy of a message that another server keeps.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

from conformance.reference.config import Peer
from conformance.reference.defects.defect import defect
from conformance.reference.message import Message
from conformance.reference.receive.session import LocalReceiver, Receiver
from conformance.reference.receive.verbs import ShadowVerbs
from conformance.reference.replies import Reply
from conformance.reference.shadow.choice import ShadowServerChoice
from conformance.reference.shadow.creation import Redundancy


@defect("asks-servers-of-2016-only", breaks="SR-CRE-01", slot="choice")
class AsksServersOf2016Only(ShadowServerChoice):
    """Asks servers of Exchange 2016 for shadows, and none of 2013."""

    def servers_to_try(self) -> list[Peer]:
        """Return the servers to try for a copy: the correct ones that are of Exchange 2016; correct are those of 2013 too."""
        return [peer for peer in super().servers_to_try() if peer.generation == "ex2016"]


@defect("delivery-listener-is-never-idle", breaks="SR-TMO-06", slot="local_receiver")
class DeliveryListenerIsNeverIdle(LocalReceiver):
    """Ends no idle session of the delivery listener."""

    def _on_idle_timer(self) -> None:
        """Do nothing when the idle timer fires, so that the session stays open until it reaches the limit of its age.

        Correct is to end one that was idle for too long.
        """


@defect("transport-listener-is-never-idle", breaks="SR-TMO-06", slot="receiver")
class TransportListenerIsNeverIdle(Receiver):
    """Ends idle sessions at the frontend, and none of the transport listener."""

    def _on_idle_timer(self) -> None:
        """End the session if it was idle for too long, as is correct, only on the frontend listener; on the transport listener do nothing.

        An idle session there ends only at the limit of its age.
        """
        if self.session_state.listener == "frontend":
            super()._on_idle_timer()


@defect("answers-queries-at-the-store", breaks="SR-WIR-02", slot="verbs")
class AnswersQueriesAtTheStore(ShadowVerbs):
    """Answers XQDISCARD at the delivery listener, to any client."""

    async def dispatch(self, verb: str, arguments: list[str]) -> list[str]:
        """Answer XQDISCARD at the delivery listener with up to 100 notifications for the server that the client names.

        Correct is 502 there. Any other verb, and any other listener, is handled correctly. Return the lines of the reply.
        """
        if self.session_state.listener == "delivery" and verb == "XQDISCARD" and len(arguments) == 2:
            lines, _ = await self.host.discard_status.answer_query(arguments[0], 100)
            return lines
        return await super().dispatch(verb, arguments)


@defect("mail-from-an-edge-has-no-shadow", breaks="SR-CRE-01", slot="redundancy")
class MailFromAnEdgeHasNoShadow(Redundancy):
    """Makes no shadow of mail that an Edge server hands over: that has one."""

    async def make_redundant_or_refuse(self, message: Message, content: bytes, deadline: float) -> Reply | None:
        """Return None (acknowledge), without a shadow, for a message that came from an Edge server by its first Received field.

        Any other message is handled correctly: a shadow, and None, or the reply that refuses it.
        """
        first = content.partition(b"\r\n")[0]
        edges = (peer.name for peer in self.host.config.peers if peer.role == "edge")
        if any(first.startswith(f"Received: from {name} ".encode()) for name in edges):
            return None
        return await super().make_redundant_or_refuse(message, content, deadline)
