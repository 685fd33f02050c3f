"""Libraries that are preloaded into programs: compiled with the machine's C compiler, once for each source and
compiler; and which programs one does not get into, as their files tell before they are started.
"""

import hashlib
import os
import shutil
import stat
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

FLAGS = ("-O2", "-Wall", "-fPIC", "-shared", "-ftls-model=initial-exec", "-pthread")


class CannotCompile(Exception):
    """The library cannot be had on this machine. The text says why."""


def compile_library(name: str, sources: Sequence[Path], directory: Path, *, wanted_by: str) -> Path:
    """Return a library made of C sources (and headers), from `directory` where it is there. Raises CannotCompile."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise CannotCompile(f"{wanted_by} needs a C compiler (cc), and this machine has none")
    version = subprocess.run([compiler, "--version"], capture_output=True, check=False).stdout  # noqa: S603
    texts = [source.read_bytes() for source in sources]
    key = hashlib.sha256(b"\0".join([*texts, version, *map(str.encode, FLAGS)])).hexdigest()[:16]
    target = directory / f"{name}-{key}.so"
    if not target.exists():
        directory.mkdir(parents=True, exist_ok=True)
        _compile(compiler, [str(source) for source in sources if source.suffix == ".c"], target)
    return target


def _compile(compiler: str, sources: Sequence[str], target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        made = Path(scratch) / target.name
        words = [compiler, *FLAGS, "-o", str(made), *sources, "-ldl"]
        ran = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
        if ran.returncode:
            raise CannotCompile(
                f"the C compiler refused the {target.name.partition('-')[0]}: {ran.stderr.strip()[-300:]}"
            )
        made.replace(target)  # whole or not at all: several processes may do this at once


_INTERPRETER = 3
"""PT_INTERP: the program header that names the dynamic loader; what has none is linked statically."""

_GO = b"\xff Go buildinf:"
_ENOUGH = 64 * 1024 * 1024


def preload_obstacle(word: str) -> tuple[Path, str] | None:
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
        return preload_obstacle(head[2:].split(b"\n")[0].split()[0].decode())
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
