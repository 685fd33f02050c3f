"""Defects that show after a restart, a reload, a move of a mailbox or a redirection, or when such a thing comes a second time.

A *primary* is a server that has sent copies (shadows) of its messages here. To promote shadows is to make them messages of this
server, which then delivers them. In a reload the node reads its configuration file again and calls `reconfigured` of each
component.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node (a running server) that is
started as `reference+NAME` uses the class as the component in its `slot`, and then violates the requirement `breaks`. "Correct"
is what the class that it inherits from does; `self.host` has the other components of the node (host.py).
"""

import asyncio
from typing import Any, ClassVar

from pydantic import model_validator

from conformance.reference.config import NodeConfiguration, Peer
from conformance.reference.defects.defect import defect
from conformance.reference.duplicates import DuplicateDetection
from conformance.reference.host import Host
from conformance.reference.hub2010.manager import HubManager
from conformance.reference.message import Message
from conformance.reference.queue.delivery import Delivery
from conformance.reference.queue.hop_queue import HopQueue, RemoteQueue, create_hop_queue
from conformance.reference.receive.session import Receiver
from conformance.reference.receive.verbs import ShadowVerbs
from conformance.reference.routing.next_hop import NextHop
from conformance.reference.shadow.choice import ShadowServerChoice
from conformance.reference.shadow.creation import ShadowCreation
from conformance.reference.shadow.discard import DiscardStatus
from conformance.reference.shadow.manager import ShadowRedundancyManager


def number_of_starts(host: Host) -> int:
    """Return how often the node was started on its present queue database, this start included."""
    starts: int = host.db.read("SELECT incarnation FROM node")[0][0]
    return starts


class OffersXshadow(ShadowVerbs):
    """Base class of servers of 2013 or later that offer XSHADOW to hubs of 2010 in some cases (`offers_to_hubs`)."""

    @property
    def offers_to_hubs(self) -> bool:
        """Whether XSHADOW is offered to hubs now; each subclass says when. Raises NotImplementedError here."""
        raise NotImplementedError

    def ehlo_keywords(self) -> list[str]:
        """Return the correct keywords for the EHLO reply, and XSHADOW to a server of 2010 on the transport listener if `offers_to_hubs`.

        Correct is never to offer XSHADOW.
        """
        peer = self.session_state.peer
        is_hub = peer is not None and peer.generation == "ex2010" and self.session_state.listener == "transport"
        return [*super().ehlo_keywords(), *(["XSHADOW"] if is_hub and self.offers_to_hubs else [])]

    async def dispatch(self, verb: str, arguments: list[str]) -> list[str]:
        """Answer XSHADOW, where it is offered, with 250, this server's name and the id of its queue database; answer other verbs correctly.

        Return the lines of the reply. Nothing is recorded: the hub gets no discard notifications.
        """
        if verb == "XSHADOW" and "XSHADOW" in self.ehlo_keywords():
            return [f"250 2.0.0 {self.host.name} {self.host.identity.database}"]
        return await super().dispatch(verb, arguments)


@defect("restart-offers-xshadow-to-hubs", breaks="SR-IOP-01", slot="verbs")
class RestartOffersXshadowToHubs(OffersXshadow):
    """Offers XSHADOW to hubs of 2010 once it was started a second time."""

    @property
    def offers_to_hubs(self) -> bool:
        """Whether the node was started before on its present queue database."""
        return number_of_starts(self.host) > 1


class CountsReloads(ShadowRedundancyManager):
    """A manager that counts the reloads of its node."""

    reloads = 0

    def reconfigured(self, before: NodeConfiguration) -> None:
        """Count the reload, then apply the change correctly."""
        self.reloads += 1
        super().reconfigured(before)


@defect("reload-offers-xshadow-to-hubs", breaks="SR-IOP-01", slot="verbs", also={"manager": CountsReloads})
class ReloadOffersXshadowToHubs(OffersXshadow):
    """Offers XSHADOW to hubs of 2010 once its configuration was read again."""

    @property
    def offers_to_hubs(self) -> bool:
        """Whether the configuration was read again since the start of the node."""
        return getattr(self.host.manager, "reloads", 0) > 0


@defect("reload-delivers-shadows", breaks="SR-CRE-11", slot="delivery")
class ReloadDeliversShadows(Delivery):
    """Takes up all mail in its database when the configuration is read again, shadows included."""

    def reconfigured(self, before: NodeConfiguration) -> None:
        """Promote every shadow that is held for any primary, then apply the change; correct is to promote none."""
        self.host.promotion.take_over([shadow.id for shadow in self.host.messages.held_as("shadow")])
        super().reconfigured(before)


