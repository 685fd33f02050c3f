"""Takes the secrets of a cell out of the files that its nodes have left: configuration, logs, rendered files."""

import os
from pathlib import Path

from conformance.history.secrets import Secrets
from conformance.nodes.workshop import DATA
from conformance.untrusted import Anchor, read_at, walk

_LARGEST = 64 * 2**20
"""Octets of a file that is looked through: more than a log may have."""


def redact_files(directory: Path, secrets: Secrets) -> None:
    """Rewrite each file of the nodes' directories below that has a secret in it; what is in queues stays as it is.

    The nodes must be dead. Raises OSError.
    """
    if not secrets or not directory.is_dir():
        return
    anchor = Anchor(directory)
    try:
        for entry in walk(anchor.handle):
            if DATA in entry.above[1:2] or not entry.is_file or entry.status.st_size > _LARGEST:
                continue
            handle = entry.open()
            try:
                octets = read_at(handle, 0, _LARGEST)
            finally:
                os.close(handle)
            if (cleaned := secrets.clean_octets(octets)) is not octets:
                entry.replace(cleaned)
    finally:
        anchor.close()
