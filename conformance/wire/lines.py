"""Lines of SMTP, without the state of a session: parse a command line, a reply's line, or a whole reply.

Lines are cut to `TEXT` (2048) octets, decoded without losing octets, and stripped of secrets. The functions that are called
for each line of each session are cached, since the same few lines occur in every session. `SessionParser` calls them. A
line's *text* has no line end; the text of a reply's line is what follows the code. A *pending* reply is one that the server
has not sent yet.
"""

import re
from functools import lru_cache

from conformance.history.events import NO_VERB
from conformance.wire.units import PendingReply, WholeReply

LINE = 16 * 1024
"""Octets of an unfinished line that are buffered; beyond that they are forwarded as they arrive."""

TEXT = 2048
"""Octets of a line that are kept as its text."""

SHORT_REPLY = 1024
"""Octets up to which a read is tried as one complete reply, and cached."""

MAX_REPLY_LINE = 512
"""Octets of a reply's line, its code and CRLF included (RFC 5321 4.5.3.1.5)."""

_CACHED = 256
"""Lines that each cached function remembers."""

_REPLY = re.compile(r"([0-9]{3})(?:([ -])(.*))?", re.DOTALL)
_SECRET = re.compile(r"^(\s*AUTH\s+\S+)\s+(?!=\s*$)\S.*", re.IGNORECASE | re.DOTALL)
"""`=` is an empty initial response (RFC 4954 4), and no secret."""
_AUTH_COMMAND = re.compile(r"AUTH[ \t]", re.IGNORECASE)
"""Some servers accept a tab in place of the space; what follows is a secret then too."""
_VERB = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,31}")
_RECIPIENT = re.compile(r"TO:\s*<([^>]*)>", re.IGNORECASE)
_BDAT = re.compile(r"BDAT ([0-9]{1,12})( LAST)?\s*", re.IGNORECASE)
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_MIN_BASE64 = 4
_ONE_WORD_COMMANDS = (
    "DATA", "QUIT", "RSET", "NOOP", "HELP", "STARTTLS", "TURN", "VRFY", "EXPN", "EHLO", "HELO", "LHLO", "ETRN"
)  # fmt: skip
"""Commands that may be a line of one word, which the alphabet of Base64 could spell."""
_CODE = re.compile(rb"\d{3}[ \r-]")
_ENHANCED = re.compile(r"[245]\.[0-9]{1,3}\.[0-9]{1,3}")
"""RFC 3463: class, subject, detail."""


class BoundedLine:
    """Assembles the text of one line from parts, and keeps no more than its first `TEXT` octets.

    Up to three octets more are kept until its end: two may be its CRLF, a third one shows that it is longer.
    """

    def __init__(self) -> None:
        self._beginning = b""

    @property
    def started(self) -> bool:
        """Whether parts of an unfinished line were added."""
        return bool(self._beginning)

    def add(self, octets: bytes) -> None:
        """Add a part of an unfinished line; octets beyond the line's first `TEXT` + 3 are dropped."""
        self._beginning = (self._beginning + octets)[: TEXT + 3]

    def finish(self, octets: bytes) -> str:
        """Add the last part, return the line's text without its end, and begin the next line.

        A text of more than `TEXT` octets is cut there and ends in `...`. Octets that are not UTF-8 become backslash escapes.
        """
        if not self._beginning and len(octets) <= TEXT:
            return octets.rstrip(b"\r\n").decode("utf-8", "backslashreplace")
        line = self._beginning + octets[: TEXT + 3]
        self._beginning = b""
        line = line.rstrip(b"\r\n") if len(line) <= TEXT + 2 else line
        text = line[:TEXT].decode("utf-8", "backslashreplace")
        return text if len(line) <= TEXT else text + "..."


@lru_cache(maxsize=_CACHED)
def parse_command(text: str) -> tuple[str, str | None, str]:
    """Return a command line's verb ('' for none), its recipient, and the redacted line.

    The recipient is the address between `TO:<` and `>` of RCPT; None if there is none, and for every other verb.
    """
    verb = verb_of(text)
    recipient = _RECIPIENT.search(text) if verb == "RCPT" else None
    return verb, recipient[1] if recipient else None, redacted(text)


def verb_of(text: str) -> str:
    """Return the verb of a command line in upper case, '' if the line does not begin with one.

    A verb is a letter and up to 31 letters, digits or hyphens, up to the first space; after AUTH a tab ends it too.
    """
    verb = "AUTH" if _AUTH_COMMAND.match(text) else text.partition(" ")[0]
    return verb.upper() if _VERB.fullmatch(verb) else ""


