"""A file system of a node's own: ext4 on a loop device, in a mount namespace that only its holder and the node see."""

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path
from subprocess import DEVNULL, PIPE

from conformance.nodes.contract import NodeError
from conformance.nodes.disks import holder
from conformance.untrusted.tree import PinnedDirectory

SIZE = 64 * 2**20
"""Octets of the whole file system, where nobody says otherwise."""

_TOOLS = ("mkfs.ext4", "mount", "umount", "unshare", "nsenter")


def unavailable_reason() -> str:
    """Return why there can be no loop disk on this machine; '' when there can."""
    if os.geteuid() != 0:
        return "needs root, to mount a file system of its own"
    if not Path("/dev/loop-control").exists():
        return "needs loop devices"
    absent = [tool for tool in _TOOLS if shutil.which(tool) is None]
    return f"needs {', '.join(absent)}" if absent else ""


class LoopDisk:
    """The disk of a node: `directory` is where it is mounted, `image` the file that it is. Raises NodeError.

    The holder is no child that an event loop waits for: a clock that moves on when nothing is under way must not wait
    for what stays as long as the node.
    """

    def __init__(self, node: str, directory: Path, image: Path, *, size: int = SIZE) -> None:
        self._node = node
        self._directory = directory
        self._image = image
        self._size = size
        self._holder: subprocess.Popen[str] | None = None

    @property
    def prefix(self) -> list[str]:
        """Return the words before a command that is to see the disk; it starts in the present directory, as without one:
        who enters a mount namespace is in its root."""
        if self._holder is None:
            return []
        return ["nsenter", f"--mount=/proc/{self._holder.pid}/ns/mnt", "--", "env", f"--chdir={Path.cwd()}"]

    async def mount(self) -> None:
        """Mount it, unless it is; a new one has in it what is in the directory below."""
        if self._holder is not None:
            return
        try:
            PinnedDirectory(self._directory).close()
        except OSError as error:
            raise NodeError(self._node, "mount", f"its data directory: {error}") from error
        if not self._image.exists():
            await self._make()
        words = ["unshare", "-m", "--propagation", "private", sys.executable, "-S", "-E", holder.__file__]
        self._holder = subprocess.Popen(  # noqa: S603, ASYNC220  # started at once; what it says is read in a thread
            [*words, str(self._image), str(self._directory)],
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            start_new_session=True,
            text=True,
        )
        if await self._line() != "ready":
            assert self._holder.stderr is not None
            said = (await asyncio.to_thread(self._holder.stderr.read)).strip().splitlines()
            await self.close()
            raise NodeError(self._node, "mount", said[-1] if said else "the disk's holder ended")

    async def fill(self) -> str:
        """Leave no room for one octet more; return the words of the error that a writer gets."""
        return await self._tell("full")

    async def make_room(self) -> None:
        """Take away what `fill` wrote."""
        await self._tell("room")

    async def become_read_only(self) -> str:
        """Have it fail as after an error of the device, until it is mounted again; return the words of the error."""
        return await self._tell("read-only")

    async def cut_power(self) -> None:
        """Forget what was not synced: go on with what the device holds now. The node must be dead."""
        cut = self._image.with_suffix(".cut")
        words = ["cp", "--", str(self._image), str(cut)]  # it leaves holes as they are
        copied = await asyncio.to_thread(subprocess.run, words, stdin=DEVNULL, capture_output=True, text=True)
        if copied.returncode:
            raise NodeError(self._node, "power-cut", f"its disk's image: {copied.stderr.strip()[-300:]}")
        await self.let_go()
        cut.replace(self._image)

    async def let_go(self) -> None:
        """Unmount it, in order; the node must be dead."""
        if self._holder is not None:
            await self._tell("let-go")
            await self.close()

    async def wipe(self) -> None:
        """Destroy it: the next is a new one."""
        await self.let_go()
        self._image.unlink(missing_ok=True)

    async def close(self) -> None:
        """End the holder; with it and the node the mount is gone."""
        process, self._holder = self._holder, None
        if process is not None:
            await asyncio.to_thread(process.communicate)

    async def _make(self) -> None:
        with self._image.open("wb") as image:
            image.truncate(self._size)
        words = ["mkfs.ext4", "-q", "-F", "-m", "0", "-d", str(self._directory), str(self._image)]
        made = await asyncio.to_thread(subprocess.run, words, stdin=DEVNULL, capture_output=True, text=True)
        if made.returncode:
            self._image.unlink()
            raise NodeError(self._node, "mount", f"mkfs.ext4: {made.stderr.strip()[-300:]}")

    async def _tell(self, word: str) -> str:
        if self._holder is None:
            raise NodeError(self._node, word, "its disk is not mounted")
        assert self._holder.stdin is not None
        self._holder.stdin.write(f"{word}\n")
        self._holder.stdin.flush()
        answer = await self._line()
        if not answer.startswith("ok"):
            raise NodeError(self._node, word, f"its disk: {answer or 'the holder ended'}")
        return answer.removeprefix("ok").strip()

    async def _line(self) -> str:
        assert self._holder is not None
        assert self._holder.stdout is not None
        return (await asyncio.to_thread(self._holder.stdout.readline)).strip()
