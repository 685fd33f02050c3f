"""Readings of what a 2010 server does."""

from conformance.reference.host import Host
from conformance.reference.hub2010.manager import HubManager
from conformance.reference.hub2010.shadow_queues import HubShadowQueues
from conformance.reference.message import Message
from conformance.reference.readings.reading import reading
from conformance.reference.receive.session import Receiver
from conformance.reference.send.dialogue import Dialogue

ANSWERED = 1.0
"""Seconds within which the loss of a session belongs to the question that was answered in it."""


@reading("hub-tracks-in-heartbeats", allowed_by="ruling 29", parts=("ex2010.manager",))
class TracksInHeartbeats(HubManager):
    """Says XSHADOW before XQDISCARD in a heartbeat too."""

    async def query_discards(self, primary: str, dialogue: Dialogue) -> str:
        """Name ourselves first, where no mail was handed over in the session. Raises SessionLost."""
        watch = self.watched.get(primary)
        if watch is not None and watch.heartbeat_running and "XSHADOW" in dialogue.keywords:
            await dialogue.command(f"XSHADOW {self.host.name} {self.host.identity.database}")
        return await super().query_discards(primary, dialogue)


@reading("hub-waits-for-the-idle-limit-in-heartbeats", allowed_by="ruling 29", parts=("ex2010.manager",))
class WaitsForTheIdleLimit(HubManager):
    """Waits for an answer in a heartbeat as long as an outbound session may be idle."""

    @property
    def reply_timeout(self) -> float:
        """How long to wait for each answer in a heartbeat, seconds."""
        return self.host.transport.SendConnectionInactivityTimeout


@reading("hub-asks-at-once-what-is-overdue", allowed_by="ruling 28", parts=("ex2010.manager",))
class AsksAtOnceWhatIsOverdue(HubManager):
    """Asks at its start where a question is overdue, and counts that; an interval lies between two questions."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._began_to_fail: dict[str, float] = {}

    def next_session_at(self, primary: str) -> float:
        """Count from the last contact, however long ago; after a question in vain from that."""
        interval = self.host.transport.ShadowHeartbeatTimeoutInterval
        if missed := self.missed_intervals.get(primary, 0):
            return self._began_to_fail[primary] + missed * interval
        return (self.host.shadows.last_contact(primary) or self.watched[primary].started_at) + interval

    def heartbeat_failed(self, primary: str) -> None:
        """Note when the first question was in vain; one that was answered before its session was lost was not."""
        now, contact = self.host.now(), self.host.shadows.last_contact(primary)
        if contact is not None and now - contact < ANSWERED:
            return
        if not self.missed_intervals.get(primary):
            self._began_to_fail[primary] = now
        super().heartbeat_failed(primary)


@reading("hub-counts-sessions-of-its-primary", allowed_by="ruling 30", parts=("ex2010.manager",))
class CountsSessionsOfItsPrimary(HubManager):
    """Takes a session that the primary opened for contact: the count of failed intervals begins again."""

    def record_query_from(self, server: str) -> None:
        """Note that the primary is there."""
        self.missed_intervals.pop(server, None)


@reading("hub-expires-shadows-later", allowed_by="ruling 31", parts=("ex2010.manager",))
class ExpiresShadowsLater(HubManager):
    """Counts a shadow's expiry by the longer of MessageExpirationTimeout and ShadowMessageAutoDiscardInterval."""

    def shadow_lifetime(self) -> float:
        """Return how long a shadow without a route is kept, seconds."""
        return max(super().shadow_lifetime(), self.host.transport.ShadowMessageAutoDiscardInterval)


@reading("hub-expires-shadows-by-their-arrival", allowed_by="ruling 31", parts=("ex2010.shadow_queues",))
class ExpiresShadowsByTheirArrival(HubShadowQueues):
    """Counts a shadow's expiry from when its message arrived, not from when it became a shadow."""

    def expiry_start(self, message: Message) -> float:
        """Return when the message came."""
        return message.since


@reading("hub-says-421-amid-a-withheld-reply", allowed_by="ruling 32", parts=("receiver",))
class Says421AmidAWithheldReply(Receiver):
    """A 2010 server that is stopped ends a session at once with 421, also where it withholds a reply."""

    def shut_down(self) -> None:
        """End at once; the message may arrive twice."""
        if self.acceptance_task is not None and self.host.config.generation == "ex2010":
            self._send_and_close(b"421 4.3.2 the server is going down\r\n")
        super().shut_down()
