"""The names that aiosmtpd looks for in a server and in its handler, looked up once for each class.

It looks through all members of both whenever a session begins, which takes 0.2 ms.
"""

from collections.abc import Iterator, Mapping
from typing import Any

_SOUGHT = ("smtp_", "auth_", "handle_", "ehlo_hook", "rset_hook")
"""Beginnings of the names that aiosmtpd looks for in a server and in its handler."""


_FOUND: dict[tuple[Any, Any], tuple[str, ...]] = {}


def sought(kind: Any, beginning: str | tuple[str, ...] = _SOUGHT) -> tuple[str, ...]:
    """Return the names in a class that begin so, in order; once for each class."""
    if (found := _FOUND.get((kind, beginning))) is None:
        found = _FOUND[kind, beginning] = tuple(name for name in dir(kind) if name.startswith(beginning))
    return found


class Lean:
    """A server or a handler that is quickly looked through: `dir` names its commands and hooks only."""

    def __dir__(self) -> tuple[str, ...]:
        return sought(type(self))


_RESTS: dict[tuple[Any, str], dict[str, str]] = {}


def rests(kind: Any, beginning: str) -> dict[str, str]:
    """Return those names in a class by what follows their beginning; once for each class."""
    if (found := _RESTS.get((kind, beginning))) is None:
        names = {name.removeprefix(beginning): name for name in sought(kind, beginning)}
        found = _RESTS[kind, beginning] = names
    return found


class Bound(Mapping[str, Any]):
    """The methods of an object whose names begin so, by the rest of their names; each is bound when it is asked for."""

    __slots__ = ("_names", "_of")

    def __init__(self, of: Any, beginning: str) -> None:
        self._of = of
        self._names = rests(type(of), beginning)

    def __getitem__(self, rest: str) -> Any:
        return getattr(self._of, self._names[rest])

    def get(self, rest: str, default: Any = None) -> Any:
        """See Mapping.get."""
        name = self._names.get(rest)
        return default if name is None else getattr(self._of, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
