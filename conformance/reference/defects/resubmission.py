"""Defects of Safety Net that show only for some of the held messages, or at a second request.

Each class makes one mistake on purpose; "correct" is what the class that it inherits from does.
"""

from collections.abc import Sequence

from conformance.reference.defects.defect import defect
from conformance.reference.message import Message, Recipient
from conformance.reference.safety_net import SafetyNet


@defect("resubmits-a-database-once", breaks="SR-SFN-05", slot="safety_net")
class ResubmitsADatabaseOnce(SafetyNet):
    """Ignores a second request for the same mailbox database."""

    def resubmit(self, database: str) -> int:
        """Resubmit a database that was not resubmitted before."""
        done: set[str] = self.__dict__.setdefault("_done", set())
        if database in done:
            return 0
        done.add(database)
        return super().resubmit(database)


@defect("resubmits-to-a-hub-after-a-move", breaks="SR-IOP-03", slot="safety_net")
class ResubmitsToAHubAfterAMove(SafetyNet):
    """Sends again what was delivered in the boundary, also when the mailbox is now on a server of Exchange 2010."""

    def recipients_to_resubmit(self, message: Message, addresses: Sequence[str]) -> tuple[Recipient, ...]:
        """Return the recipients among `addresses` that were not reached outside of the boundary."""
        if message.resubmitted:
            return ()
        reached = self.host.messages.with_fate(message.id, ("delivered", "pending"), crossed=False)
        return tuple(recipient for recipient in reached if recipient.address.casefold() in addresses)
