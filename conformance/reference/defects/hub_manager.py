"""Defects of the Shadow Redundancy Manager of Exchange 2010: heartbeats, when a primary has failed, which shadows are taken over.

A primary is the next hop that a message was sent to; this server keeps the shadow until the primary reports, by a discard notification,
that it has passed the message on. It queries a primary after each ShadowHeartbeatTimeoutInterval without a session; after
ShadowHeartbeatRetryCount failed intervals in a row it declares the primary failed and promotes those of its shadows that have another
route: it delivers them itself.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

from collections.abc import Iterator, Sequence

from conformance.reference.defects.defect import defect
from conformance.reference.hub2010.manager import HubManager
from conformance.reference.hub2010.shadow_queues import HubPromotion, HubShadowQueues, shadow_queues_of
from conformance.reference.message import Message
from conformance.reference.shadow.shadow_queues import QueuedShadow


@defect("hub-heartbeat-too-slow", breaks="SR-E10-06", slot="ex2010.manager")
class HubHeartbeatTooSlow(HubManager):
    """Lets twice ShadowHeartbeatTimeoutInterval pass before it asks."""

    def next_session_at(self, primary: str) -> float:
        """Return when to query a primary next (POSIX seconds): the correct time plus one more ShadowHeartbeatTimeoutInterval."""
        return super().next_session_at(primary) + self.host.transport.ShadowHeartbeatTimeoutInterval


@defect("hub-keeps-what-is-discarded", breaks="SR-E10-07", slot="ex2010.manager")
class HubKeepsWhatIsDiscarded(HubManager):
    """Leaves a message in its shadow queue when the primary has passed it on."""

    def discard_shadow(self, primary: str, database: str, shadow_id: str) -> None:
        """Ignore a discard notification: the shadow stays in its queue. Correct is to delete it."""


@defect("hub-gives-up-after-one-interval", breaks="SR-E10-08", slot="ex2010.manager")
class HubGivesUpAfterOne(HubManager):
    """Declares a primary failed after one interval without a session."""

    def heartbeat_failed(self, primary: str) -> None:
        """Declare the primary failed after any failed interval: set the count of those to ShadowHeartbeatRetryCount before it is counted.

        Correct is after that number of failures in a row. If the primary was in contact since the heartbeat began, only the count is set.
        """
        self.missed_intervals[primary] = self.host.transport.ShadowHeartbeatRetryCount
        super().heartbeat_failed(primary)


@defect("hub-never-gives-up", breaks="SR-E10-20", slot="ex2010.manager")
class HubNeverGivesUp(HubManager):
    """Never declares a primary failed."""

    def declare_failed(self, primary: str) -> None:
        """Do nothing when a primary has reached the limit of failed intervals; correct is to promote its shadows."""


@defect("hub-count-never-starts-again", breaks="SR-E10-09", slot="ex2010.manager")
class HubCountNeverStartsAgain(HubManager):
    """Does not forget failed intervals when a session succeeds."""

    def record_contact(self, primary: str) -> None:
        """Record a successful session, and keep the count of failed intervals instead of resetting it."""
        failures = self.missed_intervals.get(primary)
        super().record_contact(primary)
        if failures is not None:
            self.missed_intervals[primary] = failures


@defect("hub-takes-over-without-a-route", breaks="SR-E10-11", slot="ex2010.manager")
class HubTakesOverWithoutARoute(HubManager):
    """Takes shadows over though there is no other way for them."""

    def has_alternative(self, message: Message) -> bool:
        """Return True: each shadow of a failed primary counts as having another route, and so is promoted."""
        return True


@defect("hub-ignores-a-new-database", breaks="SR-E10-21", slot="ex2010.manager")
class HubIgnoresANewDatabase(HubManager):
    """Does not notice that a next hop came back with a new queue database."""

    def promote_if_new_database(self, primary: str, database: str) -> None:
        """Ignore the id of the primary's queue database; correct is to promote the shadows that came from another one."""


@defect("hub-takes-over-nothing", breaks="SR-E10-22", slot="ex2010.promotion")
class HubTakesOverNothing(HubPromotion):
    """Leaves the messages of a failed primary where they are."""

    def take_over(self, rows: Sequence[int]) -> None:
        """Do nothing with the shadows that have these row ids.

        Correct is to promote them: to deliver them as messages of this server.
        """


@defect("hub-resubmits-when-it-is-back", breaks="SR-E10-23", slot="ex2010.manager")
class HubResubmitsWhenItIsBack(HubManager):
    """Takes over for a primary that comes back with the database that it had."""

    def promote_if_new_database(self, primary: str, database: str) -> None:
        """Promote all shadows of a primary when it names its `database` after a failed interval, whichever database that is.

        Correct is to promote only those that came from another database.
        """
        if self.missed_intervals.get(primary):
            self.host.promotion.take_over(self.host.shadows.rows_held_for(primary))
        super().promote_if_new_database(primary, database)

    def record_contact_and_database(self, primary: str, database: str) -> None:
        """Promote shadows as `promote_if_new_database` does, and then record the contact, which resets the count of failed intervals.

        Correct is the reverse order.
        """
        self.promote_if_new_database(primary, database)
        self.record_contact(primary)


