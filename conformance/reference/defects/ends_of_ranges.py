"""Defects that show at the ends of the ranges of parameters: 0 that is taken for nothing, rounding, and numbers of too few bits.

Several classes give their component a host with wrong `transport` parameters: `_In32Bits` (times as milliseconds in 32 bits, which begin
again after 49.7 days), `_InWholeMinutes` (times rounded up) or `_InSevenBits` (numbers of attempts). Times are real seconds, as in the
node's configuration.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

import math
from collections.abc import Iterable
from typing import cast

from conformance.reference.config import Address, Peer, SiteLink, Transport
from conformance.reference.defects.defect import defect
from conformance.reference.duplicates import DuplicateDetection
from conformance.reference.host import Host
from conformance.reference.hub2010.delayed_acknowledgement import DelayedAcknowledgement
from conformance.reference.hub2010.manager import HubManager
from conformance.reference.message import Message, Place, Recipient
from conformance.reference.queue.delivery import Delivery
from conformance.reference.queue.outbound import Outbound
from conformance.reference.receive.session import Receiver
from conformance.reference.routing.bifurcation import Routing, group_by_next_hop
from conformance.reference.routing.next_hop import NextHop
from conformance.reference.safety_net import SafetyNet
from conformance.reference.send.dialogue import Dialogue
from conformance.reference.shadow.choice import ShadowServerChoice, servers_to_try
from conformance.reference.shadow.discard import DiscardStatus
from conformance.reference.shadow.manager import ShadowRedundancyManager

_OVERFLOW_S = 2**32 / 1000
"""Seconds after which a count of milliseconds in 32 bits begins again: 49.7 days."""


class _HostWithOtherNumbers:
    """Stands for a `Host` in which `transport` has what `changed` makes of it; all else is that of the real host."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def __getattr__(self, name: str) -> object:
        return getattr(self._host, name)

    def changed(self, transport: Transport) -> dict[str, object]:
        """Return the parameters that are read wrongly, by documented name, with their wrong values; here raise NotImplementedError."""
        raise NotImplementedError

    @property
    def transport(self) -> Transport:
        """The transport parameters in force, those in `changed` with their wrong values."""
        return self._host.transport.model_copy(update=self.changed(self._host.transport))


class _In32Bits(_HostWithOtherNumbers):
    """Reads times as milliseconds of which 32 bits are left."""

    def changed(self, transport: Transport) -> dict[str, object]:
        """Return, by name, each time of 49.7 days (`_OVERFLOW_S`) or longer, modulo that; shorter times are read correctly."""
        times = {name: value for name, value in transport if isinstance(value, float) and value >= _OVERFLOW_S}
        return {name: math.fmod(value, _OVERFLOW_S) for name, value in times.items()}


class _InWholeMinutes(_HostWithOtherNumbers):
    """Rounds times up to whole minutes."""

    def changed(self, transport: Transport) -> dict[str, object]:
        """Return, by name, every time of the parameters, rounded up to whole minutes (in seconds)."""
        return {name: math.ceil(value / 60) * 60.0 for name, value in transport if isinstance(value, float)}


class _InSevenBits(_HostWithOtherNumbers):
    """Reads numbers of attempts as seven bits."""

    def changed(self, transport: Transport) -> dict[str, object]:
        """Return, by name, the three numbers of attempts, each modulo 128."""
        counts = ("MaxRetriesForRemoteSiteShadow", "MaxRetriesForLocalSiteShadow", "ShadowHeartbeatRetryCount")
        return {name: getattr(transport, name) & 127 for name in counts}


@defect("takes-no-attempt-for-the-default", breaks="SR-PRF-05", slot="choice")
class TakesNoAttemptForTheDefault(ShadowServerChoice):
    """Takes a limit of 0 attempts for one that is not set, and makes as many as by default."""

    def servers_to_try(self) -> list[Peer]:
        """Return the servers to try for a copy, with the default in place of each limit of attempts that is 0.

        Correct for a limit of 0 is no attempt.
        """
        transport, names = self.host.transport, ("MaxRetriesForRemoteSiteShadow", "MaxRetriesForLocalSiteShadow")
        defaults = {name: getattr(Transport(), name) for name in names if not getattr(transport, name)}
        config = self.host.config.model_copy(update={"transport": transport.model_copy(update=defaults)})
        return servers_to_try(config, self.unresponsive_servers(), self.host.random)


@defect("counts-attempts-in-seven-bits", breaks="SR-PRF-01", slot="choice")
class CountsAttemptsInSevenBits(ShadowServerChoice):
    """Keeps limits of attempts in seven bits: 255 attempts are 127."""

    def servers_to_try(self) -> list[Peer]:
        """Return the servers to try for a copy, as is correct for limits modulo 128: with 255 configured, 127 attempts."""
        transport = cast(Host, _InSevenBits(self.host)).transport
        config = self.host.config.model_copy(update={"transport": transport})
        return servers_to_try(config, self.unresponsive_servers(), self.host.random)


