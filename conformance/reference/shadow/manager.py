"""The Shadow Redundancy Manager of a shadow server: heartbeat, discard status, and the decision to promote.

A primary is another server that has sent copies (shadows) of its messages here. To promote a shadow is to make it a message of
this server, which then delivers it (`host.promotion.take_over`). Each primary for which shadows are held has an alarm at
`next_session_at`. When it is due, a heartbeat session queries discard status (XQDISCARD). Such a query is also made in other
sessions that are open anyway, which puts the next heartbeat off. The reply names the primary's queue database and the shadows
that may be discarded, in *discard notifications*. Shadows are promoted when the database is a new one (SR-MNT-11), or when no
session has succeeded for ShadowResubmitTimeSpan (SR-MNT-09). *Contact* is a successful session with a primary, or a query from it
(ruling 17); `watched` has the state of each primary that has an alarm. A *dialogue* is this server's end of a session;
SessionLost means that it has ended or failed.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from conformance.reference.config import NodeConfiguration
from conformance.reference.host import Component, Host
from conformance.reference.send.dialogue import Dialogue, Refused, SessionLost
from conformance.reference.send.factory import create_dialogue
from conformance.reference.timers import Alarm

PAGE = 200
"""Discard notifications requested per XQDISCARD."""

_LINE = re.compile(r"(database|discard|end) ([A-Za-z0-9-]{1,64})")


@dataclass(slots=True)
class WatchedPrimary:
    """The state of watching one primary: its alarm, when watching started and discard status was last queried (POSIX seconds).

    `heartbeat_running`: a session that was opened for a heartbeat is open. The alarm is not set meanwhile.
    """

    alarm: Alarm
    started_at: float
    last_query: float
    heartbeat_running: bool = False


@dataclass(frozen=True, slots=True)
class DiscardReply:
    """A primary's reply to XQDISCARD: its queue database, the ids of shadows to discard, and how many more notifications it has."""

    database: str
    discards: tuple[str, ...]
    remaining: int


