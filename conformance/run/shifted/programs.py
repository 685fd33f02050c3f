"""Which programs the shim cannot reach, told before they are started, and by what is in a process once it runs."""

from pathlib import Path

from conformance.nodes.preloading import unreached
from conformance.run.shifted.errors import CannotShift

_WHY = {
    "setuid": "is setuid: the loader drops what would move its clock",
    "static": "is linked statically: it reads the clock around the shim",
    "go": "is a Go program: it reads the clock around the shim",
}


def look_at(word: str) -> None:
    """Look at a program, by name or path; of a script at its interpreter. Raises CannotShift, saying why.

    What is not there is let pass: starting it will say so.
    """
    if (found := unreached(word)) is not None:
        program, why = found
        raise CannotShift(f"{program} {_WHY[why]}")


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
