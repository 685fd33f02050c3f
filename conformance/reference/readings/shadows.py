"""Readings of how shadow copies are made, and of when the shadow server and the primary are in contact."""

import asyncio
from collections.abc import Sequence

from conformance.reference.config import Peer
from conformance.reference.message import Message
from conformance.reference.readings.reading import reading
from conformance.reference.send.dialogue import Dialogue, SessionLost
from conformance.reference.send.smtp import SmtpDialogue
from conformance.reference.shadow.choice import ShadowServerChoice
from conformance.reference.shadow.creation import ShadowCreation
from conformance.reference.shadow.discard import DiscardStatus
from conformance.reference.shadow.manager import ShadowRedundancyManager
from conformance.reference.storage.discards import DiscardEvent

KEPT = 20.0
"""Seconds for which a shadow session is kept for the next message."""


async def _done() -> None:
    """Do nothing: the session is open."""


@reading("keeps-shadow-sessions", allowed_by="rulings 14 and 25", parts=("creation",))
class KeepsShadowSessions(ShadowCreation):
    """Keeps a shadow session for a while after a message, and sends the next message's shadow in it."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self._idle: dict[str, list[tuple[Dialogue, asyncio.Future[None]]]] = {}
        self._requested: set[Dialogue] = set()

    def new_dialogue(self, peer: Peer) -> Dialogue:
        """Return a session that is open, where there is one."""
        while idle := self._idle.get(peer.name):
            kept, taken = idle.pop()
            taken.set_result(None)
            if isinstance(kept, SmtpDialogue) and kept.is_alive:
                kept.open = _done  # type: ignore[method-assign]
                return kept
            kept.abort()
        return super().new_dialogue(peer)

    async def request_shadow(self, peer: Peer, dialogue: Dialogue) -> None:
        """Ask once in a session."""
        if dialogue not in self._requested:
            await super().request_shadow(peer, dialogue)
            self._requested.add(dialogue)

    async def _finish_session(self, peer: Peer, dialogue: Dialogue) -> None:
        """Leave when nobody has taken the session over for a while."""
        taken = asyncio.get_running_loop().create_future()
        entry = (dialogue, taken)
        self._idle.setdefault(peer.name, []).append(entry)
        try:
            async with asyncio.timeout(KEPT):
                await taken
        except TimeoutError:
            self._idle[peer.name].remove(entry)
            self._requested.discard(dialogue)
            await super()._finish_session(peer, dialogue)
        except asyncio.CancelledError:
            dialogue.abort()
            raise


@reading("opens-shadow-sessions-early", allowed_by="ruling 14", parts=("creation",))
class OpensEarly(ShadowCreation):
    """Opens a session with each possible shadow server at its start, and uses that for the first message."""

    def start(self) -> None:
        """Open a session with everybody who might keep a shadow."""
        super().start()
        self._early: dict[str, Dialogue] = {}
        if not self.host.transport.ShadowRedundancyEnabled:
            return  # SR-ENA-02
        for peer in {peer.name: peer for peer in self.host.choice.attempts()}.values():
            self.host.tasks.start(self._open_early(peer), f"{self.host.name}: session with {peer.name}")

    async def _open_early(self, peer: Peer) -> None:
        dialogue = super().new_dialogue(peer)
        try:
            await dialogue.open()
        except SessionLost:
            dialogue.abort()  # it is not up yet: the first message opens the session
        else:
            self._early[peer.name] = dialogue

    def new_dialogue(self, peer: Peer) -> Dialogue:
        """Return the session that is open; opening it again does nothing."""
        early = self._early.pop(peer.name, None)
        if not isinstance(early, SmtpDialogue) or not early.is_alive:
            return super().new_dialogue(peer)
        early.open = _done  # type: ignore[method-assign]
        return early


@reading("one-silent-attempt-ends-the-effort", allowed_by="ruling 16", parts=("creation",))
class OneSilenceIsEnough(ShadowCreation):
    """Takes a shadow session that timed out for the end of the effort, not for one attempt of those permitted."""

    async def try_server(self, peer: Peer, message: Message, content: bytes) -> bool:
        """Try one server; give up for good when it was silent for as long as a session may be idle."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        made = await super().try_server(peer, message, content)
        if not made and loop.time() - began >= 0.99 * self.host.transport.SendConnectionInactivityTimeout:
            raise TimeoutError
        return made


