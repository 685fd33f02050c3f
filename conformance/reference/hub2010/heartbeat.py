"""The Shadow Redundancy Manager of a 2010 server: heartbeat, discard status, and taking over from a failed primary."""

import asyncio

from conformance.reference.host import Host
from conformance.reference.hub2010.shadow_queue import ShadowQueue
from conformance.reference.message import Message
from conformance.reference.routing.forks import forks
from conformance.reference.send.dialogue import Dialogue
from conformance.reference.shadow.manager import Promote, ShadowRedundancyManager

PATIENCE = 30.0
"""Seconds for each answer in a heartbeat; who is silent for longer does not answer."""


class Heartbeat(ShadowRedundancyManager):
    """Watches every server for which there is a shadow queue (SR-E10-05 to SR-E10-12)."""

    def __init__(self, host: Host, promote: Promote) -> None:
        super().__init__(host, promote)
        self._queue = ShadowQueue(host)
        self._failed: dict[str, float] = {}

    @property
    def failed(self) -> frozenset[str]:
        """The primaries that have been declared failed of late.

        One counts as failed for as long as it takes to find that out, so that it is tried again one day although
        there is nothing any more to ask it for.
        """
        return frozenset(name for name, until in self._failed.items() if self._host.now() < until)

    async def query_in(self, primary: str, dialogue: Dialogue) -> None:
        """Ask for discard status before the session ends, whatever is held (SR-E10-05). Raises SessionLost."""
        while await self._ask(primary, dialogue):
            pass

    def spoke(self, primary: str) -> None:
        """Note a successful session: the count starts again (SR-E10-09)."""
        super().spoke(primary)
        self._failed.pop(primary, None)

    def _discard(self, primary: str, database: str, shadow_id: str) -> None:
        """Remove a shadow that its primary has passed on (SR-E10-07)."""
        found = self._host.shadows.find(primary, database, shadow_id)
        if found is not None and found[1] == "shadow":
            self._host.messages.drop(found[0])
            self._host.log.info("%s discarded: %s has passed it on", shadow_id, primary)

    def _own(self, message: Message) -> None:
        self._queue.own(message)

    @property
    def _patience(self) -> float:
        return min(PATIENCE, self._host.transport.ShadowHeartbeatTimeoutInterval)

    async def _heartbeats(self, primary: str) -> None:
        """Query when there was no session for ShadowHeartbeatTimeoutInterval, until the shadow queue is empty.

        The primary has failed after ShadowHeartbeatRetryCount intervals in a row without a session; from then on it
        is asked once in each interval.
        """
        host = self._host
        began, failures, last = host.now(), 0, 0.0
        while host.shadows.held_for(primary):
            contact = max(began, host.shadows.contact(primary) or began)
            failures = failures if contact == last else 0
            last = contact
            interval = host.transport.ShadowHeartbeatTimeoutInterval
            await asyncio.sleep(max(0.0, contact + (failures + 1) * interval - host.now()))
            spoken = (host.shadows.contact(primary) or began) > contact
            if spoken or not host.shadows.held_for(primary) or await self._beat(primary):
                continue
            failures += 1
            if failures >= host.transport.ShadowHeartbeatRetryCount:
                self._declare_failed(primary)
        self._watched.discard(primary)

    def _declare_failed(self, primary: str) -> None:
        """Take over what has an alternative route (SR-E10-08, SR-E10-10); the rest stays (SR-E10-11)."""
        host, transport = self._host, self._host.transport
        wait = transport.ShadowHeartbeatTimeoutInterval * transport.ShadowHeartbeatRetryCount
        self._failed[primary] = host.now() + wait
        movable = [message for message in self._queue.held_for(primary) if self._has_alternative(message)]
        host.log.warning("%s has failed: taking over %d", primary, len(movable))
        for message in movable:
            self._queue.notify(message, primary)
        self._take_over([message.id for message in movable])
        self._queue.expire(primary, host.now() - transport.MessageExpirationTimeout)

    def _has_alternative(self, message: Message) -> bool:
        """Whether another server than those that failed can be the next hop for all recipients."""
        hops = forks(self._host.config, message.envelope.recipients)
        return all(set(hop.servers) - self.failed for hop in hops)
