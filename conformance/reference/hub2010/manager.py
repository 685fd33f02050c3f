"""The Shadow Redundancy Manager of an Exchange 2010 server: heartbeat, discard status, and resubmission for a failed primary.

The *primary* is the next hop that a message was sent to; this server keeps a copy of the message, the *shadow*. After each
ShadowHeartbeatTimeoutInterval without a session the primary is queried (heartbeat): it replies with *discard notifications*,
which name the shadows of messages that it has passed on. After ShadowHeartbeatRetryCount failures in a row it has failed, and
those of its shadows that another server can be the next hop for are resubmitted (promoted): this server sends them again. When a
primary returns with a new queue database, all its shadows that came from the old one are promoted. *Contact* is a successful
session that this server has opened; `watched` has the state of each primary that has an alarm. A *dialogue* is this server's end
of a session; SessionLost means that the session has ended or failed.
"""

from conformance.reference.config import NodeConfiguration
from conformance.reference.host import Host
from conformance.reference.hub2010.shadow_queues import shadow_queues_of
from conformance.reference.message import Message
from conformance.reference.routing.bifurcation import group_by_next_hop
from conformance.reference.send.dialogue import Dialogue
from conformance.reference.shadow.manager import ShadowRedundancyManager

REPLY_SHARE = 0.1
"""The share of ShadowHeartbeatTimeoutInterval that a reply in a heartbeat may take: half a minute by default."""


