"""The sending end: messages go to their next hops with XSHADOW, and stay here as shadows (EX2010, message flow)."""

from collections.abc import Iterable
from dataclasses import replace
from weakref import WeakKeyDictionary

from conformance.reference.host import Host
from conformance.reference.hub2010.heartbeat import heartbeat_of
from conformance.reference.hub2010.rights import sends_xshadow
from conformance.reference.hub2010.shadow_queue import shadow_queues_of
from conformance.reference.message import Recipient
from conformance.reference.queue.fork import Fork
from conformance.reference.queue.outbound import Outbound
from conformance.reference.queue.routing import NextHop
from conformance.reference.replies import Reply
from conformance.reference.routing.router import Routing
from conformance.reference.send.dialogue import Dialogue


class HubOutbound(Outbound):
    """Sends as a 2010 server does."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._databases: WeakKeyDictionary[Dialogue, str] = WeakKeyDictionary()

    async def opened(self, hop: NextHop, server: str, dialogue: Dialogue) -> None:
        """Have the next hop track discard status for us (SR-E10-02). Raises SessionLost."""
        if not self.tracks(dialogue, server):
            return
        answer = await dialogue.command(f"XSHADOW {self.host.name} {self.host.identity.database}")
        words = answer.text.split()
        if not answer.positive or len(words) != 2:
            self.host.log.warning("%s does not track discard status: %s", server, answer)
            return
        self.host.manager.saw_database(server, words[1])
        self._databases[dialogue] = words[1]

    async def transmit(self, fork: Fork, server: str, dialogue: Dialogue) -> dict[Recipient, Reply]:
        """Hand one fork over, and keep what was taken as a shadow where it is tracked. Raises SessionLost."""
        database = self._databases.get(dialogue)
        if database is None:
            return await super().transmit(fork, server, dialogue)
        key = self.host.identity.next()
        content = self.host.messages.content(fork.message.id)
        envelope = fork.message.envelope.to(fork.recipients)
        replies = await dialogue.transmit(envelope, content, f" XSHADOW={key}")
        if taken := [recipient for recipient, reply in replies.items() if reply.positive]:
            shadow_queues_of(self.host).keep(fork.message, content, taken, server, database, key)
            self.host.manager.watch(server)
        return replies

    async def closing(self, hop: NextHop, server: str, dialogue: Dialogue) -> None:
        """Ask for discard status at the end of every session with a server that tracks it (SR-E10-05)."""
        if self.tracks(dialogue, server):
            await self.host.manager.query_in(server, dialogue)

    def tracks(self, dialogue: Dialogue, server: str) -> bool:
        """Whether the server offers XSHADOW, and we may use it."""
        peer = self.host.config.peer_named.get(server.casefold())
        return "XSHADOW" in dialogue.keywords and sends_xshadow(self.host.config, peer)


class HubRouting(Routing):
    """Routes around servers that have failed (SR-E10-10)."""

    def forks(self, recipients: Iterable[Recipient]) -> dict[NextHop, list[Recipient]]:
        """Return the next hops; servers that have failed are tried last."""
        failed = heartbeat_of(self.host).failed
        return {_last(hop, failed): members for hop, members in super().forks(recipients).items()}


def _last(hop: NextHop, failed: frozenset[str]) -> NextHop:
    """Return a next hop with the servers that have failed behind the others."""
    ways = sorted(zip(hop.servers, hop.dials, strict=True), key=lambda way: way[0] in failed)
    return replace(hop, servers=tuple(name for name, _ in ways), dials=tuple(dial for _, dial in ways))
