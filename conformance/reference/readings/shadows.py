"""Other conforming readings of how shadow copies are made, and of when a shadow server and the primary are in contact.

A reading is a way to understand the documents that differs from the reference's own and conforms as well. A node that runs as
`reference+NAME` follows it: the methods of the class come before those of the component in its `slots`. No check of the harness may fail
it. `self.host` has the other components of the node (host.py).

The primary of a message has its copy (shadow) stored on a shadow server, in a session with XSHADOWREQUEST. The shadow server asks it by
XQDISCARD, also in heartbeat sessions, which shadows may be discarded, and promotes them after ShadowResubmitTimeSpan without contact. A
*dialogue* is this server's end of a session that it opens, and is connected by `open`; SessionLost means that it has ended or failed.
"""

import asyncio
from collections.abc import Sequence

from conformance.reference.config import NodeConfiguration, Peer
from conformance.reference.message import Message
from conformance.reference.readings.reading import reading
from conformance.reference.send.dialogue import Dialogue, SessionLost
from conformance.reference.send.smtp import SmtpDialogue
from conformance.reference.shadow.choice import ShadowServerChoice
from conformance.reference.shadow.creation import ShadowCreation
from conformance.reference.shadow.discard import DiscardStatus
from conformance.reference.shadow.manager import ShadowRedundancyManager
from conformance.reference.storage.discards import DiscardNotification

IDLE_SESSION_S = 20.0
"""How long a shadow session is kept open for the next message."""


async def _do_nothing() -> None:
    """Do nothing: takes the place of `Dialogue.open`, which connects, in a session that is open already."""


@reading("keeps-shadow-sessions", allowed_by="rulings 14 and 25", slots=("creation",))
class KeepsShadowSessions(ShadowCreation):
    """Keeps a shadow session for a while after a message, and sends the next message's shadow in it."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        # idle sessions by server, each with a future that is done when a message takes the session over
        self._idle: dict[str, list[tuple[Dialogue, asyncio.Future[None]]]] = {}
        self._requested: set[Dialogue] = set()  # sessions in which the request was sent

    def new_dialogue(self, peer: Peer) -> Dialogue:
        """Return an idle session with the server that is still alive, whose `open` does nothing, or a new one, not connected yet.

        The session returned is idle no more: the task that kept it (`_finish_session`) ends. Idle sessions that were lost meanwhile
        are dropped.
        """
        while idle := self._idle.get(peer.name):
            kept, taken_over = idle.pop()
            taken_over.set_result(None)
            if isinstance(kept, SmtpDialogue) and kept.is_alive:
                kept.open = _do_nothing  # type: ignore[method-assign]
                return kept
            kept.abort()
        return super().new_dialogue(peer)

    async def request_shadow(self, peer: Peer, dialogue: Dialogue) -> None:
        """Send the request for a shadow (XSHADOWREQUEST), unless it was sent in this session before. Raises SessionLost if refused."""
        if dialogue not in self._requested:
            await super().request_shadow(peer, dialogue)
            self._requested.add(dialogue)

    async def _finish_session(self, peer: Peer, dialogue: Dialogue) -> None:
        """After a copy was stored, keep the session for IDLE_SESSION_S seconds; end it when no message takes it over meanwhile.

        Runs in a task of its own; when that is cancelled, the connection is dropped.
        """
        taken_over = asyncio.get_running_loop().create_future()
        entry = (dialogue, taken_over)
        self._idle.setdefault(peer.name, []).append(entry)
        try:
            async with asyncio.timeout(IDLE_SESSION_S):
                await taken_over
        except TimeoutError:
            self._idle[peer.name].remove(entry)
            self._requested.discard(dialogue)
            await super()._finish_session(peer, dialogue)
        except asyncio.CancelledError:
            dialogue.abort()
            raise


@reading("opens-shadow-sessions-early", allowed_by="ruling 14", slots=("creation",))
class OpensShadowSessionsEarly(ShadowCreation):
    """Opens a session with each possible shadow server at its start, and uses that for the first message."""

    def start(self) -> None:
        """Start, and open a session with each possible shadow server in the background; open none if redundancy is disabled."""
        super().start()
        self._early: dict[str, Dialogue] = {}
        if not self.host.transport.ShadowRedundancyEnabled:
            return  # SR-ENA-02
        for peer in {peer.name: peer for peer in self.host.choice.servers_to_try()}.values():
            self.host.tasks.start(self._open_early(peer), f"{self.host.name}: session with {peer.name}")

    async def _open_early(self, peer: Peer) -> None:
        """Open a session with a server and keep it for the first message; if that fails, the first message opens one itself."""
        dialogue = super().new_dialogue(peer)
        try:
            await dialogue.open()
        except SessionLost:
            dialogue.abort()  # it is not up yet: the first message opens the session
        else:
            self._early[peer.name] = dialogue

    def new_dialogue(self, peer: Peer) -> Dialogue:
        """Return the session with the server that was opened at the start, if it is alive and unused, or a new one, not connected yet.

        `open` of the former does nothing.
        """
        early = self._early.pop(peer.name, None)
        if not isinstance(early, SmtpDialogue) or not early.is_alive:
            return super().new_dialogue(peer)
        early.open = _do_nothing  # type: ignore[method-assign]
        return early


@reading("one-silent-attempt-ends-the-effort", allowed_by="ruling 16", slots=("creation",))
class OneSilenceIsEnough(ShadowCreation):
    """Takes a shadow session that timed out for the end of the effort, not for one attempt of those permitted."""

    async def try_server(self, peer: Peer, message: Message, content: bytes) -> bool:
        """Send the copy to one server; return whether it has stored it.

        Raises TimeoutError, by which `make_shadow` ends all attempts, if this one failed and took SendConnectionInactivityTimeout or
        nearly so, as when the server is silent.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        made = await super().try_server(peer, message, content)
        if not made and loop.time() - began >= 0.99 * self.host.transport.SendConnectionInactivityTimeout:
            raise TimeoutError
        return made