@defect("hub-asks-no-more-when-asked", breaks="SR-E10-06", slot="ex2010.manager")
class HubAsksNoMoreWhenAsked(HubManager):
    """Takes a primary's own query for a session in which it could have asked."""

    def record_query_from(self, server: str) -> None:
        """Record a primary's own query (XQDISCARD) as contact, which puts the next heartbeat off; only own sessions should (SR-E10-06)."""
        self.record_contact(server)


@defect("hub-fails-a-primary-too-soon", breaks="SR-E10-08", slot="ex2010.manager")
class HubFailsAPrimaryTooSoon(HubManager):
    """Declares a primary failed one interval too soon."""

    def heartbeat_failed(self, primary: str) -> None:
        """Count a failed interval, and declare the primary failed, which promotes its shadows, one before ShadowHeartbeatRetryCount.

        An interval counts also if the primary was in contact since the heartbeat began; correct is that it does not.
        """
        self.missed_intervals[primary] = self.missed_intervals.get(primary, 0) + 1
        if self.missed_intervals[primary] >= self.host.transport.ShadowHeartbeatRetryCount - 1:
            self.declare_failed(primary)


@defect("hub-counts-its-own-absence", breaks="SR-E10-08", slot="ex2010.manager")
class HubCountsItsOwnAbsence(HubManager):
    """Counts the time in which it was down itself as intervals that its primaries have failed."""

    def start(self) -> None:
        """Count the intervals for heartbeats from the last contact before the restart, not from the start (`started_at`).

        The first heartbeat is due as is correct; if it fails, those for the time while the node was down follow without a pause.
        """
        super().start()
        for primary, watch in self.watched.items():
            watch.started_at = self.host.shadows.last_contact(primary) or watch.started_at


@defect("hub-drops-what-has-no-route", breaks="SR-E10-11", slot="ex2010.manager")
class HubDropsWhatHasNoRoute(HubManager):
    """Drops shadows for which there is no alternative route when their primary has failed."""

    def declare_failed(self, primary: str) -> None:
        """Promote the shadows of the failed primary that have another route, and delete its others; correct is to keep those."""
        super().declare_failed(primary)
        for message in shadow_queues_of(self.host).messages_held_for(primary):
            self.host.messages.drop(message.id)


@defect("hub-fails-them-all", breaks="SR-MNT-13", slot="ex2010.manager")
class HubFailsThemAll(HubManager):
    """Takes the shadows of every primary over when one of them has failed."""

    def declare_failed(self, primary: str) -> None:
        """Promote the shadows of all primaries, also those without another route, and do nothing else.

        Correct is to promote only those of the failed primary that have another route, and to have that primary notified.
        """
        for each in self.host.shadows.primaries():
            self.host.promotion.take_over(
                [message.id for message in shadow_queues_of(self.host).messages_held_for(each)]
            )


@defect("hub-discards-by-count", breaks="SR-WIR-06", slot="ex2010.manager")
class HubDiscardsByCount(HubManager):
    """Removes the oldest shadow for each discard notification, whichever it is for."""

    def discard_shadow(self, primary: str, database: str, shadow_id: str) -> None:
        """Delete the oldest shadow of the primary, if there is any, whichever the discard notification names."""
        for message in shadow_queues_of(self.host).messages_held_for(primary)[:1]:
            self.host.messages.drop(message.id)


@defect("hub-takes-over-without-telling", breaks="SR-E10-08", slot="ex2010.shadow_queues")
class HubTakesOverWithoutTelling(HubShadowQueues):
    """Takes over from a failed primary, and queues no discard notifications for it."""

    def notify_when_delivered(self, message: Message, primary: str) -> None:
        """Record nothing, so that the failed primary gets no discard notification when the promoted message is delivered."""


@defect("hub-keeps-shadows-for-ever", breaks="SR-E10-12", slot="ex2010.shadow_queues")
class HubKeepsShadowsForEver(HubShadowQueues):
    """Never removes a shadow that finds no route."""

    def expire(self, primary: str, before: float) -> None:
        """Do nothing: no shadow is deleted, however long it has been in the queue of a failed primary.

        Correct is to delete those that came there at `before` (POSIX seconds) or earlier.
        """


@defect("hub-has-one-shadow-queue", breaks="SR-BND-07", slot="ex2010.shadow_queues")
class HubHasOneShadowQueue(HubShadowQueues):
    """Holds the shadows for all next hops in one queue."""

    def queues_of(self, message: Message) -> Iterator[QueuedShadow]:
        """Yield the shadow message once, in a queue with the same name for all; correct is a queue for each next hop."""
        yield QueuedShadow(
            primary="shadows", next_hop="shadows", message=message, recipients=message.envelope.recipients
        )
