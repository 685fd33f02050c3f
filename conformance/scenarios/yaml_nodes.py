"""Parse a safe subset of YAML 1.2 into nodes that know their line and column.

1. `read_text` reads a file of bounded size.
2. `split_documents` splits its text at lines that begin with `---`, so that a syntax error in one document does not affect the
   others.
3. `compose` builds the nodes of a document from the events of ruamel.yaml's parser; no objects are constructed. The number of
   values and the depth are limited. Anchors, aliases, tags, merge keys, directives and duplicate keys are reported as
   problems (`yaml_full` allows more).
4. `resolve_plain_scalar` converts scalars by the core schema of YAML 1.2, in which `yes` and `no` are texts.
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
"""Octets of the largest file that is read."""
MAX_DEPTH = 20
"""Levels of nested mappings and lists."""
MAX_NODES = 20_000
"""Values of one document."""

Scalar = str | int | float | bool | None

_SAME_IN_YAML_1_1 = re.compile(r"(?!(?:\s|#[^\n]*\n|---)*[|>])[^\t\r\x85\u2028\u2029\ufeff?!]*")
"""Texts that both parsers read alike: the one in C follows YAML 1.1, which treats tabs, line breaks, tags and `? key`
differently, and a `#` at the beginning of a line in a document that is one block scalar."""

_SURROGATE = re.compile(r"[\ud800-\udfff]")
_DOCUMENT_START = re.compile(r"^---(?=\s|$)", re.MULTILINE)
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
    """A value with its place in the file: a scalar, a list of nodes, or a mapping of keys to entries."""

    mark: Mark
    value: "Scalar | tuple[Node, ...] | dict[str, Entry]"

    def data(self) -> Any:
        """Return the value as plain Python data, without places."""
        if isinstance(self.value, dict):
            return {key: entry.node.data() for key, entry in self.value.items()}
        if isinstance(self.value, tuple):
            return [node.data() for node in self.value]
        return self.value

    def get(self, key: str) -> "Node | None":
        """Return the value of a key; None where the key is missing or the node is no mapping."""
        entry = self.value.get(key) if isinstance(self.value, dict) else None
        return entry.node if entry is not None else None

    @property
    def entries(self) -> "dict[str, Entry]":
        """The entries of a mapping; empty for any other node."""
        return self.value if isinstance(self.value, dict) else {}

    @property
    def items(self) -> "tuple[Node, ...]":
        """The nodes of a list; empty for any other node."""
        return self.value if isinstance(self.value, tuple) else ()

    def count(self) -> int:
        """Return the number of values at and below this node."""
        below = (*self.items, *(entry.node for entry in self.entries.values()))
        return 1 + sum(node.count() for node in below)


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a mapping: the place of its key, and its value."""

    key: Mark
    node: Node


class _Unreadable(Exception):
    """The rest of the document cannot be read; why has been reported."""


def read_text(path: Path, report: ProblemReport, max_octets: int = MAX_OCTETS) -> str | None:
    """Return the text of a file; None after reporting why it cannot be read.

    Only regular files are read, and no more than `max_octets`, since a FIFO or a device has no end.
    """
    try:
        octets = read_regular(path, max_octets)
    except OSError as error:
        too_large = error.errno == errno.EFBIG
        report.add(Mark(1, 1), str(error.strerror) if too_large else f"cannot be read: {error.strerror or error}")
        return None
    try:
        return octets.decode().removeprefix("\ufeff")  # a byte order mark, which counts in the place of an error
    except UnicodeDecodeError as error:
        line = octets.count(b"\n", 0, error.start) + 1
        report.add(Mark(line, 1), f"not valid UTF-8: octet {error.start} is {octets[error.start]:#04x}")
        return None


@dataclass(frozen=True, slots=True)
class Chunk:
    """The text of one document of a file, from its line `---` on; `line` is the number of its first line."""

    line: int
    text: str


