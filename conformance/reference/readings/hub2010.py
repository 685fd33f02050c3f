"""Other conforming readings of what an Exchange 2010 server does: heartbeats, expiry, withheld replies, failures.

A reading is a way to understand the documents that differs from the reference's own and conforms as well. A node that runs as
`reference+NAME` follows it: the methods of the class come before those of the component in its `slots`. No check of the harness may fail
it. `self.host` has the other components of the node (host.py).

In Exchange 2010 a sender keeps the shadow of what it sent to a next hop, the *primary*, and queries it at intervals (heartbeat,
XQDISCARD). After ShadowHeartbeatRetryCount failed intervals in a row it takes the shadows over. The reply to a message is withheld until
it is delivered, if its sender keeps no shadow. *Contact* is a successful session of the sender with the primary. `missed_intervals`
has the failed intervals in a row, by primary; there is no entry for a primary without one.
"""

from collections.abc import Iterable, Sequence

from conformance.reference.host import Host
from conformance.reference.hub2010.delayed_acknowledgement import DelayedAcknowledgement
from conformance.reference.hub2010.manager import HubManager
from conformance.reference.hub2010.shadow_queues import HubShadowQueues
from conformance.reference.message import Message, Recipient
from conformance.reference.queue.delivery import Delivery
from conformance.reference.queue.hop_queue import DeliveryAttempt
from conformance.reference.readings.reading import reading
from conformance.reference.receive.session import Receiver
from conformance.reference.replies import Reply
from conformance.reference.reports import Reports
from conformance.reference.routing.next_hop import NextHop
from conformance.reference.send.dialogue import Dialogue
from conformance.reference.shadow.manager import WatchedPrimary

SAME_QUERY_S = 1.0
"""How long after an answer the loss of a session still belongs to that answered query."""


@reading("hub-tracks-in-heartbeats", allowed_by="ruling 29", slots=("ex2010.manager",))
class TracksInHeartbeats(HubManager):
    """Says XSHADOW before XQDISCARD in a heartbeat too."""

    async def query_discards(self, primary: str, dialogue: Dialogue) -> str:
        """Send XSHADOW before XQDISCARD in a heartbeat to a primary that offers it; else do as the reference does.

        The reply to XSHADOW has no effect. Return the id of the primary's queue database, "" if not given. Raises SessionLost.
        """
        watch = self.watched.get(primary)
        if watch is not None and watch.heartbeat_running and "XSHADOW" in dialogue.keywords:
            await dialogue.command(f"XSHADOW {self.host.name} {self.host.identity.database}")
        return await super().query_discards(primary, dialogue)


@reading("hub-waits-for-the-idle-limit-in-heartbeats", allowed_by="ruling 29", slots=("ex2010.manager",))
class WaitsForTheIdleLimit(HubManager):
    """Waits for an answer in a heartbeat as long as an outbound session may be idle."""

    @property
    def reply_timeout(self) -> float:
        """How long to wait for each reply in a heartbeat: SendConnectionInactivityTimeout, seconds."""
        return self.host.transport.SendConnectionInactivityTimeout


@reading("hub-asks-at-once-what-is-overdue", allowed_by="ruling 28", slots=("ex2010.manager",))
class AsksAtOnceWhatIsOverdue(HubManager):
    """Asks at its start where a question is overdue, and counts that; an interval lies between two questions."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._first_failure_at: dict[str, float] = {}  # POSIX seconds, by primary

    def next_session_at(self, primary: str) -> float:
        """Return when to query a primary next, POSIX seconds: one ShadowHeartbeatTimeoutInterval after the last contact.

        The contact may lie before a restart; without any on record, watching began counts. After n failed queries in a row it is
        n intervals after the first of them failed, and an interval after the last was due if the interval was shortened meanwhile.
        """
        interval = self.host.transport.ShadowHeartbeatTimeoutInterval
        if missed := self.missed_intervals.get(primary, 0):
            return max(self._first_failure_at[primary] + missed * interval, self._missed_at[primary] + interval)
        return (self.host.shadows.last_contact(primary) or self.watched[primary].started_at) + interval

    def heartbeat_failed(self, primary: str) -> None:
        """Count a failed query as the reference does, and remember when the first one in a row failed.

        A query that was answered less than SAME_QUERY_S seconds before its session was lost does not count.
        """
        now, contact = self.host.now(), self.host.shadows.last_contact(primary)
        if contact is not None and now - contact < SAME_QUERY_S:
            return
        if not self.missed_intervals.get(primary):
            self._first_failure_at[primary] = now
        super().heartbeat_failed(primary)


@reading("hub-counts-sessions-of-its-primary", allowed_by="ruling 30", slots=("ex2010.manager",))
class CountsSessionsOfItsPrimary(HubManager):
    """Takes a session that the primary opened for contact: the count of failed intervals begins again."""

    def record_query_from(self, server: str) -> None:
        """Reset the count of failed intervals of `server`, which has sent XQDISCARD here; the time of the last contact stays as it is."""
        self.missed_intervals.pop(server, None)


@reading("hub-expires-shadows-later", allowed_by="ruling 31", slots=("ex2010.manager",))
class ExpiresShadowsLater(HubManager):
    """Counts a shadow's expiry by the longer of MessageExpirationTimeout and ShadowMessageAutoDiscardInterval."""

    def shadow_lifetime(self) -> float:
        """Return how long a shadow without an alternative route is kept, seconds: the longer of the two times."""
        return max(super().shadow_lifetime(), self.host.transport.ShadowMessageAutoDiscardInterval)


