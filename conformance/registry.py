"""Registries that connect what is declared in one package with what implements it in another.

A scenario step, for example, is declared in `conformance.scenarios.steps` and executed by a function in
`conformance.run.steps`. Each side registers its half under the same name; `check_counterparts` then compares the names when the
packages are imported, so that a half without the other is an ImportError.
"""

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, TypeVar

T = TypeVar("T")
U = TypeVar("U")


class RegistryError(ImportError):
    """A name is registered without its counterpart, twice, or not at all."""


class Registry(dict[str, T]):
    """Functions, classes or other items by their names, in the order of registration.

    `role` names in error messages what the items are: "check of the invariant". `validate` is called with each new item
    and raises an error to refuse it.
    """

    def __init__(self, role: str, validate: Callable[[T], None] = lambda item: None) -> None:
        """Make an empty registry; by default every item is accepted."""
        super().__init__()
        self._role = role
        self._validate = validate

    def add(self, name: str, item: T) -> None:
        """Register an item. Raises RegistryError when the name is empty or taken, and what `validate` raises."""
        if not name:
            raise RegistryError(f"{item!r} is declared as {self._role} and has no name")
        if name in self:
            raise RegistryError(f"the {self._role} {name!r} is declared twice: {self[name]!r} and {item!r}")
        self._validate(item)
        self[name] = item

    def register(self, *names: str) -> Callable[[U], U]:
        """Return a decorator that registers a function or class under each of these names and returns it unchanged."""

        def decorate(item: Any) -> Any:
            """Register the item under each name. Raises what `add` raises."""
            for name in names:
                self.add(name, item)
            return item

        return decorate

    def name_of(self, item: T) -> str:
        """Return the first name of an item. Raises RegistryError when it is not registered."""
        for name, registered in self.items():
            if registered is item:
                return name
        raise RegistryError(f"{item!r} is not declared as {self._role}")


def submodule_names(package: ModuleType) -> tuple[str, ...]:
    """Return the names of a package's modules and subpackages, without its own name before them, sorted."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(package.__path__)))


def import_submodules(package: ModuleType) -> None:
    """Import every module and subpackage directly in a package, so that all that they register is in its registry."""
    for name in submodule_names(package):
        importlib.import_module(f"{package.__name__}.{name}")


def check_counterparts(
    concept: str, declared: Iterable[str], declared_in: str, implemented: Iterable[str], implemented_in: str
) -> None:
    """Compare the names of what is declared with the names of what is implemented; the other arguments are for messages.

    Raises RegistryError with each name that only one of the two has.
    """
    declared, implemented = set(declared), set(implemented)
    problems = [
        f"the {concept} {name!r} is declared in {declared_in}, and nothing in {implemented_in} implements it"
        for name in sorted(declared - implemented)
    ]
    problems += [
        f"{implemented_in} implements the {concept} {name!r}, which {declared_in} does not declare"
        for name in sorted(implemented - declared)
    ]
    if problems:
        raise RegistryError("; ".join(problems))
