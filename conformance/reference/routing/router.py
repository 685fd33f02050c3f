"""The part that routes: it answers from the configuration in force, and keeps nothing."""

from collections.abc import Iterable

from conformance.reference.message import Recipient
from conformance.reference.part import Part
from conformance.reference.queue.routing import NextHop, route
from conformance.reference.routing.forks import forks


class Routing(Part):
    """Finds next hops."""

    def forks(self, recipients: Iterable[Recipient]) -> dict[NextHop, list[Recipient]]:
        """Return the next hops that a message for these recipients needs (bifurcation)."""
        return forks(self.host.config, recipients)

    def next_hop(self, address: str) -> NextHop:
        """Return the next hop for one recipient."""
        return route(self.host.config, address)

    def destination(self, address: str) -> str:
        """Return the name of the next hop that any server of the boundary, such as a primary, has for a recipient."""
        mailbox = self.host.config.mailbox_at.get(address.casefold())
        return mailbox.server if mailbox is not None else self.next_hop(address).name
