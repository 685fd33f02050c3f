"""Problems of a file: each with its place and message, collected and reported together.

Everything that reads YAML files of the harness uses a `ProblemReport`: it goes on after a problem, and the caller
raises `InvalidFile` with all of them, or prints them. A *mark* is the place of a value.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NamedTuple

MAX_VALUE_LENGTH = 60
"""Characters of a value in a message; the rest is cut off."""
MAX_MESSAGE_LENGTH = 300
"""Characters of a message; the rest is cut off."""
_MAX_LISTED = 50
"""Problems of one file that are listed."""
_MAX_BITS = 1000
"""Larger integers are not formatted: that takes quadratic time, and Python refuses it from 4,300 digits on."""


class Mark(NamedTuple):
    """A place in a file; both numbers count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """Something wrong in a file. As text: `path:line:column: message`."""

    path: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.message}"


class InvalidFile(Exception):
    """A file (a scenario, topology, message ...) cannot be used; `problems` lists everything that is wrong with it."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(set(problems)))
        super().__init__("\n".join(map(str, self.problems)))


class ProblemReport:
    """Collects the problems of one file; `path` names it in messages."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._found: set[Problem] = set()
        self._refused: set[Mark] = set()

    def add(self, mark: Mark, message: str) -> None:
        """Add a problem at a place, unless `refuse` was called for that place; the same problem is kept once.

        Unprintable characters of the message are escaped, and what exceeds MAX_MESSAGE_LENGTH is cut off.
        """
        if mark not in self._refused:
            text = "".join(
                char if char.isprintable() else ascii(char)[1:-1] for char in message[: MAX_MESSAGE_LENGTH + 1]
            )
            text = text if len(text) <= MAX_MESSAGE_LENGTH else text[: MAX_MESSAGE_LENGTH - 1] + "…"
            self._found.add(Problem(self.path, mark.line, mark.column, text))

    def refuse(self, mark: Mark, message: str) -> None:
        """Add a problem of a value that the caller drops, and make `add` ignore later problems at the same place.

        They would only follow from this one.
        """
        self.add(mark, message)
        self._refused.add(mark)

    def add_all(self, problems: Iterable[Problem]) -> None:
        """Add problems of another file."""
        self._found.update(problems)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The collected problems, sorted by path, line and column."""
        return tuple(sorted(self._found))


def format_problems(problems: Sequence[Problem]) -> str:
    """Return a line for each problem; of more than 50 the first 50, and a line with the number of the others."""
    lines = [str(problem) for problem in problems[:_MAX_LISTED]]
    return "\n".join([*lines, f"and {len(problems) - _MAX_LISTED} more"] if len(problems) > _MAX_LISTED else lines)


def short_repr(value: object) -> str:
    """Return the repr of a value for a message: unprintable characters escaped, at most MAX_VALUE_LENGTH characters.

    An integer of more than 1000 bits (about 300 digits) is not written out: the text says that it is a long one.
    """
    if isinstance(value, str):
        value = value[: MAX_VALUE_LENGTH + 1]
    elif isinstance(value, int) and value.bit_length() > _MAX_BITS:
        return "a number of more than 300 digits"
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return text if len(text) <= MAX_VALUE_LENGTH else text[: MAX_VALUE_LENGTH - 1] + "…"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ` (did you mean 'x'?)` when a known word is similar, else ''."""
    near = get_close_matches(word[:MAX_VALUE_LENGTH], sorted(known), n=1, cutoff=0.6)
    return f" (did you mean {near[0]!r}?)" if near else ""


def unknown_name(kind: str, word: str, known: Iterable[str]) -> str:
    """Return the message for an unknown name of some kind: `no server 'mbx9' (did you mean 'mbx1'?)`.

    Without a similar name, up to 12 known names are listed instead.
    """
    names = sorted(known)
    hint = did_you_mean(word, names)
    if not hint and names and len(names) <= 12:
        hint = f" (there is {', '.join(names)})"
    return f"no {kind} {short_repr(word)}{hint}"
