"""Defects of Safety Net that show only for some of the held messages, or at a second request.

Safety Net holds messages after their delivery. When a mailbox database fails over, `resubmit(database)` sends those that were delivered
to its mailboxes again; `recipients_to_resubmit` chooses the recipients of one held message, among `addresses` (those mailboxes, in lower
case).

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

from collections.abc import Sequence

from conformance.reference.defects.defect import defect
from conformance.reference.message import Message, Recipient
from conformance.reference.safety_net import SafetyNet


@defect("resubmits-a-database-once", breaks="SR-SFN-05", slot="safety_net")
class ResubmitsADatabaseOnce(SafetyNet):
    """Ignores a second request for the same mailbox database."""

    def resubmit(self, database: str) -> int:
        """Resubmit a mailbox database, and return how many messages; 0, without doing so, if it was resubmitted since the node's start."""
        done: set[str] = self.__dict__.setdefault("_done", set())
        if database in done:
            return 0
        done.add(database)
        return super().resubmit(database)


@defect("resubmits-twenty-messages", breaks="SR-SFN-05", slot="safety_net")
class ResubmitsTwentyMessages(SafetyNet):
    """Sends at most twenty of the held messages again."""

    def resubmit(self, database: str) -> int:
        """Resubmit a mailbox database, twenty messages at most, and return how many; `_left` is how many are permitted still."""
        self._left = 20
        return super().resubmit(database)

    def recipients_to_resubmit(self, message: Message, addresses: Sequence[str]) -> tuple[Recipient, ...]:
        """Return the correct recipients of a held message; () for all after the first twenty messages of a request that have any."""
        recipients = super().recipients_to_resubmit(message, addresses)
        self._left -= bool(recipients)
        return recipients if self._left >= 0 else ()


@defect("resubmits-no-null-sender", breaks="SR-SFN-05", slot="safety_net")
class ResubmitsNoNullSender(SafetyNet):
    """Leaves messages with a null reverse-path out of a resubmission."""

    def recipients_to_resubmit(self, message: Message, addresses: Sequence[str]) -> tuple[Recipient, ...]:
        """Return the correct recipients of a held message, but none if its reverse-path is null."""
        return super().recipients_to_resubmit(message, addresses) if message.envelope.reverse_path else ()


@defect("resubmits-to-one-recipient", breaks="SR-SFN-05", slot="safety_net")
class ResubmitsToOneRecipient(SafetyNet):
    """Sends a held message again to the first of its recipients in the mailbox database."""

    def recipients_to_resubmit(self, message: Message, addresses: Sequence[str]) -> tuple[Recipient, ...]:
        """Return the first of the correct recipients of a held message, none if there is none."""
        return super().recipients_to_resubmit(message, addresses)[:1]


@defect("resubmits-by-exact-address", breaks="SR-SFN-05", slot="safety_net")
class ResubmitsByExactAddress(SafetyNet):
    """Overlooks held messages whose recipient is written in another letter case than the mailbox."""

    def recipients_to_resubmit(self, message: Message, addresses: Sequence[str]) -> tuple[Recipient, ...]:
        """Return those of the correct recipients that are spelled as a configured mailbox."""
        spelled = {box.address for box in self.host.config.mailboxes}
        return tuple(one for one in super().recipients_to_resubmit(message, addresses) if one.address in spelled)


@defect("resubmission-empties-safety-net", breaks="SR-SFN-05", slot="safety_net")
class ResubmissionEmptiesSafetyNet(SafetyNet):
    """Drops a message from Safety Net when it sends it again, before SafetyNetHoldTime is over."""

    def resubmit(self, database: str) -> int:
        """Resubmit a mailbox database, delete what Safety Net holds for its mailboxes, and return how many messages were resubmitted."""
        number = super().resubmit(database)
        addresses = [box.address.casefold() for box in self.host.config.mailboxes if box.database == database]
        for row in self.host.messages.rows_for_mailboxes("safety-net", addresses):
            self.host.messages.drop(row)
        return number


@defect("resubmits-to-a-hub-after-a-move", breaks="SR-IOP-03", slot="safety_net")
class ResubmitsToAHubAfterAMove(SafetyNet):
    """Sends again what was delivered in the boundary, also when the mailbox is now on a server of Exchange 2010."""

    def recipients_to_resubmit(self, message: Message, addresses: Sequence[str]) -> tuple[Recipient, ...]:
        """Return the recipients of a held message among `addresses` that were delivered within the boundary or are still pending.

        Correct is to leave out those whose next hop is outside of the boundary now (SR-IOP-03). A message that was itself
        resubmitted has none.
        """
        if message.resubmitted:
            return ()
        reached = self.host.messages.recipients_with_fate(message.id, ("delivered", "pending"), crossed=False)
        return tuple(recipient for recipient in reached if recipient.address.casefold() in addresses)


@defect("restart-ends-resubmission", breaks="SR-SFN-05", slot="safety_net")
class RestartEndsResubmission(SafetyNet):
    """Forgets, as it restarts, which mailboxes the messages in Safety Net were delivered to, and resubmits none of them."""

    def start(self) -> None:
        """Record, at the start of the node, that no recipient of messages in Safety Net was delivered (fate `redirected`), and start."""
        self.host.db.write(
            "UPDATE recipient SET fate = 'redirected'"
            " WHERE message IN (SELECT id FROM message WHERE place = 'safety-net')"
        )
        super().start()


@defect(
    "resubmits-to-those-who-refused",
    breaks="RL-DSN-01",
    slot="safety_net",
    needs_expectation="where a message was sent again, each of two failures may have its report",
)
class ResubmitsToThoseWhoRefused(SafetyNet):
    """Sends a held message again to the recipients who had refused it, too."""

    def recipients_to_resubmit(self, message: Message, addresses: Sequence[str]) -> tuple[Recipient, ...]:
        """Return the recipients of a held message among `addresses` with a next hop in the boundary, whatever became of them."""
        if message.resubmitted:
            return ()
        return tuple(
            recipient
            for recipient in message.envelope.recipients
            if recipient.address.casefold() in addresses
            and not self.host.routing.next_hop(recipient.address).crosses_boundary
        )
