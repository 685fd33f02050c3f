"""Single lines of SMTP: bounded, decoded without loss of sense, secrets taken out; and what a command line or a whole reply
says by itself, whatever was said before it.

The same few are said in session after session: what they say is remembered.
"""

import re
from functools import lru_cache

from conformance.wire.units import PendingReply, WholeReply

LINE = 16 * 1024
"""Octets of a line without an end that are kept together; whatever is beyond passes as it comes."""

TEXT = 2048
"""Octets of a line that are kept as its text."""

_REPLY = re.compile(r"([0-9]{3})(?:([ -])(.*))?", re.DOTALL)
_SECRET = re.compile(r"^(\s*AUTH\s+\S+)\s+\S.*", re.IGNORECASE | re.DOTALL)
_TABBED = re.compile(r"AUTH[ \t]", re.IGNORECASE)
"""Some servers take a tab for the space; what follows is a secret then too."""
_VERB = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,31}")


class Lines:
    """Remembers the beginning of a line that is too long to be kept."""

    def __init__(self) -> None:
        self._beginning = b""

    @property
    def begun(self) -> bool:
        """Whether there is a line that has not ended."""
        return bool(self._beginning)

    def add(self, octets: bytes) -> None:
        """Take a part of a line that has not ended."""
        self._beginning = (self._beginning + octets)[: TEXT + 3]

    def finish(self, octets: bytes) -> str:
        """Take the last part and return the text of the line, without its end, cut (and marked so) at the bound."""
        if not self._beginning and len(octets) <= TEXT:
            return octets.rstrip(b"\r\n").decode("utf-8", "backslashreplace")
        whole = self._beginning + octets[: TEXT + 3]
        self._beginning = b""
        whole = whole.rstrip(b"\r\n") if len(whole) <= TEXT + 2 else whole
        return whole.decode("utf-8", "backslashreplace") if len(whole) <= TEXT else _cut(whole)


def _cut(octets: bytes) -> str:
    return octets[:TEXT].decode("utf-8", "backslashreplace") + "..."


def verb_of(text: str) -> str:
    """Return the verb of a command line in upper case, '' when there is none to be read."""
    verb = "AUTH" if _TABBED.match(text) else text.partition(" ")[0]
    return verb.upper() if _VERB.fullmatch(verb) else ""


def redacted(text: str) -> str:
    """Return a command line without the secret of an AUTH command's initial response (RFC 4954 4)."""
    return _SECRET.sub(r"\1 (redacted)", text) if "AUTH" in text.upper() else text


@lru_cache(maxsize=256)
def reply_parts(text: str) -> tuple[int, bool, str]:
    """Return the code (0 when unreadable), whether more lines follow, and the text of a reply's line."""
    match = _REPLY.fullmatch(text)
    if match is None:
        return 0, False, text
    return int(match[1]), match[2] == "-", match[3] or ""


SHORT = 1024
"""Octets of what is looked up as one whole reply."""

_KNOWN = 256
"""Different phrases of a kind that are remembered."""

_RECIPIENT = re.compile(r"TO:\s*<([^>]*)>", re.IGNORECASE)
_CHUNK = re.compile(r"BDAT ([0-9]{1,12})( LAST)?\s*", re.IGNORECASE)
_TOKEN = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_SHORTEST_TOKEN = 4
_ALONE = ("DATA", "QUIT", "RSET", "NOOP", "HELP", "STARTTLS", "TURN", "VRFY", "EXPN", "EHLO", "HELO", "LHLO", "ETRN")
"""Commands that may be a line of one word."""

LONGEST_LINE = 512
"""Octets of a reply's line, its code and its CRLF included (RFC 5321 4.5.3.1.5)."""

_CODE = re.compile(rb"\d{3}[ \r-]")
_ENHANCED = re.compile(r"[245]\.[0-9]{1,3}\.[0-9]{1,3}")
"""RFC 3463: class, subject, detail."""


@lru_cache(maxsize=_KNOWN)
def understood(text: str) -> tuple[str, str | None, str]:
    """Return a command line's verb, its recipient if it is RCPT, and the line as it may be shown."""
    verb = verb_of(text)
    recipient = _RECIPIENT.search(text) if verb == "RCPT" else None
    return verb, recipient[1] if recipient else None, redacted(text)


def is_token(text: str) -> bool:
    """Whether a line is one word of Base64 that is no command: a response of an AUTH exchange (RFC 4954)."""
    return len(text) >= _SHORTEST_TOKEN and _TOKEN.fullmatch(text) is not None and text.upper() not in _ALONE


def chunk_of(text: str) -> tuple[int, bool] | None:
    """Return the octets that a BDAT command announces and whether they are the last; None when it is none (RFC 3030)."""
    chunk = _CHUNK.fullmatch(text)
    return (int(chunk[1]), bool(chunk[2])) if chunk else None


def parsed(reply: bytes) -> tuple[int, tuple[str, ...]]:
    """Return the code and the lines of a reply of our own, without its last line end."""
    parts = [reply_parts(text) for text in reply.decode("ascii", "replace").split("\r\n")]
    return parts[-1][0], tuple(text for _, _, text in parts)


@lru_cache(maxsize=_KNOWN)
def said_at_once(octets: bytes) -> tuple[int, tuple[str, ...]] | None:
    """Return the code and the lines of octets that are one reply, whole and nothing more; else None."""
    lines = octets.split(b"\n")
    if lines.pop():
        return None
    read = Lines()
    parts = [reply_parts(read.finish(line + b"\n")) for line in lines]
    if (
        not parts
        or parts[-1][1]
        or (parts[-1][0] == 0 and len(parts) > 1)
        or not all(more for _, more, _ in parts[:-1])
    ):
        return None
    return parts[-1][0], tuple(text for _, _, text in parts)


def whole_reply(raw: bytes, code: int, lines: tuple[str, ...], owed: PendingReply | None) -> WholeReply:
    """Return a reply as a unit, as the answer to what was owed."""
    enhanced = _enhanced(lines[0]) if lines else None
    return WholeReply(raw, owed.verb if owed else "", code, enhanced, lines, owed, form_error(raw))


@lru_cache(maxsize=_KNOWN)
def form_error(raw: bytes) -> str:
    """Return in which way the octets of a reply break the form of RFC 5321 4.2 and 4.5.3.1.5, in words, or ''."""
    lines = raw.removesuffix(b"\n").split(b"\n")
    for line in lines:
        if not line.endswith(b"\r"):
            return "a line does not end with CRLF"
        if len(line) + 1 > LONGEST_LINE:
            return f"a line has {len(line) + 1} octets, more than {LONGEST_LINE}"
        if not _CODE.match(line):
            return "a line does not begin with three digits and a space or a hyphen"
    codes = list(dict.fromkeys(line[:3].decode("ascii") for line in lines))
    return f"its lines have different codes: {', '.join(codes)}" if len(codes) > 1 else ""


@lru_cache(maxsize=_KNOWN)
def _enhanced(line: str) -> str | None:
    """Return the enhanced status code that the text of a reply's line begins with, if any."""
    code = line.partition(" ")[0]
    return code if _ENHANCED.fullmatch(code) else None
