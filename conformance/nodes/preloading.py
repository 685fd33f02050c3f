"""Which programs a preloaded library does not get into, as their files tell before they are started."""

import os
import shutil
import stat
import struct
from pathlib import Path

_INTERPRETER = 3
"""PT_INTERP: the program header that names the dynamic loader; what has none is linked statically."""

_GO = b"\xff Go buildinf:"
_ENOUGH = 64 * 1024 * 1024


def unreached(word: str) -> tuple[Path, str] | None:
    """Return the program and why what is preloaded does not see what it does: `setuid`, `static` or `go`; None when it does.

    `word` is a name or a path; of a script its interpreter is looked at. What is not there is let pass: starting it will
    say so.
    """
    found = shutil.which(word)
    if found is None:
        return None
    program = Path(found).resolve()
    with program.open("rb") as file:
        head = file.read(_ENOUGH)
    if head.startswith(b"#!"):
        return unreached(head[2:].split(b"\n")[0].split()[0].decode())
    told = program.stat()
    other_user = told.st_mode & stat.S_ISUID and told.st_uid != os.geteuid()
    other_group = told.st_mode & stat.S_ISGID and told.st_gid != os.getegid()
    if other_user or other_group:
        return program, "setuid"
    if head.startswith(b"\x7fELF"):
        if not _dynamic(head):
            return program, "static"
        if _GO in head:
            return program, "go"
    return None


def _dynamic(head: bytes) -> bool:
    """Whether an ELF file (of the machine's own byte order) asks for a dynamic loader."""
    wide = head[4] == 2
    if wide:
        offset, size, count = (*struct.unpack_from("Q", head, 32), *struct.unpack_from("HH", head, 54))
    else:
        offset, size, count = (*struct.unpack_from("I", head, 28), *struct.unpack_from("HH", head, 42))
    return any(struct.unpack_from("I", head, offset + n * size)[0] == _INTERPRETER for n in range(count))
