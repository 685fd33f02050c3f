"""Fills a description's templates in: words of a command, `{config}`, and whole files, in Jinja.

Words know a fixed list of names, so that braces of the command's own stay what they are. Files see the node's whole
JSON document as `node`, what the description says in `options`, and `seconds(x, least)`: a duration as the whole number of seconds that most servers want.
"""

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateError
from jinja2.sandbox import SandboxedEnvironment

from conformance.candidates.description import CandidateError
from conformance.candidates.placeholders import PLACEHOLDER

_JINJA = SandboxedEnvironment(
    undefined=StrictUndefined,
    autoescape=False,  # configuration files of servers, not pages
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def fill_word(template: str, values: Mapping[str, str]) -> str:
    """Return a word of a command with its `{placeholders}` filled in; what is none of ours is left alone."""
    return PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), template)


def fill_argv(template: Sequence[str], values: Mapping[str, str], arguments: Sequence[str] = ()) -> list[str]:
    """Return a command; `{1}`, `{2}` stand for its arguments."""
    numbered = {str(place): argument for place, argument in enumerate(arguments, 1)}
    return [fill_word(word, {**values, **numbered}) for word in template]


def render_file(
    name: str,
    template: str,
    node: Mapping[str, Any],
    values: Mapping[str, str],
    options: Mapping[str, str] | None = None,
) -> str:
    """Return a file's text. Raises CandidateError, with the line, when the template cannot be rendered."""
    known = {key: value for key, value in values.items() if "." not in key}
    try:
        return _compiled(template).render(node=node, options=options or {}, seconds=seconds, **known)
    except TemplateError as error:
        line = getattr(error, "lineno", None)
        raise CandidateError(f"files: {name}{f':{line}' if line else ''}: {error}") from error


@cache
def _compiled(template: str) -> Template:
    return _JINJA.from_string(template)


def seconds(duration: float, least: int = 1) -> int:
    """Return a duration in whole seconds, rounded up, and no less than the least that the server takes."""
    return max(least, math.ceil(duration))
