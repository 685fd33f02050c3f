"""Gives a second process of a server the data directory of the first, by a bind mount."""

import ctypes
import os
from collections.abc import Callable
from pathlib import Path

from conformance.nodes.contract import Unsupported
from conformance.nodes.private_root import mount

_MS_BIND, _MNT_DETACH = 4096, 2
_libc = ctypes.CDLL(None, use_errno=True)


def share_directory(server: str, data: Path, at: Path) -> Callable[[], None]:
    """Mount the directory `data` at `at` too, which is made; return the function that ends that.

    Raises Unsupported where this process may not mount.
    """
    if os.geteuid() != 0:
        raise Unsupported(server, "start-another", "needs root, to share the data of two processes")
    at.mkdir(parents=True)
    try:
        mount(str(data), at, "", _MS_BIND)
    except OSError as error:
        raise Unsupported(server, "start-another", f"the data cannot be shared: {error}") from error
    return lambda: _unmount(at)


def _unmount(at: Path) -> None:
    """Remove a mount. Raises OSError."""
    if _libc.umount2(str(at).encode(), _MNT_DETACH) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"umount {at}: {os.strerror(number)}")
