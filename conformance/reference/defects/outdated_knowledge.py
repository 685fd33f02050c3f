"""Defects of a server that goes by what it has found out earlier, and does not find it out again.

`start` is called at each start of the node, `reconfigured` when its configuration was read again. A *primary* is a server for
which this one holds copies (shadows) of messages, or has held them.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from conformance.reference.boundary import can_be_shadow_server
from conformance.reference.config import NodeConfiguration, Peer
from conformance.reference.defects.defect import defect
from conformance.reference.host import Host
from conformance.reference.message import Message, Recipient
from conformance.reference.routing.bifurcation import Routing
from conformance.reference.routing.next_hop import NextHop
from conformance.reference.safety_net import SafetyNet
from conformance.reference.shadow.choice import ShadowServerChoice, servers_to_try


@defect("knows-from-the-start-whom-to-ask", breaks="SR-BND-03", slot="choice")
class KnowsFromTheStartWhomToAsk(ShadowServerChoice):
    """Asks only those servers for shadow copies that it could ask when it was started."""

    _permitted: frozenset[str]

    def start(self) -> None:
        """Start as is correct, and keep the names of the servers that may be asked now."""
        super().start()
        config = self.host.config
        self._permitted = frozenset(peer.name for peer in config.peers if can_be_shadow_server(config, peer))

    def servers_to_try(self) -> list[Peer]:
        """Return the servers to try for one message, in order, of those that could be asked at the start."""
        config = self.host.config
        peers = tuple(peer for peer in config.peers if peer.name in self._permitted)
        known = config.model_copy(update={"peers": peers})
        return servers_to_try(known, self.unresponsive_servers(), self.host.random)


@defect(
    "keeps-routes-over-a-reload",
    breaks="SR-BIF-01",
    slot="routing",
    needs_expectation="no document says when the servers on a route know of new site links, so the rules judge no mail after a change",
)
class KeepsRoutesOverAReload(Routing):
    """Goes on with the next hops that it has found for recipients when the links between sites or the hub sites have changed."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._found: dict[tuple[Recipient, ...], dict[NextHop, list[Recipient]]] = {}

    def reconfigured(self, before: NodeConfiguration) -> None:
        """Forget the next hops that were found only if servers, routes or mailboxes have changed."""
        after = self.host.config
        if (before.peers, before.routes, before.mailboxes) != (after.peers, after.routes, after.mailboxes):
            self._found.clear()

    def group_by_next_hop(self, recipients: Iterable[Recipient]) -> dict[NextHop, list[Recipient]]:
        """Return the recipients by next hop, as it was found for the same recipients before."""
        key = tuple(recipients)
        if key not in self._found:
            self._found[key] = super().group_by_next_hop(key)
        return self._found[key]


@defect(
    "knows-one-database-of-each-primary",
    breaks="SR-SFN-05",
    slot="safety_net",
    needs_expectation="the rules do not know what a shadow Safety Net still holds when it is asked",
)
class KnowsOneDatabaseOfEachPrimary(SafetyNet):
    """Takes all that the shadow Safety Net holds of a primary for mail of the queue database from which the latest of it came."""

    async def _resubmit_shadows(self, primary: str, messages: Sequence[Message], addresses: Sequence[str]) -> None:
        """Resubmit all of the messages as is correct for the latest of them; the database of the others does not count."""
        latest = messages[-1].database
        await super()._resubmit_shadows(primary, [replace(m, database=latest) for m in messages], addresses)
