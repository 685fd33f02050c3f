"""Walking, measuring, reading and deleting directory trees that a hostile program can change meanwhile.

A *folder*, or the `top` of a walk, is the descriptor of an open directory; a `handle` is any descriptor. The names in a
folder are looked up relative to it, and no symbolic link is followed.
"""

# ruff: noqa: PTH208  # a descriptor has no path

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

NO_FOLLOW = os.O_NOFOLLOW | os.O_CLOEXEC
OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | NO_FOLLOW
_MAX_HOLE_OCTETS = 64 * 2**20
"""How many octets larger than its blocks on disk a sparse file may be, and still be copied."""

_MAX_DEPTH = 15
"""How deep directories may be nested, each with a name of at most 255 octets, so that the path can surely be used."""


class NotRegularFile(OSError):
    """Something else is where a regular file is expected."""


class DirectoryMoved(OSError):
    """A directory was moved while it was walked through."""


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """A name that `walk` found. It can be used until the walk goes on.

    `folder` is the descriptor of the open directory that holds it, `above` are the names of the directories from the top of
    the walk down to that one.
    """

    folder: int
    name: str
    above: list[str]
    status: os.stat_result

    @property
    def path(self) -> PurePosixPath:
        """The path relative to the top of the walk."""
        return PurePosixPath(*self.above, self.name)

    @property
    def is_deep(self) -> bool:
        """Whether the entry is nested so deep (15 directories) that its path may be too long to be used."""
        return len(self.above) >= _MAX_DEPTH

    @property
    def is_file(self) -> bool:
        """Whether the entry was a regular file when the walk found it."""
        return stat.S_ISREG(self.status.st_mode)

    @property
    def may_be_copied(self) -> bool:
        """Whether the entry is a regular file whose copy does no harm.

        A sparse file can fill the disk, since its copy may have no holes. The path of a deep one is too long. A second name
        of a file that belongs to another user than the directory would disclose that user's data.
        """
        is_sparse = self.status.st_size - self.status.st_blocks * 512 > _MAX_HOLE_OCTETS
        is_foreign = self.status.st_nlink > 1 and self.status.st_uid != os.fstat(self.folder).st_uid
        return self.is_file and not (is_sparse or is_foreign or self.is_deep)

    def open(self) -> int:
        """Open the entry for reading and return the descriptor, which the caller closes.

        Raises OSError; NotRegularFile when it is no regular file.
        """
        return open_regular_at(self.folder, self.name)

    def replace(self, content: bytes) -> None:
        """Replace the entry by a file with this content and the same mode; with the same owner, where this user is root."""
        owner = (self.status.st_uid, self.status.st_gid) if os.geteuid() == 0 else None
        replace_file(self.folder, self.name, content, owner=owner, mode=stat.S_IMODE(self.status.st_mode) & 0o777)


class PinnedDirectory:
    """A directory that is kept open, so that `path` leads to it even after it was moved or replaced.

    Raises OSError when the path is a link, or not a directory.
    """

    def __init__(self, path: Path) -> None:
        """Open the directory; `self.path` leads to it until `close`."""
        self.handle = os.open(path, OPEN_DIRECTORY)
        self.path = Path(f"/proc/{os.getpid()}/fd/{self.handle}")

    def close(self) -> None:
        """Close the directory. Further calls do nothing."""
        if self.handle >= 0:
            os.close(self.handle)
            self.handle = -1


