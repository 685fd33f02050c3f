"""Safety Net: what was processed is kept for a while, and sent again when a mailbox database fails over."""

from collections.abc import Sequence

from conformance.reference.config import NodeConfiguration
from conformance.reference.host import Component, Host
from conformance.reference.message import Message, Place, Recipient, new_message


class SafetyNet(Component):
    """The primary Safety Net of this server, and the shadow Safety Net of what it held for others."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._alarm = host.alarms.new(self.drop_expired)

    def start(self) -> None:
        """Drop what became too old while the node was down."""
        self.drop_expired()

    def reconfigured(self, before: NodeConfiguration) -> None:
        """Keep to changed times; where a mailbox database has become active elsewhere, send its messages again."""
        self.drop_expired()
        was = {box.address.casefold(): box.server for box in before.mailboxes}
        moved = {
            box.database
            for box in self.host.config.mailboxes
            if was.get(box.address.casefold(), box.server) != box.server
        }
        for database in sorted(moved):
            self.resubmit(database)

    def hold(self, row: int, place: Place) -> None:
        """Move a message that was processed into the Safety Net (SR-SFN-01, SR-MNT-06)."""
        self.host.messages.move(row, place, self.host.now())
        self.set_alarm()

    def hold_time(self, place: Place) -> float:
        """Return how long a message is held in a place, seconds.

        That is SafetyNetHoldTime after it was processed (SR-SFN-02); for a shadow that is never acknowledged
        SafetyNetHoldTime + MessageExpirationTimeout (SR-SFN-03).
        """
        transport = self.host.transport
        expiration = transport.MessageExpirationTimeout if place == "shadow" else 0.0
        return transport.SafetyNetHoldTime + expiration

    def drop_expired(self) -> None:
        """Drop what has been held for long enough, and wake for the next."""
        host = self.host
        for place in _PLACES:
            for row in host.messages.rows_held_since(place, host.now() + 0.001 - self.hold_time(place)):
                host.messages.drop(row)
                host.log.info("row %d left the %s: held long enough", row, place)
        self._alarm.cancel()
        oldest = ((place, host.messages.oldest_since(place)) for place in _PLACES)
        self._alarm.set(
            min((since + self.hold_time(place) for place, since in oldest if since is not None), default=None)
        )

    def set_alarm(self) -> None:
        """Wake in time for what is put into any place now."""
        shortest = self.host.now() + min(map(self.hold_time, _PLACES))
        if self._alarm.due is None or self._alarm.due > shortest:
            self._alarm.set(shortest)

    def resubmit(self, database: str) -> int:
        """Send the held messages for a database's mailboxes again (SR-SFN-05); return how many of our own they are.

        What we hold as a shadow is sent by its primary; only where that one does not answer, by us.
        """
        host = self.host
        boxes = [box.address.casefold() for box in host.config.mailboxes if box.database == database]
        own = host.messages.rows_for_mailboxes("safety-net", boxes)
        number = sum(self._resubmit_message(row, boxes) for row in own)
        host.log.info("Safety Net: %d messages for %s sent again", number, database)
        by_primary: dict[str, list[Message]] = {}
        for row in host.messages.rows_for_mailboxes("shadow-safety-net", boxes):
            if (message := host.messages.get(row)) is not None:
                by_primary.setdefault(message.primary, []).append(message)
        for primary, held in sorted(by_primary.items()):
            host.tasks.start(
                self._resubmit_shadows(primary, held, boxes), f"{host.name}: shadow Safety Net of {primary}"
            )
        return number

    async def _resubmit_shadows(self, primary: str, held: Sequence[Message], boxes: Sequence[str]) -> None:
        """Send what is held as a shadow again, unless its primary is there, with the database it had, and does so."""
        database = await self.host.manager.query_in_new_session(primary)
        number = sum(self._resubmit_message(message.id, boxes) for message in held if message.database != database)
        if number:
            self.host.log.warning("shadow Safety Net: %d messages of %s sent again", number, primary)

    def _resubmit_message(self, row: int, boxes: Sequence[str]) -> bool:
        message = self.host.messages.get(row)
        recipients = self.recipients_to_resubmit(message, boxes) if message is not None else ()
        if message is None or not recipients:
            return False
        content = self.host.messages.content(row)
        again = new_message(
            content,
            message.envelope.for_recipients(recipients),
            message_id=self.host.identity.new_id(),
            since=self.host.now(),
            redundancy_pending=True,
            resubmitted=True,
        )
        self.host.delivery.start_processing(self.host.messages.add(again, content))
        return True

    def recipients_to_resubmit(self, message: Message, boxes: Sequence[str]) -> tuple[Recipient, ...]:
        """Return the recipients to whom a held message is sent again: those in `boxes` that it was delivered to.

        Nothing that was transmitted across the boundary, or would be now (SR-SFN-04, SR-IOP-03), and nothing that was
        itself sent again: its original is still held.
        """
        if message.resubmitted:
            return ()
        return tuple(
            recipient
            for recipient in self.host.messages.with_fate(message.id, ("delivered", "pending"), crossed=False)
            if recipient.address.casefold() in boxes
            and not self.host.routing.next_hop(recipient.address).crosses_boundary
        )


_PLACES: tuple[Place, ...] = ("safety-net", "shadow-safety-net", "shadow")
