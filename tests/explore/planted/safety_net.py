"""Planted mistakes in Safety Net."""

from collections import Counter

from conformance.reference.host import Host
from conformance.reference.message import Message, Place, Recipient
from conformance.reference.queue.delivery import Delivery
from conformance.reference.routing.next_hop import NextHop
from conformance.reference.safety_net import SafetyNet
from tests.explore.planted.mistake import plant


class NotesDeferrals(Delivery):
    """Counts how often a message has been deferred."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.deferrals: Counter[int] = Counter()

    def _defer(self, message: Message, recipients: tuple[Recipient, ...], hop: NextHop) -> None:
        self.deferrals[message.id] += 1
        super()._defer(message, recipients, hop)


@plant(
    "twice-deferred-mail-is-not-held",
    about="Safety Net",
    scenario="alone-in-its-boundary",
    pair=("mbx1>mbx1-store DATA 1 before cut", "mbx1>mbx1-store MAIL 2 replaced by 421"),
    slot="safety_net",
    also={"delivery": NotesDeferrals},
)
class TwiceDeferredMailIsNotHeld(SafetyNet):
    """Deletes a message that was deferred twice when it is processed, in place of holding it."""

    def hold(self, row_id: int, place: Place) -> None:
        delivery = self.host.delivery
        assert isinstance(delivery, NotesDeferrals)
        if delivery.deferrals[row_id] > 1:
            self.host.messages.drop(row_id)
        else:
            super().hold(row_id, place)
