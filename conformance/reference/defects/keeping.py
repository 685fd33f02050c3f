"""Defects in keeping shadow copies for others."""

import asyncio

from conformance.reference.defects.defect import defect
from conformance.reference.headers import internet_message_id
from conformance.reference.message import Envelope, new_message
from conformance.reference.replies import Reply
from conformance.reference.shadow.manager import ShadowRedundancyManager
from conformance.reference.shadow.shadow_queues import ShadowKeeping


@defect("shadow-in-memory", breaks="SR-CRE-04", part="keeping")
class ShadowInMemory(ShadowKeeping):
    """Acknowledges a shadow copy that it writes to disk only a minute later."""

    async def keep(self, envelope: Envelope, content: bytes, primary: str, database: str, shadow_id: str) -> Reply:
        """Acknowledge, and write when there is time."""
        late = super().keep
        asyncio.get_running_loop().call_later(
            60,
            lambda: self.host.tasks.start(
                late(envelope, content, primary, database, shadow_id), f"{self.host.name}: write {shadow_id}"
            ),
        )
        return Reply(250, "2.6.0", f"<{shadow_id}> Queued mail for redundancy")


@defect("forgets-shadows-on-restart", breaks="SR-CRE-04", part="manager")
class ForgetsShadowsOnRestart(ShadowRedundancyManager):
    """Clears its shadow queue when it starts."""

    def start(self) -> None:
        """Drop what was kept."""
        for message in list(self.host.messages.in_place("shadow")):
            self.host.messages.drop(message.id)
        super().start()


@defect("delivers-its-shadows", breaks="SR-CRE-11", part="keeping")
class DeliversItsShadows(ShadowKeeping):
    """Delivers a shadow copy as soon as it has it, while the primary lives."""

    async def keep(self, envelope: Envelope, content: bytes, primary: str, database: str, shadow_id: str) -> Reply:
        """Keep it, and send a twin of it on, of which nobody is asked to keep a shadow."""
        reply = await super().keep(envelope, content, primary, database, shadow_id)
        host = self.host
        twin = new_message(content, envelope, message_id=host.identity.new_id(), since=host.now())
        host.delivery.start_processing(host.messages.add(twin, content))
        return reply


@defect("keeps-a-shadow-for-some", breaks="SR-OUT-01", part="keeping")
class KeepsAShadowForSome(ShadowKeeping):
    """Keeps the shadow for the first of several recipients only."""

    def store(self, envelope: Envelope, content: bytes, primary: str, database: str, shadow_id: str) -> None:
        """Put a poorer copy into the shadow queue."""
        super().store(envelope.for_recipients(envelope.recipients[:1]), content, primary, database, shadow_id)


@defect("one-shadow-for-equal-messages", breaks="SR-TMO-05", part="keeping")
class OneShadowForEqualMessages(ShadowKeeping):
    """Keeps one copy of messages with the same Message-ID, and lets it go with the first notification."""

    def store(self, envelope: Envelope, content: bytes, primary: str, database: str, shadow_id: str) -> None:
        """Be content with the copy that is there."""
        name = internet_message_id(content)
        if all(message.internet_id != name for message in self.host.messages.in_place("shadow")):
            super().store(envelope, content, primary, database, shadow_id)
