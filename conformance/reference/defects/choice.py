"""Defects in the choice of shadow servers: whom, in which order, how often."""

from conformance.reference.config import Peer
from conformance.reference.defects.defect import defect
from conformance.reference.receive.authentication import Rights
from conformance.reference.shadow.choice import ShadowServerChoice


class OffersToAnybody(Rights):
    """Offers the shadow verbs to every server it knows."""

    def may_shadow(self, peer: Peer | None) -> bool:
        """Whether the client is a server at all."""
        return peer is not None


class Limited(ShadowServerChoice):
    """What the wrong choices below are made of: servers near and far, and how often each kind is tried."""

    def near(self) -> list[Peer]:
        """Return the members of our own site."""
        return [peer for peer in self.members() if peer.site == self.host.config.site]

    def far(self) -> list[Peer]:
        """Return the members of other sites."""
        return [peer for peer in self.members() if peer.site != self.host.config.site]

    def members(self) -> list[Peer]:
        """Return the other servers of the boundary."""
        config = self.host.config
        return [
            peer
            for peer in config.peers
            if peer.role == "mailbox"
            and (peer.dag == config.dag if config.dag is not None else peer.dag is None and peer.site == config.site)
        ]

    def times(self, peers: list[Peer], number: int) -> list[Peer]:
        """Return as many attempts as there are to be, in turn."""
        return [peers[turn % len(peers)] for turn in range(number)] if peers else []


@defect("shadows-in-another-dag", breaks="SR-BND-01", part="choice", also={"rights": OffersToAnybody})
class ShadowsInAnotherDag(ShadowServerChoice):
    """Takes the servers of other DAGs for its own, and asks them first."""

    def attempts(self) -> list[Peer]:
        """Return the strangers, then who is right."""
        config = self.host.config
        strangers = [peer for peer in config.peers if peer.role == "mailbox" and peer.dag != config.dag]
        return strangers + super().attempts()


@defect("shadows-in-another-site", breaks="SR-BND-02", part="choice", also={"rights": OffersToAnybody})
class ShadowsInAnotherSite(ShadowServerChoice):
    """Without a DAG, asks servers of any site."""

    def attempts(self) -> list[Peer]:
        """Return the servers of other sites, then who is right."""
        config = self.host.config
        elsewhere = [peer for peer in config.peers if peer.role == "mailbox" and peer.site != config.site]
        return (elsewhere if config.dag is None else []) + super().attempts()


@defect("prefers-local", breaks="SR-PRF-01", part="choice")
class PrefersLocal(Limited):
    """Under PreferRemote, tries the members of its own site first."""

    def attempts(self) -> list[Peer]:
        """Return near servers before far ones."""
        transport = self.host.transport
        if transport.ShadowMessagePreferenceSetting != "PreferRemote" or not self.far():
            return super().attempts()
        near = self.times(self.near(), transport.MaxRetriesForLocalSiteShadow)
        return near + self.times(self.far(), transport.MaxRetriesForRemoteSiteShadow)


@defect("prefer-remote-never-falls-back", breaks="SR-PRF-01", part="choice")
class NeverFallsBack(Limited):
    """Under PreferRemote, does not try the local members when all remote attempts have failed."""

    def attempts(self) -> list[Peer]:
        """Return far servers only."""
        transport = self.host.transport
        if transport.ShadowMessagePreferenceSetting != "PreferRemote" or not self.far():
            return super().attempts()
        return self.times(self.far(), transport.MaxRetriesForRemoteSiteShadow)


@defect("local-only-goes-far", breaks="SR-PRF-02", part="choice")
class LocalOnlyGoesFar(Limited):
    """Under LocalOnly, tries remote members when the local ones have failed."""

    def attempts(self) -> list[Peer]:
        """Return far servers after the near ones."""
        more = self.far() if self.host.transport.ShadowMessagePreferenceSetting == "LocalOnly" else []
        return super().attempts() + more


@defect("remote-only-goes-near", breaks="SR-PRF-03", part="choice")
class RemoteOnlyGoesNear(Limited):
    """Under RemoteOnly, tries local members when the remote ones have failed."""

    def attempts(self) -> list[Peer]:
        """Return near servers after the far ones."""
        only = self.host.transport.ShadowMessagePreferenceSetting == "RemoteOnly" and self.far()
        return super().attempts() + (self.near() if only else [])


class Miscounts(Limited):
    """What the wrong counts below share: both limits, changed by a number."""

    remote = 0
    local = 0

    def attempts(self) -> list[Peer]:
        """Return attempts by the changed limits."""
        right = super().attempts()
        far = [peer for peer in right if peer.site != self.host.config.site]
        near = [peer for peer in right if peer.site == self.host.config.site]
        return self._changed(far, self.remote) + self._changed(near, self.local)

    def _changed(self, peers: list[Peer], change: int) -> list[Peer]:
        return self.times(peers, len(peers) + change) if peers else []


@defect("one-remote-attempt-too-many", breaks="SR-PRF-04", part="choice")
class OneRemoteTooMany(Miscounts):
    """Tries remote members once more than MaxRetriesForRemoteSiteShadow."""

    remote = 1


@defect("one-remote-attempt-too-few", breaks="SR-PRF-04", part="choice")
class OneRemoteTooFew(Miscounts):
    """Tries remote members once less than MaxRetriesForRemoteSiteShadow."""

    remote = -1


@defect("one-local-attempt-too-many", breaks="SR-PRF-05", part="choice")
class OneLocalTooMany(Miscounts):
    """Tries local members once more than MaxRetriesForLocalSiteShadow."""

    local = 1


@defect("one-local-attempt-too-few", breaks="SR-PRF-05", part="choice")
class OneLocalTooFew(Miscounts):
    """Tries local members once less than MaxRetriesForLocalSiteShadow."""

    local = -1


@defect("preference-within-one-site", breaks="SR-PRF-06", part="choice")
class PreferenceWithinOneSite(Limited):
    """Obeys the preference where there is but one site: under RemoteOnly it finds nobody."""

    def attempts(self) -> list[Peer]:
        """Return what the preference alone says."""
        transport = self.host.transport
        near = self.times(self.near(), transport.MaxRetriesForLocalSiteShadow)
        far = self.times(self.far(), transport.MaxRetriesForRemoteSiteShadow)
        return {"LocalOnly": near, "RemoteOnly": far, "PreferRemote": far + near}[
            transport.ShadowMessagePreferenceSetting
        ]


@defect("remote-limit-within-one-site", breaks="SR-PRF-06", part="choice")
class RemoteLimitWithinOneSite(Limited):
    """Within one site tries as often as the remote limit says."""

    def attempts(self) -> list[Peer]:
        """Return near servers, as often as far ones would be tried."""
        if self.far():
            return super().attempts()
        return self.times(self.near(), self.host.transport.MaxRetriesForRemoteSiteShadow)
