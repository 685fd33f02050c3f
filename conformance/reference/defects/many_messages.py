"""Defects that show with more than a hundred or a thousand messages: lists that are cut off, and tables that forget.

A discard notification says that a message has been processed, so that the server with its copy (shadow) may give that up. That
server asks for the notifications with XQDISCARD; the last line of each reply says how many are left.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

from collections import Counter
from collections.abc import Sequence

from conformance.reference.defects.defect import defect
from conformance.reference.duplicates import DuplicateDetection, DuplicateKey
from conformance.reference.hub2010.shadow_queues import HubShadowQueues
from conformance.reference.message import Message, Place, Recipient
from conformance.reference.replies import Reply
from conformance.reference.safety_net import SafetyNet
from conformance.reference.send.dialogue import Dialogue
from conformance.reference.shadow.creation import Redundancy
from conformance.reference.shadow.discard import DiscardStatus
from conformance.reference.shadow.manager import ShadowRedundancyManager
from conformance.reference.storage.discards import DiscardNotification


@defect("queues-a-thousand-notifications", breaks="SR-WIR-04", slot="discard_status")
class QueuesAThousandNotifications(DiscardStatus):
    """Queues no discard notification for any server while a thousand or more are queued for one."""

    def queue_notifications(self, message: Message) -> None:
        """Queue the notifications of a processed message; queue none if a thousand or more are queued for any server."""
        queued = Counter(event.server for event in self.host.discards.all_notifications())
        if all(number < 1000 for number in queued.values()):
            super().queue_notifications(message)


@defect("remembers-a-thousand-deliveries", breaks="SR-DUP-01", slot="duplicates")
class RemembersAThousandDeliveries(DuplicateDetection):
    """Keeps a thousand entries in the delivered-to table, and forgets the oldest for a new one."""

    def end_delivery(self, key: DuplicateKey, *, delivered: bool) -> None:
        """End a delivery as is correct, and delete all but the last thousand entries of the delivered-to table."""
        super().end_delivery(key, delivered=delivered)
        key_columns = "mailbox, internet_id, submitted"  # the table has no row ids
        self.host.db.write(
            f"DELETE FROM delivered_to WHERE ({key_columns}) NOT IN "  # noqa: S608  # made of constants
            f"(SELECT {key_columns} FROM delivered_to ORDER BY at DESC, {key_columns} LIMIT 1000)"
        )


@defect("holds-a-thousand-messages", breaks="SR-SFN-01", slot="safety_net")
class HoldsAThousandMessages(SafetyNet):
    """Holds a thousand messages in Safety Net, and drops the oldest for a new one."""

    def hold(self, row_id: int, place: Place) -> None:
        """Hold a processed message in `place`, and delete all but the last thousand messages in that place."""
        super().hold(row_id, place)
        for row in self.host.messages.rows_in_place_since(place, self.host.now())[:-1000]:
            self.host.messages.drop(row)


@defect("counts-what-is-left-in-two-digits", breaks="SR-WIR-04", slot="discard_status")
class CountsWhatIsLeftInTwoDigits(DiscardStatus):
    """Says that 99 notifications are left where there are more."""

    async def answer_query(self, server: str, limit: int) -> tuple[list[str], list[DiscardNotification]]:
        """Return the lines of the reply to XQDISCARD, in which the number left is 99 at most, and the notifications in them."""
        lines, events = await super().answer_query(server, limit)
        code, _, left = lines[-1].rpartition(" ")
        return [*lines[:-1], f"{code} {min(int(left), 99)}"], events


@defect("reads-five-lists-of-notifications", breaks="SR-WIR-04", slot="manager")
class ReadsFiveListsOfNotifications(ShadowRedundancyManager):
    """Asks for discard status five times in a session, and leaves what is left after that."""

    async def query_discards(self, primary: str, dialogue: Dialogue) -> str:
        """Send XQDISCARD as long as notifications remain, at most five times; correct is without limit.

        The fifth reply is read as if none were left. Return the id of the primary's queue database, "" if not given. Raises
        SessionLost.
        """
        self.host.log.debug("five lists of %s at most", primary)
        asked, command = 0, dialogue.command

        async def command_with_limit(line: str) -> Reply:
            """Send a command line and return the reply; from the fifth XQDISCARD on, one that says that 0 notifications are left."""
            nonlocal asked
            reply = await command(line)
            asked += line.startswith("XQDISCARD")
            if asked >= 5 and line.startswith("XQDISCARD"):
                head, _, _ = reply.text.rpartition(" ")
                return Reply(reply.code, reply.enhanced, f"{head} 0")
            return reply

        dialogue.command = command_with_limit  # type: ignore[method-assign]
        try:
            return await super().query_discards(primary, dialogue)
        finally:
            dialogue.command = command  # type: ignore[method-assign]


@defect("shadows-a-hundred-messages-a-minute", breaks="SR-CRE-01", slot="redundancy")
class ShadowsAHundredMessages(Redundancy):
    """Makes a shadow of a hundred messages that come within a minute, and of no more: the shadow server is spared."""

    minute = -1.0
    made = 0

    async def make_redundant_or_refuse(self, message: Message, content: bytes, deadline: float) -> Reply | None:
        """Handle the first hundred messages of each minute of the clock correctly; return None for later ones, without a shadow.

        None: the message may be acknowledged; otherwise the reply that refuses it.
        """
        minute = self.host.now() // 60
        self.made = self.made + 1 if minute == self.minute else 1
        self.minute = minute
        return await super().make_redundant_or_refuse(message, content, deadline) if self.made <= 100 else None


@defect("hub-keeps-a-thousand-shadows", breaks="SR-E10-03", slot="ex2010.shadow_queues")
class HubKeepsAThousandShadows(HubShadowQueues):
    """Keeps a thousand shadows for a next hop, and drops the oldest for a new one."""

    def keep(
        self,
        message: Message,
        content: bytes,
        recipients: Sequence[Recipient],
        primary: str,
        database: str,
        shadow_id: str,
    ) -> None:
        """Keep a shadow of a message that a next hop (`primary`) has accepted, and delete all but its last thousand shadows."""
        super().keep(message, content, recipients, primary, database, shadow_id)
        for row in self.host.shadows.rows_held_for(primary)[:-1000]:
            self.host.messages.drop(row)