@defect("many-failures-lead-to-strangers", breaks="SR-PRF-01", slot="choice")
class ManyFailuresLeadToStrangers(ShadowServerChoice):
    """Goes on to servers outside of its boundary where many more attempts are left than there are members."""

    def servers_to_try(self) -> list[Peer]:
        """Return the servers to try for a copy: the correct list, but if it has more than 20 attempts, with strangers for its last ones.

        Strangers are the mailbox servers that are not in the correct list, such as those of other boundaries; each is tried once.
        """
        correct = super().servers_to_try()
        names = {peer.name for peer in correct}
        strangers = [
            peer
            for peer in self.host.config.peers
            if peer.role == "mailbox" and peer.dial.transport is not None and peer.name not in names
        ]
        return correct[: -len(strangers)] + strangers if strangers and len(correct) > 20 else correct


@defect("idle-limit-in-whole-minutes", breaks="SR-TMO-06", slot="receiver")
class IdleLimitInWholeMinutes(Receiver):
    """Rounds ConnectionInactivityTimeout up to whole minutes."""

    def _reset_timeout(self, duration: float | None = None) -> None:
        """Restart the idle timer with `duration` (seconds; None: the configured time), rounded up to whole minutes."""
        super()._reset_timeout(math.ceil((duration or self._timeout_duration) / 60) * 60.0)


@defect("session-age-in-32-bits", breaks="SR-TMO-07", slot="receiver")
class SessionAgeIn32Bits(Receiver):
    """Counts the age of a session in 32 bits of milliseconds: a ConnectionTimeout of sixty days is one of ten."""

    @property
    def _expires_at(self) -> float:
        """The event loop's time at which the session ends: ConnectionTimeout modulo 49.7 days (`_OVERFLOW_S`) after it began."""
        return self._started_at + math.fmod(self.limits.connection_timeout, _OVERFLOW_S)


@defect(
    "limit-of-send-connectors-in-32-bits",
    breaks="SR-TMO-08",
    slot="outbound",
    needs_expectation="the rule sees a session that goes on for too long; one that ends early may have ended for another reason",
)
class LimitOfSendConnectorsIn32Bits(Outbound):
    """Counts SendConnectionInactivityTimeout in 32 bits of milliseconds."""

    def new_dialogue(self, hop: NextHop, server: str, dial: Address) -> Dialogue:
        """Return a session with a server of a next hop, not connected yet, whose idle limit is the correct one modulo 49.7 days."""
        dialogue = super().new_dialogue(hop, server, dial)
        dialogue.idle_timeout = math.fmod(dialogue.idle_timeout, _OVERFLOW_S)
        return dialogue


@defect("resubmit-time-in-32-bits", breaks="SR-MNT-10", slot="manager")
class ResubmitTimeIn32Bits(ShadowRedundancyManager):
    """Counts ShadowResubmitTimeSpan in 32 bits of milliseconds, and promotes too early."""

    def __init__(self, host: Host) -> None:
        super().__init__(cast(Host, _In32Bits(host)))


@defect("hold-time-in-32-bits", breaks="SR-SFN-01", slot="safety_net")
class HoldTimeIn32Bits(SafetyNet):
    """Counts SafetyNetHoldTime in 32 bits of milliseconds, and drops processed messages too early."""

    def hold_time(self, place: Place) -> float:
        """Return how long a message is held in a place, seconds: a processed one for the correct time modulo 49.7 days (`_OVERFLOW_S`).

        For `shadow`, a copy whose primary has not reported that it is processed, the time is correct.
        """
        correct = super().hold_time(place)
        return correct if place == "shadow" else math.fmod(correct, _OVERFLOW_S)


@defect("hold-time-in-whole-hours", breaks="SR-SFN-02", slot="safety_net")
class HoldTimeInWholeHours(SafetyNet):
    """Rounds SafetyNetHoldTime up to whole hours."""

    def hold_time(self, place: Place) -> float:
        """Return how long a message is held in a place: the correct time in seconds, rounded up to whole hours."""
        return math.ceil(super().hold_time(place) / 3600) * 3600.0


@defect("expiration-in-32-bits", breaks="SR-MNT-14", slot="delivery")
class ExpirationIn32Bits(Delivery):
    """Counts MessageExpirationTimeout in 32 bits of milliseconds, and gives messages up too early."""

    def __init__(self, host: Host) -> None:
        super().__init__(cast(Host, _In32Bits(host)))