@reading("gives-up-on-a-shadow-sooner", allowed_by="ruling 16", slots=("creation",))
class GivesUpSooner(ShadowCreation):
    """Gives a shadow up when three quarters of the time are over in which the sender must have its reply."""

    async def make_shadow(self, message: Message, content: bytes, deadline: float | None) -> bool:
        """Try to have a shadow stored within three quarters of the time until `deadline` (the event loop's time; None: no limit).

        Return whether a server has stored it.
        """
        if deadline is not None:
            now = asyncio.get_running_loop().time()
            deadline = now + 0.75 * max(deadline - now, 0.0)
        return await super().make_shadow(message, content, deadline)


@reading(
    "chooses-shadow-servers-in-order", allowed_by="SR-PRF-01: no order within a site is asked for", slots=("choice",)
)
class ChoosesInOrder(ShadowServerChoice):
    """Tries the servers of a site in the order of their names, not by chance."""

    def servers_to_try(self) -> list[Peer]:
        """Return the servers to try for a copy, one entry for each permitted attempt; those of a site are in the order of their names.

        The number of attempts in each site is that of the reference. The sites are in the order in which it would try them first.
        """
        chosen = super().servers_to_try()
        sites = dict.fromkeys(peer.site for peer in chosen)
        return [peer for site in sites for peer in _in_turn([peer for peer in chosen if peer.site == site])]


def _in_turn(peers: Sequence[Peer]) -> list[Peer]:
    """Return as many peers as `peers` has: its servers sorted by name, again and again in turn."""
    servers = sorted({peer.name: peer for peer in peers}.values(), key=lambda peer: peer.name)
    return [servers[turn % len(servers)] for turn in range(len(peers))]


@reading("counts-own-sessions-only", allowed_by="ruling 17", slots=("manager",))
class CountsOwnSessionsOnly(ShadowRedundancyManager):
    """Takes only sessions that it opened itself for contact with a primary."""

    def record_query_from(self, server: str) -> None:
        """When a server has sent XQDISCARD here, record that it runs: as a shadow server it is not tried last any more.

        Its query is no contact with a primary, which would put promotion off.
        """
        self.host.choice.record_answer(server)


@reading("drops-shadows-with-its-redundancy", allowed_by="ruling 37", slots=("manager",))
class DropsShadowsWithItsRedundancy(ShadowRedundancyManager):
    """Deletes the shadows that it holds when shadow redundancy is switched off."""

    def reconfigured(self, before: NodeConfiguration) -> None:
        """Delete the shadows that are held for all primaries if redundancy is disabled now, and apply the change as the reference does.

        Called at each reload of the configuration. Does not wait for the disk.
        """
        if not self.is_enabled:
            self.host.db.write("DELETE FROM message WHERE place = 'shadow'")
        super().reconfigured(before)


@reading("heartbeats-whatever-the-mail", allowed_by="ruling 21", slots=("manager",))
class HeartbeatsWhateverTheMail(ShadowRedundancyManager):
    """Opens a heartbeat session in every ShadowHeartbeatFrequency, also where mail sessions carried the query."""

    async def query_discards(self, primary: str, dialogue: Dialogue) -> str:
        """Query discard status in an open session; a query in a mail session does not put the next heartbeat off.

        So `last_query`, from which the next heartbeat is counted, stays as it was. Return the id of the primary's queue database, ""
        if its reply gives none. Raises SessionLost.
        """
        watch = self.watched.get(primary)
        before = watch.last_query if watch is not None and not watch.heartbeat_running else None
        database = await super().query_discards(primary, dialogue)
        if before is not None and watch is not None:
            watch.last_query = before
        return database


@reading("notifies-acknowledged-copies-only", allowed_by="ruling 18", slots=("creation",))
class NotifiesAcknowledgedCopiesOnly(ShadowCreation):
    """Queues no notification for a copy whose acknowledgement it never saw: that one expires."""

    async def transmit_shadow(self, peer: Peer, message: Message, content: bytes, dialogue: Dialogue) -> None:
        """Send the copy, and record that the server holds it if it has acknowledged it. Raises SessionLost if it has not.

        The reference keeps the record also if the reply to the final dot was lost.
        """
        try:
            await super().transmit_shadow(peer, message, content, dialogue)
        except BaseException:  # a lost session, or the time is over
            self.host.discards.remove_holder(message.id, peer.name)
            raise


@reading(
    "tells-three-notifications-at-a-time", allowed_by="wire-profile.md: zero to <max> lines", slots=("discard_status",)
)
class TellsThreeAtATime(DiscardStatus):
    """Answers XQDISCARD with at most three notifications, however many were asked for."""

    async def answer_query(self, server: str, limit: int) -> tuple[list[str], list[DiscardNotification]]:
        """Return the lines of the reply to XQDISCARD, and the notifications in them: at most three, whatever the `limit` of the query."""
        return await super().answer_query(server, min(limit, 3))
