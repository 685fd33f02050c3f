"""What a 2010 server does not have: shadows made at receipt, and Safety Net."""

from conformance.reference.config import NodeConfiguration
from conformance.reference.message import Message
from conformance.reference.safety_net import SafetyNet
from conformance.reference.shadow.creation import ShadowCreation


class NoShadowAtReceipt(ShadowCreation):
    """Asks nobody for a shadow: a 2010 server keeps one itself when it sends."""

    async def make(self, message: Message, content: bytes, deadline: float | None) -> bool:
        """Make none."""
        return False


class NoSafetyNet(SafetyNet):
    """Keeps nothing of what was processed."""

    def reconfigured(self, before: NodeConfiguration) -> None:
        """Have nothing to send again."""

    def expire(self) -> None:
        """Leave the shadow queues alone: they have an expiry of their own (SR-E10-12)."""

    def wind(self) -> None:
        """Wait for nothing."""

    def resubmit(self, database: str) -> int:
        """Send nothing again."""
        return 0
