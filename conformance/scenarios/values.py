"""The scalar types of scenario documents: durations as the documents write them, octet counts, names."""

import re
from typing import Annotated

from pydantic import BeforeValidator, Field, JsonValue, WithJsonSchema

from conformance.scenarios.errors import short_repr

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
_SIZES = {"": 1, "B": 1, "KB": 1024, "MB": 1024**2}
_SIZE = re.compile(r"([0-9]+)\s*(B|KB|MB)?")
_MAX_LENGTH = 40
"""Characters of a duration or a size: the patterns are matched against no more."""
_LONGEST = 3650 * 86400.0
LARGEST = 1024**3
"""Octets: the largest size."""


def parse_duration(value: object) -> float:
    """Read a duration such as `2m`, `3h`, `2d`, `1h30m`, `250ms`, or a bare number of seconds.

    Raises ValueError when it is not one, or when it is longer than 3650 days.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        found = value
    elif isinstance(value, str) and 0 < len(value) <= _MAX_LENGTH and _PART.sub("", value) == "":
        found = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(value))
    else:
        raise ValueError(f"{short_repr(value)} is no duration: write 250ms, 30s, 2m, 3h, 2d or 1h30m")
    if not abs(found) <= _LONGEST:
        raise ValueError(f"{short_repr(value)} is too long: a duration is at most 3650d")
    return float(found)


def parse_size(value: object) -> int:
    """Read a size such as `998`, `2KB`, `10MB`. Raises ValueError when it is not one, or more than 1024 MB."""
    if isinstance(value, int) and not isinstance(value, bool):
        found = value
    elif isinstance(value, str) and len(value) <= _MAX_LENGTH and (match := _SIZE.fullmatch(value)):
        found = int(match[1]) * _SIZES[match[2] or ""]
    else:
        raise ValueError(f"{short_repr(value)} is no size: write 998, 2KB or 10MB")
    if found > LARGEST:
        raise ValueError(f"{short_repr(value)} is too large: a size is at most 1024MB")
    return found


def format_duration(duration: float) -> str:
    """Write seconds as the documents would: 7325.5 is `2h2m5.5s`, 0 is `0s`."""
    if duration < 0:
        return "-" + format_duration(-duration)
    text, rest = "", round(duration, 6)
    for unit in ("d", "h", "m"):
        count, rest = divmod(rest, _UNITS[unit])
        text += f"{count:.0f}{unit}" if count else ""
    rest = round(rest, 6)
    return text + (f"{rest:g}s" if rest or not text else "")


_DURATION_SCHEMA = {
    "anyOf": [
        {"type": "string", "pattern": r"^(\d+(\.\d+)?(ms|s|m|h|d))+$"},
        {"type": "number", "minimum": 0},
    ]
}
_SIZE_SCHEMA = {
    "anyOf": [{"type": "string", "pattern": r"^\d+\s*(B|KB|MB)?$"}, {"type": "integer", "minimum": 0}],
}
_NAMES_SCHEMA = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}

Duration = Annotated[float, BeforeValidator(parse_duration), Field(ge=0), WithJsonSchema(_DURATION_SCHEMA)]
"""Seconds; written as `2m`, `3h`, `2d`."""

Size = Annotated[int, BeforeValidator(parse_size), Field(ge=0), WithJsonSchema(_SIZE_SCHEMA)]
"""Octets; written as `998`, `2KB`, `10MB`."""


def parse_parameter(value: object) -> object:
    """Read the value of a parameter as it is offered to a node: `yes` is true, `2m` is 120, `10MB` octets.

    Whatever else it is, of a wrong type or out of range too, stays as written: that is for the node to refuse.
    """
    if isinstance(value, dict):
        return {key: parse_parameter(inner) for key, inner in value.items()}
    if isinstance(value, str):
        if value in ("yes", "no"):
            return value == "yes"
        for read in (parse_duration, parse_size):
            try:
                number = read(value) if value[:1].isdigit() and not value.isdigit() else None
            except ValueError:
                continue
            if number is not None:
                return int(number) if number == int(number) else number
    return value


def as_tuple(value: object) -> object:
    """Let one value stand for a list of one."""
    return tuple(value) if isinstance(value, list | tuple) else (value,)


Parameter = Annotated[JsonValue, BeforeValidator(parse_parameter)]
"""The value of a parameter of a node: anything, with `yes`, `no`, durations and sizes read as such."""

OneOrMore = Annotated[tuple[str, ...], BeforeValidator(as_tuple), WithJsonSchema(_NAMES_SCHEMA)]
"""One name, or a list of them."""

LABEL_PATTERN = r"^[a-z][a-z0-9-]*$"

Label = Annotated[str, Field(pattern=LABEL_PATTERN, max_length=60)]
"""A name that a scenario gives: lower case, digits, hyphens."""
