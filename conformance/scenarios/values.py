"""The scalar types of scenario documents: durations, sizes, parameters, names and labels.

The models of steps and expectations use these types. The functions convert what a file has, a text or a number, and
raise ValueError, which becomes a problem with its place.
"""

import re
from typing import Annotated

from pydantic import BeforeValidator, Field, JsonValue, WithJsonSchema

from conformance.scenarios.errors import short_repr

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
_SIZES = {"": 1, "B": 1, "KB": 1024, "MB": 1024**2}
_SIZE = re.compile(r"([0-9]+)\s*(B|KB|MB)?")
_MAX_LENGTH = 40
"""Characters of a duration or a size; longer texts are rejected without matching."""
_MAX_DURATION_S = 3650 * 86400.0
MAX_SIZE = 1024**3
"""Octets."""


def parse_duration(value: object) -> float:
    """Return the seconds of a duration such as `2m`, `3h`, `2d`, `1h30m`, `250ms`, or a number of seconds.

    Raises ValueError for anything else, and beyond 3650 days. A negative number is returned: the type `Duration` refuses it.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        duration = value
    elif isinstance(value, str) and 0 < len(value) <= _MAX_LENGTH and _PART.sub("", value) == "":
        duration = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(value))
    else:
        raise ValueError(f"{short_repr(value)} is not a valid duration: write 250ms, 30s, 2m, 3h, 2d or 1h30m")
    if not abs(duration) <= _MAX_DURATION_S:
        raise ValueError(f"{short_repr(value)} is too long: a duration is at most 3650d")
    return float(duration)


def parse_size(value: object) -> int:
    """Return the octets of a size such as `998`, `2KB`, `10MB`.

    Raises ValueError for anything else, and beyond 1024 MB. A negative number is returned: the type `Size` refuses it.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        size = value
    elif isinstance(value, str) and len(value) <= _MAX_LENGTH and (match := _SIZE.fullmatch(value)):
        size = int(match[1]) * _SIZES[match[2] or ""]
    else:
        raise ValueError(f"{short_repr(value)} is not a valid size: write 998, 2KB or 10MB")
    if size > MAX_SIZE:
        raise ValueError(f"{short_repr(value)} is too large: a size is at most 1024MB")
    return size


def format_duration(duration: float) -> str:
    """Return seconds as a duration: `2h2m5.5s` for 7325.5, `0s` for 0."""
    if duration < 0:
        return "-" + format_duration(-duration)
    text, remainder = "", round(duration, 6)
    for unit in ("d", "h", "m"):
        count, remainder = divmod(remainder, _UNITS[unit])
        text += f"{count:.0f}{unit}" if count else ""
    remainder = round(remainder, 6)
    return text + (f"{remainder:g}s" if remainder or not text else "")


_DURATION_SCHEMA = {
    "anyOf": [{"type": "string", "pattern": r"^(\d+(\.\d+)?(ms|s|m|h|d))+$"}, {"type": "number", "minimum": 0}]
}
_SIZE_SCHEMA = {"anyOf": [{"type": "string", "pattern": r"^\d+\s*(B|KB|MB)?$"}, {"type": "integer", "minimum": 0}]}
_NAMES_SCHEMA = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}

Duration = Annotated[float, BeforeValidator(parse_duration), Field(ge=0), WithJsonSchema(_DURATION_SCHEMA)]
"""Seconds; written as `2m`, `3h`, `2d`."""

Size = Annotated[int, BeforeValidator(parse_size), Field(ge=0), WithJsonSchema(_SIZE_SCHEMA)]
"""Octets; written as `998`, `2KB`, `10MB`."""


def parse_parameter(value: object) -> object:
    """Return a parameter's value as it goes into a node's configuration: True for `yes`, 120 for `2m`, octets for `10MB`.

    Values of a mapping are converted one by one. Anything else is returned unchanged, also with a wrong type or out of range:
    refusing it is up to the node.
    """
    if isinstance(value, dict):
        return {key: parse_parameter(inner) for key, inner in value.items()}
    if isinstance(value, str):
        if value in ("yes", "no"):
            return value == "yes"
        for read in (parse_duration, parse_size):
            try:  # bare digits stay a text: they have no unit
                number = read(value) if value[:1].isdigit() and not value.isdigit() else None
            except ValueError:
                continue
            if number is not None:
                return int(number) if number == int(number) else number
    return value


def as_tuple(value: object) -> object:
    """Return a list as a tuple, and any other value as a tuple of one."""
    return tuple(value) if isinstance(value, list | tuple) else (value,)


Parameter = Annotated[JsonValue, BeforeValidator(parse_parameter)]
"""The value of a node's parameter: any JSON value; `yes`, `no`, durations and sizes are converted."""

OneOrMore = Annotated[tuple[str, ...], BeforeValidator(as_tuple), WithJsonSchema(_NAMES_SCHEMA)]
"""A tuple of names; written as one name or a list."""

LABEL_PATTERN = r"^[a-z][a-z0-9-]*$"
MAX_LABEL = 60
"""Characters of the longest label."""

Label = Annotated[str, Field(pattern=LABEL_PATTERN, max_length=MAX_LABEL)]
"""A name that a scenario defines: lower case letters, digits, hyphens."""
