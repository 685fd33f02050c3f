"""Readings of what a 2010 server does about failures: of a message whose reply it withholds, of itself, of its primary."""

from collections.abc import Iterable, Sequence

from conformance.reference.host import Host
from conformance.reference.hub2010.delayed_acknowledgement import DelayedAcknowledgement
from conformance.reference.hub2010.manager import HubManager
from conformance.reference.message import Message, Recipient
from conformance.reference.queue.delivery import Delivery
from conformance.reference.readings.reading import reading
from conformance.reference.replies import Reply
from conformance.reference.reports import Reports
from conformance.reference.routing.next_hop import NextHop
from conformance.reference.shadow.manager import WatchedPrimary


class _ReportsWhatWasAcknowledged(Reports):
    """Leaves the failure of a whole message to its acceptance, where that still withholds the reply."""

    def report_failed(self, message: Message, failures: Sequence[tuple[Recipient, Reply]], hop: NextHop) -> None:
        """Report, unless the sender hears of it in the session."""
        acceptance = self.host.acceptance
        whole = len(failures) == len(message.envelope.recipients)
        if isinstance(acceptance, RefusesWhatFailsMeanwhile) and whole and message.id in acceptance.withheld:
            acceptance.withheld[message.id] = failures[0][1]
        else:
            super().report_failed(message, failures, hop)


@reading(
    "hub-refuses-what-fails-amid-a-withheld-reply",
    allowed_by="ruling 32",
    parts=("ex2010.acceptance",),
    also={"reports": _ReportsWhatWasAcknowledged},
)
class RefusesWhatFailsMeanwhile(DelayedAcknowledgement):
    """Answers with 5yz, and makes no report, where the next hop refuses a message for good while its reply is withheld."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.withheld: dict[int, Reply | None] = {}

    async def acknowledge_after_delivery(self, message: Message, deadline: float) -> Reply:
        """Return the acknowledgement, or the next hop's refusal."""
        self.withheld[message.id] = None
        try:
            reply = await super().acknowledge_after_delivery(message, deadline)
        finally:
            refused = self.withheld.pop(message.id)
        return refused or reply


@reading("hub-keeps-its-count-over-a-restart", allowed_by="ruling 28", parts=("ex2010.manager",))
class KeepsItsCountOverARestart(HubManager):
    """Goes on with its count of failed intervals when it was restarted; the next question comes an interval after the last."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._asked: dict[str, float] = {}

    def start(self) -> None:
        """Take up the counts that were written down."""
        self.host.db.write("CREATE TABLE IF NOT EXISTS missed (server TEXT PRIMARY KEY, number INTEGER, asked REAL)")
        for server, number, asked in self.host.db.read("SELECT server, number, asked FROM missed"):
            self.missed_intervals[server], self._asked[server] = number, asked
        super().start()

    async def _run_heartbeat(self, primary: str, watch: WatchedPrimary) -> None:
        self._asked[primary] = self.host.now()
        await super()._run_heartbeat(primary, watch)

    def next_session_at(self, primary: str) -> float:
        """Return when to ask again: an interval after the last question in vain."""
        if self.missed_intervals.get(primary) and primary in self._asked:
            return self._asked[primary] + self.host.transport.ShadowHeartbeatTimeoutInterval
        return super().next_session_at(primary)

    def heartbeat_failed(self, primary: str) -> None:
        """Count, and write it down; a question that was answered before its session was lost was not in vain."""
        contact = self.host.shadows.last_contact(primary)
        if contact is not None and contact >= self._asked[primary]:
            return
        super().heartbeat_failed(primary)
        if (number := self.missed_intervals.get(primary)) is not None:
            row = (primary, number, self._asked[primary])
            self.host.db.write("INSERT OR REPLACE INTO missed (server, number, asked) VALUES (?, ?, ?)", row)

    def record_contact(self, primary: str) -> None:
        """Begin again."""
        super().record_contact(primary)
        self.host.db.write("DELETE FROM missed WHERE server = ?", (primary,))


@reading("hub-asks-its-senders-after-a-restart", allowed_by="ruling 36", parts=("ex2010.manager",))
class AsksItsSendersAfterARestart(HubManager):
    """Asks, as it starts, each server that keeps a shadow of what is in its queue whether that was taken over meanwhile."""

    def start(self) -> None:
        """Ask in a session with each."""
        super().start()
        discards = self.host.discards
        held = [discards.holders(message.id) for message in self.host.messages.in_place("primary")]
        for server in dict.fromkeys(holder.server for holders in held for holder in holders):
            self.host.tasks.start(self._ask_at_start(server), f"{self.host.name}: question to {server}")

    async def _ask_at_start(self, server: str) -> None:
        await self.query_in_new_session(server)


class _DeliversWhatIsLeft(Delivery):
    """Drops what was taken over as soon as it is in no session, and tries no recipient that is pending no more."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._taken_over: set[int] = set()

    def drop_when_idle(self, row: int) -> None:
        """Drop a message now, or where it is under way when that try has failed."""
        self._taken_over.add(row)
        if all(attempt.message.id != row for attempt in self._attempts):
            self._drop(row)

    def _drop(self, row: int) -> None:
        self.host.messages.drop(row)
        self.stop_processing(row)

    def _defer(self, message: Message, recipients: tuple[Recipient, ...], hop: NextHop) -> None:
        if message.id in self._taken_over:
            self._drop(message.id)
        else:
            super()._defer(message, recipients, hop)

    def _queue_attempts(self, message: Message, recipients: Iterable[Recipient]) -> None:
        pending = set(self.host.messages.pending(message.id))
        if left := [recipient for recipient in recipients if recipient in pending]:
            super()._queue_attempts(message, left)


@reading(
    "hub-drops-what-was-taken-over",
    allowed_by="ruling 19",
    parts=("ex2010.manager",),
    also={"delivery": _DeliversWhatIsLeft},
)
class DropsWhatWasTakenOver(HubManager):
    """Tries a message no more of which a sender that took its shadow over has notified it."""

    def discard_shadow(self, primary: str, database: str, shadow_id: str) -> None:
        """Drop it, unless it is a shadow of our own."""
        super().discard_shadow(primary, database, shadow_id)
        found = self.host.shadows.find("", "", shadow_id)
        if found is None or found[1] != "primary":
            return
        delivery = self.host.delivery
        assert isinstance(delivery, _DeliversWhatIsLeft)
        if primary in {holder.server for holder in self.host.discards.holders(found[0])}:
            self.host.log.info("%s is not tried any more: %s has delivered it", shadow_id, primary)
            delivery.drop_when_idle(found[0])
