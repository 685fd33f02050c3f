"""Dialects: how a server spells the operations of shadow redundancy. Checks speak of operations only.

`PROFILE_1` is the built-in one (EX2010 and EX2013 name the verbs; their arguments are the project's own profile). A
candidate that spells them differently brings a `Dialect` of its own, as data.
"""

import re
from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from conformance.history.events import Operation, OperationName

T = TypeVar("T")

GROUPS = frozenset({"server", "database", "shadow_id", "limit", "left"})
"""What a pattern may name; `shadow_id` of a `discard-list` is gathered over all lines of the reply."""


_KNOWN = 256
"""Different lines, and replies, whose meaning is remembered at one time."""


def _checked(pattern: str) -> str:
    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"{pattern[:60]!r} is no regular expression: {error}") from error
    if unknown := sorted(set(compiled.groupindex) - GROUPS):
        raise ValueError(f"{pattern[:60]!r} names {unknown[0][:60]!r}; known are {', '.join(sorted(GROUPS))}")
    return pattern


Keyword = Literal["XSHADOWREQUEST", "XSHADOW"]
Verb = Literal["XSHADOWREQUEST", "XSHADOW", "XQDISCARD", "XQUERYDISCARD"]

OPERATIONS: dict[Verb, OperationName] = {
    "XSHADOWREQUEST": "request-shadow",
    "XSHADOW": "track-shadow",
    "XQDISCARD": "query-discard",
    "XQUERYDISCARD": "query-discard",
}
"""The verbs by which scenarios, faults and checks name an operation, however it is spelled."""

_VERBS = {operation: verb for verb, operation in reversed(OPERATIONS.items())}
"""The verb of an operation that has no other name: the first of those above."""


def _capitals(words: dict[str, T]) -> dict[str, T]:
    return {word.upper(): known for word, known in words.items()}


_PLAIN = frozenset(
    {"EHLO", "HELO", "LHLO", "MAIL", "RCPT", "DATA", "BDAT", "RSET", "NOOP", "VRFY", "QUIT", "STARTTLS", "AUTH"}
)


def _own(verbs: dict[str, T]) -> dict[str, T]:
    if plain := sorted(_PLAIN.intersection(verbs)):
        raise ValueError(f"{plain[0]} is a verb of SMTP itself")
    return verbs


Pattern = Annotated[str, AfterValidator(_checked)]


class CommandPattern(BaseModel):
    """A command line (without CRLF) that means an operation; upper and lower case are one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    operation: OperationName
    pattern: Pattern


class ReplyPattern(BaseModel):
    """A positive reply that means an operation, when it answers `to`; `patterns` read its lines' texts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    operation: OperationName
    to: OperationName
    patterns: tuple[Pattern, ...] = ()


