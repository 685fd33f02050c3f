"""The header fields that the server reads and adds. Content is otherwise passed on octet for octet.

`content` is a message as after DATA: header and body, with CRLF line ends and without dot-stuffing.
"""

import re
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime

_FIELD_END = re.compile(rb"\r\n(?![ \t])")
_LOOP_LIMIT = 100


def header_field(content: bytes, name: bytes) -> bytes | None:
    """Return the unfolded, stripped body of the first header field with this name (in any letter case), or None if there is none."""
    header = b"\r\n" + content[: _header_end(content)]
    match = re.search(rb"\r\n" + re.escape(name) + rb"[ \t]*:", header, re.IGNORECASE)
    if match is None:
        return None
    end = _FIELD_END.search(header, match.end())
    body = header[match.end() : end.start() if end else len(header)]
    return body.replace(b"\r\n", b"").strip()


def internet_message_id(content: bytes) -> str | None:
    """Return the Message-ID without its brackets, if it has both, or None if there is none or it is empty."""
    value = header_field(content, b"Message-ID")
    if not value:
        return None
    if value.startswith(b"<") and value.endswith(b">"):
        value = value[1:-1]
    return value.decode("latin-1") or None


def client_submit_time(content: bytes) -> float | None:
    """Return the instant in the Date field (RFC 5322), POSIX seconds, or None if it is absent or invalid; UTC if it has no zone."""
    value = header_field(content, b"Date")
    if value is None:
        return None
    try:
        moment = parsedate_to_datetime(value.decode("ascii"))
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, IndexError, TypeError):
        return None


def is_looping(content: bytes) -> bool:
    """Return whether a message has more than 100 Received fields and so must be in a loop (RFC 5321 6.3)."""
    header = content[: _header_end(content)]
    return len(re.findall(rb"(?im)^Received[ \t]*:", header)) > _LOOP_LIMIT


def header_only(content: bytes) -> bytes:
    """Return the header with its last line end, for a report without the body (RFC 3461 RET=HDRS).

    Content without a blank line is all header.
    """
    return content[: _header_end(content)]


_LAST_SECOND = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()


def format_date(at: float) -> str:
    """Return a time (POSIX seconds) as an RFC 5322 date in UTC.

    A later one than the year 9999 becomes its last second: a Date field with a zone west of UTC may be later.
    """
    return format_datetime(datetime.fromtimestamp(min(at, _LAST_SECOND), UTC))


def trace_field(*, helo: str, peer: str, by: str, protocol: str, message_id: str, at: float) -> bytes:
    """Return the Received field for a message from the client `helo` at IP address `peer` (RFC 5321 4.4).

    `by` is the name of this server, `protocol` `ESMTP` or `LMTP`, `message_id` its id for the message, `at` the time (POSIX
    seconds). Characters of `helo` other than letters, digits and `.:[]_-` become `?`; it is cut to 255 characters; an empty one
    becomes `unknown`.
    """
    client = re.sub(r"[^A-Za-z0-9.:\[\]_-]", "?", helo)[:255] or "unknown"
    line = (
        f"Received: from {client} ([{peer}])\r\n\tby {by} with {protocol} id {message_id};\r\n\t{format_date(at)}\r\n"
    )
    return line.encode("ascii")


def _header_end(content: bytes) -> int:
    """Return the length of the header in octets, with its last line end and without the blank line after it.

    That is 0 if the content begins with the blank line, and all of the content if it has none.
    """
    if content.startswith(b"\r\n"):
        return 0
    end = content.find(b"\r\n\r\n")
    return len(content) if end < 0 else end + 2
