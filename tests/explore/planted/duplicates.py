"""Planted mistakes in duplicate detection."""

from collections import Counter

from conformance.reference.duplicates import DuplicateDetection, DuplicateKey
from conformance.reference.host import Host
from tests.explore.planted.mistake import plant


@plant(
    "second-failed-delivery-counts-as-delivered",
    about="duplicates",
    scenario="each-mailbox-tracks-for-itself",
    pair=("mbx1>mbx1-store greeting 2 replaced by 451", "mbx1>mbx1-store LHLO 2 answered 451"),
    slot="duplicates",
)
class SecondFailedDeliveryCountsAsDelivered(DuplicateDetection):
    """Records the second delivery of a message that fails in the delivered-to table, so that the third is dropped as a duplicate."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._failed: Counter[DuplicateKey] = Counter()

    def end_delivery(self, key: DuplicateKey, *, delivered: bool) -> None:
        self._failed[key] += not delivered
        super().end_delivery(key, delivered=delivered or self._failed[key] > 1)


@plant(
    "repeated-delivery-is-recorded-too-early",
    about="duplicates",
    scenario="alone-in-its-boundary",
    pair=("mbx1>mbx1-store DATA 1 answered 421", "mbx1>mbx1-store DATA 2 mbx1 killed"),
    slot="duplicates",
)
class RepeatedDeliveryIsRecordedTooEarly(DuplicateDetection):
    """Records a delivery before it is made if an earlier one of the same message has failed; a restart meanwhile leaves the record."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._failed: set[DuplicateKey] = set()

    async def claim_delivery(self, key: DuplicateKey) -> bool:
        if not await super().claim_delivery(key):
            return False
        if key in self._failed:
            self.host.delivered.add(*key, self.host.now())
            await self.host.db.commit()
        return True

    def end_delivery(self, key: DuplicateKey, *, delivered: bool) -> None:
        if not delivered:
            self._failed.add(key)
            self.host.db.write("DELETE FROM delivered_to WHERE internet_id = ?", (key.internet_id,))
        super().end_delivery(key, delivered=delivered)


@plant(
    "delivery-that-had-failed-is-not-recognised",
    about="duplicates",
    scenario="a-delivery-session-lost-behind-the-dot",
    pair=("mbx2>mbx2-store dot 1 replaced by 451", "mbx1>mbx2.delivery dot 2 after drop"),
    slot="duplicates",
)
class DeliveryThatHadFailedIsNotRecognised(DuplicateDetection):
    """Does not recognise a message as a duplicate if an earlier delivery of it had failed before one succeeded."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._had_failed: set[DuplicateKey] = set()

    def was_delivered(self, key: DuplicateKey) -> bool:
        return key not in self._had_failed and super().was_delivered(key)

    def end_delivery(self, key: DuplicateKey, *, delivered: bool) -> None:
        if not delivered:
            self._had_failed.add(key)
        super().end_delivery(key, delivered=delivered)