class Dialect(BaseModel):
    """A whole dialect: what commands mean, and what the replies to them mean."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    commands: tuple[CommandPattern, ...] = Field(description="the first that matches counts")
    replies: tuple[ReplyPattern, ...]
    keywords: Annotated[dict[str, Keyword], AfterValidator(_capitals)] = Field(
        {}, description="keywords of its EHLO reply, and which of the wire profile each of them is"
    )
    verbs: Annotated[dict[str, Verb], AfterValidator(_capitals), AfterValidator(_own)] = Field(
        {},
        description="first words of its commands, and which verb of the wire profile each of them is: known so also where "
        "the arguments are wrong, and where one operation has two verbs",
    )

    def parse_command(self, line: str) -> Operation | None:
        """Return the operation that a command line means, if any."""
        return self._remembered(line, lambda: self._command(line))

    def canonical_verb(self, said: str, means: Operation | None) -> str:
        """Return the verb under which a command that begins with `said` (in capitals) and `means` an operation is known."""
        known = self.verbs.get(said)
        if means is None or (known is not None and OPERATIONS[known] == means.name):
            return known or said
        return _VERBS.get(means.name, said)

    def combined_with(self, client: "Dialect") -> "Dialect":
        """Return what is spoken where the server has this dialect and the client perhaps another: it may say its own."""
        if client == self:
            return self
        return Dialect(
            name=self.name,
            commands=(*self.commands, *client.commands),
            replies=self.replies,
            keywords=self.keywords,
            verbs={**client.verbs, **self.verbs},
        )

    @cached_property
    def _known(self) -> dict[Hashable, Operation | None]:
        """What lines mean: the same few are said in session after session."""
        return {}

    def _remembered(self, key: Hashable, find: Callable[[], Operation | None]) -> Operation | None:
        if key not in self._known:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            self._known[key] = find()
        return self._known[key]

    def _command(self, line: str) -> Operation | None:
        if self._any.search(line) is None:  # most lines of most sessions
            return None
        for known in self.commands:
            if match := _compiled(known.pattern).search(line):
                return _operation(known.operation, [match.groupdict()])
        return None

    @cached_property
    def _any(self) -> re.Pattern[str]:
        """What matches whenever one of the commands does (or any line, where they cannot be put together)."""
        patterns = (re.sub(r"\(\?P<\w+>", "(?:", known.pattern) for known in self.commands)
        try:
            return _compiled("|".join(f"(?:{pattern})" for pattern in patterns) or r"(?!)")
        except re.error:  # one speaks of its own groups
            return _compiled("")

    def mark_keywords(self, lines: tuple[str, ...]) -> tuple[str, ...]:
        """Return the lines of a reply to EHLO with the wire profile's keyword before each that is spelled differently."""
        if not self.keywords:
            return lines
        known = ((line, self.keywords.get(line.partition(" ")[0].upper())) for line in lines)
        return tuple(f"{keyword} (said: {line})" if keyword else line for line, keyword in known)

    def parse_reply(
        self, asked: Operation | None, code: int, lines: tuple[str, ...], *, content: bool
    ) -> Operation | None:
        """Return the operation that a reply means; `content`: it is the one after a shadow message's content.

        A refusal means nothing: it is told by its code.
        """
        if asked is None or code // 100 != 2:
            return None
        if asked.name == "shadow-message":
            return replace(asked, name="shadow-stored") if content else None
        name = asked.name
        return self._remembered((name, lines), lambda: self._reply(name, lines))

    def _reply(self, asked: OperationName, lines: tuple[str, ...]) -> Operation | None:
        for known in self.replies:
            if known.to == asked:
                found = [m for line in lines for p in known.patterns if (m := _compiled(p).search(line))]
                return _operation(known.operation, [match.groupdict() for match in found])
        return None


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def _operation(name: OperationName, groups: list[dict[str, str | None]]) -> Operation:
    """Put what the patterns' groups caught into an operation."""
    ids = tuple(group["shadow_id"] for group in groups if group.get("shadow_id"))
    one = {key: value for group in groups for key, value in group.items() if value is not None and key != "shadow_id"}
    gathers = name == "discard-list"
    return Operation(
        name=name,
        server=one.get("server"),
        database=one.get("database"),
        shadow_id=None if gathers or not ids else ids[0],
        shadow_ids=tuple(i for i in ids if i is not None) if gathers else (),
        limit=_number(one.get("limit")),
        left=_number(one.get("left")),
    )


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 19 else None


_ID = "[A-Za-z0-9-]{1,64}"

PROFILE_1 = Dialect(
    name="profile-1",
    verbs={"XQUERYDISCARD": "XQUERYDISCARD"},
    commands=(
        CommandPattern(operation="request-shadow", pattern=rf"^XSHADOWREQUEST (?P<server>\S+) (?P<database>{_ID})$"),
        CommandPattern(operation="track-shadow", pattern=rf"^XSHADOW (?P<server>\S+) (?P<database>{_ID})$"),
        CommandPattern(operation="shadow-message", pattern=rf"^MAIL FROM:.* XSHADOW=(?P<shadow_id>{_ID})(?= |$)"),
        CommandPattern(operation="query-discard", pattern=r"^XQ(?:UERY)?DISCARD (?P<server>\S+) (?P<limit>\d+)$"),
    ),
    replies=(
        ReplyPattern(
            operation="request-shadow",
            to="request-shadow",
            patterns=(rf"^2\.0\.0 (?P<server>\S+) (?P<database>{_ID})$",),
        ),
        ReplyPattern(
            operation="track-shadow", to="track-shadow", patterns=(rf"^2\.0\.0 (?P<server>\S+) (?P<database>{_ID})$",)
        ),
        ReplyPattern(
            operation="discard-list",
            to="query-discard",
            patterns=(
                rf"^2\.0\.0 database (?P<database>{_ID})$",
                rf"^2\.0\.0 discard (?P<shadow_id>{_ID})$",
                r"^2\.0\.0 end (?P<left>\d+)$",
            ),
        ),
    ),
)
"""The built-in dialect."""
