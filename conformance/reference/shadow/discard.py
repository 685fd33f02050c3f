"""Discard status, the primary's side: notifications queued on disk for each shadow server, told on request
(wire-profile.md)."""

from conformance.reference.config import NodeConfiguration
from conformance.reference.host import Component, Host
from conformance.reference.message import Message
from conformance.reference.storage.discards import DiscardEvent


class DiscardStatus(Component):
    """Answers XQDISCARD; an event counts as told once the asking server sends any further command (SR-WIR-05)."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._alarm = host.alarms.new(self.drop_expired)
        self._unconfirmed: set[int] = set()

    def start(self) -> None:
        """Watch for events that nobody asks for."""
        self.drop_expired()

    def reconfigured(self, before: NodeConfiguration) -> None:
        """Keep to a changed ShadowMessageAutoDiscardInterval."""
        self.drop_expired()

    def queue_notifications(self, message: Message) -> None:
        """Queue a notification for every server that holds, or may hold, the message's shadow (SR-MNT-01)."""
        for holder in self.host.discards.holders(message.id):
            self.host.discards.queue(holder.server, holder.shadow_id, self.host.now())
            self.host.log.info("%s discard notification queued for %s", holder.shadow_id, holder.server)
        if not self._alarm.is_set:
            self._set_alarm()

    async def answer_query(self, server: str, most: int) -> tuple[list[str], list[DiscardEvent]]:
        """Return the lines of the reply to a server, and the events that they tell, at most `most`.

        What is being told to the same server in another session at this moment is left out (SR-WIR-04).
        """
        events, total = self.host.discards.pending(server, most, self._unconfirmed)
        self._unconfirmed.update(event.id for event in events)
        if events:
            await self.host.db.commit()
        lines = [
            f"250-2.0.0 database {self.host.identity.database}",
            *(f"250-2.0.0 discard {event.shadow_id}" for event in events),
            f"250 2.0.0 end {total - len(events)}",
        ]
        return lines, events

    def confirm_read(self, events: list[DiscardEvent]) -> None:
        """Forget events that have been told."""
        for event in events:
            self._unconfirmed.discard(event.id)
            self.host.discards.remove(event.id)
            self.host.log.info("%s discard notification told to %s", event.shadow_id, event.server)

    def release_unread(self, events: list[DiscardEvent]) -> None:
        """Keep events whose reply may not have been read: they are told again."""
        self._unconfirmed.difference_update(event.id for event in events)

    def drop_expired(self) -> None:
        """Delete what was not asked for within ShadowMessageAutoDiscardInterval (SR-MNT-12)."""
        for event in self.host.discards.queued_until(self.host.now() + 0.001 - self.notification_lifetime):
            self.host.discards.remove(event.id)
            self.host.log.warning("%s discard notification for %s expired", event.shadow_id, event.server)
        self._set_alarm()

    @property
    def notification_lifetime(self) -> float:
        """How long a notification waits to be asked for, seconds."""
        return self.host.transport.ShadowMessageAutoDiscardInterval

    def _set_alarm(self) -> None:
        oldest = self.host.discards.oldest_queued_at()
        self._alarm.set(None if oldest is None else oldest + self.notification_lifetime)