@reading("gives-up-on-a-shadow-sooner", allowed_by="ruling 16", parts=("creation",))
class GivesUpSooner(ShadowCreation):
    """Gives a shadow up when three quarters of the time are over in which the sender must have its reply."""

    async def make_shadow(self, message: Message, content: bytes, deadline: float | None) -> bool:
        """Leave the sender more time than the reference does."""
        if deadline is not None:
            now = asyncio.get_running_loop().time()
            deadline = now + 0.75 * max(deadline - now, 0.0)
        return await super().make_shadow(message, content, deadline)


@reading(
    "chooses-shadow-servers-in-order", allowed_by="SR-PRF-01: no order within a site is asked for", parts=("choice",)
)
class InOrder(ShadowServerChoice):
    """Tries the servers of a site in the order of their names, not by chance."""

    def attempts(self) -> list[Peer]:
        """Return the same servers as often, each site's in order."""
        chosen = super().attempts()
        sites = dict.fromkeys(peer.site for peer in chosen)
        return [peer for site in sites for peer in _in_turn([peer for peer in chosen if peer.site == site])]


def _in_turn(peers: Sequence[Peer]) -> list[Peer]:
    names = sorted({peer.name: peer for peer in peers}.values(), key=lambda peer: peer.name)
    return [names[turn % len(names)] for turn in range(len(peers))]


@reading("counts-own-sessions-only", allowed_by="ruling 17", parts=("manager",))
class CountsOwnSessionsOnly(ShadowRedundancyManager):
    """Takes only sessions that it opened itself for contact with a primary."""

    def record_query_from(self, server: str) -> None:
        """Note that a server is there, and no contact."""
        self.host.choice.record_answer(server)


@reading("heartbeats-whatever-the-mail", allowed_by="ruling 21", parts=("manager",))
class HeartbeatsWhateverTheMail(ShadowRedundancyManager):
    """Opens a heartbeat session in every ShadowHeartbeatFrequency, also where mail sessions carried the query."""

    async def query_discards(self, primary: str, dialogue: Dialogue) -> str:
        """Ask, and let a mail session put the next heartbeat off by nothing."""
        watch = self.watched.get(primary)
        before = watch.last_query if watch is not None and not watch.heartbeat_running else None
        database = await super().query_discards(primary, dialogue)
        if before is not None and watch is not None:
            watch.last_query = before
        return database


@reading("notifies-acknowledged-copies-only", allowed_by="ruling 18", parts=("discard_status",))
class NotifiesAcknowledgedCopiesOnly(DiscardStatus):
    """Queues no notification for a copy whose acknowledgement it never saw: that one expires."""

    def queue_notifications(self, message: Message) -> None:
        """Forget the holders that may have a copy, and may have none."""
        for holder in self.host.discards.holders(message.id):
            if not holder.acknowledged:
                self.host.discards.remove_holder(message.id, holder.server)
        super().queue_notifications(message)


@reading(
    "tells-three-notifications-at-a-time", allowed_by="wire-profile.md: zero to <max> lines", parts=("discard_status",)
)
class TellsThreeAtATime(DiscardStatus):
    """Answers XQDISCARD with at most three notifications, however many were asked for."""

    async def answer_query(self, server: str, most: int) -> tuple[list[str], list[DiscardEvent]]:
        """Return fewer, and say how many are left."""
        return await super().answer_query(server, min(most, 3))
