"""What every part of a node is: made once with the node, started, and told of a new configuration."""

from typing import TYPE_CHECKING

from conformance.reference.config import NodeConfiguration

if TYPE_CHECKING:
    from conformance.reference.host import Host


class Part:
    """A part of one node; through `host` it finds what all share, and the other parts."""

    def __init__(self, host: "Host") -> None:
        self.host = host

    def start(self) -> None:
        """Go on with what is in the database; all parts are there, and the listeners are open."""

    def reconfigured(self, before: NodeConfiguration) -> None:
        """Adapt to `host.config`, which has just taken the place of `before`."""
