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
