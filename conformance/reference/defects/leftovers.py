"""Defects that leave something of a finished message behind: only what a server holds in the end shows them.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node that runs as `reference+NAME` has it in
place of the component in its `slot`, and then violates the requirement `breaks`. "Correct" is what the class that it inherits from does;
`self.host` has the other components of the node (host.py).
"""

from conformance.reference.defects.defect import defect
from conformance.reference.shadow.manager import ShadowRedundancyManager


@defect("keeps-every-third-discarded-shadow", breaks="SR-MNT-06", slot="manager")
class KeepsEveryThirdDiscardedShadow(ShadowRedundancyManager):
    """Leaves every third shadow of which it was notified in its shadow queue."""

    notified = 0

    def discard_shadow(self, primary: str, database: str, shadow_id: str) -> None:
        """Discard the shadow that a notification of its primary names, but not at each third notification."""
        self.notified += 1
        if self.notified % 3:
            super().discard_shadow(primary, database, shadow_id)
