"""The transport high-availability boundary: who is in it, and who may shadow whom (SR-BND-01, SR-BND-02)."""

from conformance.reference.config import NodeConfiguration, Peer


def in_boundary(config: NodeConfiguration, peer: Peer) -> bool:
    """Return whether a peer is in this server's boundary.

    That is the whole DAG for a member of one, also across sites; the Active Directory site for a server in none.
    """
    if config.dag is not None:
        return peer.dag == config.dag
    return peer.dag is None and peer.site == config.site


def shadows_by_receiver(generation: str) -> bool:
    """Return whether servers of this generation make the shadow when they receive (2013 and later)."""
    return generation != "ex2010"


def can_shadow(config: NodeConfiguration, peer: Peer) -> bool:
    """Return whether we may ask this peer to keep a shadow: in the boundary, 2013 or later, reachable, allowed."""
    return (
        in_boundary(config, peer)
        and peer.role == "mailbox"
        and shadows_by_receiver(peer.generation)
        and peer.send_xshadow
        and peer.dial.transport is not None
    )


def accepts_xshadow(config: NodeConfiguration, peer: Peer | None) -> bool:
    """Return whether XSHADOW is advertised to a peer: it holds ms-Exch-SMTP-Accept-XSHADOW here (SR-E10-18).

    `peer` is who the session is known to be with (authenticated, or externally secured), or None.
    """
    return peer is not None and peer.accept_xshadow and _tracks(config, peer)


def sends_xshadow(config: NodeConfiguration, peer: Peer | None) -> bool:
    """Return whether XSHADOW is issued towards a peer: we hold ms-Exch-SMTP-Send-XSHADOW there (SR-E10-19)."""
    return peer is not None and peer.send_xshadow and _tracks(config, peer)


def _tracks(config: NodeConfiguration, peer: Peer) -> bool:
    """ShadowRedundancyEnabled overrides the rights (SR-ENA-02); only transport servers take part."""
    return config.transport.ShadowRedundancyEnabled and peer.role != "submission"
