"""Which servers are asked to keep a shadow, in which order, and how often (SR-PRF-01 to SR-PRF-06)."""

import random
from collections.abc import Sequence

from conformance.reference.boundary import can_shadow
from conformance.reference.config import NodeConfiguration, Peer


def attempts(config: NodeConfiguration, down: frozenset[str], chance: random.Random) -> list[Peer]:
    """Return the servers to try, one for each permitted attempt.

    Each attempt goes to another server as long as there is one; servers known to be `down` come last; the load is
    spread by chance. In a DAG within one site, and in no DAG, the preference is ignored (SR-PRF-06).
    """
    candidates = [peer for peer in config.peers if can_shadow(config, peer)]
    chance.shuffle(candidates)
    candidates.sort(key=lambda peer: peer.name in down)
    local = [peer for peer in candidates if peer.site == config.site]
    remote = [peer for peer in candidates if peer.site != config.site]
    transport = config.transport
    nearby = _times(local, transport.MaxRetriesForLocalSiteShadow)
    if not remote:
        return nearby
    far = _times(remote, transport.MaxRetriesForRemoteSiteShadow)
    match transport.ShadowMessagePreferenceSetting:
        case "LocalOnly":
            return nearby
        case "RemoteOnly":
            return far
        case "PreferRemote":
            return far + nearby


def _times(peers: Sequence[Peer], number: int) -> list[Peer]:
    return [peers[turn % len(peers)] for turn in range(number)] if peers else []
