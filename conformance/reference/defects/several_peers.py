"""Defects that show only with several peers at a time, or with peers that are silent.

A *primary* is a server for which this one keeps copies (shadows) of messages. To promote shadows is to make them messages of this
server, which then delivers them.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

import heapq
from collections.abc import Collection

from conformance.reference.defects.defect import defect
from conformance.reference.message import Recipient
from conformance.reference.queue.delivery import Delivery
from conformance.reference.queue.hop_queue import DeliveryAttempt
from conformance.reference.queue.outbound import Outbound
from conformance.reference.replies import Reply
from conformance.reference.routing.next_hop import NextHop
from conformance.reference.send.dialogue import Dialogue
from conformance.reference.shadow.manager import ShadowRedundancyManager
from conformance.reference.storage.discards import DiscardNotification, Discards


@defect("a-new-database-counts-for-all", breaks="SR-MNT-13", slot="manager")
class ANewDatabaseCountsForAll(ShadowRedundancyManager):
    """Takes over the shadows of all primaries when one of them has a new queue database."""

    def promote_if_new_database(self, primary: str, database: str) -> None:
        """Promote the shadows of all primaries if any of this one came from another queue database than `database`, its present one.

        Correct is to promote only those that did. Does nothing if the primary named no database ("").
        """
        if database and self.host.shadows.rows_of_other_databases(primary, database):
            self.host.promotion.take_over([message.id for message in self.host.messages.held_as("shadow")])


@defect("promotes-a-second-early", breaks="SR-MNT-10", slot="manager")
class PromotesASecondEarly(ShadowRedundancyManager):
    """Promotes itself one second before ShadowResubmitTimeSpan is over."""

    def promotion_at(self, primary: str) -> float:
        """Return when the shadows of a primary are promoted (POSIX seconds): the correct time minus one second."""
        return super().promotion_at(primary) - 1


@defect("waits-for-ever-after-the-content", breaks="SR-TMO-08", slot="outbound")
class WaitsForEverAfterTheContent(Outbound):
    """Limits the time of each command to a next hop, and not that of the reply to the content."""

    async def transmit(self, attempt: DeliveryAttempt, server: str, dialogue: Dialogue) -> dict[Recipient, Reply]:
        """Transmit a message to a next hop, whose reply to the content may take a year; return the replies by recipient."""
        send = dialogue.send_content

        async def send_content(content: bytes, recipients: int) -> list[Reply]:
            """Send the content, and return the replies to it, each of which may take a year. Raises SessionLost."""
            before, dialogue.idle_timeout = dialogue.idle_timeout, 365 * 86400.0
            try:
                return await send(content, recipients)
            finally:
                dialogue.idle_timeout = before

        dialogue.send_content = send_content  # type: ignore[method-assign]
        return await super().transmit(attempt, server, dialogue)


@defect("second-lost-session-is-final", breaks="RL-RTY-01", slot="delivery")
class SecondLostSessionIsFinal(Delivery):
    """Reports a message as undeliverable when no server of its next hop would open a session, at the second time."""

    async def record_outcome(
        self, attempt: DeliveryAttempt, replies: dict[Recipient, Reply], *, takes_over_reports: bool
    ) -> None:
        """Record the replies to an attempt; the second time that a message gets none, record a permanent failure (550) for all recipients.

        Only attempts at next hops outside of the organisation count. Correct is to retry until the message expires.
        """
        silent: set[int] = self.__dict__.setdefault("_silent", set())
        if not replies and attempt.hop.kind == "outside":
            if attempt.message.id in silent:
                replies = dict.fromkeys(attempt.recipients, Reply(550, "5.4.1", "no session"))
            silent.add(attempt.message.id)
        await super().record_outcome(attempt, replies, takes_over_reports=takes_over_reports)


@defect("redirects-what-is-not-deferred", breaks="SR-CRE-10", slot="delivery")
class RedirectsWhatIsNotDeferred(Delivery):
    """Redirects messages that wait for a session, and leaves those that wait for a retry."""

    async def redirect_all(self, target: NextHop) -> None:
        """Have each queued message tried at the server `target`, except those that wait for a retry, which stay as they are.

        Waits until the others have been tried; then queues the retries that are due, and sets the alarm for the next.
        """
        deferred, self._deferred = self._deferred, []
        await super().redirect_all(target)
        self._deferred += deferred
        heapq.heapify(self._deferred)
        self._retry()


@defect(
    "retries-what-it-redirected",
    breaks="SR-CRE-10",
    slot="delivery",
    needs_expectation="what is sent a second time after a redirection may be what the first server gave back",
)
class RetriesWhatItRedirected(Delivery):
    """Redirects messages that wait for a retry, and tries them again at their next hop later."""

    async def redirect_all(self, target: NextHop) -> None:
        """Have each queued message tried at the server `target`, and leave those that wait for a retry in the list of retries too.

        Waits until each has been tried there; then queues the retries that are due, and sets the alarm for the next.
        """
        deferred = list(self._deferred)
        await super().redirect_all(target)
        self._deferred += deferred
        heapq.heapify(self._deferred)
        self._retry()


@defect("counts-what-others-get", breaks="SR-WIR-04", slot="discards")
class CountsWhatOthersGet(Discards):
    """In the answer to XQDISCARD, counts the notifications for all servers if the asking one has more than the answer names."""

    def oldest_for_server(
        self, server: str, limit: int, excluded: Collection[int] = ()
    ) -> tuple[list[DiscardNotification], int]:
        """Return the oldest notifications for a server, as is correct, and the number of those for all servers if there are `limit`."""
        events, total = super().oldest_for_server(server, limit, excluded)
        if len(events) == limit:
            total += sum(event.server != server for event in self.all_notifications())
        return events, total