def redacted(text: str) -> str:
    """Return a command line, with the initial response of an AUTH command (RFC 4954 4) replaced by `(redacted)`.

    A line of another command, or of AUTH without a response or with the empty one (`=`), is returned unchanged.
    """
    return _SECRET.sub(r"\1 (redacted)", text) if "AUTH" in text.upper() else text


def is_auth_response(text: str) -> bool:
    """Whether a line may be a response of an AUTH exchange (RFC 4954).

    Such a line is one word of Base64 of four characters or more, and not one of `_ONE_WORD_COMMANDS`; white space around it is
    ignored.
    """
    text = text.strip()
    return len(text) >= _MIN_BASE64 and _BASE64.fullmatch(text) is not None and text.upper() not in _ONE_WORD_COMMANDS


def parse_bdat(text: str) -> tuple[int, bool] | None:
    """Return a BDAT command's chunk size in octets and whether it says LAST; None for any other line (RFC 3030)."""
    chunk = _BDAT.fullmatch(text)
    return (int(chunk[1]), bool(chunk[2])) if chunk else None


@lru_cache(maxsize=_CACHED)
def parse_reply_line(text: str) -> tuple[int, bool, str]:
    """Return a reply line's code, whether more lines follow (`250-`), and its text; for an unreadable line 0, False, the line."""
    match = _REPLY.fullmatch(text)
    if match is None:
        return 0, False, text
    return int(match[1]), match[2] == "-", match[3] or ""


def parse_substitute(reply: bytes) -> tuple[int, tuple[str, ...]]:
    """Return the code of the last line and the texts of all lines of a reply that lacks its last CRLF.

    Such replies are given by scenarios and relays in a server's place. They are expected to be well-formed, and not checked.
    """
    parts = [parse_reply_line(text) for text in reply.decode("ascii", "replace").split("\r\n")]
    return parts[-1][0], tuple(text for _, _, text in parts)


@lru_cache(maxsize=_CACHED)
def parse_single_reply(octets: bytes) -> tuple[int, tuple[str, ...]] | None:
    """Return the code and the lines if the octets are exactly one complete reply, else None.

    An unreadable line (code 0) is a reply by itself only if it is the only line.
    """
    lines = octets.split(b"\n")
    if lines.pop():  # the last line has no end
        return None
    line_text = BoundedLine()
    parts = [parse_reply_line(line_text.finish(line + b"\n")) for line in lines]
    if (
        not parts
        or parts[-1][1]
        or (parts[-1][0] == 0 and len(parts) > 1)
        or not all(more for _, more, _ in parts[:-1])
    ):
        return None
    return parts[-1][0], tuple(text for _, _, text in parts)


def make_reply(raw: bytes, code: int, lines: tuple[str, ...], pending: PendingReply | None) -> WholeReply:
    """Return the unit of a reply: `raw` are its octets, `lines` the texts after the codes.

    `pending` is the reply that it gives; None: no reply was pending, so that it answers no command. `to` of the unit is '' then,
    and `NO_VERB` if it answers a line without a verb.
    """
    enhanced = _enhanced_code(lines[0]) if lines else None
    return WholeReply(
        raw=raw,
        to=(pending.verb or NO_VERB) if pending else "",
        code=code,
        enhanced=enhanced,
        lines=lines,
        pending=pending,
        malformed=describe_malformed(raw),
    )


def describe_malformed(raw: bytes) -> str:
    """Return in words the first way in which a reply's octets violate RFC 5321 4.2 or 4.5.3.1.5; '' if they do not."""
    # A long one is not cached: it may have 2 MiB, and the cache would keep it.
    return _malformed_cached(raw) if len(raw) <= SHORT_REPLY else _malformed(raw)


def _malformed(raw: bytes) -> str:
    """Do what `describe_malformed` does, without a cache."""
    lines = raw.removesuffix(b"\n").split(b"\n")
    for line in lines:
        if not line.endswith(b"\r"):
            return "a line does not end with CRLF"
        if len(line) + 1 > MAX_REPLY_LINE:
            return f"a line has {len(line) + 1} octets, more than {MAX_REPLY_LINE}"
        if not _CODE.match(line):
            return "a line does not begin with three digits and a space or a hyphen"
    codes = list(dict.fromkeys(line[:3].decode("ascii") for line in lines))
    return f"its lines have different codes: {', '.join(codes)}" if len(codes) > 1 else ""


_malformed_cached = lru_cache(maxsize=_CACHED)(_malformed)


@lru_cache(maxsize=_CACHED)
def _enhanced_code(line: str) -> str | None:
    """Return the enhanced status code (RFC 2034) that a reply line's text begins with, None if it begins with none."""
    code = line.partition(" ")[0]
    return code if _ENHANCED.fullmatch(code) else None
