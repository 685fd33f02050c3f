"""A data directory as the layer's model has it: read from the disk, compared with what the log says, and written anew."""

import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from conformance.nodes.disks.durability import ROOT, Content, Inode
from conformance.nodes.disks.state import State
from conformance.untrusted.tree import delete_contents

Names = Mapping[tuple[int, str], int]
"""(identity of a directory, name) -> identity of what the name stands for."""


def read(data: Path, copies: Path) -> tuple[dict[int, Inode], dict[tuple[int, str], int]]:
    """Return everything below `data`, all of it durable; the content of files is copied to `copies`."""
    inodes: dict[int, Inode] = {}
    names: dict[tuple[int, str], int] = {}
    known: dict[int, int] = {}
    copies.mkdir(parents=True)

    def take(path: Path) -> int:
        seen = (
            data.stat() if path is data else path.lstat()
        )  # the path of the directory itself may be a pinned directory's
        if seen.st_ino in known:
            return known[seen.st_ino]
        one = known[seen.st_ino] = len(inodes)
        inodes[one] = inode = Inode(seen.st_ino, seen.st_mode, seen.st_uid, seen.st_gid)
        if stat.S_ISLNK(seen.st_mode):
            inode.target = str(path.readlink())
        elif stat.S_ISREG(seen.st_mode):
            copy = copies / str(one)
            shutil.copyfile(path, copy)
            inode.content = Content(seen.st_size, copy=copy)
        elif stat.S_ISDIR(seen.st_mode):
            for entry in sorted(path.iterdir()):
                if not entry.is_socket():
                    names[one, entry.name] = take(entry)
        return one

    take(data)
    return inodes, names


def paths(names: Names) -> Iterator[tuple[Path, int]]:
    """Yield the path below `data` and the identity of everything that can be reached, directories before what is in them."""
    below: dict[int, list[tuple[str, int]]] = {}
    for (where, name), one in names.items():
        below.setdefault(where, []).append((name, one))
    waiting = [(Path(), ROOT)]
    while waiting:
        path, where = waiting.pop()
        for name, one in sorted(below.get(where, ())):
            yield path / name, one
            waiting.append((path / name, one))


def difference(data: Path, inodes: Mapping[int, Inode], names: Names) -> str:
    """Return in what a data directory is not as the log has it; '' when it is. Sockets are left out: no disk keeps them."""
    said = {path: inodes[one].number for path, one in paths(names)}
    there = {path.relative_to(data): path.lstat().st_ino for path in data.rglob("*") if not path.is_socket()}
    for path in sorted(said.keys() | there.keys()):
        if path not in there:
            return f"{path} was taken away"
        if path not in said:
            return f"{path} was made"
        if said[path] != there[path]:
            return f"{path} was replaced"
    return ""


def write(data: Path, inodes: Mapping[int, Inode], now: Names, names: Names, state: State, aside: Path) -> None:
    """Make a data directory, in which there is `now`, what is durable.

    A file that is there now stays the same inode: some servers name files by its number. What a sync did not keep of a
    file's attributes stays as it is now. `aside` is where files are meanwhile, on the same file system.
    """
    aside.mkdir()
    attributes: dict[int, os.stat_result] = {}
    for relative, one in paths(now):
        path = data / relative
        attributes[one] = path.lstat()
        if stat.S_ISREG(inodes[one].mode):
            path.rename(aside / str(one))
    top = os.open(data, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        delete_contents(top)
    finally:
        os.close(top)
    made: dict[int, Path] = {ROOT: data}
    times: list[tuple[Path, int]] = []
    for relative, one in paths(names):
        path, inode, seen = data / relative, inodes[one], attributes.get(one)
        if one in made:
            os.link(made[one], path, follow_symlinks=False)
            continue
        made[one] = path
        if stat.S_ISLNK(inode.mode):
            path.symlink_to(inode.target)
        elif stat.S_ISDIR(inode.mode):
            path.mkdir()
        elif stat.S_ISREG(inode.mode):
            if seen is not None:
                (aside / str(one)).rename(path)
            _fill(path, inode.content or Content(0), state)
        else:
            os.mknod(path, inode.mode)
        mode, uid, gid = inode.mode, inode.uid, inode.gid
        if inode.content is None and seen is not None:
            mode, uid, gid = seen.st_mode, seen.st_uid, seen.st_gid
        os.chown(path, uid, gid, follow_symlinks=False)
        if not stat.S_ISLNK(inode.mode):
            path.chmod(stat.S_IMODE(mode))
            if seen is not None:
                times.append((path, seen.st_mtime_ns))
    for path, moment in reversed(times):
        os.utime(path, ns=(moment, moment))
    shutil.rmtree(aside)


def _fill(path: Path, content: Content, state: State) -> None:
    """Make the content of a file, which may be there, what was kept of it."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as file:
        if content.copy is not None:
            with content.copy.open("rb") as copy:
                shutil.copyfileobj(copy, file)
            return
        for block in content.blocks:
            file.write(state.block(block))
        file.truncate(content.length)
