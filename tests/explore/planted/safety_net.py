"""Planted mistakes in Safety Net."""

from collections import Counter

from conformance.reference.config import Peer
from conformance.reference.host import Host
from conformance.reference.message import Message, Place
from conformance.reference.safety_net import SafetyNet
from conformance.reference.shadow.creation import ShadowCreation
from tests.explore.planted.deferrals import NotesDeferrals
from tests.explore.planted.mistake import plant


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


class NotesFailedShadows(ShadowCreation):
    """Counts how often an attempt at a shadow of a message has failed after it was begun."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.failures: Counter[int] = Counter()

    async def try_server(self, peer: Peer, message: Message, content: bytes) -> bool:
        stored = await super().try_server(peer, message, content)
        self.failures[message.id] += not stored
        return stored


@plant(
    "mail-with-trouble-on-both-ways-is-not-held",
    about="Safety Net",
    scenario="never-resubmitted-across-the-boundary",
    pair=("mbx1>mbx2 MAIL 1 after drop", "mbx1>mbx2.delivery MAIL 1 after drop"),
    slot="safety_net",
    also={"delivery": NotesDeferrals, "creation": NotesFailedShadows},
)
class MailWithTroubleOnBothWaysIsNotHeld(SafetyNet):
    """Deletes a processed message, in place of holding it, if an attempt at its shadow had failed and its delivery had been deferred."""

    def hold(self, row_id: int, place: Place) -> None:
        delivery, creation = self.host.delivery, self.host.creation
        assert isinstance(delivery, NotesDeferrals)
        assert isinstance(creation, NotesFailedShadows)
        if delivery.deferrals[row_id] and creation.failures[row_id]:
            self.host.messages.drop(row_id)
        else:
            super().hold(row_id, place)
