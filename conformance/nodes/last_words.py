"""What a log says of why a program ended: the exception that is in it, else the errors that it ends with, else its last line."""

import re
from collections.abc import Sequence
from itertools import takewhile

_NEAR_THE_END = 60
"""Lines at the end of a log in which an exception is looked for: one that was logged long before did not end the program."""

_MOST = 300
"""Characters that are quoted."""

_ERRORS = 3
"""Lines of errors that are quoted."""

_NOTHING = "(it wrote nothing)"

_TRACEBACK = re.compile(r"Traceback \(most recent call last\):")
_FRAME = re.compile(r"^\s+at \S")
"""A line of a stack trace of JavaScript or Java."""
_THROWN = re.compile(r"\b((?:[\w.$]+\.)?\w*(?:Error|Exception)\b(?: \[\w+\])?(?::.*)?)$")
_FATAL = re.compile(
    r"(panic: .+|fatal error: .+|thread '.*' panicked at .+|.*Assertion `.*' failed\.?.*|what\(\): .+|Segmentation fault.*)"
)
"""What Go, Rust and C programs say when they end so."""
_ERROR = re.compile(r"\b(fatal|error|panic)\b:?", re.IGNORECASE)
"""A line by which a program says that it cannot go on: the one before the last often has the cause, the last what came of it."""


def last_words(text: str) -> str:
    """Return what a log's end says of the cause, at most 300 characters: the last exception near the end; else the lines of
    errors that the log ends with, joined by "; "; else the last line."""
    lines = text.strip().splitlines()
    if not lines:
        return _NOTHING
    return (_exception(lines[-_NEAR_THE_END:]) or _errors(lines) or lines[-1].strip())[:_MOST]


def _errors(lines: Sequence[str]) -> str:
    """Return the errors that a log ends with; '' where its last line is none."""
    errors = list(takewhile(_ERROR.search, reversed(lines)))
    return "; ".join(line.strip() for line in reversed(errors[:_ERRORS]))


def _exception(lines: Sequence[str]) -> str:
    """Return the last exception of these lines; '' when there is none."""
    found = ""
    for number, line in enumerate(lines):
        following = lines[number + 1 :]
        if _TRACEBACK.search(line):
            found = _of_python(following) or found
        elif following and _FRAME.match(following[0]) and (thrown := _THROWN.search(line)):
            found = thrown[1]
        elif fatal := _FATAL.search(line):
            more = following[0].strip() if following and fatal[1].endswith(":") else ""
            found = f"{fatal[1]} {more}".strip()
    return found


def _of_python(lines: Sequence[str]) -> str:
    """Return the line of an exception that ends a traceback: the first that is not indented."""
    return next((line.strip() for line in lines if line[:1].strip() and not _TRACEBACK.search(line)), "")
