"""Files below a directory that a hostile program can write.

The harness may be root while the program is another user, and the program can replace any name below its directory, at any
moment, by a link, a pipe, a directory, or a file of somebody else's with a second name. So nothing is looked up by its
path. The directory is opened once. Each name is looked up from the directory that holds it, and no symbolic link is
followed. A file is written under a name that is new and then renamed, so that no file that is there already is opened for
writing. Owner and mode are changed by the descriptor of what was just made here. What is read is a regular file, opened
without waiting. What is deleted is deleted by its name alone, and no mount is entered.

Directories may be nested deeper than a path can be long, and deeper than a process may hold files open. A walk therefore
holds one directory open and goes up by `..`, which it compares with where it came from. Deleting lifts what is nested to the
top first.

Only the standard library is imported: the guard of a node uses this too.
"""

# ruff: noqa: PTH208  # a descriptor has no path

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | _FLAGS
_HOLES = 64 * 2**20
"""Octets by which a file may be larger than what it takes on the disk, and still be read as a whole."""

_DEEP = 15
"""Directories in one another, each with a name of at most 255 octets, whose path is sure to be usable."""

Owner = tuple[int, int]
"""User id and group id."""


class NotAFile(OSError):
    """Something else is where a regular file is expected."""


class Moved(OSError):
    """A directory was moved while it was walked through."""


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """Something below a directory; `folder` is the open directory that holds it, for as long as the walk is here."""

    folder: int
    name: str
    above: list[str]
    status: os.stat_result

    @property
    def path(self) -> PurePosixPath:
        """The path from the directory that is walked through, at this moment of the walk."""
        return PurePosixPath(*self.above, self.name)

    @property
    def is_deep(self) -> bool:
        """Whether it is nested so deep that its path may be too long to be used."""
        return len(self.above) >= _DEEP

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file."""
        return stat.S_ISREG(self.status.st_mode)

    @property
    def may_be_copied(self) -> bool:
        """Whether it is a regular file that does no harm when it is copied.

        It does when it consists of holes, which a copy may not have, when its path is too long, or when it is another name
        of a file that belongs to somebody else than the directory in which it stands.
        """
        found = self.status
        holes = found.st_size - found.st_blocks * 512 > _HOLES
        foreign = found.st_nlink > 1 and found.st_uid != os.fstat(self.folder).st_uid
        return self.is_file and not (holes or foreign or self.is_deep)

    def open(self) -> int:
        """Open it for reading and return the descriptor. Raises OSError; NotAFile when it is no regular file (any more)."""
        return open_regular(self.name, self.folder)

    def replace(self, content: bytes) -> None:
        """Put a file with this content in its place, which has its mode, and its owner where this user may give it."""
        scratch = f".{os.urandom(8).hex()}"
        made = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600, dir_fd=self.folder)
        try:
            with os.fdopen(made, "wb", closefd=False) as file:
                file.write(content)
            if os.geteuid() == 0:
                os.fchown(made, self.status.st_uid, self.status.st_gid)
            os.fchmod(made, stat.S_IMODE(self.status.st_mode) & 0o777)
            os.rename(scratch, self.name, src_dir_fd=self.folder, dst_dir_fd=self.folder)
        except BaseException:
            os.unlink(scratch, dir_fd=self.folder)
            raise
        finally:
            os.close(made)


class UntrustedDirectory:
    """A directory that a hostile program can write; made when it is not there. Every method raises OSError."""

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self._handle = os.open(path, _DIRECTORY)

    def close(self) -> None:
        """Let go of the directory."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def chown(self, owner: Owner) -> None:
        """Give the directory itself to a user."""
        os.fchown(self._handle, *owner)

    def make_world_readable(self) -> None:
        """Let everybody read the directory itself."""
        os.fchmod(self._handle, stat.S_IMODE(os.fstat(self._handle).st_mode) | 0o055)

    def make_directory(self, name: str, *, owner: Owner | None = None, mode: int | None = None) -> None:
        """Make a directory below, and those on the way to it; one that is there stays as it is."""
        os.close(self._folder(PurePosixPath(name), owner, mode))

    def write_file(self, name: str, content: bytes, *, owner: Owner | None = None, readable: bool = False) -> None:
        """Write a file in place of what has the name, with the directories on the way to it.

        What is made can be read by everybody where it has to be `readable`, else as the process's umask says.
        """
        path = PurePosixPath(name)
        folder = self._folder(path.parent, owner, 0o755 if readable else None)
        scratch = f".{os.urandom(8).hex()}"
        try:
            made = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o666, dir_fd=folder)
            try:
                with os.fdopen(made, "wb", closefd=False) as file:
                    file.write(content)
                if readable:
                    os.fchmod(made, 0o644)
                if owner is not None:
                    os.fchown(made, *owner)
                os.rename(scratch, path.name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                os.unlink(scratch, dir_fd=folder)
                raise
            finally:
                os.close(made)
        finally:
            os.close(folder)

    def read_file(self, name: str, most: int) -> bytes | None:
        """Return the first `most` octets of a file, or None when nothing has the name. Raises NotAFile."""
        path = PurePosixPath(name)
        try:
            folder = self._existing(path.parent)
            try:
                file = open_regular(path.name, folder)
            finally:
                os.close(folder)
        except FileNotFoundError:
            return None
        try:
            return read_at(file, 0, most)
        finally:
            os.close(file)

    def open_for_append(self, name: str) -> int:
        """Open a file to read it and to append to it, and return the descriptor.

        What is no regular file of our own with one name is replaced by a new file.
        """
        flags = os.O_RDWR | os.O_APPEND | os.O_NONBLOCK | _FLAGS
        try:
            handle = os.open(name, flags, dir_fd=self._handle)
        except OSError:
            pass
        else:
            found = os.fstat(handle)
            if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_nlink == 1:
                return handle
            os.close(handle)
        self.remove(name)
        return os.open(name, flags | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=self._handle)

    def refers_to(self, name: str, handle: int) -> bool:
        """Whether a name stands for the file that is open."""
        try:
            found = os.stat(name, dir_fd=self._handle, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return _identity(found) == _identity(os.fstat(handle))

    def empty_directory(self, name: str) -> None:
        """Delete what is in a directory below; the directory itself may be a mount, what is in it is not entered if it is.

        Raises NotADirectoryError when it is none, or a link.
        """
        folder = self._existing(PurePosixPath(name))
        try:
            delete_contents(folder)
        finally:
            os.close(folder)

    def remove(self, name: str) -> None:
        """Delete whatever has the name, and what is below it; nothing when there is nothing."""
        _remove(name, self._handle)

    def walk(self) -> Iterator[DirectoryEntry]:
        """Yield everything below; see `walk`."""
        return walk(self._handle)

    def _existing(self, path: PurePosixPath) -> int:
        """Open a directory below that is there."""
        handle = os.dup(self._handle)
        for part in _parts(path):
            handle = _step(handle, part)
        return handle

    def _folder(self, path: PurePosixPath, owner: Owner | None, mode: int | None) -> int:
        """Open a directory below; what is missing on the way is made."""
        handle = os.dup(self._handle)
        for part in _parts(path):
            try:
                os.mkdir(part, dir_fd=handle)
            except FileExistsError:
                handle = _step(handle, part)
                continue
            except BaseException:
                os.close(handle)
                raise
            handle = _step(handle, part)
            if os.fstat(handle).st_uid == os.geteuid():  # it is what was made just now
                if owner is not None:
                    os.fchown(handle, *owner)
                if mode is not None:
                    os.fchmod(handle, mode)
        return handle


class PinnedDirectory:
    """A directory that stays the same whatever is done to its path: `path` leads to it for as long as it is held.

    Raises OSError when the path is no directory, or a link.
    """

    def __init__(self, path: Path) -> None:
        self.handle = os.open(path, _DIRECTORY)
        self.path = Path(f"/proc/{os.getpid()}/fd/{self.handle}")

    def close(self) -> None:
        """Let go of it; as often as you like."""
        if self.handle >= 0:
            os.close(self.handle)
            self.handle = -1


def delete_tree(path: Path) -> bool:
    """Delete a directory with all below it, or whatever has the path; return whether it is gone.

    What is left, this user must not delete, or it is a mount.
    """
    try:
        parent = os.open(path.parent, _DIRECTORY)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        _remove(path.name, parent)
    except OSError:
        return False
    finally:
        os.close(parent)
    return True


def open_regular(name: str, folder: int) -> int:
    """Open a regular file for reading; a link is not followed and a pipe not waited for. Raises OSError, NotAFile."""
    handle = os.open(name, os.O_RDONLY | os.O_NONBLOCK | _FLAGS, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise NotAFile(f"{name} is not a regular file")
    return handle


def read_at(handle: int, start: int, most: int) -> bytes:
    """Return up to `most` octets of an open file from `start` on."""
    pieces: list[bytes] = []
    while most > 0 and (piece := os.pread(handle, min(most, 1 << 20), start)):
        pieces.append(piece)
        start += len(piece)
        most -= len(piece)
    return b"".join(pieces)


def walk(top: int) -> Iterator[DirectoryEntry]:
    """Yield everything below an open directory, each directory before what is in it.

    No link is followed, no mount entered; what goes away meanwhile, and what this user must not open, is left out.
    Raises Moved when a directory was moved away under the walk.
    """
    device = os.fstat(top).st_dev
    here = os.dup(top)
    above: list[str] = []
    waiting = [_listed(here)]
    came_by = [_identity(os.fstat(here))]
    try:
        while waiting:
            if not waiting[-1]:
                waiting.pop()
                came_by.pop()
                if waiting:
                    here = _replace(here, os.open("..", _DIRECTORY, dir_fd=here))
                    above.pop()
                    if _identity(os.fstat(here)) != came_by[-1]:
                        raise Moved("a directory was moved while it was looked through")
                continue
            name = waiting[-1].pop()
            try:
                found = os.stat(name, dir_fd=here, follow_symlinks=False)
                yield DirectoryEntry(here, name, above, found)
                if not stat.S_ISDIR(found.st_mode) or found.st_dev != device:
                    continue
                below = os.open(name, _DIRECTORY, dir_fd=here)
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                continue
            here = _replace(here, below)
            above.append(name)
            waiting.append(_listed(here))
            came_by.append(_identity(os.fstat(here)))
    finally:
        os.close(here)


def disk_usage(directory: str) -> int:
    """Return the octets on disk of all below a directory; each name counts for 512 at least.

    What cannot be looked at counts for nothing; where directories are moved meanwhile, what was counted until then is
    returned.
    """
    total = 0
    try:
        top = os.open(directory, _DIRECTORY)
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


def delete_contents(folder: int) -> None:
    """Delete everything in an open directory. What is nested is lifted to the top, so that depth does not matter.

    Raises OSError for a mount and for what this user must not delete.
    """
    device = os.fstat(folder).st_dev
    while names := os.listdir(folder):
        for name in names:
            try:
                os.unlink(name, dir_fd=folder)
            except FileNotFoundError:
                continue
            except IsADirectoryError:
                _empty_one(folder, name, device)


def _remove(name: str, folder: int) -> None:
    """Delete whatever has the name in an open directory, and what is below it; nothing when there is nothing."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return
    except IsADirectoryError:
        below = os.open(name, _DIRECTORY, dir_fd=folder)
        try:
            delete_contents(below)
        finally:
            os.close(below)
        os.rmdir(name, dir_fd=folder)


def _empty_one(folder: int, name: str, device: int) -> None:
    """Delete a directory; the directories in it go to `folder`, to be deleted later."""
    below = os.open(name, _DIRECTORY, dir_fd=folder)
    try:
        if os.fstat(below).st_dev != device:
            raise OSError(f"{name} is a mount")
        for one in os.listdir(below):
            try:
                os.unlink(one, dir_fd=below)
            except IsADirectoryError:
                os.rename(one, f".{os.urandom(8).hex()}", src_dir_fd=below, dst_dir_fd=folder)
    finally:
        os.close(below)
    os.rmdir(name, dir_fd=folder)


def _step(handle: int, name: str) -> int:
    """Open a directory in an open one, and close that."""
    try:
        return os.open(name, _DIRECTORY, dir_fd=handle)
    finally:
        os.close(handle)


def _replace(handle: int, other: int) -> int:
    os.close(handle)
    return other


def _parts(path: PurePosixPath) -> tuple[str, ...]:
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{path} leads out of the directory")
    return path.parts


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _listed(folder: int) -> list[str]:
    """Return the names in an open directory, the first one last."""
    return sorted(os.listdir(folder), reverse=True)
