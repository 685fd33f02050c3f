"""The placeholders in commands and files of a description, and how they are filled in.

In a command, `{NAME}` is replaced where NAME is one of PLACEHOLDERS; all other braces stay as they are. Files are Jinja
templates. They see the node's JSON document as `node`, the description's `options`, and the function `seconds`. The
table in docs/testing-your-server.md is made from PLACEHOLDERS.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateError
from jinja2.sandbox import SandboxedEnvironment

from conformance.candidates.description import Candidate, CandidateError
from conformance.candidates.kind import NODE_COMMANDS
from conformance.scenarios.errors import did_you_mean

PLACEHOLDER = re.compile(r"\{([a-z0-9_]+(?:\.[A-Za-z0-9_.-]+)?)\}")


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A name in braces in a command. `in_files` is the Jinja expression with the same value in a file, "" without one."""

    name: str
    meaning: str
    in_files: str = ""


PLACEHOLDERS = (
    Placeholder("config", "path of the JSON document that the node reads (node contract)", "config"),
    Placeholder("directory", "the node's own directory: `files` are written here", "directory"),
    Placeholder("data", "its folder for the queue: what `wipe` empties and a power cut reverts", "data"),
    Placeholder("here", "the folder of the description's file (kinds `exec` and `remote`)", "here"),
    Placeholder("installed", "what `installed` of the description names", "installed"),
    Placeholder("name", "the node's name in the topology", "name"),
    Placeholder("python", "the Python interpreter of the harness; `python3` in a container", "python"),
    Placeholder("listen.X", "port of the listener X: `frontend`, `transport`, `delivery`", "node.listeners.X.port"),
    Placeholder("listen.X.host", "address of the listener X", "node.listeners.X.host"),
    Placeholder("next_hop.host", "address of the next hop for the domain `*`", "node.routes"),
    Placeholder("next_hop.port", "its port", "node.routes"),
    Placeholder("options.X", "the value of X in the description's `options`", "options.X"),
    Placeholder("1", "the argument of `redirect-messages` (a server) and `resubmit` (a database)"),
)


def placeholder_table() -> str:
    """Return all placeholders as a Markdown table."""
    rows = [
        f"| `{{{one.name}}}` | {f'`{one.in_files}`' if one.in_files else ''} | {one.meaning} |" for one in PLACEHOLDERS
    ]
    return "\n".join(["| in a command | in a file | stands for |", "|---|---|---|", *rows]) + "\n"


def unknown_placeholders(candidate: Candidate) -> Iterator[str]:
    """Yield a message for each placeholder with an unknown name in the words of `argv` and of the other commands."""
    for key, words, arguments in _commands(candidate):
        known = {*_known_names(candidate), *arguments}
        for number, word in enumerate(words):
            for name in PLACEHOLDER.findall(word):
                if name not in known:
                    hint = did_you_mean(name, known) or f" (known placeholders: {', '.join(sorted(known))})"
                    yield f"{key}[{number}]: {word!r}: unknown placeholder {name!r}{hint}"


def _commands(candidate: Candidate) -> Iterator[tuple[str, Sequence[str], tuple[str, ...]]]:
    """Yield the key of each command, its words, and the placeholders of its arguments."""
    yield "argv", candidate.argv, ()
    for name, words in candidate.commands.items():
        yield f"commands.{name}", words, ("1",) if name in NODE_COMMANDS and name != "inspect" else ()


def _known_names(candidate: Candidate) -> set[str]:
    """Return the placeholders that have a value in the commands of a candidate, except those of arguments."""
    plain = {one.name for one in PLACEHOLDERS} - {"1", "listen.X", "listen.X.host", "options.X"}
    # A description that was not read from a file has no folder, and a container does not see it.
    if candidate.folder is None or not candidate.kind_definition.sees_host_files:
        plain.discard("here")
    listeners = {f"listen.{name}{end}" for name in candidate.listener_names for end in ("", ".host")}
    return plain | listeners | {f"options.{name}" for name in candidate.options}


def option_values(options: Mapping[str, str]) -> dict[str, str]:
    """Return the value of each placeholder `options.X`."""
    return {f"options.{name}": value for name, value in options.items()}


_JINJA = SandboxedEnvironment(
    undefined=StrictUndefined,
    autoescape=False,  # configuration files of servers, not pages
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def fill_word(template: str, values: Mapping[str, str]) -> str:
    """Return a word of a command with the placeholders in `values` replaced; other braces stay as they are."""
    return PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), template)


def fill_argv(template: Sequence[str], values: Mapping[str, str], arguments: Sequence[str] = ()) -> list[str]:
    """Return the words of a command with their placeholders replaced; `{1}`, `{2}` and so on stand for `arguments`."""
    numbered = {str(number): argument for number, argument in enumerate(arguments, 1)}
    return [fill_word(word, {**values, **numbered}) for word in template]


def render_file(
    name: str,
    template: str,
    node: Mapping[str, Any],
    values: Mapping[str, str],
    options: Mapping[str, str] | None = None,
) -> str:
    """Return the text of a file of a description, rendered from its Jinja template.

    `node` is the node's JSON document. `values` are those of the placeholders of commands: the names without a dot are
    variables here too, the others are found in `node` and `options`.

    Raises CandidateError with the file's name, and the line for an error of Jinja such as an unknown variable; also for an exception
    of an expression, such as a TypeError of `seconds` for a word.
    """
    known = {key: value for key, value in values.items() if "." not in key}
    try:
        return _compile(template).render(node=node, options=options or {}, seconds=seconds, **known)
    except TemplateError as error:
        line = getattr(error, "lineno", None)
        raise CandidateError(f"files: {name}{f':{line}' if line else ''}: {error}") from error
    except Exception as error:  # the template's expressions are foreign code: whatever one raises is its own mistake
        raise CandidateError(f"files: {name}: {type(error).__name__}: {error}") from error


@cache
def _compile(template: str) -> Template:
    """Return a compiled template, kept for later calls: each start of a node renders the same ones again. Raises TemplateError."""
    return _JINJA.from_string(template)


def seconds(duration: float, least: int = 1) -> int:
    """Return a duration in seconds, rounded up to a whole number and at least `least`: few settings take fractions."""
    return max(least, math.ceil(duration))
