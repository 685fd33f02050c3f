"""Defects that show only after a reload: settings as they were at the start, and what a change destroys.

In a reload the node reads its configuration file again: `host.config`, with the transport parameters in `host.transport`, is
replaced, and `reconfigured` of each component is called. Most classes here give their component a host in which one parameter keeps
the value of the start (`_as_at_the_start`). A *primary* is a server for which this one keeps copies (shadows); after
ShadowResubmitTimeSpan without a session with it they are promoted, which makes them messages of this server.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

from typing import Any, cast

from conformance.reference.config import NodeConfiguration, Transport
from conformance.reference.defects.defect import defect
from conformance.reference.duplicates import DuplicateDetection
from conformance.reference.host import Host
from conformance.reference.hub2010.delayed_acknowledgement import DelayedAcknowledgement
from conformance.reference.hub2010.manager import HubManager
from conformance.reference.queue.delivery import Delivery
from conformance.reference.safety_net import SafetyNet
from conformance.reference.send.dialogue import Dialogue
from conformance.reference.shadow.choice import ShadowServerChoice
from conformance.reference.shadow.discard import DiscardStatus
from conformance.reference.shadow.manager import ShadowRedundancyManager


class _HostOfTheStart:
    """Stands for a `Host` in which some transport parameters keep the values that they had when this object was made.

    All other attributes are those of the real host, which a reload changes.
    """

    def __init__(self, host: Host, parameters: tuple[str, ...]) -> None:
        self._host = host
        self._kept = {name: getattr(host.transport, name) for name in parameters}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    @property
    def transport(self) -> Transport:
        """The transport parameters in force, but the kept ones with their values from the start."""
        return self._host.transport.model_copy(update=self._kept)

    @property
    def config(self) -> NodeConfiguration:
        """The configuration in force, but the kept transport parameters with their values from the start."""
        return self._host.config.model_copy(update={"transport": self.transport})


def _as_at_the_start(host: Host, *parameters: str) -> Host:
    """Return a host for a component that does not notice changes of these transport parameters (by documented name) in a reload."""
    return cast(Host, _HostOfTheStart(host, parameters))


@defect("reload-keeps-safety-net-hold-time", breaks="SR-SFN-02", slot="safety_net")
class ReloadKeepsSafetyNetHoldTime(SafetyNet):
    """Holds messages in Safety Net as long as SafetyNetHoldTime was at its start, also those that come after a change."""

    def __init__(self, host: Host) -> None:
        super().__init__(_as_at_the_start(host, "SafetyNetHoldTime"))


@defect("reload-keeps-heartbeat-frequency", breaks="SR-MNT-03", slot="manager")
class ReloadKeepsHeartbeatFrequency(ShadowRedundancyManager):
    """Sends heartbeats as often as ShadowHeartbeatFrequency said at its start."""

    def __init__(self, host: Host) -> None:
        super().__init__(_as_at_the_start(host, "ShadowHeartbeatFrequency"))


@defect("reload-keeps-resubmit-time-span", breaks="SR-MNT-10", slot="manager")
class ReloadKeepsResubmitTimeSpan(ShadowRedundancyManager):
    """Promotes after the ShadowResubmitTimeSpan of its start."""

    def __init__(self, host: Host) -> None:
        super().__init__(_as_at_the_start(host, "ShadowResubmitTimeSpan"))


@defect("reload-keeps-expiration", breaks="SR-MNT-14", slot="delivery")
class ReloadKeepsExpiration(Delivery):
    """Lets messages expire after the MessageExpirationTimeout of its start."""

    def __init__(self, host: Host) -> None:
        super().__init__(_as_at_the_start(host, "MessageExpirationTimeout"))


@defect("reload-keeps-duplicate-window", breaks="SR-DUP-01", slot="duplicates")
class ReloadKeepsDuplicateWindow(DuplicateDetection):
    """Tracks duplicates for the window of its start."""

    def __init__(self, host: Host) -> None:
        super().__init__(_as_at_the_start(host, "DuplicateTrackingWindow"))


@defect(
    "reload-keeps-auto-discard-interval",
    breaks="SR-MNT-12",
    slot="discard_status",
    needs_expectation="the rule allows the longest interval that was in force, also for what came after the change",
)
class ReloadKeepsAutoDiscardInterval(DiscardStatus):
    """Deletes discard events after the ShadowMessageAutoDiscardInterval of its start."""

    def __init__(self, host: Host) -> None:
        super().__init__(_as_at_the_start(host, "ShadowMessageAutoDiscardInterval"))


@defect("reload-keeps-local-retries", breaks="SR-PRF-05", slot="choice")
class ReloadKeepsLocalRetries(ShadowServerChoice):
    """Tries local servers as often as MaxRetriesForLocalSiteShadow said at its start."""

    def __init__(self, host: Host) -> None:
        super().__init__(_as_at_the_start(host, "MaxRetriesForLocalSiteShadow"))


@defect("reload-keeps-asking", breaks="SR-ENA-02", slot="manager")
class ReloadKeepsAsking(ShadowRedundancyManager):
    """Goes on with its heartbeats when shadow redundancy has been switched off at run time."""

    def __init__(self, host: Host) -> None:
        super().__init__(_as_at_the_start(host, "ShadowRedundancyEnabled"))


@defect(
    "reload-drops-shadows-when-off",
    breaks="SR-SFN-03",
    slot="manager",
    retired="ruling 37: a server whose redundancy is switched off may drop the copies that it holds",
)
class ReloadDropsShadowsWhenOff(ShadowRedundancyManager):
    """Deletes the shadows that it holds when shadow redundancy is switched off."""

    def reconfigured(self, before: NodeConfiguration) -> None:
        """Delete the shadows that are held for all primaries if redundancy is disabled now, and apply the change."""
        if not self.is_enabled:
            self.host.db.write("DELETE FROM message WHERE place = 'shadow'")
        super().reconfigured(before)


@defect("reload-counts-as-contact", breaks="SR-MNT-09", slot="manager")
class ReloadCountsAsContact(ShadowRedundancyManager):
    """Counts ShadowResubmitTimeSpan from the last reload, though no session has succeeded since."""

    def reconfigured(self, before: NodeConfiguration) -> None:
        """Record a successful session now with each primary for which shadows are held, though there was none, and apply the change.

        That puts the promotion of its shadows off: it is due ShadowResubmitTimeSpan after the last such session.
        """
        for primary in self.host.shadows.primaries():
            self.host.shadows.set_contact(primary, self.host.now())
        super().reconfigured(before)


@defect("reload-puts-heartbeats-off", breaks="SR-MNT-03", slot="manager")
class ReloadPutsHeartbeatsOff(ShadowRedundancyManager):
    """Counts ShadowHeartbeatFrequency from the last reload."""

    def reconfigured(self, before: NodeConfiguration) -> None:
        """Note for all watched primaries that they were queried now, though they were not, and apply the change.

        That puts the next heartbeat off: it is due ShadowHeartbeatFrequency after the last query.
        """
        for watch in self.watched.values():
            watch.last_query = self.host.now()
        super().reconfigured(before)


@defect("hub-reload-keeps-acknowledgement-delay", breaks="SR-E10-16", slot="ex2010.acceptance")
class HubReloadKeepsAcknowledgementDelay(DelayedAcknowledgement):
    """Withholds replies as long as MaxAcknowledgementDelay said at its start."""

    def __init__(self, host: Host) -> None:
        super().__init__(_as_at_the_start(host, "MaxAcknowledgementDelay"))


@defect("hub-reload-keeps-heartbeat-interval", breaks="SR-E10-06", slot="ex2010.manager")
class HubReloadKeepsHeartbeatInterval(HubManager):
    """Asks in the ShadowHeartbeatTimeoutInterval of its start."""

    def __init__(self, host: Host) -> None:
        super().__init__(_as_at_the_start(host, "ShadowHeartbeatTimeoutInterval"))


@defect("hub-reload-keeps-retry-count", breaks="SR-E10-08", slot="ex2010.manager")
class HubReloadKeepsRetryCount(HubManager):
    """Declares a primary failed after as many intervals as ShadowHeartbeatRetryCount said at its start."""

    def __init__(self, host: Host) -> None:
        super().__init__(_as_at_the_start(host, "ShadowHeartbeatRetryCount"))


@defect("asks-in-sessions-for-mail-though-switched-off", breaks="SR-ENA-02", slot="manager")
class AsksInSessionsForMailThoughSwitchedOff(ShadowRedundancyManager):
    """Sends no heartbeat while ShadowRedundancyEnabled is false, and asks in sessions for mail as before."""

    async def query_in_session(self, primary: str, dialogue: Dialogue) -> None:
        """Query discard status in a session that is open for mail, if shadows are held for the primary. Raises SessionLost.

        Correct is to send no query while shadow redundancy is disabled.
        """
        if self.host.shadows.has_any_for(primary):
            await self.query_discards(primary, dialogue)