class HubManager(ShadowRedundancyManager):
    """Watches every server for which there is a shadow queue (SR-E10-05 to SR-E10-12).

    `missed_intervals` counts the failed heartbeats in a row by server. `_missed_at` says when the last of them was due, and
    `_failed` until when a server counts as failed (POSIX seconds). `_answered` has the servers that were in contact since the last
    heartbeat to them began. `_configured_at` is when the configuration was last changed. *Contact* is a successful session that
    this server has opened.
    """

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._failed: dict[str, float] = {}
        self.missed_intervals: dict[str, int] = {}
        self._missed_at: dict[str, float] = {}
        self._configured_at = 0.0
        self._answered: set[str] = set()
        self.in_transit: dict[str, bool] = {}
        """The shadow ids of messages that are being transmitted, and whether a discard notification has named each already."""

    @property
    def failed_primaries(self) -> frozenset[str]:
        """The primaries that have recently been declared failed.

        One counts as failed for ShadowHeartbeatTimeoutInterval * ShadowHeartbeatRetryCount, the time that detecting it takes,
        unless it is in contact before. Then mail is routed to it again, although no shadow is left for which it would be queried.
        """
        return frozenset(name for name, until in self._failed.items() if self.host.now() < until)

    def reconfigured(self, before: NodeConfiguration) -> None:
        """Apply a changed configuration; a heartbeat that is overdue by a shorter interval counts as due now."""
        self._configured_at = self.host.now()
        super().reconfigured(before)

    async def query_in_session(self, primary: str, dialogue: Dialogue) -> None:
        """Query discard status in a session that is open for mail, whether shadows are held or not (SR-E10-05). Raises SessionLost.

        `query_discards` sends XQDISCARD, deletes the shadows that the replies name, and records the contact; if a reply names a
        new queue database, it promotes the shadows of the old one. Whether shadow redundancy is enabled is not asked here: the
        caller does.
        """
        await self.query_discards(primary, dialogue)

    def watch(self, primary: str, since: float | None = None) -> None:
        """Start watching a primary, unless it is watched; `since` is ignored: the first interval begins now.

        Sets the alarm for its next heartbeat. While shadow redundancy is enabled, a primary without shadows here is not watched.
        """
        super().watch(primary)

    def record_contact(self, primary: str) -> None:
        """Record a successful session with a primary: it counts as failed no more (SR-E10-09).

        Its failed intervals are counted anew, from none, and `_answered` has it until its next heartbeat begins. Does not wait for
        the disk.
        """
        super().record_contact(primary)
        self._failed.pop(primary, None)
        self.missed_intervals.pop(primary, None)
        self._missed_at.pop(primary, None)
        self._answered.add(primary)

    def record_query_from(self, server: str) -> None:
        """Do nothing when another server sends XQDISCARD here: only a session that this server opens is contact (SR-E10-06, ruling 30)."""

    def discard_shadow(self, primary: str, database: str, shadow_id: str) -> None:
        """Delete a shadow whose primary has passed the message on (SR-E10-07).

        `database` is the id of the primary's queue database. A shadow that was promoted is a message of this server now, and
        stays; an unknown id is ignored. If the message is still being transmitted to the primary, `in_transit` notes that, so that
        no shadow of it will be kept. Does not wait for the disk.
        """
        shadow = self.host.shadows.find_by_shadow_id(primary, database, shadow_id)
        if shadow_id in self.in_transit:
            self.in_transit[shadow_id] = True
        if shadow is not None and shadow.place == "shadow":
            self.host.messages.drop(shadow.row_id)
            self.host.log.info("%s discarded: %s has passed it on", shadow_id, primary)

    @property
    def reply_timeout(self) -> float:
        """How long to wait for each reply in a heartbeat session, seconds: a tenth of ShadowHeartbeatTimeoutInterval."""
        return REPLY_SHARE * self.host.transport.ShadowHeartbeatTimeoutInterval

    def next_session_at(self, primary: str) -> float:
        """Return when the next heartbeat to a watched primary is due, POSIX seconds: after each interval without contact (SR-E10-06).

        An interval is ShadowHeartbeatTimeoutInterval. It is counted from the last of these: the last contact, when watching began,
        as after a restart (ruling 28), and when the last failed heartbeat was due.
        """
        began = self.watched[primary].started_at
        contact = self.host.shadows.last_contact(primary) or began
        since = max(began, contact, self._missed_at.get(primary, began))
        return since + self.host.transport.ShadowHeartbeatTimeoutInterval

    async def query_in_new_session(self, primary: str) -> str | None:
        """Query discard status in a session of its own, as in 2013; return the id of the primary's queue database or None.

        The id is "" if it was not given; None: the primary could not be queried. Afterwards `_answered` has the primary if it was
        in contact meanwhile: it gave a positive reply to XQDISCARD, even if the session was lost then, or another session with it
        succeeded.
        """
        self._answered.discard(primary)
        return await super().query_in_new_session(primary)

    def heartbeat_failed(self, primary: str) -> None:
        """Count a failed interval after a failed heartbeat; at ShadowHeartbeatRetryCount in a row declare the primary failed (SR-E10-08).

        Each further failed interval declares it failed again. Does nothing if the primary was in contact since the heartbeat began
        (`_answered`), such as by a session that was lost after a reply.
        """
        if primary in self._answered:
            return
        due = min(self.next_session_at(primary), self.host.now())
        self._missed_at[primary] = max(due, self._configured_at)
        self.missed_intervals[primary] = self.missed_intervals.get(primary, 0) + 1
        if self.missed_intervals[primary] >= self.host.transport.ShadowHeartbeatRetryCount:
            self.declare_failed(primary)

    def declare_failed(self, primary: str) -> None:
        """Promote the shadows of a failed primary that have an alternative route (SR-E10-08, SR-E10-10), and delete expired ones.

        The shadows without one are kept (SR-E10-11), for `shadow_lifetime` seconds (SR-E10-12). When a promoted message has been
        delivered, a discard notification for it is queued for the failed primary. The primary is in `failed_primaries` for a
        while. Does not wait for the disk.
        """
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
        """Return how long a shadow without an alternative route is kept, real seconds (SR-E10-12)."""
        return self.host.transport.MessageExpirationTimeout

    def has_alternative(self, message: Message) -> bool:
        """Return whether every recipient of a shadow message has a next hop with a server that is not in `failed_primaries`."""
        hops = group_by_next_hop(self.host.config, message.envelope.recipients)
        return all(set(hop.servers) - self.failed_primaries for hop in hops)


def hub_manager_of(host: Host) -> HubManager:
    """Return the Shadow Redundancy Manager of a 2010 server, with its 2010 type; for another server the assertion fails."""
    assert isinstance(host.manager, HubManager)
    return host.manager
