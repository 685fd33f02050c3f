"""Defects of Safety Net: how long it holds messages, and which it sends again.

`hold_time(place)` is how long a message is held: in the place `safety-net` or `shadow-safety-net` after it was processed, in `shadow`
while its primary has not reported that. When a mailbox database fails over, `resubmit(database)` sends held messages to its mailboxes
again; `recipients_to_resubmit` chooses the recipients of one held message, among `addresses` (those mailboxes, in lower case).

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

from collections.abc import Sequence

from conformance.reference.defects.defect import defect
from conformance.reference.message import Message, Place, Recipient
from conformance.reference.safety_net import SafetyNet


@defect("safety-net-holds-half-the-time", breaks="SR-SFN-02", slot="safety_net")
class HoldsHalfTheTime(SafetyNet):
    """Drops processed messages after half of SafetyNetHoldTime."""

    def hold_time(self, place: Place) -> float:
        """Return the correct time minus half of SafetyNetHoldTime, in seconds; shadows are held as long as is correct."""
        shortened_by = self.host.transport.SafetyNetHoldTime / 2 if place != "shadow" else 0.0
        return super().hold_time(place) - shortened_by


@defect("safety-net-holds-for-ever", breaks="SR-SFN-02", slot="safety_net")
class HoldsForEver(SafetyNet):
    """Never drops a processed message."""

    def hold_time(self, place: Place) -> float:
        """Return a hundred years in seconds for processed messages, the correct time for shadows."""
        return super().hold_time(place) if place == "shadow" else 36_525 * 86400.0


@defect("unacknowledged-shadows-stay", breaks="SR-SFN-03", slot="safety_net")
class UnacknowledgedShadowsStay(SafetyNet):
    """Never drops a shadow that is not acknowledged."""

    def hold_time(self, place: Place) -> float:
        """Return a hundred years in seconds for shadows, the correct time for processed messages."""
        return super().hold_time(place) if place != "shadow" else 36_525 * 86400.0


@defect("unacknowledged-shadows-leave-early", breaks="SR-SFN-03", slot="safety_net")
class UnacknowledgedShadowsLeaveEarly(SafetyNet):
    """Drops a shadow that is not acknowledged after SafetyNetHoldTime alone."""

    def hold_time(self, place: Place) -> float:
        """Return SafetyNetHoldTime in seconds, for a shadow too, to which MessageExpirationTimeout should be added."""
        return self.host.transport.SafetyNetHoldTime


@defect("resubmits-across-the-boundary", breaks="SR-SFN-04", slot="safety_net")
class ResubmitsAcrossTheBoundary(SafetyNet):
    """Sends from Safety Net again also to recipients outside the boundary."""

    def recipients_to_resubmit(self, message: Message, addresses: Sequence[str]) -> tuple[Recipient, ...]:
        """Return all recipients of a held message if there is any to whom it is correctly resubmitted, else none.

        Correct are only those of `addresses` that were and would be reached within the boundary (SR-SFN-04).
        """
        correct = super().recipients_to_resubmit(message, addresses)
        return correct and message.envelope.recipients


@defect("puts-off-the-expiry-of-what-it-holds", breaks="SR-SFN-02", slot="safety_net")
class PutsOffTheExpiryOfWhatItHolds(SafetyNet):
    """Drops nothing before SafetyNetHoldTime has passed since the last message that was processed."""

    def set_alarm(self) -> None:
        """Set the alarm to the expiry of a message that has come now, even if it was set to an earlier one; correct is to keep that."""
        self._alarm.cancel()
        super().set_alarm()


@defect("resubmits-nothing", breaks="SR-SFN-05", slot="safety_net")
class ResubmitsNothing(SafetyNet):
    """Ignores the request to resubmit a mailbox database."""

    def resubmit(self, database: str) -> int:
        """Resubmit no message, and return 0, the number of those resubmitted."""
        return 0


@defect("resubmits-one-message", breaks="SR-SFN-05", slot="safety_net")
class ResubmitsOneMessage(SafetyNet):
    """Sends only the first of the held messages again."""

    def start(self) -> None:
        """Begin with no message resubmitted; `sent` says whether one was."""
        self.sent = False
        super().start()

    def recipients_to_resubmit(self, message: Message, addresses: Sequence[str]) -> tuple[Recipient, ...]:
        """Return the correct recipients of the first held message that has any, and none for all later ones."""
        recipients = () if self.sent else super().recipients_to_resubmit(message, addresses)
        self.sent = self.sent or bool(recipients)
        return recipients


@defect("resubmits-to-hubs", breaks="SR-IOP-03", slot="safety_net")
class ResubmitsToHubs(SafetyNet):
    """Sends what Safety Net holds again also where a server of Exchange 2010 is the next hop."""

    def recipients_to_resubmit(self, message: Message, addresses: Sequence[str]) -> tuple[Recipient, ...]:
        """Return the recipients of a held message among `addresses`, wherever their next hop is.

        Correct is to leave out those reached outside of the boundary (SR-IOP-03), and messages that were themselves resubmitted.
        """
        return tuple(one for one in message.envelope.recipients if one.address.casefold() in addresses)


@defect("safety-net-takes-its-notifications-along", breaks="SR-MNT-04", slot="safety_net")
class TakesItsNotificationsAlong(SafetyNet):
    """Deletes the discard notifications that wait for a message as the message leaves Safety Net."""

    def drop_expired(self) -> None:
        """Delete the messages whose hold time is over, as is correct, and before that the notifications about those in `safety-net`."""
        host = self.host
        for row_id in host.messages.rows_in_place_since("safety-net", host.latest_due() - self.hold_time("safety-net")):
            shadow_ids = {holder.shadow_id for holder in host.discards.holders_of_shadow(row_id)}
            for waiting in tuple(host.discards.all_notifications()):
                if waiting.shadow_id in shadow_ids:
                    host.discards.remove_notification(waiting.id)
        super().drop_expired()
