"""Defects of time limits in one phase of a session only, and of an orderly stop.

A session that is idle for ConnectionInactivityTimeout ends with 421; `_reset_timeout` begins that time anew. A discard
notification says that a message has been processed, so that the server that keeps its copy (shadow) may give that up. `stop` ends
delivery as the node stops: it waits `grace` seconds at most for the attempts under way.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

from conformance.reference.defects.defect import defect
from conformance.reference.queue.delivery import Delivery
from conformance.reference.receive.session import Receiver

YEAR = 365 * 86400.0


@defect("waits-for-ever-for-the-first-command", breaks="SR-TMO-06", slot="receiver")
class WaitsForEverForTheFirstCommand(Receiver):
    """Lets a client be silent for as long as it likes before its first command."""

    def _reset_timeout(self, duration: float | None = None) -> None:
        """Restart the idle timer with `duration` (seconds; None: the configured time), but before EHLO with a year."""
        super()._reset_timeout(duration if self.session_state.greeted else YEAR)


@defect("noop-does-not-count", breaks="SR-TMO-06", slot="receiver")
class NoopDoesNotCount(Receiver):
    """Takes a session for idle though the client sends NOOP."""

    def data_received(self, data: bytes) -> None:
        """Handle received octets as is correct, but if they begin with NOOP, do not restart the idle timer."""
        if data.upper().startswith(b"NOOP"):
            self._reset_timeout_off = True
        super().data_received(data)
        self._reset_timeout_off = False

    def _reset_timeout(self, duration: float | None = None) -> None:
        """Restart the idle timer with `duration` (seconds; None: the configured time), unless NOOP is being handled."""
        if not getattr(self, "_reset_timeout_off", False):
            super()._reset_timeout(duration)


@defect("stop-forgets-what-is-deferred", breaks="RL-RTY-01", slot="delivery")
class StopForgetsWhatIsDeferred(Delivery):
    """Stopped in an orderly way, drops messages that wait for a retry."""

    async def stop(self, grace: float) -> None:
        """Stop delivery in an orderly way, within `grace` seconds, and then delete the messages that wait for a retry."""
        await super().stop(grace)
        for _, _, message, _ in self._deferred:
            self.host.messages.drop(message.id)


@defect("stop-forgets-discards", breaks="SR-MNT-05", slot="delivery")
class StopForgetsDiscards(Delivery):
    """Stopped in an orderly way, drops its discard notifications."""

    async def stop(self, grace: float) -> None:
        """Stop delivery in an orderly way, and then delete all queued discard notifications."""
        await super().stop(grace)
        self.host.db.write("DELETE FROM discard")


@defect("stop-releases-what-is-queued", breaks="SR-MNT-01", slot="delivery")
class StopReleasesWhatIsQueued(Delivery):
    """Stopped in an orderly way, queues discard notifications for messages that are still in its queue."""

    async def stop(self, grace: float) -> None:
        """Stop delivery in an orderly way, and then queue the discard notifications of all messages that are still to be delivered."""
        await super().stop(grace)
        for message in [*self.host.messages.held_as("primary")]:
            self.host.discard_status.queue_notifications(message)


@defect("stop-forgets-shadows", breaks="SR-MNT-03", slot="delivery")
class StopForgetsShadows(Delivery):
    """Stopped in an orderly way, drops the shadows that it holds: their primaries live."""

    async def stop(self, grace: float) -> None:
        """Stop delivery in an orderly way, and then delete the shadows that are held for other servers."""
        await super().stop(grace)
        self.host.db.write("DELETE FROM message WHERE place = 'shadow'")


@defect("stop-empties-safety-net", breaks="SR-SFN-01", slot="delivery")
class StopEmptiesSafetyNet(Delivery):
    """Stopped in an orderly way, drops what Safety Net holds."""

    async def stop(self, grace: float) -> None:
        """Stop delivery in an orderly way, and then delete the messages in Safety Net."""
        await super().stop(grace)
        self.host.db.write("DELETE FROM message WHERE place = 'safety-net'")