@defect("restart-loses-the-idle-limit", breaks="SR-TMO-06", slot="receiver")
class RestartLosesTheIdleLimit(Receiver):
    """Ends no idle session once it was started a second time."""

    def _on_idle_timer(self) -> None:
        """End a session that was idle for too long, as is correct, until the node is restarted; after a restart do nothing.

        An idle session then ends only at the limit of its age.
        """
        if number_of_starts(self.host) == 1:
            super()._on_idle_timer()


@defect("restart-prefers-the-own-site", breaks="SR-PRF-01", slot="choice")
class RestartPrefersTheOwnSite(ShadowServerChoice):
    """Tries servers of its own site first once it was started a second time: it does not know yet that the remote ones run."""

    def servers_to_try(self) -> list[Peer]:
        """Return the servers to try for a copy: the correct ones, but after a restart with those of the own site first."""
        correct = super().servers_to_try()
        if number_of_starts(self.host) > 1:
            correct.sort(key=lambda peer: peer.site != self.host.config.site)
        return correct


@defect("notices-one-new-database", breaks="SR-MNT-11", slot="manager")
class NoticesOneNewDatabase(ShadowRedundancyManager):
    """Notices the first time that a primary has a new queue database, and no later one."""

    def start(self) -> None:
        """Begin with no new database noticed; `noticed` has the names of the primaries that had one since this start."""
        self.noticed: set[str] = set()
        super().start()

    def promote_if_new_database(self, primary: str, database: str) -> None:
        """Promote the shadows that came from another queue database of the primary, but only the first time for each primary.

        `database` is the id of its present one, "" if it named none: then nothing is done.
        """
        if database and self.host.shadows.rows_of_other_databases(primary, database) and primary not in self.noticed:
            self.noticed.add(primary)
            super().promote_if_new_database(primary, database)


@defect("adds-up-absences", breaks="SR-MNT-10", slot="manager")
class AddsUpAbsences(ShadowRedundancyManager):
    """Adds up the times for which a primary could not be reached, though it was there between."""

    def start(self) -> None:
        """Begin with no absence; `absent_for` has the sum of absences (seconds) by name of the primary; it is not kept over a restart."""
        self.absent_for: dict[str, float] = {}
        super().start()

    def record_contact(self, primary: str) -> None:
        """Record a successful session; if the last one is more than 1.5 times ShadowHeartbeatFrequency ago, add that time as absence.

        Correct is to forget all earlier absences.
        """
        last, now = self.host.shadows.last_contact(primary), self.host.now()
        if last is not None and now - last > 1.5 * self.host.transport.ShadowHeartbeatFrequency:
            self.absent_for[primary] = self.absent_for.get(primary, 0.0) + now - last
        super().record_contact(primary)

    def promotion_at(self, primary: str) -> float:
        """Return when the shadows of a primary are promoted, POSIX seconds: the correct time minus the sum of its earlier absences."""
        return super().promotion_at(primary) - self.absent_for.get(primary, 0.0)


@defect("refuses-wrong-values-once", breaks="SR-CFG-03", slot="configuration")
class RefusesWrongValuesOnce(NodeConfiguration):
    """Refuses the first wrong configuration, and leaves out what is wrong in later ones."""

    refused: ClassVar[set[str]] = set()

    @model_validator(mode="before")
    @classmethod
    def _leave_out_what_is_wrong(cls, document: Any) -> Any:
        """Return the JSON document; from the second one with a count out of range on, without those counts, so that it is accepted.

        The first such document of a node is returned as it is, and validation refuses it. `refused` has name and data directory
        of each node to which that has happened in this process. A document that lacks something else, or has a wrong type, is
        returned unchanged too.
        """
        counts = ("MaxRetriesForRemoteSiteShadow", "MaxRetriesForLocalSiteShadow", "ShadowHeartbeatRetryCount")
        try:
            transport, name = document.get("transport", {}), f"{document['name']} {document['data_dir']}"
            wrong = {key for key in counts if isinstance(transport.get(key), int) and not 0 <= transport[key] <= 255}
        except (KeyError, TypeError, AttributeError):
            return document
        wrong |= {"ShadowHeartbeatRetryCount"} if transport.get("ShadowHeartbeatRetryCount") == 0 else set()
        if wrong and name not in cls.refused:
            cls.refused.add(name)
            return document
        return {**document, "transport": {key: value for key, value in transport.items() if key not in wrong}}


@defect("reload-ends-the-clean-up", breaks="SR-DUP-07", slot="duplicates")
class ReloadEndsTheCleanUp(DuplicateDetection):
    """Cleans up the delivered-to table until its configuration is read again."""

    ended = False

    def reconfigured(self, before: NodeConfiguration) -> None:
        """Cancel the clean-up of the delivered-to table, and schedule none from now on; correct is to schedule it anew."""
        self.ended = True
        self._alarm.cancel()

    def _set_alarm(self) -> None:
        """Schedule a clean-up as is correct before the first reload; after it do nothing."""
        if not self.ended:
            super()._set_alarm()