def open_regular_at(folder: int, name: str) -> int:
    """Open a regular file in an open directory for reading, and return the descriptor, which the caller closes.

    No link is followed, and a pipe is not waited for. Raises OSError; NotRegularFile for anything else.
    """
    handle = os.open(name, os.O_RDONLY | os.O_NONBLOCK | NO_FOLLOW, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise NotRegularFile(f"{name} is not a regular file")
    return handle


def read_at(handle: int, start: int, most: int) -> bytes:
    """Return up to `most` octets of an open file, beginning at the offset `start`; fewer where the file ends."""
    pieces: list[bytes] = []
    while most > 0 and (piece := os.pread(handle, min(most, 1 << 20), start)):
        pieces.append(piece)
        start += len(piece)
        most -= len(piece)
    return b"".join(pieces)


def replace_file(folder: int, name: str, content: bytes, *, owner: tuple[int, int] | None, mode: int | None) -> None:
    """Write a new file under a random name into an open directory, and rename it over `name`.

    `owner` (user id, group id) and `mode` are set where they are given; else the file is this user's, with the mode of
    the umask. A failure deletes the new file.
    """
    scratch = f".{os.urandom(8).hex()}"
    handle = os.open(
        scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_FOLLOW, 0o666 if mode is None else 0o600, dir_fd=folder
    )
    try:
        with os.fdopen(handle, "wb", closefd=False) as file:
            file.write(content)
        if owner is not None:
            os.fchown(handle, *owner)
        if mode is not None:
            os.fchmod(handle, mode)
        os.rename(scratch, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.unlink(scratch, dir_fd=folder)
        raise
    finally:
        os.close(handle)


def walk(top: int) -> Iterator[DirectoryEntry]:
    """Yield everything below the open directory with the descriptor `top`, each directory before what is in it.

    An entry is valid only until the next one is asked for: its `folder` may be closed and its `above` changed then.

    No link is followed and no mount entered. What disappears meanwhile is left out, and so is what is in a directory that
    this user has no permission to open. Raises DirectoryMoved when a directory was moved away during the walk.
    """
    device = os.fstat(top).st_dev
    here = os.dup(top)
    above: list[str] = []
    unvisited = [_names_in(here)]
    statuses = [os.fstat(here)]
    try:
        while unvisited:
            if not unvisited[-1]:
                unvisited.pop()
                statuses.pop()
                if unvisited:
                    here = _close_for(here, os.open("..", OPEN_DIRECTORY, dir_fd=here))
                    above.pop()
                    if not os.path.samestat(os.fstat(here), statuses[-1]):
                        raise DirectoryMoved("a directory was moved while it was looked through")
                continue
            name = unvisited[-1].pop()
            try:
                status = os.stat(name, dir_fd=here, follow_symlinks=False)
                yield DirectoryEntry(here, name, above, status)
                if not stat.S_ISDIR(status.st_mode) or status.st_dev != device:
                    continue
                below = os.open(name, OPEN_DIRECTORY, dir_fd=here)
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                continue
            here = _close_for(here, below)
            above.append(name)
            unvisited.append(_names_in(here))
            statuses.append(os.fstat(here))
    finally:
        os.close(here)


def disk_usage(directory: str) -> int:
    """Return how many octets on disk everything below a directory takes; each name counts its file, at least 512.

    A directory that cannot be opened counts for 0. Where one is moved meanwhile, only what was counted until then is returned.
    """
    total = 0
    try:
        top = os.open(directory, OPEN_DIRECTORY)
    except OSError:
        return 0
    try:
        for entry in walk(top):
            total += max(entry.status.st_blocks, 1) * 512
    except OSError:
        return total
    finally:
        os.close(top)
    return total


def delete_tree(path: Path) -> bool:
    """Delete whatever has the path, a directory with everything below it; return whether nothing is left.

    What is left is a mount, or this user has no permission to delete it. A mount that has the path itself is emptied.
    """
    try:
        parent = os.open(path.parent, OPEN_DIRECTORY)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        delete_name(parent, path.name)
    except OSError:
        return False
    finally:
        os.close(parent)
    return True


def delete_name(folder: int, name: str) -> None:
    """Delete whatever has the name in an open directory, with everything below it. Does nothing when nothing has the name.

    Raises OSError for a mount and for what this user has no permission to delete. A mount that has the name itself is
    emptied before.
    """
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return
    except IsADirectoryError:
        below = os.open(name, OPEN_DIRECTORY, dir_fd=folder)
        try:
            delete_contents(below)
        finally:
            os.close(below)
        os.rmdir(name, dir_fd=folder)


def delete_contents(folder: int) -> None:
    """Delete everything in an open directory, however deep it is nested.

    Raises OSError for a mount and for what this user has no permission to delete.
    """
    device = os.fstat(folder).st_dev
    while names := os.listdir(folder):
        for name in names:
            try:
                os.unlink(name, dir_fd=folder)
            except FileNotFoundError:
                continue
            except IsADirectoryError:
                _delete_directory(folder, name, device)


def _delete_directory(folder: int, name: str, device: int) -> None:
    """Delete a directory in an open one. Directories in it are moved to `folder` under random names, to be deleted later.

    Raises OSError when the directory is not on `device`: it is a mount.
    """
    below = os.open(name, OPEN_DIRECTORY, dir_fd=folder)
    try:
        if os.fstat(below).st_dev != device:
            raise OSError(f"{name} is a mount")
        for nested in os.listdir(below):
            try:
                os.unlink(nested, dir_fd=below)
            except IsADirectoryError:
                os.rename(nested, f".{os.urandom(8).hex()}", src_dir_fd=below, dst_dir_fd=folder)
    finally:
        os.close(below)
    os.rmdir(name, dir_fd=folder)


def _close_for(handle: int, successor: int) -> int:
    """Close a descriptor, and return the one that takes its place."""
    os.close(handle)
    return successor


def _names_in(folder: int) -> list[str]:
    """Return the names in an open directory in reverse order, so that `pop` takes them in order."""
    return sorted(os.listdir(folder), reverse=True)
