"""A file system of a node's own: ext4 on a loop device, in a mount namespace of its holder and the node (needs root).

The *holder* (`disks/holder.py`) is a process that mounts the image, a file, and carries out orders on it, one line
each. The mount exists only in the holder's namespace, which the node's programs enter by `LoopDisk.prefix`.
"""

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
"""Octets of the whole file system by default."""

_TOOLS = ("mkfs.ext4", "mount", "umount", "unshare", "nsenter")


def unavailable_reason() -> str:
    """Return why this machine cannot have a loop disk; '' when it can."""
    if os.geteuid() != 0:
        return "needs root, to mount a file system of its own"
    if not Path("/dev/loop-control").exists():
        return "needs loop devices"
    absent = [tool for tool in _TOOLS if shutil.which(tool) is None]
    return f"needs {', '.join(absent)}" if absent else ""


class LoopDisk:
    """The disk of a node, in the file `image` of `size` octets and mounted at `directory`. Methods raise NodeError.

    `_holder` is the process that mounts it (`disks/holder.py`), None while the disk is not mounted. `_full`: it is to be full;
    `_was_filled`: the image may have what fills it, also when it is to have room.

    The holder is a Popen and not a subprocess of the event loop: a clock that jumps when nothing is in flight must not
    wait for a process that lives as long as the node.
    """

    def __init__(self, node: str, directory: Path, image: Path, *, size: int = SIZE) -> None:
        self._node = node
        self._directory = directory
        self._image = image
        self._size = size
        self._holder: subprocess.Popen[str] | None = None
        self._full = False
        self._was_filled = False

    @property
    def prefix(self) -> list[str]:
        """The words before a command that have it see the disk; none while the disk is not mounted.

        The command starts in this process's working directory: without `--chdir` it would start in the root of the namespace.
        """
        if self._holder is None:
            return []
        return ["nsenter", f"--mount=/proc/{self._holder.pid}/ns/mnt", "--", "env", f"--chdir={Path.cwd()}"]

    async def mount(self) -> None:
        """Mount the disk, unless it is mounted. A new disk is made with the present content of `directory`.

        One that is to be full is filled again, and one that has been healed gets its room again: after a power cut the room of
        files that were not synced is free, and what `make_room` deleted is back.
        Raises NodeError when `directory` is not a directory, or the disk cannot be made or mounted.
        """
        if self._holder is not None:
            return
        try:
            PinnedDirectory(self._directory).close()
        except OSError as error:
            raise NodeError(self._node, "mount", f"its data directory: {error}") from error
        if not self._image.exists():
            await self._make_image()
        words = ["unshare", "-m", "--propagation", "private", sys.executable, "-S", "-E", holder.__file__]
        self._holder = subprocess.Popen(  # noqa: S603, ASYNC220  # Popen does not block; its output is read in a thread
            [*words, str(self._image), str(self._directory)],
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            start_new_session=True,
            text=True,
        )
        if await self._read_line() != "ready":
            assert self._holder.stderr is not None
            errors = (await asyncio.to_thread(self._holder.stderr.read)).strip().splitlines()
            await self.close()
            raise NodeError(self._node, "mount", errors[-1] if errors else "the disk's holder ended")
        if self._was_filled:
            await self._order("full" if self._full else "room")

    async def fill(self) -> str:
        """Fill the disk to the last octet, until `make_room`; return the text of the error that a writer gets."""
        error = await self._order("full")
        self._full = self._was_filled = True
        return error

    async def make_room(self, *, now: bool = True) -> None:
        """Delete what `fill` wrote, if anything: now, or at the next `mount` if that is asked for or the disk is not mounted."""
        self._full = False
        if self._was_filled and self._holder is not None and now:
            await self._order("room")

    async def become_read_only(self) -> str:
        """Make the disk fail as after an error of the device, until it is mounted again; return the text of a writer's error."""
        return await self._order("read-only")

    async def cut_power(self) -> None:
        """Lose what was not synced: unmount, and go on with a copy of the image as of now. The node must be dead.

        Raises NodeError, with the disk still mounted, when the image cannot be copied. `mount` mounts the disk again.
        """
        cut = self._image.with_suffix(".cut")
        words = ["cp", "--", str(self._image), str(cut)]  # cp keeps holes
        copied = await asyncio.to_thread(subprocess.run, words, stdin=DEVNULL, capture_output=True, text=True)
        if copied.returncode:
            raise NodeError(self._node, "power-cut", f"its disk's image: {copied.stderr.strip()[-300:]}")
        await self.unmount()
        cut.replace(self._image)

    async def unmount(self) -> None:
        """Unmount the disk in an orderly way, if it is mounted. The node must be dead."""
        if self._holder is not None:
            await self._order("unmount")
            await self.close()

    async def wipe(self) -> None:
        """Unmount the disk and delete its image; `mount` makes a new one. The node must be dead."""
        await self.unmount()
        self._image.unlink(missing_ok=True)
        self._full = self._was_filled = False

    async def close(self) -> None:
        """End the holder, if there is one, by closing its input, and wait for its end; the image stays.

        The kernel unmounts the disk when the node's processes have ended too.
        """
        process, self._holder = self._holder, None
        if process is not None:
            await asyncio.to_thread(process.communicate)

    async def _make_image(self) -> None:
        """Make the image: an ext4 with the present content of `directory`. Raises NodeError, and removes it, if mkfs fails."""
        with self._image.open("wb") as image:
            image.truncate(self._size)
        words = ["mkfs.ext4", "-q", "-F", "-m", "0", "-d", str(self._directory), str(self._image)]
        made = await asyncio.to_thread(subprocess.run, words, stdin=DEVNULL, capture_output=True, text=True)
        if made.returncode:
            self._image.unlink()
            raise NodeError(self._node, "mount", f"mkfs.ext4: {made.stderr.strip()[-300:]}")

    async def _order(self, order: str) -> str:
        """Have the holder carry out an order; return what its answer says after `ok`. Raises NodeError when it fails."""
        if self._holder is None:
            raise NodeError(self._node, order, "its disk is not mounted")
        assert self._holder.stdin is not None
        self._holder.stdin.write(f"{order}\n")
        self._holder.stdin.flush()
        answer = await self._read_line()
        if not answer.startswith("ok"):
            raise NodeError(self._node, order, f"its disk: {answer or 'the holder ended'}")
        return answer.removeprefix("ok").strip()

    async def _read_line(self) -> str:
        """Return the holder's next line; '' when it has ended."""
        assert self._holder is not None
        assert self._holder.stdout is not None
        return (await asyncio.to_thread(self._holder.stdout.readline)).strip()
