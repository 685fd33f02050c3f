"""Safety Net: what was processed is kept for a while, and sent again when a mailbox database fails over."""

from conformance.reference.headers import client_submit_time, internet_message_id
from conformance.reference.host import Alarm, Host
from conformance.reference.message import Envelope, Place, Recipient
from conformance.reference.queue.delivery import Delivery


class SafetyNet:
    """Keeps processed messages for SafetyNetHoldTime (SR-SFN-02), shadows of them likewise.

    A shadow that is never acknowledged leaves after SafetyNetHoldTime + MessageExpirationTimeout (SR-SFN-03).
    """

    def __init__(self, host: Host, delivery: Delivery) -> None:
        self._host = host
        self._delivery = delivery
        self._alarm = Alarm(host, self.expire)

    def expire(self) -> None:
        """Drop what has been held for long enough, and wake for the next."""
        hold = self._host.transport.SafetyNetHoldTime
        holds: dict[Place, float] = {
            "safety-net": hold,
            "shadow-safety-net": hold,
            "shadow": hold + self._host.transport.MessageExpirationTimeout,
        }
        due: list[float] = []
        for place, held in holds.items():
            for row in self._host.messages.older(place, self._host.now() - held):
                self._host.messages.drop(row)
                self._host.log.info("row %d left the %s: held long enough", row, place)
            oldest = self._host.messages.oldest(place)
            due += [oldest + held] if oldest is not None else []
        # nothing to drop now: what comes in later is due a whole hold time later
        self._alarm.set(min(due, default=self._host.now() + hold))

    def resubmit(self, database: str) -> int:
        """Send the held messages for a database's mailboxes again (SR-SFN-05), but none that crossed the boundary.

        Returns how many messages are sent again.
        """
        host = self._host
        boxes = {box.address.casefold() for box in host.config.mailboxes if box.database == database}
        number = 0
        for message in host.messages.in_place("safety-net", "shadow-safety-net"):
            inner = host.messages.with_fate(message.id, ("delivered", "pending"), crossed=False)
            recipients = tuple(Recipient(r.address, r.notify, r.orcpt) for r in inner if r.address.casefold() in boxes)
            if not recipients:
                continue
            content = host.messages.content(message.id)
            key = host.identity.next()
            self._delivery.take(
                host.messages.add(
                    message_id=key,
                    place="primary",
                    envelope=Envelope(message.envelope.reverse_path, recipients, message.envelope.body),
                    content=content,
                    internet_id=internet_message_id(content),
                    submitted=client_submit_time(content),
                    since=host.now(),
                    shadow_id=key,
                    redundancy_pending=True,
                    resubmitted=True,
                )
            )
            number += 1
        host.log.info("Safety Net: %d messages for %s sent again", number, database)
        return number
