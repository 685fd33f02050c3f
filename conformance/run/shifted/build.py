"""Compiles the shim with the machine's C compiler, once for each source, compiler and set of flags."""

from pathlib import Path

from conformance.nodes import compiling
from conformance.run.shifted.errors import CannotShift

SOURCES = tuple(sorted(Path(__file__).with_name("shim").glob("*.[ch]")))
"""All of the shim: what is compiled together, and the header."""


def compiled() -> list[str]:
    """Return the files that the compiler is given."""
    return [str(source) for source in SOURCES if source.suffix == ".c"]


def library(directory: Path | None = None) -> Path:
    """Return the compiled shim, from the cache where it is there. Raises CannotShift."""
    try:
        place = directory or compiling.cache() / "shifted"
        return compiling.compiled("shim", SOURCES, place, wanted_by="the shifted clock")
    except compiling.CannotCompile as error:
        raise CannotShift(str(error)) from error
