"""The Shadow Redundancy Manager of a 2010 server: heartbeat, discard status, and taking over from a failed primary."""

from conformance.reference.host import Host
from conformance.reference.hub2010.shadow_queue import shadow_queues_of
from conformance.reference.message import Message
from conformance.reference.routing.forks import forks
from conformance.reference.send.dialogue import Dialogue
from conformance.reference.shadow.manager import ShadowRedundancyManager

PATIENCE = 0.1
"""What part of ShadowHeartbeatTimeoutInterval an answer in a heartbeat may take: half a minute by default."""


class Heartbeat(ShadowRedundancyManager):
    """Watches every server for which there is a shadow queue (SR-E10-05 to SR-E10-12)."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._failed: dict[str, float] = {}
        self.failures: dict[str, int] = {}

    @property
    def failed(self) -> frozenset[str]:
        """The primaries that have been declared failed of late.

        One counts as failed for as long as it takes to find that out, so that it is tried again one day although
        there is nothing any more to ask it for.
        """
        return frozenset(name for name, until in self._failed.items() if self.host.now() < until)

    async def query_in(self, primary: str, dialogue: Dialogue) -> None:
        """Ask for discard status before the session ends, whatever is held (SR-E10-05). Raises SessionLost."""
        await self.ask(primary, dialogue)

    def watch(self, primary: str, since: float | None = None) -> None:
        """Begin to watch a primary, unless it is watched; the count of failed intervals begins now."""
        super().watch(primary)

    def spoke(self, primary: str) -> None:
        """Note a successful session: the count starts again (SR-E10-09)."""
        super().spoke(primary)
        self._failed.pop(primary, None)
        self.failures.pop(primary, None)

    def asked_by(self, server: str) -> None:
        """Note nothing: only a session of our own brings the discard status of what we sent (SR-E10-06)."""

    def discard(self, primary: str, database: str, shadow_id: str) -> None:
        """Remove a shadow that its primary has passed on (SR-E10-07)."""
        found = self.host.shadows.find(primary, database, shadow_id)
        if found is not None and found[1] == "shadow":
            self.host.messages.drop(found[0])
            self.host.log.info("%s discarded: %s has passed it on", shadow_id, primary)

    @property
    def patience(self) -> float:
        """How long to wait for each answer in a heartbeat, seconds."""
        return PATIENCE * self.host.transport.ShadowHeartbeatTimeoutInterval

    def due(self, primary: str) -> float:
        """Return when to ask: after each ShadowHeartbeatTimeoutInterval without a session (SR-E10-06)."""
        began = self.watched[primary].began
        contact = max(began, self.host.shadows.contact(primary) or began)
        missed = self.failures.get(primary, 0)
        return contact + (missed + 1) * self.host.transport.ShadowHeartbeatTimeoutInterval

    def unreached(self, primary: str) -> None:
        """Count a failed interval; the primary has failed after ShadowHeartbeatRetryCount of them in a row.

        From then on it is asked once in each interval.
        """
        self.failures[primary] = self.failures.get(primary, 0) + 1
        if self.failures[primary] >= self.host.transport.ShadowHeartbeatRetryCount:
            self.declare_failed(primary)

    def declare_failed(self, primary: str) -> None:
        """Take over what has an alternative route (SR-E10-08, SR-E10-10); the rest stays (SR-E10-11)."""
        host, transport = self.host, self.host.transport
        queues = shadow_queues_of(host)
        wait = transport.ShadowHeartbeatTimeoutInterval * transport.ShadowHeartbeatRetryCount
        self._failed[primary] = host.now() + wait
        movable = [message for message in queues.held_for(primary) if self.has_alternative(message)]
        host.log.warning("%s has failed: taking over %d", primary, len(movable))
        for message in movable:
            queues.notify(message, primary)
        host.promotion.take_over([message.id for message in movable])
        queues.expire(primary, host.now() - self.expiry())

    def expiry(self) -> float:
        """Return how long a shadow without a route is kept, seconds (SR-E10-12)."""
        return self.host.transport.MessageExpirationTimeout

    def has_alternative(self, message: Message) -> bool:
        """Whether another server than those that failed can be the next hop for all recipients."""
        hops = forks(self.host.config, message.envelope.recipients)
        return all(set(hop.servers) - self.failed for hop in hops)


def heartbeat_of(host: Host) -> Heartbeat:
    """Return the Shadow Redundancy Manager of a 2010 server."""
    assert isinstance(host.manager, Heartbeat)
    return host.manager
