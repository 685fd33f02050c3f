"""Libraries for LD_PRELOAD: compiles them with the machine's C compiler, and finds programs that do not load them.

A library is compiled once for each text of its sources and version of the compiler, and cached. Whether a program loads
it is read from the program's file before it is started.
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
    """The library cannot be compiled on this machine; the text says why."""


def compile_library(name: str, sources: Sequence[Path], directory: Path, *, wanted_by: str) -> Path:
    """Return the path of a library `name`, compiled from `sources` (.c and .h) unless `directory` has it already.

    `wanted_by` names, in the error's text, what needs the library. Blocks. Raises CannotCompile.
    """
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
    """Compile C sources to the library `target`, which appears at once and whole. Raises CannotCompile."""
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        output = Path(scratch) / target.name
        words = [compiler, *FLAGS, "-o", str(output), *sources, "-ldl"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            raise CannotCompile(
                f"the C compiler refused the {target.name.partition('-')[0]}: {done.stderr.strip()[-300:]}"
            )
        output.replace(target)  # atomic: several processes may do this at once


_INTERPRETER = 3
"""PT_INTERP: the program header that names the dynamic loader; a program without one is linked statically."""

_GO_MARK = b"\xff Go buildinf:"
_MAX_HEAD = 64 * 1024 * 1024
"""Octets of a program that are searched for that mark."""


def preload_obstacle(word: str) -> tuple[Path, str] | None:
    """Return (program, `setuid`, `static` or `go`: why a preloaded library would not see what it does), or None if it would.

    `word` is the program's name or path; for a script its interpreter is examined. Also None when there is no such program,
    or a script names no interpreter, since starting it will report that. Raises OSError when the file cannot be read.
    """
    path = shutil.which(word)
    if path is None:
        return None
    program = Path(path).resolve()
    with program.open("rb") as file:
        head = file.read(_MAX_HEAD)
    if head.startswith(b"#!"):
        words = head[2:].split(b"\n")[0].split()
        return preload_obstacle(os.fsdecode(words[0])) if words else None
    status = program.stat()
    other_user = status.st_mode & stat.S_ISUID and status.st_uid != os.geteuid()
    other_group = status.st_mode & stat.S_ISGID and status.st_gid != os.getegid()
    if other_user or other_group:
        return program, "setuid"
    if head.startswith(b"\x7fELF"):
        if not _is_dynamic(head):
            return program, "static"
        if _GO_MARK in head:
            return program, "go"
    return None


def _is_dynamic(head: bytes) -> bool:
    """Whether an ELF file of the machine's own byte order has a program header for a dynamic loader."""
    wide = head[4] == 2  # 64 bits; below: e_phoff, e_phentsize and e_phnum of elf(5)
    if wide:
        offset, size, count = (*struct.unpack_from("Q", head, 32), *struct.unpack_from("HH", head, 54))
    else:
        offset, size, count = (*struct.unpack_from("I", head, 28), *struct.unpack_from("HH", head, 42))
    return any(struct.unpack_from("I", head, offset + n * size)[0] == _INTERPRETER for n in range(count))
