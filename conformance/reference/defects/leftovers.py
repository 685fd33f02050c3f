"""Defects that leave something of a finished message behind: only what a server holds in the end shows them.

Each class makes one mistake on purpose; "correct" is what the class that it inherits from does.
"""

from conformance.reference.defects.defect import defect
from conformance.reference.shadow.manager import ShadowRedundancyManager


@defect("keeps-every-third-discarded-shadow", breaks="SR-MNT-06", slot="manager")
class KeepsEveryThirdDiscardedShadow(ShadowRedundancyManager):
    """Leaves every third shadow of which it was notified in its shadow queue."""

    notified = 0

    def discard_shadow(self, primary: str, database: str, shadow_id: str) -> None:
        """Discard the shadow, but not each third one."""
        self.notified += 1
        if self.notified % 3:
            super().discard_shadow(primary, database, shadow_id)
