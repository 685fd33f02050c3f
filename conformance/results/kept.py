"""The nodes' directories of a failed cell, kept in the run directory: queue, log, configuration; without secrets.

They lie in `kept/CELL/NODE`, readable by their owner alone. What the nodes hold in their queues is kept as it is.
"""

import json
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from conformance.results.layout import cell_name

KEPT = "kept"
_HIDDEN = "***"
_AUTH = re.compile(rb"(?i)\b(AUTH[ \t]+(?:PLAIN|LOGIN|CRAM-MD5|NTLM|GSSAPI|XOAUTH2|[A-Z0-9_-]+))[ \t]+(?!\*\*\*)\S+")
"""A command of RFC 4954 with its initial response."""


def kept_of(cell: Path) -> Path:
    """Return where the nodes' directories of a cell are kept, from the path of its file; it need not be there."""
    return cell.parent.parent / KEPT / cell_name(cell)


def keep_nodes(cell: Path, attachments: Path) -> None:
    """Copy the directories of a cell's nodes to where they are kept.

    The values of `secret` in `node.json`, and initial responses of AUTH in logs, are replaced by `***`.
    """
    target = kept_of(cell)
    target.parent.mkdir(mode=0o700, exist_ok=True)
    shutil.rmtree(target, ignore_errors=True)  # of a first attempt
    shutil.copytree(attachments, target, symlinks=True, ignore=_not_files)
    for path in [target, *target.rglob("*")]:
        if path.is_symlink():
            continue
        path.chmod(0o700 if path.is_dir() else 0o600)
    for node in target.iterdir():
        if (document := node / "node.json").is_file():
            document.write_text(json.dumps(_without_secrets(json.loads(document.read_bytes())), indent=1), "utf-8")
        for log in node.glob("*.log"):
            log.write_bytes(_AUTH.sub(rb"\1 ***", log.read_bytes()))


def remove_data(attachments: Path) -> None:
    """Delete the data of a cell's nodes."""
    for data in attachments.glob("*/data"):
        shutil.rmtree(data, ignore_errors=True)


def _not_files(folder: str, names: Iterable[str]) -> set[str]:
    """Return sockets, pipes and devices, of which there is nothing to copy."""
    paths = {name: Path(folder, name) for name in names}
    return {name for name, path in paths.items() if not (path.is_symlink() or path.is_dir() or path.is_file())}


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _HIDDEN if key == "secret" and one else _without_secrets(one) for key, one in value.items()}
    return [_without_secrets(one) for one in value] if isinstance(value, list) else value
