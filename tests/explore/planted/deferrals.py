"""What several planted mistakes share: a node that knows which messages have been deferred."""

from collections import Counter

from conformance.reference.host import Host
from conformance.reference.message import Message, Recipient
from conformance.reference.queue.delivery import Delivery
from conformance.reference.routing.next_hop import NextHop
from tests.explore.planted.mistake import Notes


class NotesDeferrals(Delivery):
    """Counts how often a message has been deferred."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.deferrals: Counter[int] = Counter()

    def _defer(self, message: Message, recipients: tuple[Recipient, ...], hop: NextHop) -> None:
        self.deferrals[message.id] += 1
        super()._defer(message, recipients, hop)


class NotesDeferralsOnDisk(Delivery):
    """Notes which messages have been deferred, and knows after a restart which had been before."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        notes = Notes(host)
        self.deferred_before = {
            message.message_id for message in host.messages.held_as("primary") if message.message_id in notes
        }

    def _defer(self, message: Message, recipients: tuple[Recipient, ...], hop: NextHop) -> None:
        Notes(self.host).add(message.message_id)
        super()._defer(message, recipients, hop)
