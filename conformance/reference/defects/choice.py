"""Defects in the choice of shadow servers: which servers are tried, in which order, and how often.

`servers_to_try` returns the servers at which a copy of one message is tried, in order; a server is in it once for each attempt. In a
boundary that spans several sites, ShadowMessagePreferenceSetting says whether servers of other sites (RemoteOnly), of the own site
(LocalOnly), or of other sites and then of the own one (PreferRemote, the default) are tried. MaxRetriesForRemoteSiteShadow and
MaxRetriesForLocalSiteShadow limit the attempts in each. In a boundary of one site only the own site's limit counts.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

from conformance.reference.config import Peer
from conformance.reference.defects.defect import defect
from conformance.reference.receive.authentication import Rights
from conformance.reference.shadow.choice import ShadowServerChoice


class OffersToAnybody(Rights):
    """Offers the shadow verbs to every server of the configuration: so a server of another boundary can be a shadow server."""

    def may_use_shadow_verbs(self, peer: Peer | None) -> bool:
        """Return whether a client may use the shadow verbs: any known server (`peer`) may, of this boundary or not; others (None) not.

        Correct is a mailbox server of 2013 or later in this boundary that has the right, while shadow redundancy is enabled.
        """
        return peer is not None


class ChoosesByDistance(ShadowServerChoice):
    """Base class of wrong choices: the other mailbox servers of the boundary by site, and attempts at each of them in turn."""

    def same_site_peers(self) -> list[Peer]:
        """Return the other mailbox servers of the boundary (`other_members`) that are in this server's site, each once."""
        return [peer for peer in self.other_members() if peer.site == self.host.config.site]

    def other_site_peers(self) -> list[Peer]:
        """Return the mailbox servers of the boundary (`other_members`) that are in other sites, each once; empty without a DAG."""
        return [peer for peer in self.other_members() if peer.site != self.host.config.site]

    def other_members(self) -> list[Peer]:
        """Return the other mailbox servers of the boundary, each once: those of the DAG, or without one those of the site in no DAG.

        Whether one may be asked for a shadow (its generation, rights and listener) is not checked.
        """
        config = self.host.config
        return [
            peer
            for peer in config.peers
            if peer.role == "mailbox"
            and (peer.dag == config.dag if config.dag is not None else peer.dag is None and peer.site == config.site)
        ]

    def attempts_in_turn(self, peers: list[Peer], number: int) -> list[Peer]:
        """Return a list of `number` attempts that goes through the peers in order and begins again; empty without peers."""
        return [peers[turn % len(peers)] for turn in range(number)] if peers else []


@defect("shadows-in-another-dag", breaks="SR-BND-01", slot="choice", also={"rights": OffersToAnybody})
class ShadowsInAnotherDag(ShadowServerChoice):
    """Takes the servers of other DAGs for its own, and asks them first."""

    def servers_to_try(self) -> list[Peer]:
        """Return the servers to try for a copy: each mailbox server that is not in this server's DAG once, then the correct ones.

        If this server is in no DAG, these are the mailbox servers that are in one.
        """
        config = self.host.config
        foreign_servers = [peer for peer in config.peers if peer.role == "mailbox" and peer.dag != config.dag]
        return foreign_servers + super().servers_to_try()


@defect("shadows-in-another-site", breaks="SR-BND-02", slot="choice", also={"rights": OffersToAnybody})
class ShadowsInAnotherSite(ShadowServerChoice):
    """Without a DAG, asks servers of any site."""

    def servers_to_try(self) -> list[Peer]:
        """Return the correct servers to try for a copy; if this server is in no DAG, each mailbox server of other sites once first."""
        config = self.host.config
        remote_servers = [peer for peer in config.peers if peer.role == "mailbox" and peer.site != config.site]
        return (remote_servers if config.dag is None else []) + super().servers_to_try()


@defect("prefers-local", breaks="SR-PRF-01", slot="choice")
class PrefersLocal(ChoosesByDistance):
    """Under PreferRemote, tries the members of its own site first."""

    def servers_to_try(self) -> list[Peer]:
        """Return, under PreferRemote, the servers of the own site and then those of other sites; correct is the reverse order.

        Under another preference, and in a boundary of one site, the list is correct.
        """
        transport = self.host.transport
        if transport.ShadowMessagePreferenceSetting != "PreferRemote" or not self.other_site_peers():
            return super().servers_to_try()
        near = self.attempts_in_turn(self.same_site_peers(), transport.MaxRetriesForLocalSiteShadow)
        return near + self.attempts_in_turn(self.other_site_peers(), transport.MaxRetriesForRemoteSiteShadow)


@defect("prefer-remote-never-falls-back", breaks="SR-PRF-01", slot="choice")
class NeverFallsBack(ChoosesByDistance):
    """Under PreferRemote, does not try the local members when all remote attempts have failed."""

    def servers_to_try(self) -> list[Peer]:
        """Return, under PreferRemote, only the servers of other sites; correct is those of the own site after them.

        Under another preference, and in a boundary of one site, the list is correct.
        """
        transport = self.host.transport
        if transport.ShadowMessagePreferenceSetting != "PreferRemote" or not self.other_site_peers():
            return super().servers_to_try()
        return self.attempts_in_turn(self.other_site_peers(), transport.MaxRetriesForRemoteSiteShadow)


