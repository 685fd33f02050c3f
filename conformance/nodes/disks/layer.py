"""A layer between a program and its C library that knows what was synced: it can forget the rest, and be slow.

Needs no root, only a C compiler; a program that is linked statically, or drops LD_PRELOAD, goes past it.
"""

import asyncio
import shutil
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path

from conformance.nodes.contract import NodeError

_SOURCE = Path(__file__).with_name("layer.c")


def missing() -> str:
    """Return why there can be no layer on this machine; '' when there can."""
    return "" if shutil.which("cc") else "needs a C compiler (cc)"


class Layer:
    """The layer of a node, over its `data`; its own files are in `directory`. Raises NodeError.

    With `forgets` it keeps a copy of whatever was synced, as of the last sync: what a power cut leaves.
    """

    def __init__(self, node: str, data: Path, directory: Path, *, forgets: bool) -> None:
        self._node = node
        self._data = data
        self._library = directory / "layer.so"
        self._stable = directory / "stable" if forgets else None
        self._slow = directory / "slow"

    @property
    def environment(self) -> dict[str, str]:
        """What the node's environment must have."""
        stable = {} if self._stable is None else {"LAYER_STABLE": str(self._stable)}
        return {
            "LD_PRELOAD": str(self._library),
            "LAYER_DATA": str(self._data),
            "LAYER_SLOW": str(self._slow),
            **stable,
        }

    @property
    def slowed(self) -> int:
        """How many syncs have been slow."""
        log = self._slow.with_name("slow.log")
        return len(log.read_text("ascii").splitlines()) if log.exists() else 0

    async def mount(self) -> None:
        """Have it ready before the node starts; what is in the directory when that is first done counts as synced."""
        self._library.parent.mkdir(parents=True, exist_ok=True)
        if not self._library.exists():
            await self._compile()
        if self._stable is not None and not self._stable.exists():
            shutil.copytree(self._data, self._stable)

    def be_slow(self, seconds: float) -> None:
        """Have every sync take so much longer; 0 for no longer."""
        if seconds:
            self._slow.write_text(f"{round(seconds * 1000)}\n", "ascii")
        else:
            self._slow.unlink(missing_ok=True)

    def cut_power(self) -> None:
        """Forget what was not synced. The node must be dead."""
        if self._stable is None:
            raise NodeError(self._node, "power-cut", "its layer keeps nothing to go back to")
        for path in self._data.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        shutil.copytree(self._stable, self._data, dirs_exist_ok=True)

    def wipe(self) -> None:
        """Forget what was synced: the queue database was destroyed."""
        if self._stable is not None and self._stable.exists():
            shutil.rmtree(self._stable)

    async def _compile(self) -> None:
        words = ["cc", "-shared", "-fPIC", "-O2", "-o", str(self._library), str(_SOURCE), "-ldl"]
        process = await asyncio.create_subprocess_exec(*words, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE)
        _, err = await process.communicate()
        if process.returncode:
            raise NodeError(self._node, "mount", f"cc: {err.decode(errors='replace').strip()[-300:]}")
