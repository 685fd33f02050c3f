"""Redirect-Message: an administrator drains this server's active queues to another server of the boundary."""

from conformance.reference.boundary import inside
from conformance.reference.part import Part
from conformance.reference.queue.routing import NextHop


class CommandRefused(ValueError):
    """An administrator's command cannot be done. The text says why."""


class Redirection(Part):
    """Hands messages over; each stays redundant, for the target shadows it before it acknowledges (SR-CRE-10)."""

    async def redirect(self, target: str) -> dict[str, int]:
        """Drain the delivery queues to a server, and say how many messages went and stayed.

        Raises CommandRefused when it is no server of the boundary.
        """
        peer = self.host.config.peer_named.get(target.casefold())
        if peer is None or not inside(self.host.config, peer) or peer.dial.transport is None:
            raise CommandRefused(f"redirect-messages: {target!r} is no server of this boundary")
        before = sum(1 for _ in self.host.messages.in_place("primary"))
        await self.host.delivery.divert(NextHop("redirection", peer.name, (peer.dial.transport,), (peer.name,)))
        kept = sum(1 for _ in self.host.messages.in_place("primary"))
        self.host.log.warning("redirected to %s: %d messages, %d kept", peer.name, before - kept, kept)
        return {"redirected": before - kept, "kept": kept}
