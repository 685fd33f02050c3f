"""The status file, in which a node answers its start and each reload (docs/node-contract.md)."""

import json
from pathlib import Path
from typing import Any


def write_status(path: Path, revision: int, error: str = "") -> None:
    """Replace the status file atomically; `error` says why the configuration was refused, and is empty for an applied one."""
    status: dict[str, Any] = {"revision": revision, "applied": not error}
    if error:
        status["error"] = error[:2000]
    new = path.with_name(f"{path.name}.new")
    new.write_text(json.dumps(status), encoding="utf-8")
    new.replace(path)


def read_revision(path: Path) -> int | None:
    """Return the revision in a configuration file, which may be invalid otherwise; None if there is none."""
    try:
        revision = json.loads(path.read_text(encoding="utf-8"))["revision"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return revision if isinstance(revision, int) else None