@defect(
    "expires-in-whole-minutes",
    breaks="SR-MNT-14",
    slot="delivery",
    needs_expectation="the rule allows one retry interval beyond the timeout, which is longer than a minute",
)
class ExpiresInWholeMinutes(Delivery):
    """Rounds MessageExpirationTimeout up to whole minutes."""

    def _defer(self, message: Message, recipients: tuple[Recipient, ...], hop: NextHop) -> None:
        """Schedule a retry for recipients, or report them as expired, by MessageExpirationTimeout rounded up to whole minutes.

        MessageRetryInterval is rounded up to whole minutes too. `hop` is the next hop that has been tried.
        """
        host = self.host
        self.host = cast(Host, _InWholeMinutes(host))
        try:
            super()._defer(message, recipients, hop)
        finally:
            self.host = host


@defect("tries-again-after-a-minute-at-least", breaks="RL-RTY-01", slot="delivery")
class TriesAgainAfterAMinuteAtLeast(Delivery):
    """Rounds MessageRetryInterval up to whole minutes."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._rounding = cast(Host, _InWholeMinutes(host))

    def _defer(self, message: Message, recipients: tuple[Recipient, ...], hop: NextHop) -> None:
        """Schedule a retry after MessageRetryInterval rounded up to whole minutes; report recipients of an expired message correctly."""
        host = self.host
        if not host.is_due(message.since + host.transport.MessageExpirationTimeout):
            self.host = self._rounding
        try:
            super()._defer(message, recipients, hop)
        finally:
            self.host = host


@defect("tracking-window-in-whole-minutes", breaks="SR-DUP-03", slot="duplicates")
class TrackingWindowInWholeMinutes(DuplicateDetection):
    """Rounds DuplicateTrackingWindow up to whole minutes."""

    @property
    def tracking_window(self) -> float:
        """The time within which duplicates are dropped, seconds: the correct one, rounded up to whole minutes."""
        return math.ceil(super().tracking_window / 60) * 60.0


@defect("notifications-expire-in-32-bits", breaks="SR-MNT-12", slot="discard_status")
class NotificationsExpireIn32Bits(DiscardStatus):
    """Counts ShadowMessageAutoDiscardInterval in 32 bits of milliseconds, and deletes discard events too early."""

    @property
    def notification_lifetime(self) -> float:
        """How long a notification is kept, seconds: ShadowMessageAutoDiscardInterval modulo 49.7 days (`_OVERFLOW_S`)."""
        return math.fmod(super().notification_lifetime, _OVERFLOW_S)


@defect("hub-takes-no-delay-for-the-default", breaks="SR-E10-16", slot="ex2010.acceptance")
class HubTakesNoDelayForTheDefault(DelayedAcknowledgement):
    """Takes a MaxAcknowledgementDelay of 0 for one that is not set, and withholds replies for thirty seconds."""

    def __init__(self, host: Host) -> None:
        super().__init__(cast(Host, _DefaultDelay(host)))


class _DefaultDelay(_HostWithOtherNumbers):
    """Reads the default of MaxAcknowledgementDelay where it is 0."""

    def changed(self, transport: Transport) -> dict[str, object]:
        """Return the default of MaxAcknowledgementDelay, 30 seconds, if 0 is configured."""
        default = Transport().MaxAcknowledgementDelay
        return {"MaxAcknowledgementDelay": transport.MaxAcknowledgementDelay or default}


@defect("hub-counts-failures-in-seven-bits", breaks="SR-E10-08", slot="ex2010.manager")
class HubCountsFailuresInSevenBits(HubManager):
    """Keeps ShadowHeartbeatRetryCount in seven bits: 255 intervals are 127."""

    def __init__(self, host: Host) -> None:
        super().__init__(cast(Host, _InSevenBits(host)))


@defect("hub-interval-in-32-bits", breaks="SR-E10-08", slot="ex2010.manager")
class HubIntervalIn32Bits(HubManager):
    """Counts ShadowHeartbeatTimeoutInterval in 32 bits of milliseconds, and takes over too early."""

    def __init__(self, host: Host) -> None:
        super().__init__(cast(Host, _In32Bits(host)))


@defect("adds-costs-in-32-bits", breaks="SR-BIF-01", slot="routing")
class AddsCostsIn32Bits(Routing):
    """Adds the costs of site links in 32 bits with a sign: a sum that is too great is less than nothing."""

    def group_by_next_hop(self, recipients: Iterable[Recipient]) -> dict[NextHop, list[Recipient]]:
        """Return the recipients by next hop, as if site links of this server's site with a cost of 2**31 - 1 or more cost 1.

        With 1 more their cost does not fit in 32 bits with a sign, so that it turns negative and the route counts as cheap.
        """
        config = self.host.config
        own = [link for link in config.site_links if config.site in link.between]
        wrapped = [link for link in own if link.cost + 1 >= 2**31]
        cheap = tuple(link.model_copy(update={"cost": 1}) if link in wrapped else link for link in config.site_links)
        links: tuple[SiteLink, ...] = cheap if wrapped else config.site_links
        return group_by_next_hop(config.model_copy(update={"site_links": links}), recipients)
