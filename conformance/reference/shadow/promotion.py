"""Promotion: a shadow server takes the messages of a lost primary over and sends them on (SR-MNT-09, SR-MNT-11)."""

from collections.abc import Sequence

from conformance.reference.message import Message
from conformance.reference.part import Part


class Promotion(Part):
    """Makes shadow messages primary messages of this server."""

    def take_over(self, rows: Sequence[int]) -> None:
        """Take shadows over: from now on they are ours, under names of our own, and are processed like any other."""
        host = self.host
        for row in rows:
            if (shadow := host.messages.get(row)) is None:
                continue
            name = self.name_for(shadow)
            host.messages.take_over(row, message_id=name, since=host.now())
            host.log.warning("%s taken over from %s: <%s>", name, shadow.primary, shadow.internet_id)
            if (message := host.messages.get(row)) is not None:
                self.resubmit(message)

    def name_for(self, message: Message) -> str:
        """Return the id that a shadow has from now on: a new one, for it is a message of this server."""
        return self.host.identity.next()

    def resubmit(self, message: Message) -> None:
        """Process a message that was a shadow: redundant afresh, and at the same time to its next hops."""
        self.host.delivery.take(message)
