"""What is wrong with a file: every problem with its place, gathered, and told all at once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NamedTuple

SHOWN = 60
"""Characters of a wrong value that a message shows."""
LONGEST = 300
"""Characters of a message; what is beyond is cut."""
_TOLD = 50
"""Problems of one file that are listed."""
_MAX_BITS = 1000
"""Larger integers are not written out: that takes quadratic time, and Python refuses it from 4,300 digits on."""


class Mark(NamedTuple):
    """A place in a file, both numbers from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing that is wrong, with its place. As text: `path:line:col: message`."""

    path: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}: {self.message}"


class InvalidFile(Exception):
    """A scenario (or a topology, or a message) that cannot be used, with everything that is wrong with it."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(set(problems)))
        super().__init__("\n".join(map(str, self.problems)))


class ProblemReport:
    """Takes the problems of one file as they are found."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._found: set[Problem] = set()
        self._refused: set[Mark] = set()

    def add(self, mark: Mark, message: str) -> None:
        """Take a problem, cut at LONGEST characters, in characters that can be printed.

        The same one twice (found in two cells) counts once.
        """
        if mark not in self._refused:
            text = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in message[: LONGEST + 1])
            text = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
            self._found.add(Problem(self.path, mark.line, mark.column, text))

    def refuse(self, mark: Mark, message: str) -> None:
        """Take a problem for which a value was thrown away: what follows from that, at the same place, is not told."""
        self.add(mark, message)
        self._refused.add(mark)

    def take(self, problems: Iterable[Problem]) -> None:
        """Take problems that were found in another file."""
        self._found.update(problems)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What was found, in the order of the file."""
        return tuple(sorted(self._found))


def format_problems(problems: Sequence[Problem]) -> str:
    """Return problems, a line for each; of very many the first ones, and how many there are beside them."""
    lines = [str(problem) for problem in problems[:_TOLD]]
    return "\n".join([*lines, f"and {len(problems) - _TOLD} more"] if len(problems) > _TOLD else lines)


def short_repr(value: object) -> str:
    """Return a value as a message shows it: quoted, its control characters escaped, and not too long."""
    if isinstance(value, str):
        value = value[: SHOWN + 1]
    elif isinstance(value, int) and value.bit_length() > _MAX_BITS:
        return "a number of more than 300 digits"
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ` (did you mean 'x'?)` when something known is like the word, else nothing."""
    near = get_close_matches(word[:SHOWN], sorted(known), n=1, cutoff=0.6)
    return f" (did you mean {near[0]!r}?)" if near else ""


def unknown_name(kind: str, word: str, known: Iterable[str]) -> str:
    """Return the message for a name that nobody has: `no server 'mbx9' (did you mean 'mbx1'?)`, or what there is."""
    names = sorted(known)
    hint = did_you_mean(word, names)
    if not hint and names and len(names) <= 12:
        hint = f" (there is {', '.join(names)})"
    return f"no {kind} {short_repr(word)}{hint}"
