"""Dialects: how a server spells the commands, replies and keywords of shadow redundancy.

A dialect parses lines into *operations* (`Operation`), so that checks, faults and scenarios need not know the spelling. Its
patterns are data. `PROFILE_1` is the built-in dialect, that of docs/wire-profile.md: EX2010 and EX2013 name the verbs, their
arguments are this project's. A candidate that spells them differently describes a dialect of its own. A link has the dialect
of its server, combined with that of its client where they differ.
"""

import re
from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from conformance.history.values import Operation, OperationName

T = TypeVar("T")

_GROUPS = frozenset({"server", "database", "shadow_id", "limit", "left"})
"""Names of groups that a pattern may have; their values become the fields of the operation."""

_CACHE_SIZE = 256
"""Lines and replies whose operation a dialect caches."""


def _check_pattern(pattern: str) -> str:
    """Return the pattern unchanged. Raises ValueError when it is no regular expression or has a group not in `_GROUPS`."""
    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"{pattern[:60]!r} is not a regular expression: {error}") from error
    if unknown := sorted(set(compiled.groupindex) - _GROUPS):
        raise ValueError(f"{pattern[:60]!r} has a group {unknown[0][:60]!r}; allowed are {', '.join(sorted(_GROUPS))}")
    return pattern


ShadowKeyword = Literal["XSHADOWREQUEST", "XSHADOW"]
ShadowVerb = Literal["XSHADOWREQUEST", "XSHADOW", "XQDISCARD", "XQUERYDISCARD"]

OPERATIONS_BY_VERB: dict[ShadowVerb, OperationName] = {
    "XSHADOWREQUEST": "request-shadow",
    "XSHADOW": "track-shadow",
    "XQDISCARD": "query-discard",
    "XQUERYDISCARD": "query-discard",
}
"""The verbs under which commands are recorded, and by which scenarios and faults name them, in any dialect."""

# reversed: of two verbs for one operation the first is set last, and stays
_VERB_BY_OPERATION = {operation: verb for verb, operation in reversed(OPERATIONS_BY_VERB.items())}
"""The verb under which an operation is recorded unless its dialect declares one: the first of those above."""


def _upper_keys(words: dict[str, T]) -> dict[str, T]:
    """Return a copy of the dict with its keys in capitals."""
    return {word.upper(): meaning for word, meaning in words.items()}


_SMTP_VERBS = frozenset(
    {"EHLO", "HELO", "LHLO", "MAIL", "RCPT", "DATA", "BDAT", "RSET", "NOOP", "VRFY", "QUIT", "STARTTLS", "AUTH"}
)


def _refuse_smtp_verbs(verbs: dict[str, T]) -> dict[str, T]:
    """Return the dict unchanged. Raises ValueError when one of its keys is a verb of SMTP itself."""
    if ordinary := sorted(_SMTP_VERBS.intersection(verbs)):
        raise ValueError(f"{ordinary[0]} is a verb of SMTP itself")
    return verbs


Pattern = Annotated[str, AfterValidator(_check_pattern)]


class CommandPattern(BaseModel):
    """A pattern of a command line (without CRLF, in any letter case), and the operation that it means."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    operation: OperationName
    pattern: Pattern


class ReplyPattern(BaseModel):
    """A positive reply to operation `to`, and the operation that it means; `patterns` find values in its lines' texts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    operation: OperationName
    to: OperationName
    patterns: tuple[Pattern, ...] = ()


