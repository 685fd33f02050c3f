"""How the two halves of a concept find each other: what is declared in one package, and what does it in another."""

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, TypeVar

T = TypeVar("T")
U = TypeVar("U")


class RegistryError(ImportError):
    """Something is declared that nothing does, or is done that nothing declares."""


class Registry(dict[str, T]):
    """What was declared under which name, in the order of declaration; `check` raises what is wrong with one."""

    def __init__(self, what: str, check: Callable[[T], None] = lambda thing: None) -> None:
        super().__init__()
        self._what = what
        self._check = check

    def add(self, name: str, thing: T) -> None:
        """Take a declaration. Raises Unmatched when it has no name, or that of another."""
        if not name:
            raise RegistryError(f"{thing!r} is declared as {self._what} and has no name")
        if name in self:
            raise RegistryError(f"the {self._what} {name!r} is declared twice: {self[name]!r} and {thing!r}")
        self._check(thing)
        self[name] = thing

    def declare(self, *names: str) -> Callable[[U], U]:
        """Return a decorator that takes a function or class under these names."""

        def declared(thing: Any) -> Any:
            for name in names:
                self.add(name, thing)
            return thing

        return declared

    def name_of(self, thing: T) -> str:
        """Return the name of a thing. Raises Unmatched when it was not declared."""
        for name, one in self.items():
            if one is thing:
                return name
        raise RegistryError(f"{thing!r} is not declared as {self._what}")


def submodule_names(package: ModuleType) -> tuple[str, ...]:
    """Return the names of a package's modules, without its own, in their order."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(package.__path__)))


def import_submodules(package: ModuleType) -> None:
    """Import every module of a package, so that what they register is known."""
    for name in submodule_names(package):
        importlib.import_module(f"{package.__name__}.{name}")


def check_counterparts(what: str, declared: Iterable[str], where: str, done: Iterable[str], there: str) -> None:
    """Hold the names that are declared in one place against those that another has something for.

    Raises Unmatched, with each name that stands in one of them only.
    """
    first, second = set(declared), set(done)
    alone = [
        f"the {what} {name!r} is declared in {where}, and nothing in {there} does it" for name in sorted(first - second)
    ]
    alone += [f"{there} does the {what} {name!r}, which {where} does not declare" for name in sorted(second - first)]
    if alone:
        raise RegistryError("; ".join(alone))
