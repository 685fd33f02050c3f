"""The choice of shadow servers: which servers are asked, in which order, and how often (SR-PRF-01 to SR-PRF-06).

A shadow server keeps a copy (shadow) of a message of this server. creation.py asks the servers in the order that is chosen here,
and records failed attempts; manager.py records when a server was in contact with this one. An *attempt* is one session in which a
server is asked to keep the shadow of one message. A DAG is a group of servers that may span several sites.
"""

import random
from collections.abc import Sequence

from conformance.reference.boundary import can_be_shadow_server
from conformance.reference.config import NodeConfiguration, Peer
from conformance.reference.host import Component


class ShadowServerChoice(Component):
    """Chooses shadow servers, and remembers which of them failed recently.

    `_failed` has the time of the last failed attempt (POSIX seconds) by server.
    """

    _failed: dict[str, float]

    def start(self) -> None:
        """Begin without any recorded failure: failures are not kept over a restart."""
        self._failed = {}

    def servers_to_try(self) -> list[Peer]:
        """Return the servers to try for one message, in order; a server appears once for each permitted attempt at it.

        Empty if no server may be asked.
        """
        return servers_to_try(self.host.config, self.unresponsive_servers(), self.host.random)

    def unresponsive_servers(self) -> frozenset[str]:
        """Return the names of servers with a failed attempt within the last ShadowHeartbeatFrequency and no contact since."""
        earliest = self.host.now() - self.host.transport.ShadowHeartbeatFrequency
        return frozenset(name for name, at in self._failed.items() if at > earliest)

    def record_failure(self, server: str) -> None:
        """Record that an attempt at a server (by name) failed: it is tried last for ShadowHeartbeatFrequency, or until it has answered."""
        self._failed[server] = self.host.now()

    def record_answer(self, server: str) -> None:
        """Forget the failed attempt at a server (by name), if any: it was in contact, so it runs."""
        self._failed.pop(server, None)


def servers_to_try(config: NodeConfiguration, unresponsive: frozenset[str], rng: random.Random) -> list[Peer]:
    """Return the servers to try for one message, in order; a server appears once for each permitted attempt at it.

    In a DAG that spans sites, ShadowMessagePreferenceSetting says whether those of other sites, of this site, or of other sites
    and then of this site are tried; otherwise only those of this site are (SR-PRF-06). MaxRetriesForLocalSiteShadow and
    MaxRetriesForRemoteSiteShadow are the numbers of attempts in this site and in all others together. Within each of the two
    groups the order is random (`rng`), with `unresponsive` servers (by name) last, and none is repeated before the others have
    been tried.
    """
    candidates = [peer for peer in config.peers if can_be_shadow_server(config, peer)]
    rng.shuffle(candidates)
    candidates.sort(key=lambda peer: peer.name in unresponsive)
    local = [peer for peer in candidates if peer.site == config.site]
    remote = [peer for peer in candidates if peer.site != config.site]
    transport = config.transport
    local_attempts = _cycle_through(local, transport.MaxRetriesForLocalSiteShadow)
    if not spans_sites(config):
        return local_attempts
    remote_attempts = _cycle_through(remote, transport.MaxRetriesForRemoteSiteShadow)
    match transport.ShadowMessagePreferenceSetting:
        case "LocalOnly":
            return local_attempts
        case "RemoteOnly":
            return remote_attempts
        case "PreferRemote":
            return remote_attempts + local_attempts


def spans_sites(config: NodeConfiguration) -> bool:
    """Return whether this server is in a DAG with members in other sites; only then ShadowMessagePreferenceSetting counts (SR-PRF-06)."""
    return config.dag is not None and any(
        peer.dag == config.dag and peer.site != config.site and peer.role == "mailbox" for peer in config.peers
    )


def _cycle_through(peers: Sequence[Peer], number: int) -> list[Peer]:
    """Return a list of `number` peers that goes through the given ones in turn and begins again; empty if none are given."""
    return [peers[index % len(peers)] for index in range(number)] if peers else []
