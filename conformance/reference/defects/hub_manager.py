"""Defects of the Shadow Redundancy Manager of Exchange 2010: who is asked, who has failed, and what becomes of shadows."""

from collections.abc import Iterator

from conformance.reference.defects.defect import defect
from conformance.reference.hub2010.manager import HubManager
from conformance.reference.hub2010.shadow_queues import HubShadowQueues, shadow_queues_of
from conformance.reference.message import Message
from conformance.reference.shadow.shadow_queues import QueuedShadow


@defect("hub-asks-no-more-when-asked", breaks="SR-E10-06", part="ex2010.manager")
class AsksNoMoreWhenAsked(HubManager):
    """Takes a primary's own query for a session in which it could have asked."""

    def record_query_from(self, server: str) -> None:
        """Count it as contact."""
        self.record_contact(server)


@defect("hub-fails-a-primary-too-soon", breaks="SR-E10-08", part="ex2010.manager")
class FailsAPrimaryTooSoon(HubManager):
    """Declares a primary failed one interval too soon."""

    def heartbeat_failed(self, primary: str) -> None:
        """Count, and wait for one interval less."""
        self.missed_intervals[primary] = self.missed_intervals.get(primary, 0) + 1
        if self.missed_intervals[primary] >= self.host.transport.ShadowHeartbeatRetryCount - 1:
            self.declare_failed(primary)


@defect("hub-counts-its-own-absence", breaks="SR-E10-08", part="ex2010.manager")
class CountsItsOwnAbsence(HubManager):
    """Counts the time in which it was down itself as intervals that its primaries have failed."""

    def start(self) -> None:
        """Count the intervals since the last contact."""
        super().start()
        for primary, watch in self.watched.items():
            watch.started_at = self.host.shadows.last_contact(primary) or watch.started_at


@defect("hub-drops-what-has-no-route", breaks="SR-E10-11", part="ex2010.manager")
class DropsWhatHasNoRoute(HubManager):
    """Drops shadows for which there is no alternative route when their primary has failed."""

    def declare_failed(self, primary: str) -> None:
        """Take over, and clear the rest away."""
        super().declare_failed(primary)
        for message in shadow_queues_of(self.host).messages_held_for(primary):
            self.host.messages.drop(message.id)


@defect("hub-fails-them-all", breaks="SR-MNT-13", part="ex2010.manager")
class FailsThemAll(HubManager):
    """Takes the shadows of every primary over when one of them has failed."""

    def declare_failed(self, primary: str) -> None:
        """Take everything over."""
        for each in self.host.shadows.primaries():
            self.host.promotion.take_over(
                [message.id for message in shadow_queues_of(self.host).messages_held_for(each)]
            )


@defect("hub-discards-by-count", breaks="SR-WIR-06", part="ex2010.manager")
class DiscardsByCount(HubManager):
    """Removes the oldest shadow for each discard notification, whichever it is for."""

    def discard_shadow(self, primary: str, database: str, shadow_id: str) -> None:
        """Remove the oldest."""
        for message in shadow_queues_of(self.host).messages_held_for(primary)[:1]:
            self.host.messages.drop(message.id)


@defect("hub-takes-over-without-telling", breaks="SR-E10-08", part="ex2010.shadow_queues")
class TakesOverWithoutTelling(HubShadowQueues):
    """Takes over from a failed primary, and queues no discard notifications for it."""

    def notify_when_delivered(self, message: Message, primary: str) -> None:
        """Tell nothing."""


@defect("hub-keeps-shadows-for-ever", breaks="SR-E10-12", part="ex2010.shadow_queues")
class KeepsShadowsForEver(HubShadowQueues):
    """Never removes a shadow that finds no route."""

    def expire(self, primary: str, before: float) -> None:
        """Remove nothing."""


@defect("hub-has-one-shadow-queue", breaks="SR-BND-07", part="ex2010.shadow_queues")
class HasOneShadowQueue(HubShadowQueues):
    """Holds the shadows for all next hops in one queue."""

    def queues_of(self, message: Message) -> Iterator[QueuedShadow]:
        """Say the same queue of every message."""
        yield QueuedShadow("shadows", "shadows", message, message.envelope.recipients)
