"""Escaping of hostile text: a peer's text can neither move the cursor, nor reverse a line, nor become markup.

`visible` makes text printable, for terminals and as the first step for every other format. jinja2 escapes HTML after it. A
parameter `limit` is the number of characters of `text` after which it is cut; None: it is not cut.
"""

import re
import unicodedata

_SHORT = {"\r": "\\r", "\n": "\\n", "\t": "\\t"}
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Characters that Python counts as printable but that show nothing."""

_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+\-.!|~])")
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def visible(text: str, limit: int | None = None) -> str:
    """Return `text` on one printable line, with all invisible characters escaped: `\\x1b`, `\\r`, `\\u202e`, `\\u00a0`.

    Escaped are control and format characters (directional overrides among them), line and paragraph separators, spaces
    other than the plain one, combining marks, and unassigned and private characters. An octet that was not UTF-8 (a lone
    surrogate after decoding) becomes `\\xff`. Text after `limit` characters is replaced by a note of its length.
    """
    if limit is not None and len(text) > limit:
        return f"{visible(text[:limit])}… (+{len(text) - limit} characters)"
    if text.isascii() and text.isprintable():  # the common case, much faster
        return text
    return "".join(_escape_character(character) for character in text)


def _escape_character(character: str) -> str:
    """Return a character, or its escape where it is invisible or changes how other characters are shown."""
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
    """Return `text` escaped for Markdown, table cells included: no markup, no HTML, no line break."""
    escaped = _MARKDOWN.sub(r"\\\1", visible(text, limit))
    return re.sub(r"[&<>]", lambda match: _HTML[match[0]], escaped)


def code_span(text: str, limit: int | None = None) -> str:
    """Return `text` as a code span of Markdown, delimited by more backticks than it contains in a row.

    Not for table cells: a bar ends the cell even inside a span.
    """
    shown = visible(text, limit)
    fence = "`" * (max((len(run) for run in re.findall(r"`+", shown)), default=0) + 1)
    pad = " " if shown.startswith("`") or shown.endswith("`") or shown.strip() == "" else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def escape_annotation(text: str, *, is_property: bool = False) -> str:
    """Return `text` escaped as the message, or as a property, of a GitHub workflow command; its lines stay separate (`%0A`)."""
    shown = "\n".join(visible(line) for line in text.splitlines())
    shown = shown.replace("%", "%25").replace("\n", "%0A")
    return shown.replace(":", "%3A").replace(",", "%2C") if is_property else shown
