"""Who a client is, and what it may do (SR-WIR-01, SR-WIR-02)."""

from conformance.reference.boundary import inside, shadows_by_receiver
from conformance.reference.config import Listener, Peer
from conformance.reference.part import Part


class Rights(Part):
    """The permissions of receive connectors."""

    def peer(self, listener: Listener, hello: str, authenticated: str | None) -> Peer | None:
        """Return the server of the organisation that a client of the transport listener is, or None.

        It is the one it says to be where the connector is externally secured, and the one it authenticated as.
        """
        name = authenticated or (hello if listener.externally_secured else "")
        return self.host.config.peer_named.get(name.casefold())

    def password(self, name: str) -> str | None:
        """Return the secret of a peer, or None where it has none."""
        peer = self.host.config.peer_named.get(name.casefold())
        return peer.secret if peer is not None else None

    def may_shadow(self, peer: Peer | None) -> bool:
        """Whether a peer is offered XSHADOWREQUEST: a 2013 or later mailbox server of our boundary, with the right."""
        return (
            peer is not None
            and self.host.transport.ShadowRedundancyEnabled
            and peer.role == "mailbox"
            and shadows_by_receiver(peer.generation)
            and inside(self.host.config, peer)
            and peer.accept_xshadow
        )

    def lacks_the_right(self, peer: Peer | None) -> bool:
        """Whether it is only for want of the right that a peer may not shadow here."""
        return peer is not None and not peer.accept_xshadow

    def submits(self, peer: Peer | None) -> bool:
        """Whether a client brings mail that no server of the organisation has taken in hand before."""
        return peer is None or peer.role == "submission"
