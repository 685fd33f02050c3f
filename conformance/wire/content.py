"""The content of a message as it passes: hashed on the way, and recognised when it is a report."""

import hashlib
import re
from email.message import Message
from email.parser import BytesParser
from email.policy import compat32
from typing import Literal

from conformance.history.events import Digest

KEPT = 256 * 1024
"""Octets of the header, and of a report's body, that are kept and read."""

TRACE = frozenset({b"received", b"return-path", b"delivered-to", b"x-original-to"})
"""Header fields that transports add and remove (RFC 5321 4.4); `stable_sha256` leaves them out."""

_REPORT_MARKS = (b"multipart/report", b"multipart/mixed", b"x-ms-journal-report")
"""What the header of a report has; the body of any other message need not be kept."""

_STATUS_PART = b"message/delivery-status"

_FIELD = re.compile(rb"(?:\r\n)(?![ \t])")
_MESSAGE_ID = re.compile(rb"^Message-ID[ \t]*:((?:[^\r]|\r\n[ \t]|\r(?!\n))*)", re.IGNORECASE | re.MULTILINE)
_DATE = re.compile(rb"^Date[ \t]*:((?:[^\r]|\r\n[ \t]|\r(?!\n))*)", re.IGNORECASE | re.MULTILINE)
_IDENTITY = re.compile(r"<([^<>]*)>")
_LINE_ID = re.compile(r"^[ \t]*Message-ID:[ \t]*<([^<>\s]+)>", re.IGNORECASE | re.MULTILINE)


class Unstuffer:
    """Takes the dots away that SMTP put in front of lines beginning with one (RFC 5321 4.5.2)."""

    def __init__(self) -> None:
        self._before = b"\r\n"

    def feed(self, raw: bytes) -> bytes:
        """Return the content that these octets of the wire stand for."""
        stream = self._before + raw
        text = stream.replace(b"\r\n.", b"\r\n")[len(self._before) :]
        self._before = stream[-2:]
        return text

    def skip(self, raw: bytes) -> bytes:
        """Return octets of which it is known that they have no dot to take away."""
        self._before = raw[-2:] if len(raw) > 1 else (self._before + raw)[-2:]
        return raw


class Digester:
    """Takes a content piece by piece and makes its `Digest`; keeps the header and `KEPT` octets at most."""

    def __init__(self) -> None:
        self._whole = hashlib.sha256()
        self._body = hashlib.sha256()
        self._stable: hashlib._Hash | None = None
        self._size = 0
        self._header: bytes | None = None
        self._kept = bytearray()
        self._searched = 0
        self._is_report = False

    def feed(self, octets: bytes) -> None:
        """Take the next octets of the content."""
        self._size += len(octets)
        self._whole.update(octets)
        if self._header is None:
            self._kept += octets
            self._look_for_body()
        else:
            self._take_body(octets)

    def digest(self) -> Digest:
        """Return the digest of what was taken. A content without an empty line is all header."""
        if self._header is None:
            self._end_header(bytes(self._kept), b"")
        header = self._header or b""
        report, about, status = _report(header, bytes(self._kept)) if self._is_report else (None, None, [])
        return Digest(
            size=self._size,
            sha256=self._whole.hexdigest(),
            body_sha256=self._body.hexdigest(),
            stable_sha256=(self._stable or self._whole).hexdigest(),
            message_id=_identity(_field(header, _MESSAGE_ID)),
            date=_field(header, _DATE),
            report=report,
            about=about,
            action=next((action for action, _ in status), None),
            failed=tuple(who for action, recipients in status if action == "failed" for who in recipients),
        )

    def _look_for_body(self) -> None:
        if self._kept[:2] == b"\r\n":
            self._end_header(b"", bytes(self._kept[2:]))
            return
        at = self._kept.find(b"\r\n\r\n", self._searched)
        self._searched = max(0, len(self._kept) - 3)
        if at >= 0:
            self._end_header(bytes(self._kept[: at + 2]), bytes(self._kept[at + 4 :]))
        elif len(self._kept) > KEPT:
            self._end_header(bytes(self._kept), b"")

    def _end_header(self, header: bytes, body: bytes) -> None:
        self._header = header
        lower = header.lower()
        self._is_report = any(mark in lower for mark in _REPORT_MARKS)
        self._kept = bytearray()
        stable = without_trace(header)
        if stable != header or self._size < len(header) + 2 + len(body):
            self._stable = hashlib.sha256(stable + b"\r\n")
        self._take_body(body)

    def _take_body(self, octets: bytes) -> None:
        self._body.update(octets)
        if self._stable is not None:
            self._stable.update(octets)
        if self._is_report and len(self._kept) < KEPT:
            self._kept += octets[: KEPT - len(self._kept)]


