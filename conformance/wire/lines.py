"""Single lines of SMTP: bounded, decoded without loss of sense, secrets taken out."""

import re
from functools import lru_cache

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
