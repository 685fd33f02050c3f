"""Which programs the shim cannot reach, told before they are started, and by what is in a process once it runs."""

import os
import shutil
import stat
import struct
from pathlib import Path

from conformance.run.shifted.errors import CannotShift

_INTERPRETER = 3
"""PT_INTERP: the program header that names the dynamic loader; what has none is linked statically."""

_GO = b"\xff Go buildinf:"
_ENOUGH = 64 * 1024 * 1024


def look_at(word: str) -> None:
    """Look at a program, by name or path; of a script at its interpreter. Raises CannotShift, saying why.

    What is not there is let pass: starting it will say so.
    """
    found = shutil.which(word)
    if found is None:
        return
    program = Path(found).resolve()
    with program.open("rb") as file:
        head = file.read(_ENOUGH)
    if head.startswith(b"#!"):
        look_at(head[2:].split(b"\n")[0].split()[0].decode())
        return
    told = program.stat()
    other_user = told.st_mode & stat.S_ISUID and told.st_uid != os.geteuid()
    other_group = told.st_mode & stat.S_ISGID and told.st_gid != os.getegid()
    if other_user or other_group:
        raise CannotShift(f"{program} is setuid: the loader drops what would move its clock")
    if head.startswith(b"\x7fELF"):
        if not _dynamic(head):
            raise CannotShift(f"{program} is linked statically: it reads the clock around the shim")
        if _GO in head:
            raise CannotShift(f"{program} is a Go program: it reads the clock around the shim")


def untouched(pid: int, library: Path, page: Path) -> str:
    """Return why the clock of a running process is not moved; '' when it is, or when the process has ended."""
    try:
        maps = Path(f"/proc/{pid}/maps").read_text("utf-8", "replace")
        name = Path(f"/proc/{pid}/exe").readlink()
    except OSError:
        return ""
    if not maps:  # a zombie
        return ""
    if library.name not in maps:
        return f"process {pid} ({name}) runs without the shim: it is static, setuid, or cleaned its environment"
    if page.name not in maps:
        return f"process {pid} ({name}) could not open the clock's page"
    return ""


def _dynamic(head: bytes) -> bool:
    """Whether an ELF file (of the machine's own byte order) asks for a dynamic loader."""
    wide = head[4] == 2
    if wide:
        offset, size, count = (*struct.unpack_from("Q", head, 32), *struct.unpack_from("HH", head, 54))
    else:
        offset, size, count = (*struct.unpack_from("I", head, 28), *struct.unpack_from("HH", head, 42))
    return any(struct.unpack_from("I", head, offset + n * size)[0] == _INTERPRETER for n in range(count))
