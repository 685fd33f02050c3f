"""The Shadow Redundancy Manager of a 2010 server: heartbeat, discard status, and taking over from a failed primary."""

from conformance.reference.host import Host
from conformance.reference.hub2010.shadow_queues import shadow_queues_of
from conformance.reference.message import Message
from conformance.reference.routing.bifurcation import group_by_next_hop
from conformance.reference.send.dialogue import Dialogue
from conformance.reference.shadow.manager import ShadowRedundancyManager

PATIENCE = 0.1
"""What part of ShadowHeartbeatTimeoutInterval an answer in a heartbeat may take: half a minute by default."""


class HubManager(ShadowRedundancyManager):
    """Watches every server for which there is a shadow queue (SR-E10-05 to SR-E10-12)."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._failed: dict[str, float] = {}
        self.missed_intervals: dict[str, int] = {}

    @property
    def failed_primaries(self) -> frozenset[str]:
        """The primaries that have been declared failed of late.

        One counts as failed for as long as it takes to find that out, so that it is tried again one day although
        there is nothing any more to ask it for.
        """
        return frozenset(name for name, until in self._failed.items() if self.host.now() < until)

    async def query_in_session(self, primary: str, dialogue: Dialogue) -> None:
        """Ask for discard status before the session ends, whatever is held (SR-E10-05). Raises SessionLost."""
        await self.query_discards(primary, dialogue)

    def watch(self, primary: str, since: float | None = None) -> None:
        """Begin to watch a primary, unless it is watched; the count of failed intervals begins now."""
        super().watch(primary)

    def record_contact(self, primary: str) -> None:
        """Note a successful session: the count starts again (SR-E10-09)."""
        super().record_contact(primary)
        self._failed.pop(primary, None)
        self.missed_intervals.pop(primary, None)

    def record_query_from(self, server: str) -> None:
        """Note nothing: only a session of our own brings the discard status of what we sent (SR-E10-06)."""

    def discard_shadow(self, primary: str, database: str, shadow_id: str) -> None:
        """Remove a shadow that its primary has passed on (SR-E10-07)."""
        found = self.host.shadows.find(primary, database, shadow_id)
        if found is not None and found[1] == "shadow":
            self.host.messages.drop(found[0])
            self.host.log.info("%s discarded: %s has passed it on", shadow_id, primary)

    @property
    def reply_timeout(self) -> float:
        """How long to wait for each answer in a heartbeat, seconds."""
        return PATIENCE * self.host.transport.ShadowHeartbeatTimeoutInterval

    def next_session_at(self, primary: str) -> float:
        """Return when to ask: after each ShadowHeartbeatTimeoutInterval without a session (SR-E10-06)."""
        began = self.watched[primary].started_at
        contact = max(began, self.host.shadows.last_contact(primary) or began)
        missed = self.missed_intervals.get(primary, 0)
        return contact + (missed + 1) * self.host.transport.ShadowHeartbeatTimeoutInterval

    def heartbeat_failed(self, primary: str) -> None:
        """Count a failed interval; the primary has failed after ShadowHeartbeatRetryCount of them in a row.

        From then on it is asked once in each interval.
        """
        self.missed_intervals[primary] = self.missed_intervals.get(primary, 0) + 1
        if self.missed_intervals[primary] >= self.host.transport.ShadowHeartbeatRetryCount:
            self.declare_failed(primary)

    def declare_failed(self, primary: str) -> None:
        """Take over what has an alternative route (SR-E10-08, SR-E10-10); the rest stays (SR-E10-11)."""
        host, transport = self.host, self.host.transport
        queues = shadow_queues_of(host)
        wait = transport.ShadowHeartbeatTimeoutInterval * transport.ShadowHeartbeatRetryCount
        self._failed[primary] = host.now() + wait
        movable = [message for message in queues.messages_held_for(primary) if self.has_alternative(message)]
        host.log.warning("%s has failed: taking over %d", primary, len(movable))
        for message in movable:
            queues.notify_when_delivered(message, primary)
        host.promotion.take_over([message.id for message in movable])
        queues.expire(primary, host.now() - self.shadow_lifetime())

    def shadow_lifetime(self) -> float:
        """Return how long a shadow without a route is kept, seconds (SR-E10-12)."""
        return self.host.transport.MessageExpirationTimeout

    def has_alternative(self, message: Message) -> bool:
        """Whether another server than those that failed can be the next hop for all recipients."""
        hops = group_by_next_hop(self.host.config, message.envelope.recipients)
        return all(set(hop.servers) - self.failed_primaries for hop in hops)


def hub_manager_of(host: Host) -> HubManager:
    """Return the Shadow Redundancy Manager of a 2010 server."""
    assert isinstance(host.manager, HubManager)
    return host.manager
