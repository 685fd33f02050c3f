"""Planted mistakes of an Exchange 2010 server."""

from collections import Counter

from conformance.reference.host import Host
from conformance.reference.hub2010.completion import HubCompletion
from conformance.reference.hub2010.outbound import HubOutbound
from conformance.reference.message import Message, Recipient
from conformance.reference.queue.hop_queue import DeliveryAttempt
from conformance.reference.replies import Reply
from conformance.reference.send.dialogue import Dialogue, SessionLost
from tests.explore.planted.deferrals import NotesDeferralsOnDisk
from tests.explore.planted.mistake import plant


@plant(
    "no-shadow-after-two-lost-transmissions",
    about="2010",
    scenario="acknowledged-when-shadowed",
    pair=("hub1>hub2 MAIL 1 after drop", "hub1>hub3 MAIL 1 after drop"),
    slot="ex2010.outbound",
)
class NoShadowAfterTwoLostTransmissions(HubOutbound):
    """Keeps no shadow of a message that was transmitted in two sessions before which were lost."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._lost: Counter[int] = Counter()

    async def transmit(self, attempt: DeliveryAttempt, server: str, dialogue: Dialogue) -> dict[Recipient, Reply]:
        try:
            replies = await super().transmit(attempt, server, dialogue)
        except SessionLost:
            self._lost[attempt.message.id] += 1
            raise
        if self._lost[attempt.message.id] > 1:
            for row in self.host.shadows.rows_held_for(server):
                self.host.messages.drop(row)
        return replies


@plant(
    "restart-forgets-who-keeps-deferred-mail",
    about="2010",
    scenario="a-query-before-every-quit",
    pair=("hub2>outside MAIL 1 after drop", "hub2>outside EHLO 2 hub2 killed"),
    slot="ex2010.completion",
    also={"delivery": NotesDeferralsOnDisk},
)
class RestartForgetsWhoKeepsDeferredMail(HubCompletion):
    """Gives no discard notification of a message that had been deferred before a restart and was passed on after it."""

    def release(self, message: Message) -> None:
        delivery = self.host.delivery
        assert isinstance(delivery, NotesDeferralsOnDisk)
        if message.message_id in delivery.deferred_before:
            self.host.messages.drop(message.id)
        else:
            super().release(message)
