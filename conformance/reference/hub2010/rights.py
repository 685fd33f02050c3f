"""The extended rights for shadow redundancy, and the switch that overrides them (EX2010, extended rights)."""

from conformance.reference.config import NodeConfiguration, Peer


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
