"""Finding the methods of a class by the prefix of their names, as aiosmtpd finds commands and hooks; cached for each class.

aiosmtpd looks through `dir(object)` at the start of each session for names such as `smtp_RSET`; that took a large part of a short
session.
"""

from collections.abc import Iterator, Mapping
from typing import Any

_AIOSMTPD_PREFIXES = ("smtp_", "auth_", "handle_", "ehlo_hook", "rset_hook")
"""Prefixes of the names that aiosmtpd looks for in a server and in its handler."""


_NAMES: dict[tuple[Any, Any], tuple[str, ...]] = {}


def prefixed_names(kind: Any, prefix: str | tuple[str, ...] = _AIOSMTPD_PREFIXES) -> tuple[str, ...]:
    """Return the sorted names in a class that start with a prefix, or any of several, by default those of aiosmtpd; cached."""
    if (names := _NAMES.get((kind, prefix))) is None:
        names = _NAMES[kind, prefix] = tuple(name for name in dir(kind) if name.startswith(prefix))
    return names


class PrefixedDir:
    """A server or handler for which `dir` returns the names of commands and hooks only, since aiosmtpd inspects all of `dir`."""

    def __dir__(self) -> tuple[str, ...]:
        """Return the sorted names of commands and hooks in the class."""
        return prefixed_names(type(self))


_NAMES_BY_SUFFIX: dict[tuple[Any, str], dict[str, str]] = {}


def by_suffix(kind: Any, prefix: str) -> dict[str, str]:
    """Return the names in a class that start with a prefix, by the rest of each name (RSET: smtp_RSET); cached."""
    if (names := _NAMES_BY_SUFFIX.get((kind, prefix))) is None:
        names = {name.removeprefix(prefix): name for name in prefixed_names(kind, prefix)}
        _NAMES_BY_SUFFIX[kind, prefix] = names
    return names


class PrefixedMethods(Mapping[str, Any]):
    """The methods of an object whose names start with a prefix, by the rest of the name; bound on access."""

    __slots__ = ("_names", "_object")

    def __init__(self, instance: Any, prefix: str) -> None:
        self._object = instance
        self._names = by_suffix(type(instance), prefix)

    def __getitem__(self, suffix: str) -> Any:
        """Return the bound method whose name is the prefix and `suffix`. Raises KeyError if there is none."""
        return getattr(self._object, self._names[suffix])

    def get(self, suffix: str, default: Any = None) -> Any:
        """Return the bound method whose name is the prefix and `suffix`, or the default if there is none."""
        name = self._names.get(suffix)
        return default if name is None else getattr(self._object, name)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names without the prefix."""
        return iter(self._names)

    def __len__(self) -> int:
        """Return the number of methods with the prefix."""
        return len(self._names)