@reading("hub-expires-shadows-by-their-arrival", allowed_by="ruling 31", slots=("ex2010.shadow_queues",))
class ExpiresShadowsByTheirArrival(HubShadowQueues):
    """Counts a shadow's expiry from when its message arrived, not from when it became a shadow."""

    def expiry_start(self, message: Message) -> float:
        """Return from when the expiry of a new shadow of a message is counted: its arrival, POSIX seconds."""
        return message.since


@reading("hub-says-421-amid-a-withheld-reply", allowed_by="ruling 32", slots=("receiver",))
class Says421AmidAWithheldReply(Receiver):
    """A 2010 server that is stopped ends a session at once with 421, also where it withholds a reply."""

    def shut_down(self) -> None:
        """End the session with 421 as the node stops, on a 2010 server at once, also while a reply is withheld.

        The sender may then send again. A later server waits, as the reference does, for the reply to the message in hand.
        """
        if self.acceptance_task is not None and self.host.config.generation == "ex2010":
            self._send_and_close(b"421 4.3.2 the server is going down\r\n")
        super().shut_down()


class _ReportsAcknowledgedMessagesOnly(Reports):
    """Sends no report about a message that failed for all recipients while its reply is withheld: the reply says it."""

    def report_failed(self, message: Message, failures: Sequence[tuple[Recipient, Reply]], hop: NextHop) -> None:
        """Report recipients that failed; or, if all did while the reply to the message is withheld, store their first reply as its refusal.

        `failures` has the final reply of the next hop for each recipient.
        """
        acceptance = self.host.acceptance
        all_failed = len(failures) == len(message.envelope.recipients)
        if isinstance(acceptance, RefusesWhatFailsMeanwhile) and all_failed and message.id in acceptance.withheld:
            acceptance.withheld[message.id] = failures[0][1]
        else:
            super().report_failed(message, failures, hop)


@reading(
    "hub-refuses-what-fails-amid-a-withheld-reply",
    allowed_by="ruling 32",
    slots=("ex2010.acceptance",),
    also={"reports": _ReportsAcknowledgedMessagesOnly},
)
class RefusesWhatFailsMeanwhile(DelayedAcknowledgement):
    """Answers with 5yz, and makes no report, where the next hop refuses a message for good while its reply is withheld."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.withheld: dict[int, Reply | None] = {}
        """Row id of a message whose reply is withheld -> the refusal that the report of its failure stored here, None before that."""

    async def acknowledge_after_delivery(self, message: Message, deadline: float) -> Reply:
        """Start the delivery of a message; when the reply need not be withheld any more, return it.

        That is the acknowledgement, or the next hop's refusal if it refused the message for good meanwhile (`withheld`).
        """
        self.withheld[message.id] = None
        try:
            reply = await super().acknowledge_after_delivery(message, deadline)
        finally:
            refused = self.withheld.pop(message.id)
        return refused or reply


@reading("hub-keeps-its-count-over-a-restart", allowed_by="ruling 28", slots=("ex2010.manager",))
class KeepsItsCountOverARestart(HubManager):
    """Goes on with its count of failed intervals when it was restarted; the next question comes an interval after the last."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._last_query_at: dict[str, float] = {}  # POSIX seconds, by primary

    def start(self) -> None:
        """Read the counts of failed intervals and the times of the last queries from a table in the queue database; then start.

        The table is made if it does not exist. To start is to watch the primaries of all shadows here.
        """
        self.host.db.write("CREATE TABLE IF NOT EXISTS missed (server TEXT PRIMARY KEY, number INTEGER, asked REAL)")
        for server, number, asked in self.host.db.read("SELECT server, number, asked FROM missed"):
            self.missed_intervals[server], self._last_query_at[server] = number, asked
        super().start()

    async def _run_heartbeat(self, primary: str, watch: WatchedPrimary) -> None:
        """Remember when the heartbeat to a primary began, then run it."""
        self._last_query_at[primary] = self.host.now()
        await super()._run_heartbeat(primary, watch)

    def next_session_at(self, primary: str) -> float:
        """Return when to query a primary next, POSIX seconds: an interval after the last query if that failed, else the usual time.

        The usual time is counted from the last contact, or from when watching began if that is later.
        """
        if self.missed_intervals.get(primary) and primary in self._last_query_at:
            return self._last_query_at[primary] + self.host.transport.ShadowHeartbeatTimeoutInterval
        return super().next_session_at(primary)

    def heartbeat_failed(self, primary: str) -> None:
        """Count a failed query and store the count, without waiting for the disk.

        A query that was answered before its session was lost does not count: there was contact after it began.
        """
        contact = self.host.shadows.last_contact(primary)
        if contact is not None and contact >= self._last_query_at[primary]:
            return
        super().heartbeat_failed(primary)
        if (number := self.missed_intervals.get(primary)) is not None:
            row = (primary, number, self._last_query_at[primary])
            self.host.db.write("INSERT OR REPLACE INTO missed (server, number, asked) VALUES (?, ?, ?)", row)

    def record_contact(self, primary: str) -> None:
        """Record a successful session with a primary, and delete the stored count of failed intervals."""
        super().record_contact(primary)
        self.host.db.write("DELETE FROM missed WHERE server = ?", (primary,))


