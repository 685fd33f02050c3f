"""Compiles the shim with the machine's C compiler, once for each source, compiler and set of flags."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from conformance.run.shifted.errors import CannotShift

SOURCES = tuple(sorted(Path(__file__).with_name("shim").glob("*.[ch]")))
"""All of the shim: what is compiled together, and the header."""

_FLAGS = ("-O2", "-Wall", "-fPIC", "-shared", "-ftls-model=initial-exec", "-pthread")


def cache() -> Path:
    """Return the directory that keeps what was compiled."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "smtp-conformance" / "shifted"


def compiled() -> list[str]:
    """Return the files that the compiler is given."""
    return [str(source) for source in SOURCES if source.suffix == ".c"]


def library(directory: Path | None = None) -> Path:
    """Return the compiled shim, from the cache where it is there. Raises CannotShift."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise CannotShift("the shifted clock needs a C compiler (cc), and this machine has none")
    version = subprocess.run([compiler, "--version"], capture_output=True, check=False).stdout  # noqa: S603
    sources = [source.read_bytes() for source in SOURCES]
    key = hashlib.sha256(b"\0".join([*sources, version, *map(str.encode, _FLAGS)])).hexdigest()[:16]
    target = (directory or cache()) / f"shim-{key}.so"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        _compile(compiler, target)
    return target


def _compile(compiler: str, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        made = Path(scratch) / target.name
        words = [compiler, *_FLAGS, "-o", str(made), *compiled(), "-ldl"]
        ran = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
        if ran.returncode:
            raise CannotShift(f"the C compiler refused the shim: {ran.stderr.strip()[-300:]}")
        made.replace(target)  # whole or not at all: several processes may do this at once
