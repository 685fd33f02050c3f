"""Defects of a primary's discard notifications: when one is queued, which server gets it, when it expires; and of releasing messages.

A discard notification says that a message has been processed here, so that the server which holds its shadow may give that up. The shadow
server asks for its notifications with XQDISCARD. To release a message is to queue its notifications and to move it to Safety Net.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

from conformance.reference.defects.defect import defect
from conformance.reference.message import Message
from conformance.reference.queue.delivery import Completion
from conformance.reference.shadow.discard import DiscardStatus
from conformance.reference.storage.discards import DiscardNotification


@defect("never-tells-discards", breaks="SR-MNT-01", slot="discard_status")
class NeverTells(DiscardStatus):
    """Never offers a discard notification."""

    def queue_notifications(self, message: Message) -> None:
        """Do nothing when a message has been processed.

        Correct is to queue a notification for each server that holds its shadow.
        """


@defect("tells-discards-to-anybody", breaks="SR-MNT-04", slot="discard_status")
class TellsAnybody(DiscardStatus):
    """Tells every notification to the server that asks first."""

    async def answer_query(self, server: str, limit: int) -> tuple[list[str], list[DiscardNotification]]:
        """Return the lines of the reply to XQDISCARD, and the notifications in them: also those for other known servers, `limit` in all.

        Those for the asking `server` come first; correct are they alone. The last line, with the number that is left, counts only
        those for that server.
        """
        lines, events = await super().answer_query(server, limit)
        others = [peer.name for peer in self.host.config.peers if peer.name != server]
        for other in others:
            more, _ = self.host.discards.oldest_for_server(other, max(limit - len(events), 0), set())
            events += more
        notifications = [f"250-2.0.0 discard {event.shadow_id}" for event in events]
        return [lines[0], *notifications, lines[-1]], events


@defect("forgets-discards-on-restart", breaks="SR-MNT-05", slot="discard_status")
class ForgetsDiscardsOnRestart(DiscardStatus):
    """Clears its discard notifications when it starts."""

    def start(self) -> None:
        """Delete all queued notifications at the start of the node; correct is to delete only those that have expired."""
        # all: none was queued later than now
        for event in self.host.discards.notifications_queued_until(self.host.now() + 1):
            self.host.discards.remove_notification(event.id)
        super().start()


@defect("keeps-discards-for-ever", breaks="SR-MNT-12", slot="discard_status")
class KeepsForEver(DiscardStatus):
    """Never deletes notifications that no server asks for."""

    def drop_expired(self) -> None:
        """Do nothing: no notification is deleted, however old it is.

        Correct is to delete those older than `notification_lifetime`.
        """


@defect("expires-discards-at-half", breaks="SR-MNT-12", slot="discard_status")
class ExpiresDiscardsAtHalf(DiscardStatus):
    """Deletes notifications after half of ShadowMessageAutoDiscardInterval."""

    @property
    def notification_lifetime(self) -> float:
        """Return how long a notification is kept that no server asks for: half of the correct time, in seconds."""
        return super().notification_lifetime / 2


@defect("tells-more-than-asked", breaks="SR-WIR-04", slot="discard_status")
class TellsMoreThanAsked(DiscardStatus):
    """Tells all notifications at once, however many were asked for."""

    async def answer_query(self, server: str, limit: int) -> tuple[list[str], list[DiscardNotification]]:
        """Return the lines of the reply to XQDISCARD and the notifications in them: up to a million, whatever number the query allows."""
        return await super().answer_query(server, 1_000_000)


@defect("says-that-nothing-is-left", breaks="SR-WIR-04", slot="discard_status")
class SaysThatNothingIsLeft(DiscardStatus):
    """Says that no notification is left when there are more."""

    async def answer_query(self, server: str, limit: int) -> tuple[list[str], list[DiscardNotification]]:
        """Return the lines of the reply to XQDISCARD, and the notifications in them; the last line says that 0 are left, always."""
        lines, events = await super().answer_query(server, limit)
        return [*lines[:-1], "250 2.0.0 end 0"], events


@defect("tells-discards-twice", breaks="SR-WIR-04", slot="discard_status")
class TellsTwice(DiscardStatus):
    """Tells each notification twice."""

    def start(self) -> None:
        """Begin with no notification confirmed once; `confirmed_once` has the row ids of those that are."""
        self.confirmed_once: set[int] = set()
        super().start()

    def confirm_read(self, events: list[DiscardNotification]) -> None:
        """Delete notifications that the asking server has read twice, and keep those read once queued, so that each is sent twice."""
        confirmed_twice = [event for event in events if event.id in self.confirmed_once]
        self.confirmed_once.update(event.id for event in events)
        self.release_unread(events)  # the next query returns them again
        super().confirm_read(confirmed_twice)


@defect("forgets-discards-when-told", breaks="SR-WIR-05", slot="discard_status")
class ForgetsWhenTold(DiscardStatus):
    """Forgets a notification with the reply that tells it, whether that arrives or not."""

    async def answer_query(self, server: str, limit: int) -> tuple[list[str], list[DiscardNotification]]:
        """Return the lines of the reply to XQDISCARD, and no notification to confirm: those in it are deleted at once.

        Correct is to delete them after another command of the asking server (SR-WIR-05).
        """
        lines, events = await super().answer_query(server, limit)
        self.confirm_read(events)
        return lines, []  # the caller has nothing left to confirm


@defect("releases-after-the-first-fork", breaks="SR-MNT-07", slot="completion")
class ReleasesAfterTheFirstFork(Completion):
    """Offers the discard notification when the first of several next hops has the message."""

    def release_if_processed(self, row_id: int) -> None:
        """Queue the discard notifications of a primary message at every call, also while other next hops do not have it yet.

        Then release it if it is processed. Called after each attempt at one next hop; `row_id` is `Message.id`. Correct is to
        queue them when no recipient is pending.
        """
        message = self.host.messages.get(row_id)
        if message is not None and message.place == "primary":
            self.host.discard_status.queue_notifications(message)
        super().release_if_processed(row_id)


@defect("releases-before-the-report", breaks="SR-MNT-08", slot="completion")
class ReleasesBeforeTheReport(Completion):
    """Releases a message before the reports that it caused are processed."""

    def is_processed(self, message: Message) -> bool:
        """Return whether no recipient is pending; reports about the message are not waited for, as they should be (SR-MNT-08)."""
        return not self.host.messages.pending_recipients(message.id)


@defect("keeps-shadows-of-outside-mail", breaks="SR-CRE-08", slot="completion")
class KeepsShadowsOfOutsideMail(Completion):
    """Queues no notification for a message that a server outside the boundary acknowledged."""

    def release(self, message: Message) -> None:
        """Release a processed message, but queue no discard notifications if it was handed to a server outside the boundary."""
        if self.host.messages.recipients_with_fate(message.id, ("relayed", "passed-on"), crossed=True):
            self.host.safety_net.hold(message.id, "safety-net")
        else:
            super().release(message)


@defect("shadows-again-after-delivery", breaks="SR-BND-04", slot="completion")
class ShadowsAgainAfterDelivery(Completion):
    """Makes another redundant copy of a message that has left the boundary."""

    def release(self, message: Message) -> None:
        """Release a processed message, and then have one more shadow of it made on another server, in the background."""
        content = self.host.messages.content(message.id)
        super().release(message)
        self.host.tasks.start(
            self.host.creation.make_shadow(message, content, None), f"{self.host.name}: one more shadow"
        )


@defect("no-safety-net", breaks="SR-SFN-01", slot="completion")
class DeletesProcessedMessages(Completion):
    """Deletes a message that was processed, in place of keeping it in Safety Net."""

    def release(self, message: Message) -> None:
        """Queue the discard notifications of a processed message, and delete it instead of moving it to Safety Net."""
        self.host.discard_status.queue_notifications(message)
        self.host.messages.drop(message.id)
