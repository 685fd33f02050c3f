"""The shim: compiled with the machine's C compiler, and which programs it cannot reach. Those are told before they
are started, and by what is in a process once it runs: a fact about the program and this machine, never a failure of
either.
"""

from pathlib import Path

from conformance import paths
from conformance.nodes import preloading
from conformance.nodes.preloading import preload_obstacle
from conformance.run.virtual.errors import ClockError

SOURCES = tuple(sorted(Path(__file__).with_name("shim").glob("*.[ch]")))
"""All of the shim: what is compiled together, and the header."""
_WHY = {
    "setuid": "is setuid: the loader drops what would move its clock",
    "static": "is linked statically: it reads the clock around the shim",
    "go": "is a Go program: it reads the clock around the shim",
}


class CannotShift(Exception):
    """The shifted clock does not reach a program: what was looked at does not apply to it. The text says why."""


class NeverQuiet(ClockError):
    """Time could not jump for a minute, since programs never came to rest. The text says which."""


class UnshiftedTimeout(ClockError):
    """A program that runs has asked for something that the shifted clock does not move. The text says for what."""


def check_program(word: str) -> None:
    """Look at a program, by name or path; of a script at its interpreter. Raises CannotShift, saying why.

    What is not there is let pass: starting it will say so.
    """
    if (found := preload_obstacle(word)) is not None:
        program, why = found
        raise CannotShift(f"{program} {_WHY[why]}")


def why_not_shifted(pid: int, library: Path, page: Path) -> str:
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


def compiled() -> list[str]:
    """Return the files that the compiler is given."""
    return [str(source) for source in SOURCES if source.suffix == ".c"]


def library(directory: Path | None = None) -> Path:
    """Return the compiled shim, from the cache where it is there. Raises CannotShift."""
    try:
        place = directory or paths.cache() / "shifted"
        return preloading.compile_library("shim", SOURCES, place, wanted_by="the shifted clock")
    except preloading.CannotCompile as error:
        raise CannotShift(str(error)) from error
