"""Copies of the nodes' directories of a cell (`--keep`): queue, log, configuration; secrets are replaced.

A copy lies in the run directory as `kept/SLUG/NODE` and is readable by its owner alone. Queued messages are copied
unchanged. A cell's *attachments* are the folder with its nodes' directories. The run calls this when a cell has ended.
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
_REDACTED = "***"
_AUTH = re.compile(rb"(?i)\b(AUTH[ \t]+(?:PLAIN|LOGIN|CRAM-MD5|NTLM|GSSAPI|XOAUTH2|[A-Z0-9_-]+))[ \t]+(?!\*\*\*)\S+")
"""An AUTH command with its initial response (RFC 4954 section 4), which is not redacted yet."""


def kept_directory(cell_file: Path) -> Path:
    """Return the path below which the nodes' directories of a cell are copied; it may not exist.

    `cell_file` is RUN/cells/SLUG.jsonl, compressed or not.
    """
    return cell_file.parent.parent / KEPT / slug_of(cell_file)


def keep_node_directories(cell_file: Path, attachments: Path) -> None:
    """Copy the nodes' directories in `attachments` to `kept_directory(cell_file)`, in place of an earlier copy.

    The values of `secret` in `node.json`, and initial responses of AUTH in `*.log`, are replaced by `***`, where these files are
    directly in a node's directory. Symbolic links
    are copied as links. Files that are unsafe to copy (sparse, nested too deep, or a further name of another
    user's file) are named in LEFT-OUT.txt. Raises OSError.
    """
    target = kept_directory(cell_file)
    target.parent.mkdir(mode=0o700, exist_ok=True)
    delete_tree(target)  # the cell's first attempt may have left one
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
            document.write_bytes(_redacted_document(document.read_bytes()))
        for log in node.glob("*.log"):
            if log.is_file() and not log.is_symlink():
                log.write_bytes(_AUTH.sub(rb"\1 ***", log.read_bytes()))


def delete_node_data(attachments: Path) -> None:
    """Delete the folder `data` (the queue) of each node of a cell, where there is one; logs and configuration stay.

    What cannot be deleted stays without an error. Raises OSError where `attachments` is not a directory.
    """
    for node in attachments.iterdir():
        delete_tree(node / "data")


def _copy(entry: DirectoryEntry, target: Path) -> None:
    """Copy a file's content to a new file that only its owner can read. Raises OSError, also where `target` exists."""
    with os.fdopen(entry.open(), "rb") as file, target.open("xb") as copy:
        target.chmod(0o600)
        shutil.copyfileobj(file, copy)


def _redacted_document(document: bytes) -> bytes:
    """Return the JSON of a `node.json` with its secrets redacted; `null` where it cannot be parsed."""
    try:
        return json.dumps(_redacted(json.loads(document)), indent=1).encode()
    except (ValueError, RecursionError):
        return b"null"


def _redacted(value: Any) -> Any:
    """Return a JSON value in which each non-empty value of a key `secret` is replaced by `***`, at any depth."""
    if isinstance(value, dict):
        return {key: _REDACTED if key == "secret" and inner else _redacted(inner) for key, inner in value.items()}
    return [_redacted(inner) for inner in value] if isinstance(value, list) else value
