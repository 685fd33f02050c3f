"""Defects between the final dot and the reply."""

from conformance.reference.defects.defect import defect
from conformance.reference.message import Envelope
from conformance.reference.receive.acceptance import Acceptance, unfit
from conformance.reference.replies import Reply


@defect("acknowledges-before-shadow", breaks="SR-CRE-01", part="acceptance")
class AcknowledgesBeforeShadow(Acceptance):
    """Acknowledges the sender first, and makes the shadow afterwards."""

    async def take(self, envelope: Envelope, content: bytes, helo: str, peer: str, session_ends: float) -> Reply:
        """Store, start a task for the shadow, and answer."""
        if (refusal := unfit(content)) is not None:
            return refusal
        key, traced = self._traced(content, helo, peer, "ESMTP")
        message = self.store(envelope, traced, key)
        self.host.tasks.start(self._delivery.make_redundant(message, traced, None), f"late shadow of {key}")
        return await self.acknowledge(message)
