"""The Shadow Redundancy Manager, the shadow's side: heartbeat, discard status, promotion."""

import asyncio
import re
from collections.abc import Awaitable, Callable

from conformance.reference.config import Peer
from conformance.reference.host import Host
from conformance.reference.message import Message
from conformance.reference.send.dialogue import Dialogue, SessionLost

_PAGE = 200
"""Notifications asked for at a time."""

_LINE = re.compile(r"(database|discard|end) ([A-Za-z0-9-]{1,64})")

Promote = Callable[[Message], Awaitable[None]]
"""Takes a message that was a shadow as this server's own."""


class ShadowRedundancyManager:
    """Watches every primary for which a shadow is held (SR-MNT-02, SR-MNT-03, SR-MNT-09 to SR-MNT-11, SR-MNT-13)."""

    def __init__(self, host: Host, promote: Promote) -> None:
        self._host = host
        self._promote = promote
        self._watched: set[str] = set()

    def start(self) -> None:
        """Watch the primaries of the shadows that are in the database; the interval goes on where it was."""
        for primary in self._host.shadows.primaries():
            self.watch(primary)

    def watch(self, primary: str) -> None:
        """Begin to watch a primary, unless it is watched."""
        if primary not in self._watched:
            self._watched.add(primary)
            if self._host.shadows.contact(primary) is None:
                self._host.shadows.set_contact(primary, self._host.now())
            self._host.tasks.start(self._heartbeats(primary), f"{self._host.config.name}: heartbeat to {primary}")

    def spoke(self, primary: str) -> None:
        """Note a successful session with a primary."""
        self._host.shadows.set_contact(primary, self._host.now())

    def saw_database(self, primary: str, database: str) -> None:
        """Note a successful session with a primary, and which queue database it named there."""
        self.spoke(primary)
        self.noticed(primary, database)

    def noticed(self, primary: str, database: str) -> None:
        """Compare the primary's queue database with the one its shadows came from; a new one means that they are ours
        now."""
        orphans = [row for row, origin in self._host.shadows.held_for(primary) if database and origin != database]
        if orphans:
            self._host.log.warning("%s has a new queue database %s: taking over %d", primary, database, len(orphans))
            self._take_over(orphans)

    async def query_in(self, primary: str, dialogue: Dialogue) -> None:
        """Ask for discard status in a session that is open, if shadows are held for that primary. Raises
        SessionLost."""
        while self._host.shadows.held_for(primary) and await self._ask(primary, dialogue):
            pass

    async def _ask(self, primary: str, dialogue: Dialogue) -> bool:
        """Ask once; return whether there is more to ask for. Raises SessionLost."""
        answer = await dialogue.command(f"XQDISCARD {self._host.config.name} {_PAGE}")
        if not answer.positive:
            raise SessionLost(f"it answered XQDISCARD with {answer}")
        facts = _LINE.findall(answer.text)
        database = next((value for word, value in facts if word == "database"), "")
        for word, shadow_id in facts:
            if word == "discard":
                self._discard(primary, database, shadow_id)
        self.saw_database(primary, database)
        await self._host.db.durable()
        return any(word == "end" and value != "0" for word, value in facts)

    def _discard(self, primary: str, database: str, shadow_id: str) -> None:
        found = self._host.shadows.find(primary, database, shadow_id)
        if found is not None and found[1] == "shadow":
            self._host.messages.move(found[0], "shadow-safety-net", self._host.now())
            self._host.log.info("%s discarded: %s has processed it", shadow_id, primary)

    def _take_over(self, rows: list[int]) -> None:
        messages = [message for row in rows if (message := self._host.messages.get(row)) is not None]
        for message in messages:
            self._own(message)
        for message in messages:
            after = self._host.messages.get(message.id)
            assert after is not None
            self._host.tasks.start(_run(self._promote, after), f"{self._host.config.name}: promote {after.message_id}")

    def _own(self, message: Message) -> None:
        """Make a shadow a message of our own, under a name of its own."""
        self._host.messages.take_over(message.id, message_id=self._host.identity.next(), since=self._host.now())

    async def _heartbeats(self, primary: str) -> None:
        """Query once each ShadowHeartbeatFrequency, until no shadow of this primary is held any more."""
        host = self._host
        while host.shadows.held_for(primary):
            contact = host.shadows.contact(primary) or host.now()
            promote_at = contact + host.transport.ShadowResubmitTimeSpan
            wait = min(self._next_beat, promote_at - host.now())
            await asyncio.sleep(max(0.0, wait))
            if not host.shadows.held_for(primary):
                break
            reached = await self._beat(primary)
            if not reached and host.now() >= promote_at:
                rows = [row for row, _ in host.shadows.held_for(primary)]
                host.log.warning(
                    "%s could not be reached for ShadowResubmitTimeSpan: taking over %d", primary, len(rows)
                )
                self._take_over(rows)
        self._watched.discard(primary)

    @property
    def _next_beat(self) -> float:
        return self._host.transport.ShadowHeartbeatFrequency

    @property
    def _patience(self) -> float:
        """How long to wait for each answer in a heartbeat, seconds."""
        return min(self._host.transport.SendConnectionInactivityTimeout, self._host.transport.ShadowHeartbeatFrequency)

    async def _beat(self, primary: str) -> bool:
        peer: Peer | None = self._host.config.peer_named.get(primary.casefold())
        if peer is None or peer.dial.transport is None:
            return False
        try:
            async with Dialogue(peer.dial.transport, self._host.config.name, self._patience) as dialogue:
                await self.query_in(primary, dialogue)
        except SessionLost as lost:
            self._host.log.info("%s does not answer the heartbeat: %s", primary, lost)
            return False
        return True


async def _run(promote: Promote, message: Message) -> None:
    await promote(message)
