"""The sending end: messages go to their next hops with XSHADOW, and stay here as shadows (EX2010, message flow)."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from conformance.reference.host import Host
from conformance.reference.hub2010.heartbeat import Heartbeat
from conformance.reference.hub2010.rights import sends_xshadow
from conformance.reference.hub2010.shadow_queue import ShadowQueue
from conformance.reference.message import Envelope, Message, Recipient
from conformance.reference.queue.delivery import Delivery
from conformance.reference.queue.mailbox_store import MailboxStore
from conformance.reference.queue.routing import NextHop
from conformance.reference.replies import Reply
from conformance.reference.send.dialogue import Dialogue
from conformance.reference.shadow.creation import ShadowCreation
from conformance.reference.shadow.discard import DiscardStatus


class TransportRedundancy(Delivery):
    """The delivery queues of a 2010 server. What all next hops have taken is not kept as a primary message: where a
    next hop is tracked it is in the shadow queue, elsewhere it counts as delivered (SR-E10-01, SR-E10-14)."""

    def __init__(
        self,
        host: Host,
        store: MailboxStore,
        creation: ShadowCreation,
        discards: DiscardStatus,
        manager: Callable[[], Heartbeat],
    ) -> None:
        super().__init__(host, store, creation, discards, manager)
        self._heartbeat = manager
        self._queue = ShadowQueue(host)
        self._awaited: dict[int, asyncio.Event] = {}

    async def passed_on(self, message: Message) -> None:
        """Return when every next hop has taken the message."""
        while self._host.messages.pending(message.id):
            await self._awaited.setdefault(message.id, asyncio.Event()).wait()

    def _forks(self, recipients: Sequence[Recipient]) -> dict[NextHop, list[Recipient]]:
        """Return the next hops; servers that have failed are tried last."""
        failed = self._heartbeat().failed
        return {_last(hop, failed): members for hop, members in super()._forks(recipients).items()}

    async def _hand_over(
        self, dialogue: Dialogue, hop: NextHop, server: str, part: Envelope, message: Message, content: bytes
    ) -> dict[Recipient, Reply]:
        database = await self._track(dialogue, server)
        if database is None:
            return await super()._hand_over(dialogue, hop, server, part, message, content)
        key = self._host.identity.next()
        replies = await dialogue.transmit(part, content, f" XSHADOW={key}")
        taken = [recipient for recipient, reply in replies.items() if reply.positive]
        if taken:
            self._queue.keep(message, content, taken, server, database, key)
        self._note(message, content, hop, replies)
        if taken:
            self._heartbeat().watch(server)
        return replies

    async def _track(self, dialogue: Dialogue, server: str) -> str | None:
        """Have the next hop track discard status for us; return its queue database, or None when it does not."""
        if not self._tracks(dialogue, server):
            return None
        answer = await dialogue.command(f"XSHADOW {self._host.config.name} {self._host.identity.database}")
        words = answer.text.split()
        if not answer.positive or len(words) != 2:
            self._host.log.warning("%s does not track discard status: %s", server, answer)
            return None
        self._heartbeat().saw_database(server, words[1])
        return words[1]

    async def _before_quit(self, dialogue: Dialogue, hop: NextHop, server: str) -> None:
        """Ask for discard status at the end of every session with a server that tracks it (SR-E10-05)."""
        if self._tracks(dialogue, server):
            await self._heartbeat().query_in(server, dialogue)

    def _tracks(self, dialogue: Dialogue, server: str) -> bool:
        peer = self._host.config.peer_named.get(server.casefold())
        return "XSHADOW" in dialogue.keywords and sends_xshadow(self._host.config, peer)

    def _note(self, message: Message, content: bytes, hop: NextHop, replies: dict[Recipient, Reply]) -> None:
        super()._note(message, content, hop, replies)
        if not self._host.messages.pending(message.id) and (awaited := self._awaited.pop(message.id, None)):
            awaited.set()

    def _retire(self, message: Message) -> None:
        """Forget a message that all next hops have taken: there is no Safety Net before 2013."""
        self._host.messages.drop(message.id)


def _last(hop: NextHop, failed: frozenset[str]) -> NextHop:
    """Return a next hop with the servers that have failed behind the others."""
    ways = sorted(zip(hop.servers, hop.dials, strict=True), key=lambda way: way[0] in failed)
    return replace(hop, servers=tuple(name for name, _ in ways), dials=tuple(dial for _, dial in ways))
