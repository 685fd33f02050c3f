"""Compiles a library that is preloaded into programs, with the machine's C compiler, once for each source and compiler."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

FLAGS = ("-O2", "-Wall", "-fPIC", "-shared", "-ftls-model=initial-exec", "-pthread")


class CannotCompile(Exception):
    """The library cannot be had on this machine. The text says why."""


def cache() -> Path:
    """Return the directory that keeps what was compiled."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "smtp-conformance"


def compiled(name: str, sources: Sequence[Path], directory: Path, *, wanted_by: str) -> Path:
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
