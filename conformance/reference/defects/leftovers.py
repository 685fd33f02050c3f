"""Defects that leave something of a finished message behind: only what a server holds in the end shows them.

A shadow is the copy of a message that this server keeps for another, its primary; a discard notification of the primary says that
the message has been processed, so that the shadow leaves its queue.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

from conformance.reference.defects.defect import defect
from conformance.reference.shadow.manager import ShadowRedundancyManager


@defect("keeps-every-third-discarded-shadow", breaks="SR-MNT-06", slot="manager")
class KeepsEveryThirdDiscardedShadow(ShadowRedundancyManager):
    """Leaves every third shadow of which it was notified in its shadow queue."""

    notified = 0

    def discard_shadow(self, primary: str, database: str, shadow_id: str) -> None:
        """Move the shadow that a notification names to the shadow Safety Net, as is correct, but ignore every third notification.

        All notifications since the start of the node are counted together. `database` is the id of the primary's queue database.
        """
        self.notified += 1
        if self.notified % 3:
            super().discard_shadow(primary, database, shadow_id)