@defect("local-only-goes-far", breaks="SR-PRF-02", slot="choice")
class LocalOnlyGoesFar(ChoosesByDistance):
    """Under LocalOnly, tries remote members when the local ones have failed."""

    def servers_to_try(self) -> list[Peer]:
        """Return the correct servers to try and, under LocalOnly, after them each server of the boundary in other sites once."""
        added = self.other_site_peers() if self.host.transport.ShadowMessagePreferenceSetting == "LocalOnly" else []
        return super().servers_to_try() + added


@defect("remote-only-goes-near", breaks="SR-PRF-03", slot="choice")
class RemoteOnlyGoesNear(ChoosesByDistance):
    """Under RemoteOnly, tries local members when the remote ones have failed."""

    def servers_to_try(self) -> list[Peer]:
        """Return the correct servers to try and, under RemoteOnly, after them each server of the own site once.

        In a boundary of one site the list is correct.
        """
        added = self.same_site_peers() if self.host.transport.ShadowMessagePreferenceSetting == "RemoteOnly" else []
        # without another site the preference has no meaning, and the correct attempts are local
        return super().servers_to_try() + (added if self.other_site_peers() else [])


class ShiftsAttemptLimits(ChoosesByDistance):
    """Base class of wrong limits: both numbers of attempts, each changed by a constant."""

    remote_shift = 0
    local_shift = 0

    def servers_to_try(self) -> list[Peer]:
        """Return the servers to try, of other sites and then of the own one, with more or fewer attempts than correct.

        `remote_shift` and `local_shift` are how many more; fewer if negative.
        """
        correct = super().servers_to_try()
        other_sites = [peer for peer in correct if peer.site != self.host.config.site]
        own_site = [peer for peer in correct if peer.site == self.host.config.site]
        return self._shifted(other_sites, self.remote_shift) + self._shifted(own_site, self.local_shift)

    def _shifted(self, peers: list[Peer], change: int) -> list[Peer]:
        """Return a list of attempts at the same servers, `change` longer than `peers`, or shorter if negative; empty if `peers` is."""
        return self.attempts_in_turn(peers, len(peers) + change) if peers else []


@defect("one-remote-attempt-too-many", breaks="SR-PRF-04", slot="choice")
class OneRemoteTooMany(ShiftsAttemptLimits):
    """Tries remote members once more than MaxRetriesForRemoteSiteShadow."""

    remote_shift = 1


@defect("one-remote-attempt-too-few", breaks="SR-PRF-04", slot="choice")
class OneRemoteTooFew(ShiftsAttemptLimits):
    """Tries remote members once less than MaxRetriesForRemoteSiteShadow."""

    remote_shift = -1


@defect("one-local-attempt-too-many", breaks="SR-PRF-05", slot="choice")
class OneLocalTooMany(ShiftsAttemptLimits):
    """Tries local members once more than MaxRetriesForLocalSiteShadow."""

    local_shift = 1


@defect("one-local-attempt-too-few", breaks="SR-PRF-05", slot="choice")
class OneLocalTooFew(ShiftsAttemptLimits):
    """Tries local members once less than MaxRetriesForLocalSiteShadow."""

    local_shift = -1


@defect("preference-within-one-site", breaks="SR-PRF-06", slot="choice")
class PreferenceWithinOneSite(ChoosesByDistance):
    """Obeys the preference where there is but one site: under RemoteOnly it finds no server."""

    def servers_to_try(self) -> list[Peer]:
        """Return the servers to try that the preference asks for, also in a boundary of one site, where it should have no meaning.

        There the list is empty under RemoteOnly.
        """
        transport = self.host.transport
        near = self.attempts_in_turn(self.same_site_peers(), transport.MaxRetriesForLocalSiteShadow)
        far = self.attempts_in_turn(self.other_site_peers(), transport.MaxRetriesForRemoteSiteShadow)
        return {"LocalOnly": near, "RemoteOnly": far, "PreferRemote": far + near}[
            transport.ShadowMessagePreferenceSetting
        ]


@defect("remote-limit-within-one-site", breaks="SR-PRF-06", slot="choice")
class RemoteLimitWithinOneSite(ChoosesByDistance):
    """Within one site tries as often as the remote limit says."""

    def servers_to_try(self) -> list[Peer]:
        """Return, in a boundary of one site, as many attempts as MaxRetriesForRemoteSiteShadow; correct is the limit of the own site.

        In a boundary of several sites the list is correct.
        """
        if self.other_site_peers():
            return super().servers_to_try()
        return self.attempts_in_turn(self.same_site_peers(), self.host.transport.MaxRetriesForRemoteSiteShadow)
