"""The sending end in Exchange 2010: messages are sent with XSHADOW and kept as shadows (EX2010, message flow).

The next hop is then the *primary*: it must deliver the message. This server keeps a copy, the *shadow*, until the next hop
reports that it has passed the message on, by a *discard notification*. The workers of the delivery queues call `host.outbound` in
this order: `begin_session`, `transmit` for each message, `end_session`. A *dialogue* is this server's end of a session with
another one.
"""

from collections.abc import Iterable
from dataclasses import replace
from weakref import WeakKeyDictionary

from conformance.reference.boundary import sends_xshadow_to
from conformance.reference.host import Host
from conformance.reference.hub2010.manager import hub_manager_of
from conformance.reference.hub2010.shadow_queues import shadow_queues_of
from conformance.reference.message import Recipient
from conformance.reference.queue.hop_queue import DeliveryAttempt
from conformance.reference.queue.outbound import Outbound
from conformance.reference.replies import Reply
from conformance.reference.routing.bifurcation import Routing
from conformance.reference.routing.next_hop import NextHop
from conformance.reference.send.dialogue import Dialogue, SessionLost


class HubOutbound(Outbound):
    """Sends with XSHADOW where the next hop offers it, and keeps the shadow.

    `_databases` has, by open session, the id of the queue database of a server that accepted XSHADOW in it. `hop` is the next
    hop, `server` the name of that one of its servers with which the session is.
    """

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._databases: WeakKeyDictionary[Dialogue, str] = WeakKeyDictionary()

    async def begin_session(self, hop: NextHop, server: str, dialogue: Dialogue) -> None:
        """Send XSHADOW, so that the next hop tracks discard status for this server (SR-E10-02). Raises SessionLost.

        Does nothing where XSHADOW may not be used (`may_use_xshadow`). The reply names the queue database of the next hop:
        shadows kept here for it that came from another database are promoted. If the reply is negative or malformed, the session
        goes on without XSHADOW; 421 raises SessionLost.
        """
        if not self.may_use_xshadow(dialogue, server):
            return
        answer = await dialogue.command(f"XSHADOW {self.host.name} {self.host.identity.database}")
        if answer.code == 421:  # it ends the session (RFC 5321 3.8)
            raise SessionLost(f"the reply to XSHADOW was {answer}")
        words = answer.text.split()  # the name of the server and the id of its queue database
        if not answer.positive or len(words) != 2:
            self.host.log.warning("%s does not track discard status: %s", server, answer)
            return
        self.host.manager.record_contact_and_database(server, words[1])
        self._databases[dialogue] = words[1]

    async def transmit(self, attempt: DeliveryAttempt, server: str, dialogue: Dialogue) -> dict[Recipient, Reply]:
        """Transmit a message, and return the final reply for each recipient. Raises SessionLost.

        If XSHADOW was accepted in this session, a shadow is kept here for the recipients that the next hop has accepted, and
        `server` is watched by heartbeats from now on. No shadow is kept if a discard notification for it came already, in another
        session before the final reply (`in_transit`). Writes do not wait for the disk.
        """
        database = self._databases.get(dialogue)
        if database is None:
            return await super().transmit(attempt, server, dialogue)
        shadow_id = self.host.identity.new_id()
        content = self.host.messages.content(attempt.message.id)
        envelope = attempt.message.envelope.for_recipients(attempt.remaining)
        manager = hub_manager_of(self.host)
        manager.in_transit[shadow_id] = False
        try:
            replies = await dialogue.transmit(envelope, content, f" XSHADOW={shadow_id}")
        finally:
            is_passed_on = manager.in_transit.pop(shadow_id)
        accepted = [recipient for recipient, reply in replies.items() if reply.positive]
        if accepted and not is_passed_on:
            shadow_queues_of(self.host).keep(attempt.message, content, accepted, server, database, shadow_id)
            self.host.manager.watch(server)
        return replies

    async def end_session(self, hop: NextHop, server: str, dialogue: Dialogue) -> None:
        """Query discard status (XQDISCARD) at the end of a session with a server that offers XSHADOW (SR-E10-05). Raises SessionLost.

        The shadows that the reply names are deleted. Does nothing where XSHADOW may not be used (`may_use_xshadow`).
        """
        if self.may_use_xshadow(dialogue, server):
            await self.host.manager.query_in_session(server, dialogue)

    def may_use_xshadow(self, dialogue: Dialogue, server: str) -> bool:
        """Return whether `server` offers XSHADOW in this session and this server may use it there (SR-E10-19)."""
        peer = self.host.config.peers_by_name.get(server.casefold())
        return "XSHADOW" in dialogue.keywords and sends_xshadow_to(self.host.config, peer)


class HubRouting(Routing):
    """Routes around servers that have failed (SR-E10-10)."""

    def group_by_next_hop(self, recipients: Iterable[Recipient]) -> dict[NextHop, list[Recipient]]:
        """Return the recipients by next hop; in each next hop the servers that were recently declared failed are tried last."""
        failed = hub_manager_of(self.host).failed_primaries
        return {_failed_last(hop, failed): members for hop, members in super().group_by_next_hop(recipients).items()}


def _failed_last(hop: NextHop, failed: frozenset[str]) -> NextHop:
    """Return a next hop with its `failed` servers (by name) after the others; otherwise their order stays."""
    servers = sorted(zip(hop.servers, hop.addresses, strict=True), key=lambda server: server[0] in failed)
    return replace(hop, servers=tuple(name for name, _ in servers), addresses=tuple(address for _, address in servers))
