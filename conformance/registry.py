"""Registers of concepts that are declared once each: what is declared under which name, and the halves of a concept
that find each other by it.

A concept with two halves (what a scenario says, and what judges or does it) has one of them in a lower package and one
in a higher. Each is declared by a decorator beside its code; `complete` finds the modules by their being in the package.
"""

from collections.abc import Iterable
from importlib import import_module
from pkgutil import iter_modules
from typing import TypeVar

T = TypeVar("T")


class Register(dict[str, T]):
    """What was declared, by name, in the order of declaration; `what` is one of them in words: `expectation`."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what

    def add(self, name: str, thing: T) -> None:
        """Take a declaration. Raises TypeError when it has no name, or that of another."""
        if not name:
            raise TypeError(f"{thing!r} is declared as {self.what} and has no name")
        if name in self:
            raise TypeError(f"{self.what} `{name}` is declared twice: {self[name]!r} and {thing!r}")
        self[name] = thing


def import_all(package: str) -> None:
    """Import every module of a package, in alphabetical order, so that what they declare is known."""
    for module in iter_modules(import_module(package).__path__):
        import_module(f"{package}.{module.name}")


def complete(register: Register[T], package: str, wanted: Iterable[str]) -> None:
    """Import every module of the package that fills a register, and hold it against the names that must be there.

    Raises TypeError with a sentence that names what is missing or superfluous.
    """
    import_all(package)
    names = set(wanted)
    if missing := sorted(names - set(register)):
        raise TypeError(f"{register.what} is missing in {package}: `{'`, `'.join(missing)}`")
    if superfluous := sorted(set(register) - names):
        raise TypeError(f"{register.what} of nothing that is declared, in {package}: `{'`, `'.join(superfluous)}`")
