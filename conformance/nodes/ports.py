"""Port leases: a port that a node will open, kept from every other run on this machine until it is given back."""

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

FIRST, LAST = 20_000, 32_000
"""Below the range from which the kernel takes the ports of outgoing connections."""


class PortLeases:
    """Leases of loopback ports, each held by a lock on a file of its own, so that a killed run gives them back too.

    Raises OSError when no port is left.
    """

    def __init__(self) -> None:
        self._directory = Path(tempfile.gettempdir()) / f"conformance-ports-{os.getuid()}"
        self._directory.mkdir(mode=0o700, exist_ok=True)
        self._held: dict[int, int] = {}

    def lease(self) -> int:
        """Return a port of 127.0.0.1 that nobody listens on and nobody else has leased."""
        start = random.SystemRandom().randrange(FIRST, LAST)
        port: int
        for port in (*range(start, LAST), *range(FIRST, start)):
            if port not in self._held and self._take(port):
                return port
        raise OSError(f"no loopback port between {FIRST} and {LAST} is free")

    def release(self) -> None:
        """Give all leases back."""
        for handle in self._held.values():
            os.close(handle)
        self._held.clear()

    def _take(self, port: int) -> bool:
        handle = os.open(self._directory / str(port), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
        except OSError:
            os.close(handle)
            return False
        self._held[port] = handle
        return True