@reading("hub-asks-its-senders-after-a-restart", allowed_by="ruling 36", slots=("ex2010.manager",))
class AsksItsSendersAfterARestart(HubManager):
    """Asks, as it starts, each server that keeps a shadow of what is in its queue whether that was taken over meanwhile."""

    def start(self) -> None:
        """Start, and query each server that holds a shadow of a queued message, in the background."""
        super().start()
        discards = self.host.discards
        # a holder is a server that has the shadow of a message
        held = [discards.holders_of_shadow(message.id) for message in self.host.messages.held_as("primary")]
        for server in dict.fromkeys(holder.server for holders in held for holder in holders):
            self.host.tasks.start(self._ask_at_start(server), f"{self.host.name}: question to {server}")

    async def _ask_at_start(self, server: str) -> None:
        """Query a server in a session of its own, and wait for that; whether it succeeds does not matter.

        A discard notification in the reply may name a message of this server: then that server has taken it over and delivered it.
        """
        await self.query_in_new_session(server)


class _DropsTakenOverMessages(Delivery):
    """Delivery that drops a message once its shadow server has taken it over, and it is in no session any more.

    It tries pending recipients only.
    """

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._taken_over_ids: set[int] = set()  # row ids

    def drop_when_idle(self, row: int) -> None:
        """Delete the message in a row (`Message.id`) now if no attempt for it is queued or running, else when the last one has ended."""
        self._taken_over_ids.add(row)
        if all(attempt.message.id != row for attempt in self._attempts):
            self._drop(row)

    def _drop(self, row: int) -> None:
        """Delete the message in a row, and end its processing, without waiting for the disk."""
        self.host.messages.drop(row)
        self.stop_processing(row)

    async def record_outcome(
        self, attempt: DeliveryAttempt, replies: dict[Recipient, Reply], *, takes_over_reports: bool
    ) -> None:
        """Record the replies to an attempt, by recipient; then delete the message if it was taken over and this was the last attempt."""
        await super().record_outcome(attempt, replies, takes_over_reports=takes_over_reports)
        if attempt.message.id in self._taken_over_ids:
            self.drop_when_idle(attempt.message.id)

    def _defer(self, message: Message, recipients: tuple[Recipient, ...], hop: NextHop) -> None:
        """Schedule a retry for recipients that an attempt has not reached; do nothing if the message was taken over meanwhile.

        `hop` is the next hop of the attempt. Called at the end of an attempt.
        """
        if message.id not in self._taken_over_ids:
            super()._defer(message, recipients, hop)

    def _queue_attempts(self, message: Message, recipients: Iterable[Recipient]) -> None:
        """Queue delivery attempts for those of the recipients that are still pending; queue none if no recipient is."""
        pending = set(self.host.messages.pending_recipients(message.id))
        if left := [recipient for recipient in recipients if recipient in pending]:
            super()._queue_attempts(message, left)


@reading(
    "hub-drops-what-was-taken-over",
    allowed_by="ruling 19",
    slots=("ex2010.manager",),
    also={"delivery": _DropsTakenOverMessages},
)
class DropsWhatWasTakenOver(HubManager):
    """Tries a message no more of which a sender that took its shadow over has notified it."""

    def discard_shadow(self, primary: str, database: str, shadow_id: str) -> None:
        """Discard the shadow that a discard notification names; or drop a message of this server itself that it names.

        The latter only if the notification comes from a server that held the shadow of that message: it has taken the message
        over and delivered it. The message is dropped at once or, while an attempt for it is queued or running, when the last one has
        ended. `primary` is the server that sent the notification, `database` the id of its queue database. An unknown
        `shadow_id` is ignored.
        """
        super().discard_shadow(primary, database, shadow_id)
        # empty primary and database: among the messages of this server itself
        stored = self.host.shadows.find_by_shadow_id(primary="", database="", shadow_id=shadow_id)
        if stored is None or stored.place != "primary":
            return
        delivery = self.host.delivery
        assert isinstance(delivery, _DropsTakenOverMessages)
        if primary in {holder.server for holder in self.host.discards.holders_of_shadow(stored.row_id)}:
            self.host.log.info("%s is not retried: %s has delivered it", shadow_id, primary)
            delivery.drop_when_idle(stored.row_id)
