"""Which operating systems can run cells. Commands that read files work on every system with Python."""

import socket

CAN_RUN_CELLS = hasattr(socket, "TCP_INFO")

NEEDS_LINUX = "running cells needs Linux: the harness reads TCP_INFO of its connections"
"""What a command says that cannot run cells here."""
