"""Planted mistakes in the choice of the next hop."""

from collections import defaultdict

from conformance.reference.config import Address
from conformance.reference.host import Host
from conformance.reference.queue.delivery import Delivery
from conformance.reference.queue.hop_queue import DeliveryAttempt, HopQueue, RecordOutcome, RemoteQueue
from conformance.reference.replies import Reply
from conformance.reference.routing.next_hop import NextHop
from tests.explore.planted.mistake import plant

_NO_ROUTE = Reply(550, "5.4.4", "no route")


class GivesUpAfterTwoServers(RemoteQueue):
    """A queue that fails an attempt for good once sessions with two servers of the next hop have been lost during it."""

    def __init__(self, host: Host, hop: NextHop, record_outcome: RecordOutcome) -> None:
        super().__init__(host, hop, record_outcome)
        self._lost: defaultdict[int, set[str]] = defaultdict(set)

    async def _deliver_in_session(
        self, server: str, address: Address, first: DeliveryAttempt
    ) -> tuple[DeliveryAttempt | None, bool]:
        unfinished, opened = await super()._deliver_in_session(server, address, first)
        if unfinished is not None:
            self._lost[unfinished.message.id].add(server)
            if len(self._lost[unfinished.message.id]) > 1:
                await self.record_outcome(
                    unfinished, dict.fromkeys(unfinished.recipients, _NO_ROUTE), takes_over_reports=False
                )
                return None, opened
        return unfinished, opened


@plant(
    "two-lost-servers-are-no-route",
    about="routing",
    scenario="the-connection-is-direct",
    pair=("mbx1>mbx5 MAIL 1 after drop", "mbx1>mbx3 MAIL 1 after drop"),
    slot="delivery",
)
class TwoLostServersAreNoRoute(Delivery):
    """Reports a message as failed once two servers of its route were lost with it, though a third could be reached."""

    def create_queue(self, hop: NextHop) -> HopQueue:
        if hop.kind == "transport":
            return GivesUpAfterTwoServers(self.host, hop, self.record_outcome)
        return super().create_queue(hop)