def digest(content: bytes) -> Digest:
    """Return the digest of a whole content (not dot-stuffed)."""
    digester = Digester()
    digester.feed(content)
    return digester.digest()


def dot_stuffed(content: bytes) -> bytes:
    """Return a content as it goes over the wire, without the final dot; its last line is ended where it is not."""
    wire = (b"\r\n" + content).replace(b"\r\n.", b"\r\n..")[2:]
    return wire if not wire or wire.endswith(b"\r\n") else wire + b"\r\n"


def dot_unstuffed(wire: bytes) -> bytes:
    """Return the content that octets of the wire stand for, as a receiver reads them (RFC 5321 4.5.2)."""
    return Unstuffer().feed(wire)


def without_trace(header: bytes) -> bytes:
    """Return a header (each field ends with CRLF) without its trace fields."""
    fields = _FIELD.split(header.removesuffix(b"\r\n")) if header else []
    kept = [field for field in fields if field.partition(b":")[0].strip().lower() not in TRACE]
    return b"".join(field + b"\r\n" for field in kept)


def _field(header: bytes, name: re.Pattern[bytes]) -> str | None:
    """Return the value of the first field of that name, unfolded and bounded; None when there is none."""
    match = name.search(header)
    return " ".join(match[1].decode("utf-8", "backslashreplace").split())[:998] if match else None


def _text(message: Message, name: str) -> str | None:
    value = message.get(name)
    return None if value is None else " ".join(str(value).split())[:998]


def _identity(value: str | None) -> str | None:
    """Return a Message-ID without its brackets."""
    match = _IDENTITY.search(value or "")
    return match[1] if match else value or None


def _report(
    header: bytes, body: bytes
) -> tuple[Literal["delivery-status", "journal"] | None, str | None, list[tuple[str, list[str]]]]:
    """Read a report: its kind, the Message-ID of what it is about, and each action with its recipient (RFC 3464 2.3).

    Of one that is nested deeper than can be read, only the kind is known. A status part in a multipart/mixed is a report
    too: it is not in the form of RFC 3464 2, and still tells the sender (RFC 5321 6.1).
    """
    outer = BytesParser(policy=compat32).parsebytes(header + b"\r\n", headersonly=True)
    kind: Literal["delivery-status", "journal"]
    if outer.get("X-MS-Journal-Report") is not None:
        kind = "journal"
    elif _tells_status(outer, header, body):
        kind = "delivery-status"
    else:
        return None, None, []
    try:
        whole = BytesParser(policy=compat32).parsebytes(header + b"\r\n" + body)
        return kind, _about(whole), _status(whole) if kind == "delivery-status" else []
    except RecursionError:
        return kind, None, []


def _tells_status(outer: Message, header: bytes, body: bytes) -> bool:
    """Whether a message is a report of delivery status, by its header or by one of its parts."""
    if outer.get_content_type() == "multipart/report":
        return str(outer.get_param("report-type")).lower() == "delivery-status"
    if outer.get_content_type() != "multipart/mixed" or _STATUS_PART not in body.lower():
        return False
    try:
        whole = BytesParser(policy=compat32).parsebytes(header + b"\r\n" + body)
    except RecursionError:
        return False
    return any(part.get_content_type() == _STATUS_PART.decode() for part in _parts(whole))


def _status(report: Message) -> list[tuple[str, list[str]]]:
    """Return the action of each recipient that a report's status part tells of, and his addresses: final, original."""
    status = (part for part in report.walk() if part.get_content_type() == _STATUS_PART.decode())
    found = []
    for block in (block for part in status for block in _parts(part)):
        if action := _text(block, "Action"):
            named = [_text(block, name) for name in ("Final-Recipient", "Original-Recipient")]
            addresses = [value.partition(";")[2].strip() for value in named if value is not None]
            found.append((action.lower(), list(dict.fromkeys(filter(None, addresses)))))
    return found


def _about(report: Message) -> str | None:
    """Return the Message-ID of the message that a report returns, or names in a line of its text."""
    for part in report.walk():
        kind = part.get_content_type()
        if kind == "message/rfc822" and part.is_multipart() and _parts(part):
            return _identity(_text(_parts(part)[0], "Message-ID"))
        if kind == "text/rfc822-headers" and not part.is_multipart():
            returned = BytesParser(policy=compat32).parsebytes(_payload(part).lstrip(b"\r\n"), headersonly=True)
            return _identity(_text(returned, "Message-ID"))
    for part in report.walk():
        if part.get_content_type() == "text/plain" and (
            match := _LINE_ID.search(_payload(part).decode("utf-8", "replace"))
        ):
            return match[1]
    return None


def _parts(part: Message) -> list[Message]:
    payload = part.get_payload()
    return [inner for inner in payload if isinstance(inner, Message)] if isinstance(payload, list) else []


def _payload(part: Message) -> bytes:
    payload = part.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""
