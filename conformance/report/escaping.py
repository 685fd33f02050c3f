"""Makes hostile text visible: what a peer wrote can neither move the cursor, nor turn the line round, nor make markup.

`visible` is for terminals and plain text, and the first step everywhere; HTML is escaped by jinja2 after it.
"""

import re
import unicodedata

_SHORT = {"\r": "\\r", "\n": "\\n", "\t": "\\t"}
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters and symbols that count as printable and show nothing."""

_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+\-.!|~])")
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def visible(text: str, limit: int | None = None) -> str:
    """Return `text` with everything that cannot be seen written out: `\\x1b`, `\\r`, `\\u202e`, `\\u00a0`.

    That is: control and format characters (directional overrides among them), line and paragraph separators, spaces
    other than the plain one, combining marks, unassigned and private characters; an octet that was no UTF-8 (a lone
    surrogate, as Python decodes it) is shown as `\\xff`. The result is printable and on one line. Beyond `limit`
    characters of `text` it is cut, and says by how much.
    """
    if limit is not None and len(text) > limit:
        return f"{visible(text[:limit])}… (+{len(text) - limit} characters)"
    if text.isascii() and text.isprintable():  # most of all that is shown; the rest takes a look at each character
        return text
    return "".join(_shown(character) for character in text)


def _shown(character: str) -> str:
    if character.isprintable() and character not in _BLANK and not unicodedata.category(character).startswith("M"):
        return character
    if character in _SHORT:
        return _SHORT[character]
    number = ord(character)
    if 0xDC80 <= number <= 0xDCFF:
        return f"\\x{number - 0xDC00:02x}"
    if number < 0x80:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def escape_markdown(text: str, limit: int | None = None) -> str:
    """Return `text` so that it reads in Markdown (a table's cell too) as it is: no markup, no HTML, no line break."""
    escaped = _MARKDOWN.sub(r"\\\1", visible(text, limit))
    return re.sub(r"[&<>]", lambda match: _HTML[match[0]], escaped)


def code_span(text: str, limit: int | None = None) -> str:
    """Return `text` as a code span of Markdown, fenced by more backticks than it has in a row.

    Not for a table's cell: a bar ends the cell also inside a span.
    """
    shown = visible(text, limit)
    fence = "`" * (max((len(run) for run in re.findall(r"`+", shown)), default=0) + 1)
    pad = " " if shown.startswith("`") or shown.endswith("`") or shown.strip() == "" else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def escape_annotation(text: str, *, is_property: bool = False) -> str:
    """Return `text` as the message (or a property) of a GitHub workflow command, where `%`, `:` and `,` are syntax."""
    shown = "\n".join(visible(line) for line in text.splitlines())
    shown = shown.replace("%", "%25").replace("\n", "%0A")
    return shown.replace(":", "%3A").replace(",", "%2C") if is_property else shown
