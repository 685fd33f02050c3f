"""YAML 1.2 as nodes that know their line and column: safe, bounded, and without YAML's traps.

Made from the parser's events, never from constructed objects. Anchors, aliases, tags and merge keys are refused, and
so are duplicate keys and directives; `yes` and `no` are text, as YAML 1.2 has it. The documents of a file are parsed
one by one, so that a slip in one does not hide the others.
"""

import contextlib
import errno
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    StreamEndEvent,
    StreamStartEvent,
)
from ruamel.yaml.reader import ReaderError

from conformance.regular_files import read_regular
from conformance.scenarios.errors import Mark, ProblemReport, short_repr

MAX_OCTETS = 256 * 1024
"""The largest file that is read."""
MAX_DEPTH = 20
"""How deep mappings and lists may be nested."""
MAX_NODES = 20_000
"""Nodes of one document."""

Scalar = str | int | float | bool | None

_PLAIN = re.compile(r"[^\t\r\x85\u2028\u2029\ufeff?!]*")
"""What both parsers read alike: the one in C knows YAML 1.1, where tabs, line breaks, tags and `? key` are another matter."""

_NO_CHARACTER = re.compile(r"[\ud800-\udfff]")
_DOCUMENT = re.compile(r"^---(?=\s|$)", re.MULTILINE)
_CONSTANTS: Mapping[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?[0-9]+")
_BASED = {"0o": (re.compile(r"0o[0-7]+"), 8), "0x": (re.compile(r"0x[0-9a-fA-F]+"), 16)}
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_MAX_DIGITS = 40


@dataclass(frozen=True, slots=True)
class Node:
    """A value with its place: a scalar, a list of nodes, or a mapping of keys to entries."""

    mark: Mark
    value: "Scalar | tuple[Node, ...] | dict[str, Entry]"

    def data(self) -> Any:
        """Return the plain value, places forgotten."""
        if isinstance(self.value, dict):
            return {key: entry.node.data() for key, entry in self.value.items()}
        if isinstance(self.value, tuple):
            return [node.data() for node in self.value]
        return self.value

    def get(self, key: str) -> "Node | None":
        """Return what stands under a key, or None where there is no such key, or no mapping."""
        entry = self.value.get(key) if isinstance(self.value, dict) else None
        return entry.node if entry is not None else None

    @property
    def entries(self) -> "dict[str, Entry]":
        """The entries of a mapping; none of anything else."""
        return self.value if isinstance(self.value, dict) else {}

    @property
    def items(self) -> "tuple[Node, ...]":
        """The nodes of a list; none of anything else."""
        return self.value if isinstance(self.value, tuple) else ()

    def count(self) -> int:
        """Return the number of values here and below."""
        below = (*self.items, *(entry.node for entry in self.entries.values()))
        return 1 + sum(node.count() for node in below)


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a mapping: the place of its key, and its value."""

    key: Mark
    node: Node


class _Stop(Exception):
    """The document cannot be read any further; what is wrong was reported."""


def read_text(path: Path, report: ProblemReport, most: int = MAX_OCTETS) -> str | None:
    """Return the text of a file, or report why it cannot be read and return None.

    Only regular files are opened for reading, and not more than `most` octets of them are read: a FIFO or a device never
    ends.
    """
    try:
        octets = read_regular(path, most)
    except OSError as error:
        too_large = error.errno == errno.EFBIG
        report.add(Mark(1, 1), str(error.strerror) if too_large else f"cannot be read: {error.strerror or error}")
        return None
    try:
        return octets.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = octets.count(b"\n", 0, error.start) + 1
        report.add(Mark(line, 1), f"no UTF-8: octet {error.start} is {octets[error.start]:#04x}")
        return None


@dataclass(frozen=True, slots=True)
class Chunk:
    """One document of a file as text, from its line `---` on; `line` is its first line in the file."""

    line: int
    text: str


def split_documents(text: str) -> Iterator[Chunk]:
    """Yield the documents of a file as text, without those of comments only.

    A line that begins with `---` begins a document wherever it stands (YAML 1.2, 9.1.2).
    """
    starts = [match.start() for match in _DOCUMENT.finditer(text)]
    for start, end in zip([0, *starts], [*starts, len(text)], strict=True):
        lines = text[start:end].removeprefix("---").splitlines()
        if any(line.strip() and not line.lstrip().startswith("#") for line in lines):
            yield Chunk(text.count("\n", 0, start) + 1, text[start:end])


def compose(chunk: Chunk, report: ProblemReport) -> Node | None:
    """Return the node of a document, or None for one that cannot be read: it was reported why."""
    if chunk.text.startswith("%"):
        report.add(Mark(chunk.line, 1), "directives are not used here; take the line away")
        return None
    return compose_with(Composer, chunk, report)


def compose_with(
    composer: "Callable[[Chunk, ProblemReport], Composer]", chunk: Chunk, report: ProblemReport
) -> Node | None:
    """Return the node that a composer makes of a document, or None where it cannot be read: it was reported why."""
    try:
        return composer(chunk, report).document()
    except _Stop:
        return None
    except MarkedYAMLError as error:
        place = error.problem_mark or error.context_mark
        mark = Mark(chunk.line + place.line, place.column + 1) if place else Mark(chunk.line, 1)
        report.add(mark, "no YAML: " + _told(error, chunk.text))
    except ReaderError as error:
        line = chunk.line + chunk.text.count("\n", 0, error.position)
        report.add(Mark(line, 1), f"no YAML: the character {chunk.text[error.position]!a} is not allowed")
    return None


def _told(error: MarkedYAMLError, chunk: str) -> str:
    """Return the parser's words, with the commonest cause where it can be seen."""
    words = "; ".join(part for part in (error.context, error.problem) if part)
    place = error.problem_mark
    lines = chunk.split("\n")
    if place is not None and place.line < len(lines) and re.search(r"(?<![\"'])\$\{", lines[place.line]):
        words += ' (inside braces and brackets write "${axis}" in quotes)'
    return words


def _events(text: str) -> Iterator[Event]:
    """Return the parser's events. The parser in C is quick, the one in Python tells better what is wrong.

    Raises MarkedYAMLError and ReaderError, and so may what it returns.
    """
    if _PLAIN.fullmatch(text):
        with contextlib.suppress(MarkedYAMLError, ReaderError):
            return iter(list(YAML(typ="safe").parse(text)))
    slow: Iterator[Event] = YAML(typ="safe", pure=True).parse(text)
    return slow


class Composer:
    """Builds the nodes of one document from the parser's events. Raises MarkedYAMLError and ReaderError."""

    def __init__(self, chunk: Chunk, report: ProblemReport, most_values: int = MAX_NODES) -> None:
        self._most_values = most_values
        self._events = _events(chunk.text)
        self._line = chunk.line
        self._report = report
        self._nodes = 0

    def document(self) -> Node:
        event = next(self._events)
        while isinstance(event, StreamStartEvent | DocumentStartEvent):
            event = next(self._events)
        root = self._node(event, 1)
        next(self._events)
        if not isinstance(after := next(self._events), StreamEndEvent):
            raise self._stop(after, "a second document must begin with a line `---`")
        return root

    def _node(self, event: Event, depth: int) -> Node:
        mark = self._mark(event)
        self._count(event, 1)
        if isinstance(event, AliasEvent):
            return self._alias(event, mark, depth)
        self._check_properties(event, mark)
        if isinstance(event, CollectionStartEvent) and depth > MAX_DEPTH:
            raise self._stop(event, f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(event, MappingStartEvent):
            return Node(mark, self._entries(depth))
        if isinstance(event, ScalarEvent):
            return Node(mark, self._scalar(event, mark))
        items = []
        while not isinstance(event := next(self._events), SequenceEndEvent):
            items.append(self._node(event, depth + 1))
        return Node(mark, tuple(items))

    def _entries(self, depth: int) -> dict[str, Entry]:
        entries: dict[str, Entry] = {}
        merged: dict[str, Entry] = {}
        while not isinstance(event := next(self._events), MappingEndEvent):
            mark = self._mark(event)
            if not isinstance(event, ScalarEvent):
                raise self._stop(event, "a key must be a plain text")
            self._check_properties(event, mark)
            key = event.value
            if _NO_CHARACTER.search(key):
                raise self._stop(event, f"{short_repr(key)} has half of a surrogate pair, which is no character")
            node = self._node(next(self._events), depth + 1)
            if key == "<<" and not event.style:
                merged.update(self._merged(mark, node))
            elif key in entries:
                first = entries[key].key.line
                self._report.add(mark, f"the key {short_repr(key)} stands here twice (first in line {first})")
            else:
                entries[key] = Entry(mark, node)
        return merged | entries

    def _alias(self, event: AliasEvent, mark: Mark, depth: int) -> Node:
        self._report.refuse(mark, f"aliases (*{short_repr(event.anchor)[1:-1]}) are not used here; write the value out")
        return Node(mark, None)

    def _merged(self, mark: Mark, node: Node) -> dict[str, Entry]:
        """Return the entries that a merge key adds."""
        self._report.add(mark, "merge keys (<<) are not used here; write the entries out")
        return {}

    def _count(self, event: Event, values: int) -> None:
        """Count values of the document. Raises _Stop when there are too many."""
        self._nodes += values
        if self._nodes > self._most_values:
            raise self._stop(event, f"more than {self._most_values} values in one document")

    def _scalar(self, event: ScalarEvent, mark: Mark) -> Scalar:
        if _NO_CHARACTER.search(event.value):
            self._report.refuse(mark, f"{short_repr(event.value)} has half of a surrogate pair, which is no character")
            return None
        if event.style:  # quoted, or a block
            return str(event.value)
        try:
            return resolve_plain_scalar(event.value)
        except ValueError as error:
            self._report.refuse(mark, str(error))
            return None

    def _check_properties(self, event: Event, mark: Mark) -> None:
        """Report an anchor or a tag."""
        if isinstance(event, NodeEvent) and event.anchor is not None:
            self._report.add(mark, f"anchors (&{short_repr(event.anchor)[1:-1]}) are not used here; take it away")
        if (tag := getattr(event, "tag", None)) is not None:
            self._report.add(mark, f"tags ({short_repr(str(tag))}) are not used here; take it away")

    def _mark(self, event: Event) -> Mark:
        return Mark(self._line + event.start_mark.line, event.start_mark.column + 1)

    def _stop(self, event: Event, message: str) -> _Stop:
        self._report.add(self._mark(event), message)
        return _Stop()


def resolve_plain_scalar(plain: str) -> Scalar:
    """Return what a plain scalar stands for in YAML 1.2 (core schema); `yes`, `no`, `on`, `off` and dates are text.

    Raises ValueError for a number that is not finite or has too many digits.
    """
    if plain in _CONSTANTS:
        return _CONSTANTS[plain]
    if _NOT_FINITE.fullmatch(plain):
        raise ValueError(f"{plain} is no finite number")
    if plain[0] not in "+-.0123456789":
        return plain
    if _FLOAT.fullmatch(plain) and len(plain) > _MAX_DIGITS:
        raise ValueError(f"a number of more than {_MAX_DIGITS} digits")
    if _INTEGER.fullmatch(plain):
        return int(plain)
    pattern, base = _BASED.get(plain[:2], (None, 10))
    if pattern is not None and pattern.fullmatch(plain):
        if len(plain) > _MAX_DIGITS:
            raise ValueError(f"a number of more than {_MAX_DIGITS} digits")
        return int(plain[2:], base)
    if _FLOAT.fullmatch(plain):
        number = float(plain)
        if not math.isfinite(number):
            raise ValueError(f"{plain} is no finite number")
        return number
    return plain
