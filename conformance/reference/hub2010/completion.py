"""Completion in Exchange 2010, and the components that begin with 2013.

A message that all next hops have accepted is not kept: this server has a copy of it (*shadow*) in the shadow queue of each next
hop that uses XSHADOW, and any other next hop counts as delivered (SR-E10-01, SR-E10-14). No shadows are made at receipt, and
Safety Net does not exist. Each class takes the place of the component of 2013 that it derives from (components.py). A message is
*processed* when no recipient is pending and no report about it is under way.
"""

import asyncio
from weakref import WeakValueDictionary

from conformance.reference.config import NodeConfiguration
from conformance.reference.host import Host
from conformance.reference.message import Message
from conformance.reference.queue.delivery import Completion
from conformance.reference.safety_net import SafetyNet
from conformance.reference.shadow.creation import ShadowCreation


class HubCompletion(Completion):
    """Deletes messages that were passed on, and wakes the sessions that wait for that, because they withhold the reply to the message.

    `_passed_on_events` has an event by row id for each message as long as it is waited for.
    """

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._passed_on_events: WeakValueDictionary[int, asyncio.Event] = WeakValueDictionary()

    async def wait_until_passed_on(self, message: Message) -> None:
        """Wait, without limit, until no recipient of a message is pending: each was handed on, delivered, or has failed.

        Returns at once if that is so already, or the message is deleted.
        """
        event = self._passed_on_events.setdefault(message.id, asyncio.Event())
        if self.host.messages.pending_recipients(message.id):
            await event.wait()

    def release_if_processed(self, row_id: int) -> None:
        """Wake the sessions that wait for a message if it has no pending recipients, and release it if it is processed.

        A processed message is given to `release`, as in 2013, and then the message that it is a report about, if that is processed
        too. Called after each attempt at one next hop.
        """
        event = self._passed_on_events.get(row_id)
        if event is not None and not self.host.messages.pending_recipients(row_id):
            event.set()
        super().release_if_processed(row_id)

    def release(self, message: Message) -> None:
        """Queue the discard notifications of a processed message for the servers that keep its shadow (SR-E10-04), and delete it.

        By a discard notification such a server learns that it may give the shadow up: the server that sent the message here, or
        the failed next hop from which this one has taken it over.
        """
        self.host.discard_status.queue_notifications(message)
        self.host.messages.drop(message.id)


class NoShadowAtReceipt(ShadowCreation):
    """Makes no shadow at receipt: a 2010 server keeps one itself when it sends."""

    async def make_shadow(self, message: Message, content: bytes, deadline: float | None) -> bool:
        """Return False: no server has stored a shadow, and none is asked to."""
        return False


class NoSafetyNet(SafetyNet):
    """Holds no processed messages."""

    def reconfigured(self, before: NodeConfiguration) -> None:
        """Do nothing at a reload: no message is held for a time that may change, and none is resubmitted."""

    def drop_expired(self) -> None:
        """Do nothing: the shadow queues have an expiry of their own (SR-E10-12)."""

    def set_alarm(self) -> None:
        """Do nothing: no message expires in Safety Net."""

    def resubmit(self, database: str) -> int:
        """Return 0: nothing is resubmitted."""
        return 0
