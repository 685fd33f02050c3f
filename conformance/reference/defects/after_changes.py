"""Defects that show after a restart, a reload, a move of a mailbox or a redirection, or when such a thing comes a second time.

Each class makes one mistake on purpose, so that the checks of the harness can be tested. A node that runs as `reference+NAME` has it in
place of the component in its `slot`, and then violates the requirement `breaks`. "Correct" is what the class that it inherits from does;
`self.host` has the other components of the node (host.py).
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
    """Return how often the node was started on its present queue database."""
    starts: int = host.db.read("SELECT incarnation FROM node")[0][0]
    return starts


class OffersXshadow(ShadowVerbs):
    """Base class of servers of 2013 or later that offer XSHADOW to hubs of 2010 in some cases (`offers_to_hubs`)."""

    @property
    def offers_to_hubs(self) -> bool:
        """Whether the mistake is made now."""
        raise NotImplementedError

    def ehlo_keywords(self) -> list[str]:
        """Return the correct keywords, and XSHADOW for a server of 2010 where the mistake is made."""
        peer = self.session_state.peer
        is_hub = peer is not None and peer.generation == "ex2010" and self.session_state.listener == "transport"
        return [*super().ehlo_keywords(), *(["XSHADOW"] if is_hub and self.offers_to_hubs else [])]

    async def dispatch(self, verb: str, arguments: list[str]) -> list[str]:
        """Answer XSHADOW of a hub as a server of 2010 does, and other verbs correctly."""
        if verb == "XSHADOW" and "XSHADOW" in self.ehlo_keywords():
            return [f"250 2.0.0 {self.host.name} {self.host.identity.database}"]
        return await super().dispatch(verb, arguments)


@defect("restart-offers-xshadow-to-hubs", breaks="SR-IOP-01", slot="verbs")
class RestartOffersXshadowToHubs(OffersXshadow):
    """Offers XSHADOW to hubs of 2010 once it was started a second time."""

    @property
    def offers_to_hubs(self) -> bool:
        """Whether the node was started before."""
        return number_of_starts(self.host) > 1


class CountsReloads(ShadowRedundancyManager):
    """A manager that counts the reloads of its node."""

    reloads = 0

    def reconfigured(self, before: NodeConfiguration) -> None:
        """Count the reload, and apply the change."""
        self.reloads += 1
        super().reconfigured(before)


@defect("reload-offers-xshadow-to-hubs", breaks="SR-IOP-01", slot="verbs", also={"manager": CountsReloads})
class ReloadOffersXshadowToHubs(OffersXshadow):
    """Offers XSHADOW to hubs of 2010 once its configuration was read again."""

    @property
    def offers_to_hubs(self) -> bool:
        """Whether a reload has come."""
        return getattr(self.host.manager, "reloads", 0) > 0


@defect("reload-delivers-shadows", breaks="SR-CRE-11", slot="delivery")
class ReloadDeliversShadows(Delivery):
    """Takes up all mail in its database when the configuration is read again, shadows included."""

    def reconfigured(self, before: NodeConfiguration) -> None:
        """Promote every shadow that is held, and apply the change."""
        self.host.promotion.take_over([shadow.id for shadow in self.host.messages.held_as("shadow")])
        super().reconfigured(before)


@defect("restart-loses-the-idle-limit", breaks="SR-TMO-06", slot="receiver")
class RestartLosesTheIdleLimit(Receiver):
    """Ends no idle session once it was started a second time."""

    def _on_idle_timer(self) -> None:
        """Time the session out, unless the node was started before."""
        if number_of_starts(self.host) == 1:
            super()._on_idle_timer()


@defect("restart-prefers-the-own-site", breaks="SR-PRF-01", slot="choice")
class RestartPrefersTheOwnSite(ShadowServerChoice):
    """Tries servers of its own site first once it was started a second time: it does not know yet that the remote ones run."""

    def servers_to_try(self) -> list[Peer]:
        """Return the correct servers, those of the own site first after a restart."""
        correct = super().servers_to_try()
        if number_of_starts(self.host) > 1:
            correct.sort(key=lambda peer: peer.site != self.host.config.site)
        return correct


@defect("notices-one-new-database", breaks="SR-MNT-11", slot="manager")
class NoticesOneNewDatabase(ShadowRedundancyManager):
    """Notices the first time that a primary has a new queue database, and no later one."""

    def start(self) -> None:
        """Begin with no new database noticed; `noticed` has the primaries that had one."""
        self.noticed: set[str] = set()
        super().start()

    def promote_if_new_database(self, primary: str, database: str) -> None:
        """Promote the shadows that came from another database of the primary, unless that was done before."""
        if database and self.host.shadows.rows_of_other_databases(primary, database) and primary not in self.noticed:
            self.noticed.add(primary)
            super().promote_if_new_database(primary, database)


@defect("adds-up-absences", breaks="SR-MNT-10", slot="manager")
class AddsUpAbsences(ShadowRedundancyManager):
    """Adds up the times for which a primary could not be reached, though it was there between."""

    def start(self) -> None:
        """Begin with no absence; `absent_for` has the seconds by primary."""
        self.absent_for: dict[str, float] = {}
        super().start()

    def record_contact(self, primary: str) -> None:
        """Record contact, and add the time since the last one where that was longer than a heartbeat may take."""
        last, now = self.host.shadows.last_contact(primary), self.host.now()
        if last is not None and now - last > 1.5 * self.host.transport.ShadowHeartbeatFrequency:
            self.absent_for[primary] = self.absent_for.get(primary, 0.0) + now - last
        super().record_contact(primary)

    def promotion_at(self, primary: str) -> float:
        """Return when the shadows are promoted: earlier by the earlier absences."""
        return super().promotion_at(primary) - self.absent_for.get(primary, 0.0)


@defect("refuses-wrong-values-once", breaks="SR-CFG-03", slot="configuration")
class RefusesWrongValuesOnce(NodeConfiguration):
    """Refuses the first wrong configuration, and leaves out what is wrong in later ones."""

    refused: ClassVar[set[str]] = set()

    @model_validator(mode="before")
    @classmethod
    def _leave_out_what_is_wrong(cls, document: Any) -> Any:
        """Return the JSON document, without counts out of range if one was refused before for this node."""
        transport, name = document["transport"], f"{document['name']} {document['data_dir']}"
        counts = ("MaxRetriesForRemoteSiteShadow", "MaxRetriesForLocalSiteShadow", "ShadowHeartbeatRetryCount")
        wrong = {key for key in counts if isinstance(transport.get(key), int) and not 0 <= transport[key] <= 255}
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
        """Cancel the clean-up, and schedule no other."""
        self.ended = True
        self._alarm.cancel()

    def _set_alarm(self) -> None:
        """Schedule a clean-up, unless a reload has come."""
        if not self.ended:
            super()._set_alarm()


@defect("move-forgets-what-was-delivered", breaks="SR-DUP-01", slot="duplicates")
class MoveForgetsWhatWasDelivered(DuplicateDetection):
    """Empties the delivered-to table when any mailbox database has moved, also for mailboxes that stay."""

    def reconfigured(self, before: NodeConfiguration) -> None:
        """Apply the change, and delete all entries if a mailbox has another server than before."""
        servers = {box.address: box.server for box in before.mailboxes}
        if any(servers.get(box.address) != box.server for box in self.host.config.mailboxes):
            self.host.db.write("DELETE FROM delivered_to")
        super().reconfigured(before)


@defect("second-restart-drops-notifications", breaks="SR-MNT-05", slot="discard_status")
class SecondRestartDropsNotifications(DiscardStatus):
    """Keeps discard notifications over one restart, and deletes those that are still there at the next one."""

    def start(self) -> None:
        """Delete, from the third start on, the notifications that were queued before."""
        if number_of_starts(self.host) > 2:
            self.host.db.write("DELETE FROM discard")
        super().start()


@defect("silence-ends-shadowing", breaks="SR-CRE-01", slot="creation")
class SilenceEndsShadowing(ShadowCreation):
    """Makes no shadow any more once a shadow server was silent for too long."""

    ended = False

    async def make_shadow(self, message: Message, content: bytes, deadline: float | None) -> bool:
        """Have a shadow stored, unless an earlier one could not be within ten seconds; return whether one was."""
        if self.ended:
            return False
        loop = asyncio.get_running_loop()
        began = loop.time()
        made = await super().make_shadow(message, content, deadline)
        self.ended = loop.time() - began > 10
        return made


class AvoidsUnreachable(RemoteQueue):
    """A queue that never tries a server again which could once not be reached."""

    unreachable: ClassVar[set[tuple[str, str]]] = set()

    async def deliver(self, attempt: Any) -> None:
        """Try the servers that could always be reached first."""
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
        """Transmit in one session, and note a server with which none could be opened."""
        unfinished, opened = await super()._deliver_in_session(server, address, first)
        if not opened:
            self.unreachable.add((self.host.name, server))
        return unfinished, opened


@defect("avoids-a-server-for-ever", breaks="SR-BIF-02", slot="delivery")
class AvoidsAServerForEver(Delivery):
    """Sends nothing more to a server that could once not be reached, where the route has another one."""

    def start(self) -> None:
        """Begin with every server reachable."""
        AvoidsUnreachable.unreachable = set()
        super().start()

    def create_queue(self, hop: NextHop) -> HopQueue:
        """Return a queue that avoids servers for routes between sites, the correct one for any other next hop."""
        if hop.kind == "transport":
            return AvoidsUnreachable(self.host, hop, self.record_outcome)
        return create_hop_queue(self.host, hop, self.record_outcome)


@defect("hub-restart-asks-no-more", breaks="SR-E10-06", slot="ex2010.manager")
class HubRestartAsksNoMore(HubManager):
    """After a restart asks no next hop for discard status before mail goes there."""

    def start(self) -> None:
        """Watch no server at the start of the node; correct is each for which shadows are held."""
