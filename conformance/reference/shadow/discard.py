"""Discard status, the primary's side: notifications queued on disk for each shadow server (wire-profile.md).

The *primary* must deliver a message, a *shadow server* keeps a copy (*shadow*) of it. A *discard notification* says that a
message has been processed here, so that the server which holds its shadow may give it up. When a message has been processed, a
notification is queued for each server that holds or may hold its shadow. XQDISCARD returns them: receive/verbs.py calls
`answer_query`, and then `confirm_read` or `release_unread`. They are removed once the asking server has confirmed the reply by
sending another command (SR-WIR-05), or expire.
"""

from conformance.reference.config import NodeConfiguration
from conformance.reference.host import Component, Host
from conformance.reference.message import Message
from conformance.reference.storage.discards import DiscardNotification


class DiscardStatus(Component):
    """Queues discard notifications, and answers XQDISCARD with them.

    `_unconfirmed` has the row ids of those in replies that the asking server has not confirmed yet.
    """

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._alarm = host.alarms.new(self.drop_expired)
        self._unconfirmed: set[int] = set()

    def start(self) -> None:
        """Delete the notifications that expired while the node was down, and set the alarm for the next expiry."""
        self.drop_expired()

    def reconfigured(self, before: NodeConfiguration) -> None:
        """Apply a changed ShadowMessageAutoDiscardInterval: delete what has expired by it, and set the alarm anew."""
        self.drop_expired()

    def queue_notifications(self, message: Message) -> None:
        """Queue a notification for every server that holds, or may hold, the message's shadow (SR-MNT-01).

        One that is queued already is not queued again. Sets the alarm for the expiry, unless it is set. Does not wait for the
        disk.
        """
        for holder in self.host.discards.holders_of_shadow(message.id):
            self.host.discards.queue_notification(holder.server, holder.shadow_id, self.host.now())
            self.host.log.info("%s discard notification queued for %s", holder.shadow_id, holder.server)
        if self._alarm.due is None:
            self._set_alarm()

    async def answer_query(self, server: str, limit: int) -> tuple[list[str], list[DiscardNotification]]:
        """Return the lines of the reply to XQDISCARD, and the notifications in them, at most `limit`.

        `server` is the name of the server that asks, about the shadows that it holds. Notifications that are unconfirmed in another
        session are left out (SR-WIR-04). The returned ones are unconfirmed until the caller passes them to `confirm_read` or
        `release_unread`, and not if this method raises. Waits until it is on disk that their messages have been processed. The
        last line says how many more notifications the server can ask for.
        """
        events, total = self.host.discards.oldest_for_server(server, limit, self._unconfirmed)
        self._unconfirmed.update(event.id for event in events)
        if events:  # a shadow may go only once it is on disk that its message has been processed
            try:
                await self.host.db.commit()
            except BaseException:  # cancelled, as when the session is lost: the caller gets nothing to release
                self.release_unread(events)
                raise
        lines = [
            f"250-2.0.0 database {self.host.identity.database}",
            *(f"250-2.0.0 discard {event.shadow_id}" for event in events),
            f"250 2.0.0 end {total - len(events)}",
        ]
        return lines, events

    def confirm_read(self, events: list[DiscardNotification]) -> None:
        """Delete notifications that the asking server has read, as another command of it shows (SR-WIR-05).

        Does not wait for the disk.
        """
        for event in events:
            self._unconfirmed.discard(event.id)
            self.host.discards.remove_notification(event.id)
            self.host.log.info("%s discard notification read by %s", event.shadow_id, event.server)

    def release_unread(self, events: list[DiscardNotification]) -> None:
        """Make notifications whose reply may not have been read available to queries again: the next one returns them."""
        self._unconfirmed.difference_update(event.id for event in events)

    def drop_expired(self) -> None:
        """Delete notifications older than ShadowMessageAutoDiscardInterval (SR-MNT-12), and set the alarm for the next expiry, if any.

        The alarm calls this. `latest_due` is now and a millisecond more, since timers may fire early. Does not wait for the disk.
        """
        for event in self.host.discards.notifications_queued_until(self.host.latest_due() - self.notification_lifetime):
            self.host.discards.remove_notification(event.id)
            self.host.log.warning("%s discard notification for %s expired", event.shadow_id, event.server)
        self._set_alarm()

    @property
    def notification_lifetime(self) -> float:
        """How long a notification is kept if no server asks for it, seconds."""
        return self.host.transport.ShadowMessageAutoDiscardInterval

    def _set_alarm(self) -> None:
        """Set the alarm to the expiry of the oldest notification, or unset it if there is none."""
        oldest = self.host.discards.oldest_queued_at()
        self._alarm.set(None if oldest is None else oldest + self.notification_lifetime)