def split_documents(text: str) -> Iterator[Chunk]:
    """Yield the documents of a file's text, without those that are empty or hold only comments.

    A line that begins with `---` starts a document in any context (YAML 1.2, 9.1.2); text before the first one is a document too.
    """
    starts = [match.start() for match in _DOCUMENT_START.finditer(text)]
    for start, end in zip([0, *starts], [*starts, len(text)], strict=True):
        lines = text[start:end].removeprefix("---").splitlines()
        if any(line.strip() and not line.lstrip().startswith("#") for line in lines):
            yield Chunk(text.count("\n", 0, start) + 1, text[start:end])


def compose(chunk: Chunk, report: ProblemReport) -> Node | None:
    """Return the root node of a document; None after reporting why the document cannot be read.

    A problem that does not end the reading, such as an anchor or a repeated key, is reported too, and the node is returned.
    """
    if chunk.text.startswith("%"):
        report.add(Mark(chunk.line, 1), "directives are not used here; take the line away")
        return None
    return compose_with(Composer, chunk, report)


def compose_with(
    make_composer: "Callable[[Chunk, ProblemReport], Composer]", chunk: Chunk, report: ProblemReport
) -> Node | None:
    """Return the root node that a composer builds; None after reporting why the document cannot be read.

    `make_composer` gets the chunk and the report. A node may be returned although problems were reported.
    """
    try:
        return make_composer(chunk, report).document()
    except _Unreadable:
        return None
    except MarkedYAMLError as error:
        place = error.problem_mark or error.context_mark
        mark = Mark(chunk.line + place.line, place.column + 1) if place else Mark(chunk.line, 1)
        report.add(mark, "not valid YAML: " + _parser_message(error, chunk.text))
    except ReaderError as error:
        line = chunk.line + chunk.text.count("\n", 0, error.position)
        report.add(Mark(line, 1), f"not valid YAML: the character {chunk.text[error.position]!a} is not allowed")
    return None


def _parser_message(error: MarkedYAMLError, text: str) -> str:
    """Return the parser's message, with a hint where the line has an unquoted `${`, the most frequent cause."""
    message = "; ".join(part for part in (error.context, error.problem) if part)
    place = error.problem_mark
    lines = text.split("\n")
    if place is not None and place.line < len(lines) and re.search(r"(?<![\"'])\$\{", lines[place.line]):
        message += ' (inside braces and brackets write "${axis}" in quotes)'
    return message


def _events(text: str) -> Iterator[Event]:
    """Return the parser's events: of the fast parser in C where it accepts the text, else of the one in Python.

    The parser in C follows YAML 1.1, and is not tried where that could make a difference. The one in Python has better messages.
    Iterating over its events may raise MarkedYAMLError and ReaderError.
    """
    if _SAME_IN_YAML_1_1.fullmatch(text):
        with contextlib.suppress(MarkedYAMLError, ReaderError):
            return iter(list(YAML(typ="safe").parse(text)))
    events: Iterator[Event] = YAML(typ="safe", pure=True).parse(text)
    return events


