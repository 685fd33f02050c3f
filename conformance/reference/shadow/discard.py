"""Discard status, the primary's side: notifications queued on disk for each shadow server, told on request
(wire.md)."""

from conformance.reference.host import Alarm, Host
from conformance.reference.storage.discards import DiscardEvent


class DiscardStatus:
    """Answers XQDISCARD; an event counts as told once the asking server sends any further command (SR-WIR-05)."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._alarm = Alarm(host, self.expire)

    def start(self) -> None:
        """Watch for events that nobody asks for."""
        self.expire()

    def queue(self, message: int, shadow_id: str) -> None:
        """Queue a notification for every server that may hold the message's shadow (SR-MNT-01)."""
        for server, _ in self._host.discards.holders(message):
            self._host.discards.queue(server, shadow_id, self._host.now())
            self._host.log.info("%s discard notification queued for %s", shadow_id, server)
        self._wind()

    def answer(self, server: str, most: int) -> tuple[list[str], list[DiscardEvent]]:
        """Return the lines of the reply to a server, and the events that they tell."""
        events, total = self._host.discards.waiting(server, most)
        lines = [
            f"250-2.0.0 database {self._host.identity.database}",
            *(f"250-2.0.0 discard {event.shadow_id}" for event in events),
            f"250 2.0.0 end {total - len(events)}",
        ]
        return lines, events

    def told(self, events: list[DiscardEvent]) -> None:
        """Forget events that have been told."""
        for event in events:
            self._host.discards.forget(event.id)

    def expire(self) -> None:
        """Delete what was not asked for within ShadowMessageAutoDiscardInterval (SR-MNT-12)."""
        interval = self._host.transport.ShadowMessageAutoDiscardInterval
        for event in self._host.discards.everything():
            if event.queued + interval <= self._host.now():
                self._host.discards.forget(event.id)
                self._host.log.warning("%s discard notification for %s expired", event.shadow_id, event.server)
        self._wind()

    def _wind(self) -> None:
        oldest = min(self._host.discards.oldest().values(), default=None)
        interval = self._host.transport.ShadowMessageAutoDiscardInterval
        self._alarm.set(None if oldest is None else oldest + interval)
