"""Which servers are asked to keep a shadow, in which order, and how often (SR-PRF-01 to SR-PRF-06)."""

import random
from collections.abc import Sequence

from conformance.reference.boundary import can_shadow
from conformance.reference.config import NodeConfiguration, Peer
from conformance.reference.host import Component


class ShadowServerChoice(Component):
    """Chooses shadow servers, and remembers which of them did not answer."""

    _failed: dict[str, float]

    def start(self) -> None:
        """Know nothing bad of anybody."""
        self._failed = {}

    def attempts(self) -> list[Peer]:
        """Return the servers to try for one message, one for each permitted attempt."""
        return attempts(self.host.config, self.unresponsive_servers(), self.host.random)

    def unresponsive_servers(self) -> frozenset[str]:
        """Return the servers that failed within the last ShadowHeartbeatFrequency and did not answer since."""
        since = self.host.now() - self.host.transport.ShadowHeartbeatFrequency
        return frozenset(name for name, at in self._failed.items() if at > since)

    def record_failure(self, server: str) -> None:
        """Note that an attempt at a server failed."""
        self._failed[server] = self.host.now()

    def record_answer(self, server: str) -> None:
        """Note that a server is there."""
        self._failed.pop(server, None)


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
    if not spans_sites(config):
        return nearby
    far = _times(remote, transport.MaxRetriesForRemoteSiteShadow)
    match transport.ShadowMessagePreferenceSetting:
        case "LocalOnly":
            return nearby
        case "RemoteOnly":
            return far
        case "PreferRemote":
            return far + nearby


def spans_sites(config: NodeConfiguration) -> bool:
    """Return whether this server is in a DAG with members in other sites: only then the preference counts."""
    return config.dag is not None and any(
        peer.dag == config.dag and peer.site != config.site and peer.role == "mailbox" for peer in config.peers
    )


def _times(peers: Sequence[Peer], number: int) -> list[Peer]:
    return [peers[turn % len(peers)] for turn in range(number)] if peers else []
