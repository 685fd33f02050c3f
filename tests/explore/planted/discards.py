"""Planted mistakes in discard status."""

from collections import Counter

from conformance.reference.host import Host
from conformance.reference.message import Message
from conformance.reference.shadow.discard import DiscardStatus
from conformance.reference.storage.discards import DiscardNotification
from tests.explore.planted.deferrals import NotesDeferrals
from tests.explore.planted.mistake import plant


@plant(
    "second-unread-reply-counts-as-read",
    about="discard",
    scenario="whatever-breaks-on-the-way-of-a-query",
    pair=("mbx2>mbx1 XQDISCARD 1 after reset", "mbx2>mbx1 XQDISCARD 2 after reset"),
    slot="discard_status",
)
class SecondUnreadReplyCountsAsRead(DiscardStatus):
    """Deletes discard notifications whose reply may not have been read for the second time."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._unread: Counter[int] = Counter()

    def release_unread(self, events: list[DiscardNotification]) -> None:
        super().release_unread(events)
        self._unread.update(event.id for event in events)

    async def answer_query(self, server: str, limit: int) -> tuple[list[str], list[DiscardNotification]]:
        self.confirm_read([event for event in self.host.discards.all_notifications() if self._unread[event.id] > 1])
        return await super().answer_query(server, limit)


@plant(
    "deferred-mail-is-notified-once",
    about="discard",
    scenario="whatever-breaks-on-the-way-of-a-query",
    pair=("mbx1>mbx1-store MAIL 1 after drop", "mbx2>mbx1 XQDISCARD 1 after drop"),
    slot="discard_status",
    also={"delivery": NotesDeferrals},
)
class DeferredMailIsNotifiedOnce(DiscardStatus):
    """Deletes the discard notification of a message that had been deferred when it is given, though the reply may not be read."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._deferred: set[str] = set()

    def queue_notifications(self, message: Message) -> None:
        delivery = self.host.delivery
        assert isinstance(delivery, NotesDeferrals)
        if delivery.deferrals[message.id]:
            self._deferred.update(holder.shadow_id for holder in self.host.discards.holders_of_shadow(message.id))
        super().queue_notifications(message)

    async def answer_query(self, server: str, limit: int) -> tuple[list[str], list[DiscardNotification]]:
        lines, events = await super().answer_query(server, limit)
        for event in events:
            if event.shadow_id in self._deferred:
                self.host.discards.remove_notification(event.id)
        return lines, events
