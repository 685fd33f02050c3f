"""Port leases: a port that a node will open, kept from every other run on this machine until it is given back."""

import os
import random
import socket
from itertools import chain

FIRST, LAST = 20_000, 32_000
"""Below the range from which the kernel takes the ports of outgoing connections."""


class PortLeases:
    """Leases of loopback ports. Each is held by an abstract socket that has the port's number in its name.

    Such names are one space for everybody to whom the ports are one, whoever he is and wherever he has his files, and a
    killed run gives them back too. Raises OSError when no port is left.
    """

    def __init__(self) -> None:
        self._held: dict[int, int] = {}
        self._named: list[int] = []

    def lease(self) -> int:
        """Return a port of 127.0.0.1 that nobody listens on and nobody else has leased."""
        start = random.SystemRandom().randrange(FIRST, LAST)
        port: int
        for port in chain(range(start, LAST), range(FIRST, start)):
            if port not in self._held and self._take(port):
                return port
        raise OSError(f"no loopback port between {FIRST} and {LAST} is free")

    def hold(self, name: str) -> bool:
        """Lease what has another name than a port: return whether it is ours now, and nobody else's."""
        held = _named(name)
        if held is not None:
            self._named.append(held.detach())
        return held is not None

    def release(self) -> None:
        """Give all leases back."""
        for handle in (*self._held.values(), *self._named):
            os.close(handle)
        self._named.clear()
        self._held.clear()

    def _take(self, port: int) -> bool:
        held = _named(f"port-{port}")
        if held is None:
            return False
        try:
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
        except OSError:
            held.close()
            return False
        self._held[port] = held.detach()
        return True


def _named(name: str) -> socket.socket | None:
    """Return an abstract socket with a name, or None where somebody has it."""
    held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        held.bind(f"\0conformance-{name}"[:108])
    except OSError:
        held.close()
        return None
    return held