class ShadowRedundancyManager(Component):
    """Watches every primary for which a shadow is held, independently of the others (SR-MNT-13).

    `watched` has the state of each by its name. After each contact with a primary (a successful session, or a query from it) the
    time until promotion (ShadowResubmitTimeSpan) is counted anew.
    """

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.watched: dict[str, WatchedPrimary] = {}

    def start(self) -> None:
        """Watch the primaries of the shadows in the database; their heartbeat intervals continue from the last contact."""
        for primary in self.host.shadows.primaries():
            self.watch(primary, since=self.host.shadows.last_contact(primary))

    def reconfigured(self, before: NodeConfiguration) -> None:
        """Apply changed intervals and a changed ShadowRedundancyEnabled: set the alarm of each watched primary anew, or unset it."""
        for primary in tuple(self.watched):
            self._set_alarm(primary)

    def watch(self, primary: str, since: float | None = None) -> None:
        """Start watching a primary, unless it is watched; `since` is when it was last queried (POSIX seconds), by default now.

        Sets the alarm for its next heartbeat. If no contact with it is on record, now counts as one. While shadow redundancy is
        enabled, a primary without shadows here is not watched (`_set_alarm`).
        """
        if primary in self.watched:
            return
        if self.host.shadows.last_contact(primary) is None:
            self.host.shadows.set_contact(primary, self.host.now())
        alarm = self.host.alarms.new(lambda: self._on_alarm(primary))
        now = self.host.now()
        self.watched[primary] = WatchedPrimary(alarm, started_at=now, last_query=now if since is None else since)
        self._set_alarm(primary)

    def record_contact(self, primary: str) -> None:
        """Record a successful session with a primary now: the time until promotion is counted anew from it (SR-MNT-10).

        The choice of shadow servers forgets that an attempt at that server had failed. The alarm stays as it is set.
        """
        self.host.choice.record_answer(primary)
        watch = self.watched.get(primary)
        in_heartbeat = watch is not None and watch.heartbeat_running
        # in a heartbeat nothing else is about to be written: the contact is committed on its own
        self.host.shadows.set_contact(primary, self.host.now(), alone=in_heartbeat)

    def record_query_from(self, server: str) -> None:
        """Record that a server has sent XQDISCARD here, so that it runs.

        If it is watched, that counts as contact with the primary (ruling 17); in any case the choice of shadow servers forgets
        that an attempt at it had failed.
        """
        if server in self.watched:
            self.record_contact(server)
        else:
            self.host.choice.record_answer(server)

    def record_contact_and_database(self, primary: str, database: str) -> None:
        """Record a successful session with a primary in which it named this queue database ("": none).

        Promotes the shadows that came from another database of it: the primary has lost them (SR-MNT-11).
        """
        self.record_contact(primary)
        self.promote_if_new_database(primary, database)

    def promote_if_new_database(self, primary: str, database: str) -> None:
        """Promote the shadows that came from another queue database of the primary than `database`: it has lost them (SR-MNT-11).

        Does nothing if there are none, or if the primary named no database ("").
        """
        if database and (orphans := self.host.shadows.rows_of_other_databases(primary, database)):
            self.host.log.warning("%s has a new queue database %s: taking over %d", primary, database, len(orphans))
            self.host.promotion.take_over(orphans)

    async def query_in_session(self, primary: str, dialogue: Dialogue) -> None:
        """Query discard status in a session that is open for mail (SR-MNT-02), as `query_discards` does. Raises SessionLost.

        Does nothing if shadow redundancy is disabled here or no shadow is held for that primary.
        """
        if self.is_enabled and self.host.shadows.has_any_for(primary):
            await self.query_discards(primary, dialogue)

    async def query_discards(self, primary: str, dialogue: Dialogue) -> str:
        """Send XQDISCARD until no notification remains at the primary, and discard the shadows that the replies name.

        Each positive reply counts as contact with the primary; if one names a new queue database, the shadows that came from
        another are promoted. Return the id of the database in the last reply, "" if it gives none. A reply without discards is
        the last, even if it says that some remain. Waits until the discards are on disk, before the next command confirms the
        reply. Raises SessionLost, and Refused for a reply that is not 2yz.
        """
        while True:
            if primary in self.watched:
                self.watched[primary].last_query = self.host.now()
            answer = await dialogue.command(f"XQDISCARD {self.host.name} {PAGE}")
            if not answer.positive:
                raise Refused(f"the reply to XQDISCARD was {answer}")
            reply = _parse_discard_reply(answer.text)
            for shadow_id in reply.discards:
                self.discard_shadow(primary, reply.database, shadow_id)
            self.record_contact_and_database(primary, reply.database)
            if reply.discards:
                await self.host.db.commit()  # the next command confirms that the reply was read
            if not reply.remaining or not reply.discards:
                return reply.database

    def discard_shadow(self, primary: str, database: str, shadow_id: str) -> None:
        """Move a shadow, whose message the primary has processed, to the shadow Safety Net (SR-MNT-06); ignore an unknown id (SR-WIR-06).

        `database` is the id of the primary's queue database. A message that is no shadow any more is left where it is. Does not
        wait for the disk.
        """
        shadow = self.host.shadows.find_by_shadow_id(primary, database, shadow_id)
        if shadow is not None and shadow.place == "shadow":
            self.host.safety_net.hold(shadow.row_id, "shadow-safety-net")
            self.host.log.info("%s discarded: %s has processed it", shadow_id, primary)

    async def query_in_new_session(self, primary: str) -> str | None:
        """Query discard status in a session that is opened for this; return the id of the primary's queue database ("": not given).

        Return None if the primary could not be queried: it is unknown or unreachable, refuses the query, or the session is lost
        before the end of QUIT, or shadow redundancy is disabled here. Does not promote after a failure: the caller may.
        """
        peer = self.host.config.peers_by_name.get(primary.casefold())
        if peer is None or peer.dial.transport is None or not self.is_enabled:
            return None
        dialogue = create_dialogue(peer.dial.transport, self.host.name, self.reply_timeout, secret=peer.secret)
        try:
            await dialogue.open()
            database = await self.query_discards(primary, dialogue)
            await dialogue.quit()
        except SessionLost as lost:
            self.host.log.info("%s does not answer the heartbeat: %s", primary, lost)
            await dialogue.leave(lost)
            return None
        finally:
            dialogue.abort()
        return database

    @property
    def is_enabled(self) -> bool:
        """Whether shadow redundancy is enabled on this server (SR-ENA-02)."""
        return self.host.transport.ShadowRedundancyEnabled

    @property
    def reply_timeout(self) -> float:
        """How long to wait for each reply in a heartbeat session, seconds."""
        return min(self.host.transport.SendConnectionInactivityTimeout, self.host.transport.ShadowHeartbeatFrequency)

    def next_session_at(self, primary: str) -> float:
        """Return when to open the next heartbeat session with a primary, POSIX seconds: at the latest when promotion is due.

        Promotion is decided when that session fails.
        """
        return min(self.next_heartbeat_at(primary), self.promotion_at(primary))

    def next_heartbeat_at(self, primary: str) -> float:
        """Return when the next heartbeat to a primary is due, POSIX seconds (SR-MNT-03)."""
        return self.watched[primary].last_query + self.host.transport.ShadowHeartbeatFrequency

    def promotion_at(self, primary: str) -> float:
        """Return when the shadows of a primary are promoted unless a session with it succeeds before, POSIX seconds (SR-MNT-09).

        That is ShadowResubmitTimeSpan after the last successful one, or after now if none is recorded.
        """
        contact = self.host.shadows.last_contact(primary)
        return (self.host.now() if contact is None else contact) + self.host.transport.ShadowResubmitTimeSpan

    def _set_alarm(self, primary: str) -> None:
        """Set the alarm of a watched primary to its next session, or unset it while shadow redundancy is disabled.

        While it is enabled, stops watching a primary for which no shadow is held. Does nothing while a heartbeat session with it
        is open.
        """
        watch = self.watched[primary]
        if watch.heartbeat_running:  # the alarm is set when it ends
            return
        if not self.is_enabled:
            watch.alarm.cancel()
        elif self.host.shadows.has_any_for(primary):
            watch.alarm.set(self.next_session_at(primary))
        else:
            watch.alarm.cancel()
            del self.watched[primary]

    def _on_alarm(self, primary: str) -> None:
        """Start a heartbeat in a task if one is due and shadows are held, else set the alarm again or stop watching.

        The alarm calls this.
        """
        watch = self.watched[primary]
        if not self.host.shadows.has_any_for(primary) or not self.host.is_due(self.next_session_at(primary)):
            self._set_alarm(primary)  # queried in another session meanwhile, or no shadow is left
            return
        watch.heartbeat_running = True
        self.host.tasks.start(self._run_heartbeat(primary, watch), f"{self.host.name}: heartbeat to {primary}")

    async def _run_heartbeat(self, primary: str, watch: WatchedPrimary) -> None:
        """Query a primary in a session of its own; if that fails, promote its shadows if that is due; then set the alarm again.

        `watch` is `watched[primary]`. If shadow redundancy was disabled meanwhile, a failure has no effect.
        """
        watch.last_query = self.host.now()
        if await self.query_in_new_session(primary) is None and self.is_enabled:
            self.heartbeat_failed(primary)
        watch.heartbeat_running = False
        self._set_alarm(primary)

    def heartbeat_failed(self, primary: str) -> None:
        """Promote the primary's shadows after a failed heartbeat, if there was no contact for ShadowResubmitTimeSpan (SR-MNT-09).

        Else do nothing: the next heartbeat decides again.
        """
        if self.host.is_due(self.promotion_at(primary)):
            rows = self.host.shadows.rows_held_for(primary)
            self.host.log.warning("%s not reached for ShadowResubmitTimeSpan: taking over %d", primary, len(rows))
            self.host.promotion.take_over(rows)


@lru_cache(maxsize=64)  # most heartbeats get the same reply
def _parse_discard_reply(text: str) -> DiscardReply:
    """Parse the text of a reply to XQDISCARD (wire-profile.md); a missing field is empty or 0.

    Its lines are `database X`, `discard X` for each shadow, and `end X`: how many more notifications the primary has. Other lines
    are skipped. Cached.
    """
    fields = list(_fields(text))
    return DiscardReply(
        database=next((value for keyword, value in fields if keyword == "database"), ""),
        discards=tuple(value for keyword, value in fields if keyword == "discard"),
        remaining=next((int(value) for keyword, value in fields if keyword == "end" and value.isdigit()), 0),
    )


def _fields(text: str) -> Iterator[tuple[str, str]]:
    """Yield the keyword and value of each line `database X`, `discard X` or `end X`; skip other lines."""
    for line in text.split("\n"):
        if match := _LINE.fullmatch(line):
            yield match[1], match[2]
