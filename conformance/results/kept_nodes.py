"""The nodes' directories of a failed cell, kept in the run directory: queue, log, configuration; without secrets.

They lie in `kept/CELL/NODE`, readable by their owner alone. What the nodes hold in their queues is kept as it is.
"""

import json
import os
import re
import shutil
import stat
from pathlib import Path
from typing import Any

from conformance.results.compression import LEFT_OUT, printable_path
from conformance.results.layout import slug_of
from conformance.untrusted.tree import DirectoryEntry, PinnedDirectory, delete_tree, walk

KEPT = "kept"
_HIDDEN = "***"
_AUTH = re.compile(rb"(?i)\b(AUTH[ \t]+(?:PLAIN|LOGIN|CRAM-MD5|NTLM|GSSAPI|XOAUTH2|[A-Z0-9_-]+))[ \t]+(?!\*\*\*)\S+")
"""A command of RFC 4954 with its initial response."""


def kept_directory(cell: Path) -> Path:
    """Return where the nodes' directories of a cell are kept, from the path of its file; it need not be there."""
    return cell.parent.parent / KEPT / slug_of(cell)


def keep_node_directories(cell: Path, attachments: Path) -> None:
    """Copy the directories of a cell's nodes to where they are kept.

    The values of `secret` in `node.json`, and initial responses of AUTH in logs, are replaced by `***`.
    """
    target = kept_directory(cell)
    target.parent.mkdir(mode=0o700, exist_ok=True)
    delete_tree(target)  # of a first attempt
    target.mkdir(mode=0o700)
    left_out: list[str] = []
    pinned = PinnedDirectory(attachments)
    try:
        for entry in walk(pinned.handle):
            path = target / entry.path
            if stat.S_ISDIR(entry.status.st_mode) and not entry.is_deep:
                path.mkdir(mode=0o700)
            elif stat.S_ISLNK(entry.status.st_mode) and not entry.is_deep:
                path.symlink_to(os.readlink(entry.name, dir_fd=entry.folder))
            elif entry.may_be_copied:
                _copy(entry, path)
            elif entry.is_file:
                left_out.append(printable_path(entry))
    finally:
        pinned.close()
    if left_out:
        (target / LEFT_OUT).write_text("\n".join(left_out), "ascii")
    for node in target.iterdir():
        if (document := node / "node.json").is_file() and not document.is_symlink():
            document.write_bytes(_without_secrets_in(document.read_bytes()))
        for log in node.glob("*.log"):
            if log.is_file() and not log.is_symlink():
                log.write_bytes(_AUTH.sub(rb"\1 ***", log.read_bytes()))


def delete_node_data(attachments: Path) -> None:
    """Delete the data of a cell's nodes."""
    for node in attachments.iterdir():
        delete_tree(node / "data")


def _copy(entry: DirectoryEntry, target: Path) -> None:
    """Copy a file, for its owner alone."""
    with os.fdopen(entry.open(), "rb") as file, target.open("xb") as copy:
        target.chmod(0o600)
        shutil.copyfileobj(file, copy)


def _without_secrets_in(document: bytes) -> bytes:
    """Return a node's document without its secrets; of one that the node has damaged nothing is kept."""
    try:
        return json.dumps(_without_secrets(json.loads(document)), indent=1).encode()
    except (ValueError, RecursionError):
        return b"null"


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _HIDDEN if key == "secret" and one else _without_secrets(one) for key, one in value.items()}
    return [_without_secrets(one) for one in value] if isinstance(value, list) else value
