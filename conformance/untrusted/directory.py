"""A directory that a hostile program can write: create, write, log to and empty what is below it.

The program is a server under test, which at any moment can put a link, a pipe or another user's file at any name. So each name is
looked up relative to an open directory, without following links; a *handle* is a file descriptor.
"""

import os
import stat
from pathlib import Path, PurePosixPath

from conformance.untrusted.tree import (
    NO_FOLLOW,
    OPEN_DIRECTORY,
    delete_contents,
    delete_name,
    replace_file,
)

Owner = tuple[int, int]
"""User id and group id; -1 leaves one of them as it is (chown(2))."""


class UntrustedDirectory:
    """A directory that a hostile program can write; created where it does not exist. Every method can raise OSError.

    `make_directory`, `write_file` and `empty_directory` take paths relative to the directory; one that is absolute or
    contains `..` is a ValueError. The other methods take one name in the directory itself, which is not checked.
    """

    def __init__(self, path: Path) -> None:
        """Create the directory and its parents where they are missing, and open it. Raises OSError where `path` is a link."""
        path.mkdir(parents=True, exist_ok=True)
        self._handle = os.open(path, OPEN_DIRECTORY)

    def close(self) -> None:
        """Close the directory. Further calls do nothing."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def chown(self, owner: Owner) -> None:
        """Change the owner of the directory itself."""
        os.fchown(self._handle, *owner)

    def make_world_readable(self) -> None:
        """Let every user list and enter the directory itself."""
        os.fchmod(self._handle, stat.S_IMODE(os.fstat(self._handle).st_mode) | 0o055)

    def make_directory(self, name: str, *, owner: Owner | None = None, mode: int | None = None) -> None:
        """Create a directory and its missing parents, all with this owner and mode; existing ones stay as they are.

        Without `owner` they belong to this user; without `mode` the process's umask decides.
        """
        os.close(self._make_and_open(PurePosixPath(name), owner, mode))

    def write_file(self, name: str, content: bytes, *, owner: Owner | None = None, readable: bool = False) -> None:
        """Write a file, in place of a file, link or pipe that has the name, and create its missing parents.

        A directory at the name is an OSError. Created parents get the same owner.
        With `readable` every user can read what is created; otherwise the process's umask decides.
        """
        path = PurePosixPath(name)
        folder = self._make_and_open(path.parent, owner, 0o755 if readable else None)
        try:
            replace_file(folder, path.name, content, owner=owner, mode=0o644 if readable else None)
        finally:
            os.close(folder)

    def open_for_append(self, name: str) -> int:
        """Open a file directly in the directory for reading and appending, create it if needed, and return the descriptor.

        Anything but a regular file of this user with a single name is deleted and replaced by a new file.
        """
        flags = os.O_RDWR | os.O_APPEND | os.O_NONBLOCK | NO_FOLLOW
        try:
            handle = os.open(name, flags, dir_fd=self._handle)
        except OSError:
            pass
        else:
            status = os.fstat(handle)
            if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_nlink == 1:
                return handle
            os.close(handle)
        self.remove(name)
        return os.open(name, flags | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=self._handle)

    def refers_to(self, name: str, handle: int) -> bool:
        """Whether a name is, at this moment, a name of the file that is open as `handle`; False when nothing has the name."""
        try:
            status = os.stat(name, dir_fd=self._handle, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return os.path.samestat(status, os.fstat(handle))

    def empty_directory(self, name: str) -> None:
        """Delete everything in a directory below. The directory may itself be a mount; mounts in it are not entered.

        Raises NotADirectoryError for a link or anything else that is not a directory, FileNotFoundError when nothing
        has the name, and OSError for a mount in it.
        """
        folder = self._open(PurePosixPath(name))
        try:
            delete_contents(folder)
        finally:
            os.close(folder)

    def remove(self, name: str) -> None:
        """Delete whatever has the name, with everything below it. Does nothing when nothing has the name.

        A mount that has the name is emptied, and OSError raised.
        """
        delete_name(self._handle, name)

    def _open(self, path: PurePosixPath) -> int:
        """Return a new descriptor of an existing directory below, which the caller closes.

        Raises FileNotFoundError, and NotADirectoryError, also for a link.
        """
        handle = os.dup(self._handle)
        for part in _parts_of(path):
            handle = _open_child(handle, part)  # which closes the one before
        return handle

    def _make_and_open(self, path: PurePosixPath, owner: Owner | None, mode: int | None) -> int:
        """Return a new descriptor of a directory below, which the caller closes.

        The directories that are missing, itself included, are created with this owner and mode. Raises NotADirectoryError for a link.
        """
        handle = os.dup(self._handle)
        for part in _parts_of(path):
            try:
                os.mkdir(part, dir_fd=handle)
            except FileExistsError:
                handle = _open_child(handle, part)
                continue
            except BaseException:
                os.close(handle)
                raise
            handle = _open_child(handle, part)
            if os.fstat(handle).st_uid == os.geteuid():  # the directory just created, not one put in its place
                if owner is not None:
                    os.fchown(handle, *owner)
                if mode is not None:
                    os.fchmod(handle, mode)
        return handle


def _open_child(handle: int, name: str) -> int:
    """Return the descriptor of a directory in an open directory, and close the latter, also on failure."""
    try:
        return os.open(name, OPEN_DIRECTORY, dir_fd=handle)
    finally:
        os.close(handle)


def _parts_of(path: PurePosixPath) -> tuple[str, ...]:
    """Return the names that a relative path consists of. Raises ValueError for a path that leads out of the directory."""
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{path} leads out of the directory")
    return path.parts
