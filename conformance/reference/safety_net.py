"""Safety Net: processed messages are held for a while, and resubmitted when a mailbox database fails over.

The primary server of a message, which delivered it, holds it in `safety-net`; its shadow server, which had a copy (*shadow*) of
it, holds that in `shadow-safety-net`. Until a *discard notification* of the primary server says that the message is processed,
the copy is in the shadow queues (place `shadow`). When a mailbox database becomes active on another server, the primary server
resubmits the messages that were delivered to it: it delivers copies of them again. The shadow server does so only if the primary
server does not answer or has lost its queue database. The harness reports such a failover by a changed configuration, in which
the mailboxes have another server, or by the command `resubmit DATABASE`. The *boundary* is the DAG of this server or, without
one, its site.
"""

from collections.abc import Sequence

from conformance.reference.config import NodeConfiguration
from conformance.reference.host import Component, Host
from conformance.reference.message import Message, Place, Recipient, new_message

_PLACES: tuple[Place, ...] = ("safety-net", "shadow-safety-net", "shadow")
"""The places in which messages have a hold time."""


class SafetyNet(Component):
    """The Safety Net of this server's primary messages, and the shadow Safety Net of the shadows that it held."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._alarm = host.alarms.new(self.drop_expired)

    def start(self) -> None:
        """Delete the messages whose hold time ended while the node was down, and set the alarm for the next."""
        self.drop_expired()

    def reconfigured(self, before: NodeConfiguration) -> None:
        """Apply changed hold times, and resubmit the messages of mailbox databases that have become active on another server (SR-SFN-05).

        That is the case if a mailbox of the database is on another server than before the reload.
        """
        self.drop_expired()
        server_before = {box.address.casefold(): box.server for box in before.mailboxes}
        moved = {
            box.database
            for box in self.host.config.mailboxes
            if server_before.get(box.address.casefold(), box.server) != box.server
        }
        for database in sorted(moved):
            self.resubmit(database)

    def hold(self, row_id: int, place: Place) -> None:
        """Move a processed message, with this row id, to `place`: `safety-net` or `shadow-safety-net` (SR-SFN-01, SR-MNT-06).

        Its hold time begins now. Does not wait for the disk.
        """
        self.host.messages.move(row_id, place, self.host.now())
        self.set_alarm()

    def hold_time(self, place: Place) -> float:
        """Return how long a message is held in `safety-net`, `shadow-safety-net` or `shadow`, real seconds.

        After processing that is SafetyNetHoldTime (SR-SFN-02); for a shadow without a discard notification it is
        SafetyNetHoldTime + MessageExpirationTimeout (SR-SFN-03).
        """
        transport = self.host.transport
        if place == "shadow":
            return transport.SafetyNetHoldTime + transport.MessageExpirationTimeout
        return transport.SafetyNetHoldTime

    def drop_expired(self) -> None:
        """Delete the messages whose hold time is over, also copies in the shadow queues, and set the alarm for the next.

        Unset the alarm if no message is in these places. The alarm calls this. Does not wait for the disk.
        """
        host = self.host
        for place in _PLACES:
            for row_id in host.messages.rows_in_place_since(place, host.latest_due() - self.hold_time(place)):
                host.messages.drop(row_id)
                host.log.info("row %d left the %s: hold time over", row_id, place)
        self._alarm.cancel()
        oldest = ((place, host.messages.oldest_since(place)) for place in _PLACES)
        self._alarm.set(
            min((since + self.hold_time(place) for place, since in oldest if since is not None), default=None)
        )

    def set_alarm(self) -> None:
        """Make the alarm for `drop_expired` due when a message that comes into one of `_PLACES` now may expire; keep an earlier one."""
        earliest_expiry = self.host.now() + min(map(self.hold_time, _PLACES))
        self._alarm.set(min(self._alarm.due or earliest_expiry, earliest_expiry))

    def resubmit(self, database: str) -> int:
        """Deliver held messages again to the mailboxes of a mailbox database (SR-SFN-05); return how many from `safety-net`.

        That is 0 for an unknown database. Messages in `shadow-safety-net` are not counted: a task resubmits them if their primary
        server does not answer or has lost its queue database. Does not wait for that, nor for the disk.
        """
        host = self.host
        addresses = [box.address.casefold() for box in host.config.mailboxes if box.database == database]
        own = host.messages.rows_for_mailboxes("safety-net", addresses)
        number = sum(self._resubmit_message(row_id, addresses) for row_id in own)
        host.log.info("Safety Net: %d messages for %s resubmitted", number, database)
        by_primary: dict[str, list[Message]] = {}
        for row_id in host.messages.rows_for_mailboxes("shadow-safety-net", addresses):
            if (message := host.messages.get(row_id)) is not None:
                by_primary.setdefault(message.primary, []).append(message)
        for primary, messages in sorted(by_primary.items()):
            host.tasks.start(
                self._resubmit_shadows(primary, messages, addresses), f"{host.name}: shadow Safety Net of {primary}"
            )
        return number

    async def _resubmit_shadows(self, primary: str, messages: Sequence[Message], addresses: Sequence[str]) -> None:
        """Resubmit messages of the shadow Safety Net unless their primary server answers with the queue database that they came from.

        Opens a session with that server, whose answer to XQDISCARD names its queue database, and waits for the answer. There is
        none if that server is unknown here or shadow redundancy is disabled. `addresses` (in lower case) are those of the
        mailboxes that failed over.
        """
        # None for a primary that does not answer: then no message's database is equal to it
        database = await self.host.manager.query_in_new_session(primary)
        number = sum(
            self._resubmit_message(message.id, addresses) for message in messages if message.database != database
        )
        if number:
            self.host.log.warning("shadow Safety Net: %d messages of %s resubmitted", number, primary)

    def _resubmit_message(self, row_id: int, addresses: Sequence[str]) -> bool:
        """Start the delivery of a copy of a held message to those recipients among `addresses` to whom it is resubmitted.

        Return whether there are any; False also for a deleted message. `addresses` are in lower case. The held message stays.
        """
        message = self.host.messages.get(row_id)
        recipients = self.recipients_to_resubmit(message, addresses) if message is not None else ()
        if message is None or not recipients:
            return False
        content = self.host.messages.content(row_id)
        resubmitted = new_message(
            content,
            message.envelope.for_recipients(recipients),
            message_id=self.host.identity.new_id(),
            since=self.host.now(),
            redundancy_pending=True,
            resubmitted=True,
        )
        self.host.delivery.start_processing(self.host.messages.add(resubmitted, content))
        return True

    def recipients_to_resubmit(self, message: Message, addresses: Sequence[str]) -> tuple[Recipient, ...]:
        """Return the recipients among `addresses` (in lower case) to whom a held message is resubmitted.

        They were delivered in the boundary, or are pending since this server does not know their fate, and their next hop is now
        in the boundary (SR-SFN-04, SR-IOP-03). A message that was itself resubmitted has none, since its original is still held.
        """
        if message.resubmitted:
            return ()
        return tuple(
            recipient
            # a shadow server does not learn the fates: all recipients of a shadow are pending
            for recipient in self.host.messages.recipients_with_fate(
                message.id, ("delivered", "pending"), crossed=False
            )
            if recipient.address.casefold() in addresses
            and not self.host.routing.next_hop(recipient.address).crosses_boundary
        )
