"""Defects between the final dot and the reply."""

from conformance.reference.defects.defect import defect
from conformance.reference.message import Envelope
from conformance.reference.receive.acceptance import Acceptance, Origin, unfit
from conformance.reference.replies import Reply


@defect("acknowledges-before-shadow", breaks="SR-CRE-01", part="acceptance")
class AcknowledgesBeforeShadow(Acceptance):
    """Acknowledges the sender first, and makes the shadow afterwards."""

    async def take(self, envelope: Envelope, content: bytes, origin: Origin) -> Reply:
        """Store, start a task for the shadow, and answer."""
        if (refusal := unfit(content)) is not None:
            return refusal
        key, traced = self.traced(content, origin, "ESMTP")
        message = self.store(envelope, traced, key, origin)
        self.host.tasks.start(self.host.creation.make(message, traced, None), f"late shadow of {key}")
        return await self.acknowledge(message)
