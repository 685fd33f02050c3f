"""The Shadow Redundancy Manager, the shadow's side: heartbeat, discard status, and when to promote."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from conformance.reference.config import NodeConfiguration
from conformance.reference.host import Component, Host
from conformance.reference.send.dialogue import Dialogue, SessionLost
from conformance.reference.send.factory import create_dialogue
from conformance.reference.timers import Alarm

PAGE = 200
"""Notifications asked for at a time."""

_LINE = re.compile(r"(database|discard|end) ([A-Za-z0-9-]{1,64})")


@dataclass(slots=True)
class WatchedPrimary:
    """What is known of one primary for which shadows are held; times are POSIX seconds."""

    alarm: Alarm
    started_at: float
    last_query: float
    heartbeat_running: bool = False


@dataclass(frozen=True, slots=True)
class DiscardList:
    """What a primary answers to XQDISCARD."""

    database: str
    discards: tuple[str, ...]
    left: int


class ShadowRedundancyManager(Component):
    """Watches every primary for which a shadow is held, each for itself (SR-MNT-13)."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.watched: dict[str, WatchedPrimary] = {}

    def start(self) -> None:
        """Watch the primaries of the shadows that are in the database; the interval goes on where it was."""
        for primary in self.host.shadows.primaries():
            self.watch(primary, since=self.host.shadows.last_contact(primary))

    def reconfigured(self, before: NodeConfiguration) -> None:
        """Keep to changed intervals, and to a switch that was turned."""
        for primary in self.host.shadows.primaries():
            self.watch(primary)
        for primary in tuple(self.watched):
            self._set_alarm(primary)

    def watch(self, primary: str, since: float | None = None) -> None:
        """Begin to watch a primary, unless it is watched; `since` is when it was last asked."""
        if primary in self.watched:
            return
        if self.host.shadows.last_contact(primary) is None:
            self.host.shadows.set_contact(primary, self.host.now())
        alarm = self.host.alarms.new(lambda: self._on_alarm(primary))
        self.watched[primary] = WatchedPrimary(alarm, self.host.now(), self.host.now() if since is None else since)
        self._set_alarm(primary)

    def record_contact(self, primary: str) -> None:
        """Note a successful session with a primary (SR-MNT-10)."""
        self.host.choice.record_answer(primary)
        watch = self.watched.get(primary)
        in_heartbeat = watch is not None and watch.heartbeat_running
        self.host.shadows.set_contact(primary, self.host.now(), alone=in_heartbeat)

    def record_query_from(self, server: str) -> None:
        """Note that a server came to ask us: it is there, and we are in contact, if we hold shadows for it."""
        if server in self.watched:
            self.record_contact(server)
        else:
            self.host.choice.record_answer(server)

    def record_session(self, primary: str, database: str) -> None:
        """Note a successful session with a primary, and which queue database it named there."""
        self.record_contact(primary)
        self.compare_database(primary, database)

    def compare_database(self, primary: str, database: str) -> None:
        """Compare the primary's queue database with the one its shadows came from; a new one means that they are ours
        now (SR-MNT-11)."""
        if database and (orphans := self.host.shadows.rows_of_other_databases(primary, database)):
            self.host.log.warning("%s has a new queue database %s: taking over %d", primary, database, len(orphans))
            self.host.promotion.take_over(orphans)

    async def query_in_session(self, primary: str, dialogue: Dialogue) -> None:
        """Ask for discard status in a session that is open, if shadows are held for that primary (SR-MNT-02).

        Raises SessionLost.
        """
        if self.is_enabled and self.host.shadows.has_any_for(primary):
            await self.query_discards(primary, dialogue)

    async def query_discards(self, primary: str, dialogue: Dialogue) -> str:
        """Ask for discard status until all is told, and return the id of the primary's queue database.

        Raises SessionLost.
        """
        while True:
            if primary in self.watched:
                self.watched[primary].last_query = self.host.now()
            answer = await dialogue.command(f"XQDISCARD {self.host.name} {PAGE}")
            if not answer.positive:
                raise SessionLost(f"it answered XQDISCARD with {answer}")
            told = _read(answer.text)
            for shadow_id in told.discards:
                self.discard_shadow(primary, told.database, shadow_id)
            self.record_session(primary, told.database)
            if told.discards:
                await self.host.db.commit()  # our next command says that we have read this
            if not told.left or not told.discards:
                return told.database

    def discard_shadow(self, primary: str, database: str, shadow_id: str) -> None:
        """Let go of a shadow: it moves to the shadow Safety Net (SR-MNT-06); an unknown id is ignored (SR-WIR-06)."""
        found = self.host.shadows.find(primary, database, shadow_id)
        if found is not None and found[1] == "shadow":
            self.host.safety_net.hold(found[0], "shadow-safety-net")
            self.host.log.info("%s discarded: %s has processed it", shadow_id, primary)

    async def query_in_new_session(self, primary: str) -> str | None:
        """Open a session with a primary only to ask for discard status.

        Returns the id of its queue database, or None when it could not be asked.
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
            return None
        finally:
            dialogue.abort()
        return database

    @property
    def is_enabled(self) -> bool:
        """Whether this server takes part in shadow redundancy (SR-ENA-02)."""
        return self.host.transport.ShadowRedundancyEnabled

    @property
    def reply_timeout(self) -> float:
        """How long to wait for each answer in a heartbeat, seconds."""
        return min(self.host.transport.SendConnectionInactivityTimeout, self.host.transport.ShadowHeartbeatFrequency)

    def next_session_at(self, primary: str) -> float:
        """Return when to open the next session with a primary."""
        return min(self.next_heartbeat_at(primary), self.promotion_at(primary))

    def next_heartbeat_at(self, primary: str) -> float:
        """Return when the primary is due to be asked (SR-MNT-03)."""
        return self.watched[primary].last_query + self.host.transport.ShadowHeartbeatFrequency

    def promotion_at(self, primary: str) -> float:
        """Return when its shadows are taken over, unless there is a successful session before (SR-MNT-09)."""
        contact = self.host.shadows.last_contact(primary)
        return (self.host.now() if contact is None else contact) + self.host.transport.ShadowResubmitTimeSpan

    def _set_alarm(self, primary: str) -> None:
        watch = self.watched[primary]
        if watch.heartbeat_running:
            return
        if not self.is_enabled:
            watch.alarm.cancel()
        elif self.host.shadows.has_any_for(primary):
            watch.alarm.set(self.next_session_at(primary))
        else:
            watch.alarm.cancel()
            del self.watched[primary]

    def _on_alarm(self, primary: str) -> None:
        watch = self.watched[primary]
        if not self.host.shadows.has_any_for(primary) or not self.host.is_due(self.next_session_at(primary)):
            self._set_alarm(primary)  # asked in another session meanwhile, or nothing is left to ask for
            return
        watch.heartbeat_running = True
        self.host.tasks.start(self._run_heartbeat(primary, watch), f"{self.host.name}: heartbeat to {primary}")

    async def _run_heartbeat(self, primary: str, watch: WatchedPrimary) -> None:
        watch.last_query = self.host.now()
        if await self.query_in_new_session(primary) is None and self.is_enabled:
            self.heartbeat_failed(primary)
        watch.heartbeat_running = False
        self._set_alarm(primary)

    def heartbeat_failed(self, primary: str) -> None:
        """A heartbeat failed: take the primary's shadows over when that is due."""
        if self.host.is_due(self.promotion_at(primary)):
            rows = self.host.shadows.rows_held_for(primary)
            self.host.log.warning("%s not reached for ShadowResubmitTimeSpan: taking over %d", primary, len(rows))
            self.host.promotion.take_over(rows)


@lru_cache(maxsize=64)  # heartbeat after heartbeat is told the same
def _read(text: str) -> DiscardList:
    """Read the text of a reply to XQDISCARD (wire-profile.md); what it does not say is empty."""
    facts = list(_facts(text))
    return DiscardList(
        next((value for word, value in facts if word == "database"), ""),
        tuple(value for word, value in facts if word == "discard"),
        next((int(value) for word, value in facts if word == "end" and value.isdigit()), 0),
    )


def _facts(text: str) -> Iterator[tuple[str, str]]:
    for line in text.split("\n"):
        if match := _LINE.fullmatch(line):
            yield match[1], match[2]
