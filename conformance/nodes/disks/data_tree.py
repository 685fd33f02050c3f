"""A data directory as inodes and names: read from the disk, compared with those of the log, and rewritten after a cut.

An inode is known by a key that is never used again, since the kernel may give its number to another file; the key ROOT
is the data directory itself. Names are entries (key of the directory, name) with the key of the inode that each names.
The *log* has the calls of the node's programs that changed or synced files (`state_file`). The layer of a disk
(`layer`) calls these functions to compute a power cut.
"""

import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from conformance.nodes.disks.durability import ROOT, Content, Entry, Inode
from conformance.nodes.disks.state_file import StateFile
from conformance.untrusted.tree import delete_contents

Names = Mapping[Entry, int]
"""(key of a directory, name) -> key of the inode that it names."""


def read_tree(data: Path, copies: Path) -> tuple[dict[int, Inode], dict[Entry, int]]:
    """Return all inodes of a data directory by key, and all names; copy the content of files to the new folder `copies`.

    Keys count from 0, which is ROOT; a copy is named by its key. The files count as synced. Sockets are left out.
    """
    inodes: dict[int, Inode] = {}
    names: dict[Entry, int] = {}
    keys: dict[int, int] = {}
    copies.mkdir(parents=True)

    def add(path: Path) -> int:
        """Add the inode of a path, and everything below it; return its key. An inode that was added before is not added again."""
        # The path of a pinned directory is a symbolic link.
        status = data.stat() if path is data else path.lstat()
        if status.st_ino in keys:
            return keys[status.st_ino]
        key = keys[status.st_ino] = len(inodes)
        inodes[key] = inode = Inode(status.st_ino, status.st_mode, status.st_uid, status.st_gid)
        if stat.S_ISLNK(status.st_mode):
            inode.target = str(path.readlink())
        elif stat.S_ISREG(status.st_mode):
            copy = copies / str(key)
            shutil.copyfile(path, copy)
            inode.content = Content(status.st_size, copy=copy)
        elif stat.S_ISDIR(status.st_mode):
            for child in sorted(path.iterdir()):
                if not child.is_socket():
                    names[key, child.name] = add(child)
        return key

    add(data)
    return inodes, names


def reachable_paths(names: Names) -> Iterator[tuple[Path, int]]:
    """Yield each path that leads from the data directory to an inode, relative to it, with the inode's key.

    A directory comes before what is in it.
    """
    children: dict[int, list[tuple[str, int]]] = {}
    for (directory, name), key in names.items():
        children.setdefault(directory, []).append((name, key))
    waiting = [(Path(), ROOT)]
    while waiting:
        path, directory = waiting.pop()
        for name, key in sorted(children.get(directory, ())):
            yield path / name, key
            waiting.append((path / name, key))


def find_difference(data: Path, inodes: Mapping[int, Inode], names: Names) -> str:
    """Return in words the first path at which a data directory differs from the log; '' when there is none.

    Sockets are left out, since no disk keeps them.
    """
    logged = {path: inodes[key].number for path, key in reachable_paths(names)}
    found = {path.relative_to(data): path.lstat().st_ino for path in data.rglob("*") if not path.is_socket()}
    for path in sorted(logged.keys() | found.keys()):
        if path not in found:
            return f"{path} was taken away"
        if path not in logged:
            return f"{path} was made"
        if logged[path] != found[path]:
            return f"{path} was replaced"
    return ""


def rewrite(
    data: Path, inodes: Mapping[int, Inode], names_now: Names, durable: Names, state: StateFile, aside: Path
) -> None:
    """Turn a data directory whose names are `names_now` into one with the `durable` names and contents.

    A file that exists now keeps its inode number, since some servers name files by it. Owner and mode of a file are those of its
    last sync; those of everything else, and the times of what exists now, stay. `names_now` and `durable` lead to keys of `inodes`;
    `state` has the synced blocks of files. `aside` is a new folder on the same file system, in which files are kept meanwhile.
    """
    aside.mkdir()
    attributes: dict[int, os.stat_result] = {}
    for relative, key in reachable_paths(names_now):
        path = data / relative
        attributes[key] = path.lstat()
        if stat.S_ISREG(inodes[key].mode):
            path.rename(aside / str(key))
    top = os.open(data, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        delete_contents(top)
    finally:
        os.close(top)
    first_paths: dict[int, Path] = {ROOT: data}
    times: list[tuple[Path, int]] = []
    for relative, key in reachable_paths(durable):
        path, inode, status = data / relative, inodes[key], attributes.get(key)
        if key in first_paths:
            os.link(first_paths[key], path, follow_symlinks=False)
            continue
        first_paths[key] = path
        if stat.S_ISLNK(inode.mode):
            path.symlink_to(inode.target)
        elif stat.S_ISDIR(inode.mode):
            path.mkdir()
        elif stat.S_ISREG(inode.mode):
            if status is not None:
                (aside / str(key)).rename(path)
            _write_content(path, inode.content or Content(0), state)
        else:
            os.mknod(path, inode.mode)
        mode, uid, gid = inode.mode, inode.uid, inode.gid
        if inode.content is None and status is not None:  # no sync of it: it is no file, or was not synced
            mode, uid, gid = status.st_mode, status.st_uid, status.st_gid
        os.chown(path, uid, gid, follow_symlinks=False)
        if not stat.S_ISLNK(inode.mode):
            path.chmod(stat.S_IMODE(mode))
            if status is not None:
                times.append((path, status.st_mtime_ns))
    for path, nanoseconds in reversed(times):  # a directory after what is in it
        os.utime(path, ns=(nanoseconds, nanoseconds))
    shutil.rmtree(aside)


def _write_content(path: Path, content: Content, state: StateFile) -> None:
    """Write a file's durable content, from its copy or the blocks in the log, to a new file or in place of an existing one's."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as file:
        if content.copy is not None:
            with content.copy.open("rb") as copy:
                shutil.copyfileobj(copy, file)
            return
        for block in content.blocks:
            file.write(state.block(block))
        file.truncate(content.length)
