"""The transport high-availability boundary: which servers are in it, and which may keep shadows (SR-BND-01, SR-BND-02).

Pure functions of the configuration of one server ("this server"); a `peer` is another server that it lists. A DAG (database
availability group) is a group of mailbox servers, which may be in several sites. A *shadow* is a redundant copy of a message.
From 2013 on a server has a shadow made on another one when it receives a message. In 2010 a server keeps the shadow of what it
sends, and says so to the receiver with the verb XSHADOW.
"""

from conformance.reference.config import NodeConfiguration, Peer


def in_boundary(config: NodeConfiguration, peer: Peer) -> bool:
    """Return whether a peer is in this server's boundary.

    The boundary of a DAG member is its whole DAG, across sites; that of any other server is all servers of its Active Directory
    site that are in no DAG. The role of the peer does not count.
    """
    if config.dag is not None:
        return peer.dag == config.dag
    return peer.dag is None and peer.site == config.site


def makes_shadows_on_receipt(generation: str) -> bool:
    """Return whether servers of this generation have a shadow made when they receive a message: all but `ex2010`.

    A 2010 server keeps a shadow itself when it sends.
    """
    return generation != "ex2010"


def can_be_shadow_server(config: NodeConfiguration, peer: Peer) -> bool:
    """Return whether this server may ask a peer to keep a shadow.

    The peer must be a mailbox server of 2013 or later in the boundary, grant this server the right to use the shadow verbs there
    (`send_xshadow`), and have a transport listener. Whether shadow redundancy is enabled here does not count.
    """
    return (
        in_boundary(config, peer)
        and peer.role == "mailbox"
        and makes_shadows_on_receipt(peer.generation)
        and peer.send_xshadow
        and peer.dial.transport is not None
    )


def advertises_xshadow_to(config: NodeConfiguration, peer: Peer | None) -> bool:
    """Return whether this server, of 2010, advertises XSHADOW to a client: a peer with the right ms-Exch-SMTP-Accept-XSHADOW (SR-E10-18).

    `peer` is the identified client of a session (authenticated, or externally secured), or None for any other client. Return
    False for None, for a peer of the role `submission`, and for every client while shadow redundancy is disabled here.
    """
    return peer is not None and peer.accept_xshadow and _xshadow_rights_count(config, peer)


def sends_xshadow_to(config: NodeConfiguration, peer: Peer | None) -> bool:
    """Return whether this server, of 2010, sends XSHADOW to a peer: this server has ms-Exch-SMTP-Send-XSHADOW there (SR-E10-19).

    `peer` is None for a next hop outside of the organisation. Return False for None, for a peer of the role `submission`, and for
    every peer while shadow redundancy is disabled here.
    """
    return peer is not None and peer.send_xshadow and _xshadow_rights_count(config, peer)


def _xshadow_rights_count(config: NodeConfiguration, peer: Peer) -> bool:
    """Return whether the rights of a peer apply at all: shadow redundancy is enabled here (SR-ENA-02), and the peer is a server.

    A right permits one of the two to use XSHADOW. A peer of the role `submission` is the Mailbox Transport Submission service and
    no transport server.
    """
    return config.transport.ShadowRedundancyEnabled and peer.role != "submission"
