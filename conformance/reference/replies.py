"""SMTP replies: those that this node sends as a server, and those that it receives as a client.

An enhanced status code is three numbers after the code, as in `250 2.1.5 ok` (RFC 3463).
"""

import re
from dataclasses import dataclass
from functools import lru_cache

# the enhanced status codes of replies that have none: by the class of the reply, and by its code
_GENERIC = {"2": "2.0.0", "4": "4.3.0", "5": "5.5.0"}
_BY_CODE = {
    "500": "5.5.2",
    "501": "5.5.4",
    "502": "5.5.1",
    "503": "5.5.1",
    "530": "5.7.0",
    "550": "5.1.1",
    "552": "5.3.4",
    "553": "5.1.3",
    "555": "5.5.4",
}
_ENHANCED = re.compile(r"[245]\.\d{1,3}\.\d{1,3}(?= |$)")


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply: code, enhanced status code (RFC 3463; "" if there is none), and text, in which lines are separated by LF."""

    code: int
    enhanced: str
    text: str

    def __str__(self) -> str:
        """Return code, enhanced status code and text, separated by blanks; what is empty is left out."""
        return " ".join(part for part in (str(self.code), self.enhanced, self.text) if part)

    @property
    def positive(self) -> bool:
        """Whether the reply is positive (2yz)."""
        return 200 <= self.code < 300

    @property
    def permanent(self) -> bool:
        """Whether the reply is a permanent failure (5yz); one that is neither this nor positive is to be retried."""
        return 500 <= self.code < 600

    @property
    def status(self) -> str:
        """The enhanced status code for a report of a failure: the reply's own or, if it has none, 5.0.0 (RFC 3464 2.3.4)."""
        return self.enhanced or "5.0.0"


MAX_LINE = 510
"""The most octets of a line of a reply, without its end (RFC 5321 4.5.3.1.5)."""


def reply_line(reply: Reply) -> str:
    """Return a reply as one line of ASCII, of `MAX_LINE` octets at most, with an enhanced status code; it may be another server's."""
    line = add_enhanced_code(" ".join(str(reply).split("\n")))
    return "".join(c if " " <= c <= "~" else "?" for c in line)[:MAX_LINE]


def id_in_reply(internet_id: str | None, other: str) -> str:
    """Return the Message-ID for the text of a reply; `other` if there is none, or it is not printable ASCII or too long for a line."""
    if internet_id is None or len(internet_id) > 400 or not all(" " <= c <= "~" for c in internet_id):
        return other
    return internet_id


NO_ROOM = Reply(452, "4.3.1", "insufficient system storage")


MAX_TEXT = 32 * 1024
"""The most characters of a reply that are kept: a list of 200 discard notifications, with ids of 64 characters, has half as many."""


@lru_cache(maxsize=256)
def parse_reply(code: int, message: str) -> Reply:
    """Return the reply that a server sent, cut to `MAX_TEXT` characters, with unprintable characters replaced by `?`; cached.

    `message` has its lines without the code, separated by LF. An enhanced status code at the beginning of the first line is taken
    off each line that begins with it.
    """
    text = "".join(c if c.isprintable() or c == "\n" else "?" for c in message[:MAX_TEXT])
    match = _ENHANCED.match(text)
    if match is None:
        return Reply(code, "", text)
    lines = [line.removeprefix(match[0]).removeprefix(" ") for line in text.split("\n")]
    return Reply(code, match[0], "\n".join(lines))


@lru_cache(maxsize=256)
def add_enhanced_code(line: str) -> str:
    """Return a reply line of aiosmtpd with the enhanced status code that RFC 2034 asks for, unless it has one.

    A 3yz reply, which needs none, and a line that another one follows (`250-`) are returned unchanged. Cached.
    """
    code, separator, text = line[:3], line[3:4], line[4:]
    if code[:1] not in _GENERIC or separator == "-" or _ENHANCED.match(text):
        return line
    return f"{code} {_BY_CODE.get(code, _GENERIC[code[0]])} {text}"