class Composer:
    """Builds the nodes of one document from the parser's events. Raises MarkedYAMLError and ReaderError.

    `_Unreadable` is raised after reporting a problem that ends the reading. After any other problem the reading goes on: the value is
    null (an alias, a scalar that cannot be converted) or left out (that of a repeated key), or kept (one with an anchor or a tag).
    """

    def __init__(self, chunk: Chunk, report: ProblemReport, max_values: int = MAX_NODES) -> None:
        self._max_values = max_values
        self._events = _events(chunk.text)
        self._line = chunk.line
        self._report = report
        self._nodes = 0
        """How many values there were so far."""

    def document(self) -> Node:
        """Return the root node. Raises _Unreadable, also for a second document, and what the parser raises."""
        event = next(self._events)
        while isinstance(event, StreamStartEvent | DocumentStartEvent):
            event = next(self._events)
        root = self._build_node(event, 1)
        next(self._events)
        if not isinstance(after := next(self._events), StreamEndEvent):
            raise self._unreadable(after, "a second document must begin with a line `---`")
        return root

    def _build_node(self, event: Event, depth: int) -> Node:
        """Return the node that begins with an event, after consuming the events of its children.

        `depth` is its level, 1 for the root. Raises _Unreadable for a node that is nested too deep, for too many values and for a key
        that cannot be used, and what the parser raises.
        """
        mark = self._mark(event)
        self._count_values(event, 1)
        if isinstance(event, AliasEvent):
            return self._resolve_alias(event, mark, depth)
        self._check_properties(event, mark)
        if isinstance(event, CollectionStartEvent) and depth > MAX_DEPTH:
            raise self._unreadable(event, f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(event, MappingStartEvent):
            return Node(mark, self._build_entries(depth))
        if isinstance(event, ScalarEvent):
            return Node(mark, self._convert_scalar(event, mark))
        items = []
        while not isinstance(event := next(self._events), SequenceEndEvent):
            items.append(self._build_node(event, depth + 1))
        return Node(mark, tuple(items))

    def _build_entries(self, depth: int) -> dict[str, Entry]:
        """Return the entries of the mapping that has begun; its own keys take precedence over merged ones.

        A repeated key is reported, and its first value counts. `depth` is the level of the mapping.
        Raises _Unreadable for a key that is no scalar or has half of a surrogate pair.
        """
        entries: dict[str, Entry] = {}
        merged: dict[str, Entry] = {}
        while not isinstance(event := next(self._events), MappingEndEvent):
            mark = self._mark(event)
            if not isinstance(event, ScalarEvent):
                raise self._unreadable(event, "a key must be a plain text")
            self._check_properties(event, mark)
            key = event.value
            if _SURROGATE.search(key):
                raise self._unreadable(event, f"{short_repr(key)} has half of a surrogate pair, which is no character")
            node = self._build_node(next(self._events), depth + 1)
            if key == "<<" and not event.style:
                merged.update(self._merged_entries(mark, node))
            elif key in entries:
                first = entries[key].key.line
                self._report.add(mark, f"the key {short_repr(key)} stands here twice (first in line {first})")
            else:
                entries[key] = Entry(mark, node)
        return merged | entries

    def _resolve_alias(self, event: AliasEvent, mark: Mark, depth: int) -> Node:
        """Return the node that an alias stands for; here null, after reporting that aliases are not allowed."""
        self._report.refuse(mark, f"aliases (*{short_repr(event.anchor)[1:-1]}) are not used here; write the value out")
        return Node(mark, None)

    def _merged_entries(self, mark: Mark, node: Node) -> dict[str, Entry]:
        """Return the entries that a merge key adds; here none, after reporting that merge keys are not allowed."""
        self._report.add(mark, "merge keys (<<) are not used here; write the entries out")
        return {}

    def _count_values(self, event: Event, values: int) -> None:
        """Add `values` to the number of the document's values. Raises _Unreadable when it exceeds the limit, reported at `event`."""
        self._nodes += values
        if self._nodes > self._max_values:
            raise self._unreadable(event, f"more than {self._max_values} values in one document")

    def _convert_scalar(self, event: ScalarEvent, mark: Mark) -> Scalar:
        """Return the value of a scalar; None for null, and after reporting a problem with it."""
        if _SURROGATE.search(event.value):
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
        """Report an anchor or a tag of a node, since neither is allowed here."""
        if isinstance(event, NodeEvent) and event.anchor is not None:
            self._report.add(mark, f"anchors (&{short_repr(event.anchor)[1:-1]}) are not used here; take it away")
        if (tag := getattr(event, "tag", None)) is not None:
            self._report.add(mark, f"tags ({short_repr(str(tag))}) are not used here; take it away")

    def _mark(self, event: Event) -> Mark:
        """Return the place of an event in the file; the parser counts from 0, and from the start of the chunk."""
        return Mark(self._line + event.start_mark.line, event.start_mark.column + 1)

    def _unreadable(self, event: Event, message: str) -> _Unreadable:
        """Report a problem at an event, and return the exception to raise."""
        self._report.add(self._mark(event), message)
        return _Unreadable()


def resolve_plain_scalar(plain: str) -> Scalar:
    """Return the value of an unquoted scalar by the core schema of YAML 1.2; `yes`, `no`, `on`, `off` and dates are texts.

    Raises ValueError for a number that is not finite or has too many digits.
    """
    if plain in _CONSTANTS:
        return _CONSTANTS[plain]
    if _NOT_FINITE.fullmatch(plain):
        raise ValueError(f"{plain} is not a finite number")
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
            raise ValueError(f"{plain} is not a finite number")
        return number
    return plain
