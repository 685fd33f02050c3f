"""What a 2010 server does not have: shadows made at receipt, and Safety Net."""

from conformance.reference.message import Envelope
from conformance.reference.safety_net import SafetyNet
from conformance.reference.shadow.creation import ShadowCreation


class NoShadowAtReceipt(ShadowCreation):
    """Asks nobody for a shadow: a 2010 server keeps one itself when it sends."""

    async def make(
        self, shadow_id: str, envelope: Envelope, content: bytes, deadline: float | None
    ) -> list[tuple[str, bool]]:
        """Make none."""
        return []


class NoSafetyNet(SafetyNet):
    """Keeps nothing of what was processed."""

    def expire(self) -> None:
        """Leave the shadow queues alone: they have an expiry of their own (SR-E10-12)."""

    def resubmit(self, database: str) -> int:
        """Send nothing again."""
        return 0