class Dialect(BaseModel):
    """A dialect: the operations that commands mean, and those that the replies to them mean."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    commands: tuple[CommandPattern, ...] = Field(description="the first that matches counts")
    replies: tuple[ReplyPattern, ...]
    keywords: Annotated[dict[str, ShadowKeyword], AfterValidator(_upper_keys)] = Field(
        {}, description="keywords of its EHLO reply, and which of the wire profile each of them is"
    )
    verbs: Annotated[dict[str, ShadowVerb], AfterValidator(_upper_keys), AfterValidator(_refuse_smtp_verbs)] = Field(
        {},
        description="first words of its commands, and which verb of the wire profile each of them is: known so also where "
        "the arguments are wrong, and where one operation has two verbs",
    )

    def parse_command(self, line: str) -> Operation | None:
        """Return the operation that a command line (without CRLF) means, None for one that no command pattern matches."""
        return self._cached(line, lambda: self._match_command(line))

    def canonical_verb(self, first_word: str, operation: Operation | None) -> str:
        """Return the verb under which a command is recorded: `XSHADOW` for a server that spells it `XKEEP`.

        `first_word` (in capitals) is the command's; `operation` is what the command line means, None for a command that no
        pattern matches. Return the verb that the dialect declares for the first word, unless it is one of another operation;
        else the operation's first verb in `OPERATIONS_BY_VERB`; else the first word itself.
        """
        declared = self.verbs.get(first_word)
        if operation is None or (declared is not None and OPERATIONS_BY_VERB[declared] == operation.name):
            return declared or first_word
        return _VERB_BY_OPERATION.get(operation.name, first_word)

    def combined_with(self, client: "Dialect") -> "Dialect":
        """Return the dialect of a link from `client` to a server of this dialect.

        It has the commands and verbs of both, the server's first, and the name, replies and keywords of the server. This dialect
        itself when both are the same.
        """
        if client == self:
            return self
        return Dialect(
            name=self.name,
            commands=(*self.commands, *client.commands),
            replies=self.replies,
            keywords=self.keywords,
            verbs={**client.verbs, **self.verbs},
        )

    def mark_keywords(self, lines: tuple[str, ...]) -> tuple[str, ...]:
        """Return the lines of an EHLO reply with each keyword of the dialect marked as the wire profile's.

        `XKEEP 1`, which means XSHADOW, becomes `XSHADOW (said: XKEEP 1)`; other lines stay as they are.
        """
        if not self.keywords:
            return lines
        marked = ((line, self.keywords.get(line.partition(" ")[0].upper())) for line in lines)
        return tuple(f"{keyword} (said: {line})" if keyword else line for line, keyword in marked)

    def parse_reply(
        self, asked: Operation | None, code: int, lines: tuple[str, ...], *, content: bool
    ) -> Operation | None:
        """Return the operation that a reply means; None for a reply that is not positive, or to no operation, or that means none.

        `asked` is the operation of the command, None for ordinary SMTP; or that of MAIL when the reply is to the
        message's `content`. The positive reply to a shadow message's content means `shadow-stored`, that to its MAIL nothing.
        """
        if asked is None or code // 100 != 2:
            return None
        if asked.name == "shadow-message":
            return replace(asked, name="shadow-stored") if content else None
        name = asked.name
        return self._cached((name, lines), lambda: self._match_reply(name, lines))

    def _match_command(self, line: str) -> Operation | None:
        """Return the operation of the first command pattern that is found in a line, with the values in it; None if none is found."""
        if self._any_command.search(line) is None:  # most lines of most sessions
            return None
        for command in self.commands:
            if match := _compiled(command.pattern).search(line):
                return _operation_from_groups(command.operation, [match.groupdict()])
        return None

    def _match_reply(self, asked: OperationName, lines: tuple[str, ...]) -> Operation | None:
        """Return the operation of the first reply pattern for operation `asked`, with the values found in the lines.

        Lines need not match: values that are not found are None. Return None when the dialect has no reply to `asked`.
        """
        for reply in self.replies:
            if reply.to == asked:
                matches = [m for line in lines for p in reply.patterns if (m := _compiled(p).search(line))]
                return _operation_from_groups(reply.operation, [match.groupdict() for match in matches])
        return None

    @cached_property
    def _any_command(self) -> re.Pattern[str]:
        """A pattern that matches whenever one of the commands does; any line, where the patterns cannot be joined."""
        patterns = (re.sub(r"\(\?P<\w+>", "(?:", command.pattern) for command in self.commands)
        try:
            return _compiled("|".join(f"(?:{pattern})" for pattern in patterns) or r"(?!)")
        except re.error:  # a pattern refers to one of its own groups
            return _compiled("")

    @cached_property
    def _cache(self) -> dict[Hashable, Operation | None]:
        """The operations of recent lines and replies, None for no operation: servers say the same few in session after session."""
        return {}

    def _cached(self, key: Hashable, parse: Callable[[], Operation | None]) -> Operation | None:
        """Return the cached result for a key, or that of `parse()`; a full cache is emptied first."""
        if key not in self._cache:
            if len(self._cache) >= _CACHE_SIZE:
                self._cache.clear()
            self._cache[key] = parse()
        return self._cache[key]


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    """Return the compiled pattern, which matches in any letter case."""
    return re.compile(pattern, re.IGNORECASE)


def _operation_from_groups(name: OperationName, matches: list[dict[str, str | None]]) -> Operation:
    """Return an operation with the values that the named groups of its patterns matched, one dict for each match.

    Of several matches of a group the last counts, but the first shadow id; a discard list has the shadow ids of all
    matches. A group that took no part in a match is None in its dict.
    """
    ids = tuple(group["shadow_id"] for group in matches if group.get("shadow_id"))
    values = {key: value for group in matches for key, value in group.items() if value is not None}
    is_list = name == "discard-list"
    return Operation(
        name=name,
        server=values.get("server"),
        database=values.get("database"),
        shadow_id=None if is_list or not ids else ids[0],
        shadow_ids=tuple(i for i in ids if i is not None) if is_list else (),
        limit=_parse_number(values.get("limit")),
        left=_parse_number(values.get("left")),
    )


def _parse_number(text: str | None) -> int | None:
    """Return the number in a text of up to 18 ASCII digits, None for any other."""
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 19 else None


_ID_PATTERN = "[A-Za-z0-9-]{1,64}"

PROFILE_1 = Dialect(
    name="profile-1",
    verbs={"XQUERYDISCARD": "XQUERYDISCARD"},
    commands=(
        CommandPattern(
            operation="request-shadow", pattern=rf"^XSHADOWREQUEST (?P<server>\S+) (?P<database>{_ID_PATTERN})$"
        ),
        CommandPattern(operation="track-shadow", pattern=rf"^XSHADOW (?P<server>\S+) (?P<database>{_ID_PATTERN})$"),
        CommandPattern(
            operation="shadow-message", pattern=rf"^MAIL FROM:.* XSHADOW=(?P<shadow_id>{_ID_PATTERN})(?= |$)"
        ),
        CommandPattern(operation="query-discard", pattern=r"^XQ(?:UERY)?DISCARD (?P<server>\S+) (?P<limit>\d+)$"),
    ),
    replies=(
        ReplyPattern(
            operation="request-shadow",
            to="request-shadow",
            patterns=(rf"^2\.0\.0 (?P<server>\S+) (?P<database>{_ID_PATTERN})$",),
        ),
        ReplyPattern(
            operation="track-shadow",
            to="track-shadow",
            patterns=(rf"^2\.0\.0 (?P<server>\S+) (?P<database>{_ID_PATTERN})$",),
        ),
        ReplyPattern(
            operation="discard-list",
            to="query-discard",
            patterns=(
                rf"^2\.0\.0 database (?P<database>{_ID_PATTERN})$",
                rf"^2\.0\.0 discard (?P<shadow_id>{_ID_PATTERN})$",
                r"^2\.0\.0 end (?P<left>\d+)$",
            ),
        ),
    ),
)
"""The built-in dialect, specified in docs/wire-profile.md."""
