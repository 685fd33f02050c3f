"""Compiles the shim, and finds the programs that it does not reach: before they start, and in running processes.

The shim is a C library that is preloaded into the programs of a node and adds an offset to their clocks. That it does not reach
a program is a fact about the program and this machine, not a failure of either.
"""

from pathlib import Path

from conformance import paths
from conformance.nodes import preloading
from conformance.nodes.preloading import preload_obstacle
from conformance.run.virtual.errors import ClockError

SOURCES = tuple(sorted(Path(__file__).with_name("shim").glob("*.[ch]")))
"""The C sources and the header of the shim."""

_REASONS = {
    "setuid": "is setuid: the loader drops what would move its clock",
    "static": "is linked statically: it reads the clock around the shim",
    "go": "is a Go program: it reads the clock around the shim",
}


class CannotShift(Exception):
    """The shifted clock does not reach a program, so its cell is not applicable. The text says why."""


class NeverQuiet(ClockError):
    """Time could not jump for a minute, since programs always had something to do. The text names them."""


class UnshiftedWait(ClockError):
    """A running program has asked for a time limit that the shim cannot shift. The text says which."""


def check_program(name: str) -> None:
    """Raise CannotShift, with the reason, when the shim cannot be loaded into a program, given by its name or path.

    Of a script the interpreter is checked. A program that does not exist passes: starting it will fail with a better error.
    """
    if (found := preload_obstacle(name)) is not None:
        program, reason = found
        raise CannotShift(f"{program} {_REASONS[reason]}")


def why_not_shifted(pid: int, library: Path, page: Path) -> str:
    """Return why the clock of a running process is not shifted; "" when it is, or when the process has ended.

    `library` (the node's copy of the shim) and `page` are the files that the process must have mapped.
    """
    try:
        maps = Path(f"/proc/{pid}/maps").read_text("utf-8", "replace")
        program = Path(f"/proc/{pid}/exe").readlink()
    except OSError:
        return ""
    if not maps:  # a zombie
        return ""
    if library.name not in maps:
        return f"process {pid} ({program}) runs without the shim: it is static, setuid, or cleaned its environment"
    if page.name not in maps:
        return f"process {pid} ({program}) could not open the clock's page"
    return ""


def build_shim(directory: Path | None = None) -> Path:
    """Return the path of the compiled shim; compile it unless it is in the cache, or in `directory` when that is given.

    Blocks while it compiles. Raises CannotShift when it cannot be compiled.
    """
    try:
        cache = directory or paths.cache() / "shifted"
        return preloading.compile_library("shim", SOURCES, cache, wanted_by="the shifted clock")
    except preloading.CannotCompile as error:
        raise CannotShift(str(error)) from error