@defect("move-forgets-what-was-delivered", breaks="SR-DUP-01", slot="duplicates")
class MoveForgetsWhatWasDelivered(DuplicateDetection):
    """Empties the delivered-to table when any mailbox database has moved, also for mailboxes that stay."""

    def reconfigured(self, before: NodeConfiguration) -> None:
        """Delete all entries of the delivered-to table if any mailbox is new or has another server; then apply the change."""
        servers = {box.address: box.server for box in before.mailboxes}
        if any(servers.get(box.address) != box.server for box in self.host.config.mailboxes):
            self.host.db.write("DELETE FROM delivered_to")
        super().reconfigured(before)


@defect("second-restart-drops-notifications", breaks="SR-MNT-05", slot="discard_status")
class SecondRestartDropsNotifications(DiscardStatus):
    """Keeps discard notifications over one restart, and deletes those that are still there at the next one."""

    def start(self) -> None:
        """Delete, from the third start of the node on, all discard notifications that were queued before it; then start correctly."""
        if number_of_starts(self.host) > 2:
            self.host.db.write("DELETE FROM discard")
        super().start()


@defect("silence-ends-shadowing", breaks="SR-CRE-01", slot="creation")
class SilenceEndsShadowing(ShadowCreation):
    """Makes no shadow any more once a shadow server was silent for too long."""

    ended = False

    async def make_shadow(self, message: Message, content: bytes, deadline: float | None) -> bool:
        """Have a shadow stored by `deadline` (the event loop's time; None: no limit); return whether one was.

        Once that took more than ten seconds, return False at once for later messages. A call that was under way at the same time
        and took less ends that. The seconds are those of the event loop, and count also if a shadow was stored in the end.
        """
        if self.ended:
            return False
        loop = asyncio.get_running_loop()
        began = loop.time()
        made = await super().make_shadow(message, content, deadline)
        self.ended = loop.time() - began > 10
        return made


class AvoidsUnreachable(RemoteQueue):
    """A queue that never tries a server again which could once not be reached, as long as its next hop has another server.

    `unreachable` has pairs of this server's name and that server's; all nodes of the process share it.
    """

    unreachable: ClassVar[set[tuple[str, str]]] = set()

    async def deliver(self, attempt: Any) -> None:
        """Make an attempt and further ones of the queue, from now on without the servers of the hop that could once not be reached.

        Such servers (in `unreachable`) are left out of `hop` for good, unless no other one would be left in it. Returns when the
        outcomes are recorded.
        """
        avoided = [name for name in self.hop.servers if (self.host.name, name) in self.unreachable]
        if avoided and len(avoided) < len(self.hop.servers):
            pairs = [(n, a) for n, a in zip(self.hop.servers, self.hop.addresses, strict=True) if n not in avoided]
            self.hop = NextHop(
                kind=self.hop.kind,
                name=self.hop.name,
                servers=tuple(name for name, _ in pairs),
                addresses=tuple(address for _, address in pairs),
                lmtp_servers=self.hop.lmtp_servers,
            )
        await super().deliver(attempt)

    async def _deliver_in_session(self, server: str, address: Any, first: Any) -> Any:
        """Transmit attempts to a server in one session as is correct; add the server to `unreachable` if the session could not be opened.

        Return what the correct class returns: the attempt that is left over, or None, and whether the session was opened.
        """
        unfinished, opened = await super()._deliver_in_session(server, address, first)
        if not opened:
            self.unreachable.add((self.host.name, server))
        return unfinished, opened


@defect("avoids-a-server-for-ever", breaks="SR-BIF-02", slot="delivery")
class AvoidsAServerForEver(Delivery):
    """Sends nothing more to a server that could once not be reached, where the route has another one."""

    def start(self) -> None:
        """Forget the unreachable servers, those of all nodes of the process, then resume the messages in the database."""
        AvoidsUnreachable.unreachable = set()
        super().start()

    def create_queue(self, hop: NextHop) -> HopQueue:
        """Return the correct queue for a next hop, but an `AvoidsUnreachable` one for servers of other boundaries (`transport`).

        These are servers of the organisation; for next hops outside of it the queue is correct.
        """
        if hop.kind == "transport":
            return AvoidsUnreachable(self.host, hop, self.record_outcome)
        return create_hop_queue(self.host, hop, self.record_outcome)


@defect("hub-restart-asks-no-more", breaks="SR-E10-06", slot="ex2010.manager")
class HubRestartAsksNoMore(HubManager):
    """After a restart asks no next hop for discard status before mail goes there."""

    def start(self) -> None:
        """Do nothing at the start of the node: no next hop is watched before mail goes there.

        Correct is to watch each for which shadows are held.
        """
