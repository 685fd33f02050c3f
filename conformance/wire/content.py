"""The content of a message: dot-stuffing, and its `Digest` (hashes, Message-ID, and what a delivery report says).

A digest is made while the content is forwarded, without keeping it. It has hashes of the whole content, of its body, and
(`stable_sha256`) of the content without the trace fields that each transport may add. If the header looks like that of a report
(RFC 3464, or a journal report), up to `MAX_KEPT` octets of the body are kept, and parsed at the end.

A *report* is such a message. Its *status part* has groups of header fields, here *blocks*: one about the message, then one for
each recipient. What is sent to a server is *dot-stuffed*: a line that begins with a dot has another one before it.
"""

import hashlib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from email.errors import MissingHeaderBodySeparatorDefect
from email.message import Message
from email.parser import BytesParser
from email.policy import compat32
from typing import Literal

from conformance.history.values import Digest
from conformance.wire.report_form import find_form_problem, find_returned, without_comments

MAX_KEPT = 256 * 1024
"""Octets of a header, and of a report's body, that are kept and parsed."""

TRACE_FIELDS = frozenset({b"received", b"return-path", b"delivered-to", b"x-original-to"})
"""Header fields that transports add and remove (RFC 5321 4.4); `stable_sha256` omits them."""

_REPORT_MARKS = (b"multipart/report", b"multipart/mixed", b"x-ms-journal-report")
"""One of these is in the header of every report; the body of any other message is not kept."""

_STATUS_PART = b"message/delivery-status"

_FIELD_END = re.compile(rb"(?:\r\n)(?![ \t])")
_MESSAGE_ID = re.compile(rb"^Message-ID[ \t]*:((?:[^\r]|\r\n[ \t]|\r(?!\n))*)", re.IGNORECASE | re.MULTILINE)
_DATE = re.compile(rb"^Date[ \t]*:((?:[^\r]|\r\n[ \t]|\r(?!\n))*)", re.IGNORECASE | re.MULTILINE)
_RECEIVED = re.compile(rb"^Received[ \t]*:", re.IGNORECASE | re.MULTILINE)
_GLOBAL_PART = re.compile(
    rb"^(Content-Type[ \t]*:[ \t]*)message/global(-headers|-delivery-status)?(?=[;\s])", re.IGNORECASE | re.MULTILINE
)
_ESCAPED = re.compile(r"\\x\{([0-9A-Fa-f]{2,6})\}")
_ANGLE_BRACKETS = re.compile(r"<([^<>]*)>")
_MESSAGE_ID_LINE = re.compile(r"^[ \t]*Message-ID:[ \t]*<([^<>\s]+)>", re.IGNORECASE | re.MULTILINE)


class Unstuffer:
    """Removes the dots that SMTP adds to lines beginning with one (RFC 5321 4.5.2), from a content that comes in parts."""

    def __init__(self) -> None:
        self._before = b"\r\n"  # the last two octets: a content begins at the beginning of a line

    def feed(self, raw: bytes) -> bytes:
        """Return the next octets, as on the wire, without the dots that were added."""
        stream = self._before + raw
        text = stream.replace(b"\r\n.", b"\r\n")[len(self._before) :]
        self._before = stream[-2:]
        return text

    def pass_through(self, raw: bytes) -> bytes:
        """Return the next octets unchanged; the caller knows that no dot was added to them."""
        self._before = raw[-2:] if len(raw) > 1 else (self._before + raw)[-2:]
        return raw


class Digester:
    """Makes the `Digest` of a content that comes in parts.

    It keeps the header, up to `MAX_KEPT` octets, and as much of a report's body. Of a longer header the lines that end within that
    count as header, and the rest as body.
    `_header` is None until the header has ended. `_kept` is what has come of it until then, and later the body of a
    report. `_searched` is where the search for the header's end goes on. `_whole`, `_body` and `_stable` are the hashes;
    `_stable` is None where that hash is the same as `_whole`.
    """

    def __init__(self) -> None:
        self._whole = hashlib.sha256()
        self._body = hashlib.sha256()
        self._stable: hashlib._Hash | None = None
        self._size = 0
        self._header: bytes | None = None
        self._kept = bytearray()
        self._searched = 0
        self._is_report = False
        self._eight_bit = False

    def feed(self, octets: bytes) -> None:
        """Add the next octets of the content, which are not dot-stuffed."""
        self._size += len(octets)
        self._eight_bit = self._eight_bit or not octets.isascii()
        self._whole.update(octets)
        if self._header is None:
            self._kept += octets
            self._find_header_end()
        else:
            self._add_body(octets)

    def digest(self) -> Digest:
        """Return the digest of all octets added; call it after the last of them. A content without an empty line is all header.

        Of a report it has what the report says too, such as the Message-ID that it is about, its first action, and the
        recipients for whom delivery failed.
        """
        if self._header is None:
            self._end_header(bytes(self._kept), b"")
        header = self._header or b""
        report = _parse_report(header, bytes(self._kept)) if self._is_report else _Report()
        actions = report.actions
        return Digest(
            size=self._size,
            sha256=self._whole.hexdigest(),
            body_sha256=self._body.hexdigest(),
            stable_sha256=(self._stable or self._whole).hexdigest(),
            message_id=_without_brackets(_raw_field(header, _MESSAGE_ID)),
            date=_raw_field(header, _DATE),
            report=report.kind,
            about=report.about,
            action=next((action for action, _ in actions), None),
            failed=tuple(to for action, addresses in actions if action == "failed" for to in addresses),
            reported=tuple(f"{action} {to}" for action, addresses in actions for to in addresses),
            envelope_id=report.envelope_id,
            originals=report.originals,
            form_problem=report.form_problem,
            returned=report.returned,
            eight_bit=self._eight_bit,
            received=len(_RECEIVED.findall(header)),
        )

    def _find_header_end(self) -> None:
        """End the header at the first empty line of what is kept, or at `MAX_KEPT` octets without one; else do nothing."""
        if self._kept[:2] == b"\r\n":
            self._end_header(b"", bytes(self._kept[2:]))
            return
        at = self._kept.find(b"\r\n\r\n", self._searched, MAX_KEPT)
        self._searched = max(0, len(self._kept) - 3)
        if at >= 0:
            self._end_header(bytes(self._kept[: at + 2]), bytes(self._kept[at + 4 :]))
        elif len(self._kept) >= MAX_KEPT:
            end = self._kept.rfind(b"\r\n", 0, MAX_KEPT) + 2 if b"\r\n" in self._kept[:MAX_KEPT] else 0
            self._end_header(bytes(self._kept[:end]), bytes(self._kept[end:]), cut=True)

    def _end_header(self, header: bytes, body: bytes, *, cut: bool = False) -> None:
        """Keep the header, begin the stable hash if it can differ from that of the whole, and add the body's beginning.

        The stable hash is that of the content without trace fields. A body is kept later only if the header looks like
        a report's. `cut`: the header goes on in `body`, with no empty line between.
        """
        self._header = header
        lower = header.lower()
        self._is_report = any(mark in lower for mark in _REPORT_MARKS)
        self._kept = bytearray()
        stable = without_trace_fields(header)
        if stable != header or (self._size < len(header) + 2 + len(body) and not cut):  # or the empty line is missing
            self._stable = hashlib.sha256(stable if cut else stable + b"\r\n")
        self._add_body(body)

    def _add_body(self, octets: bytes) -> None:
        """Hash octets of the body, and keep them if the header is that of a report, up to `MAX_KEPT` in all."""
        self._body.update(octets)
        if self._stable is not None:
            self._stable.update(octets)
        if self._is_report and len(self._kept) < MAX_KEPT:
            self._kept += octets[: MAX_KEPT - len(self._kept)]


def digest(content: bytes) -> Digest:
    """Return the digest of a complete content that is not dot-stuffed."""
    digester = Digester()
    digester.feed(content)
    return digester.digest()


def dot_stuffed(content: bytes) -> bytes:
    """Return a content as it is sent before the final dot: dots added (RFC 5321 4.5.2), the last line ended with CRLF.

    An empty content stays empty.
    """
    wire = (b"\r\n" + content).replace(b"\r\n.", b"\r\n..")[2:]
    return wire if not wire or wire.endswith(b"\r\n") else wire + b"\r\n"


def dot_unstuffed(wire: bytes) -> bytes:
    """Return a content without the dots that were added for the wire, as a receiver reads it (RFC 5321 4.5.2)."""
    return Unstuffer().feed(wire)


def without_trace_fields(header: bytes) -> bytes:
    """Return a header, each field of which ends with CRLF, without the fields of `TRACE_FIELDS`, such as Received."""
    fields = _FIELD_END.split(header.removesuffix(b"\r\n")) if header else []
    kept = [field for field in fields if field.partition(b":")[0].strip().lower() not in TRACE_FIELDS]
    return b"".join(field + b"\r\n" for field in kept)


def _raw_field(header: bytes, pattern: re.Pattern[bytes]) -> str | None:
    """Return the value (group 1) of the first field that a pattern matches, on one line and cut to 998 characters.

    None if no field matches.
    """
    match = pattern.search(header)
    return " ".join(match[1].decode("utf-8", "backslashreplace").split())[:998] if match else None


def _field(message: Message, name: str) -> str | None:
    """Return the value of a message's first field of a name, on one line and cut to 998 characters; None if it has none.

    Octets above 127 are read as UTF-8 (RFC 6532).
    """
    value = next((str(value) for key, value in message.raw_items() if key.lower() == name.lower()), None)
    if value is None:
        return None
    return " ".join(value.encode("utf-8", "surrogateescape").decode("utf-8", "replace").split())[:998]


def _plain_part(match: re.Match[bytes]) -> bytes:
    """Return a match of `_GLOBAL_PART` with an ordinary report's type in place of that of RFC 6533 (`message/global...`).

    The parts of an internationalized report have the form of the ordinary ones, and can be parsed as these.
    """
    kinds = {b"": b"message/rfc822", b"-headers": b"text/rfc822-headers", b"-delivery-status": _STATUS_PART}
    return match[1] + kinds[(match[2] or b"").lower()]


def _without_brackets(value: str | None) -> str | None:
    """Return what is within the angle brackets of a Message-ID, or the value if it has no brackets; None for None or ''."""
    match = _ANGLE_BRACKETS.search(value or "")
    return (match[1] if match else value) or None


@dataclass(frozen=True, slots=True)
class _Report:
    """What a report says: its kind, the Message-ID of the message it is about, and each action with its recipients' addresses.

    The actions are those of RFC 3464 2.3, in lower case; `envelope_id` and `originals` are the fields
    Original-Envelope-Id and Original-Recipient. `form_problem` and `returned` are as `report_form` finds them. All is
    None or empty for a message that is not a report.
    """

    kind: Literal["delivery-status", "journal"] | None = None
    about: str | None = None
    actions: tuple[tuple[str, list[str]], ...] = ()
    envelope_id: str | None = None
    originals: tuple[str, ...] = ()
    form_problem: str = ""
    returned: Literal["message", "header"] | None = None


def _parse_report(header: bytes, body: bytes) -> _Report:
    """Return what a report says, an empty `_Report` for a message that is not one.

    Of a report that is nested too deeply to be parsed only the kind is returned. Of a journal report only the kind and
    the Message-ID are returned. A status part in a multipart/mixed counts as a report too: it lacks the form of RFC
    3464 2 (which is then not judged), and still informs the sender (RFC 5321 6.1).
    """
    outer = BytesParser(policy=compat32).parsebytes(header + b"\r\n", headersonly=True)
    kind: Literal["delivery-status", "journal"]
    if outer.get("X-MS-Journal-Report") is not None:
        kind = "journal"
    elif _is_status_report(outer, header, body):
        kind = "delivery-status"
    else:
        return _Report()
    try:
        whole = BytesParser(policy=compat32).parsebytes(header + b"\r\n" + _GLOBAL_PART.sub(_plain_part, body))
        about = _reported_message_id(whole)
        if kind == "journal":
            return _Report(kind, about)
        blocks = [
            block
            for part in whole.walk()
            if part.get_content_type() == _STATUS_PART.decode()
            for block in _nested_messages(part)
        ]
        return _Report(
            kind=kind,
            about=about,
            actions=tuple(_actions(blocks)),
            envelope_id=next(filter(None, (_field(block, "Original-Envelope-Id") for block in blocks)), None),
            originals=tuple(filter(None, (_field(block, "Original-Recipient") for block in blocks))),
            form_problem=find_form_problem(whole, blocks, eight_bit=not body.isascii())
            if outer.get_content_type() == "multipart/report"
            else "",
            returned=find_returned(whole),
        )
    except RecursionError:
        return _Report(kind)


def _is_status_report(outer: Message, header: bytes, body: bytes) -> bool:
    """Whether a message is a report of delivery status: by the header (parsed as `outer`) of a multipart/report.

    A multipart/mixed is one if a part directly in it is of delivery status; False if it is nested too deeply to be parsed.
    """
    if outer.get_content_type() == "multipart/report":
        return str(outer.get_param("report-type")).lower() == "delivery-status"
    if outer.get_content_type() != "multipart/mixed" or b"delivery-status" not in body.lower():
        return False
    try:
        whole = BytesParser(policy=compat32).parsebytes(header + b"\r\n" + _GLOBAL_PART.sub(_plain_part, body))
    except RecursionError:
        return False
    return any(part.get_content_type() == _STATUS_PART.decode() for part in _nested_messages(whole))


def _actions(blocks: list[Message]) -> Iterator[tuple[str, list[str]]]:
    """Yield for each recipient of a report's status parts the action in lower case and the recipient's addresses.

    These are the final address, and the original one if it differs, as far as given. `blocks` are the groups of fields in those
    parts; one without an Action is skipped. Comments beside the action (RFC 3464 2.1.1) are left out.
    """
    for block in blocks:
        if action := _field(block, "Action"):
            named = [_field(block, name) for name in ("Final-Recipient", "Original-Recipient")]
            addresses = [_address_in(value) for value in named if value is not None]
            yield (
                without_comments(action).partition("(")[0].strip().lower(),
                list(dict.fromkeys(filter(None, addresses))),
            )


def _address_in(value: str) -> str:
    """Return the address in the value `TYPE;ADDRESS` of a recipient field; '' without a type.

    Escapes in an address of the type utf-8 are decoded (RFC 6533 3); one of no character becomes U+FFFD.
    """
    kind, _, address = value.partition(";")
    if kind.strip().lower() != "utf-8":
        return address.strip()
    return _ESCAPED.sub(lambda match: _character(int(match[1], 16)), address.strip())


def _character(code: int) -> str:
    """Return the character with this number; U+FFFD for a surrogate, which UTF-8 cannot encode, or a number beyond Unicode."""
    return "\N{REPLACEMENT CHARACTER}" if code > sys.maxunicode or 0xD800 <= code <= 0xDFFF else chr(code)


def _reported_message_id(report: Message) -> str | None:
    """Return the Message-ID of the first message (or header) that a report returns, else of a Message-ID line of its text.

    None if it has none of these, or if what it returns has no Message-ID.
    """
    for part in report.walk():
        kind = part.get_content_type()
        if kind == "message/rfc822" and part.is_multipart() and _nested_messages(part):
            return _without_brackets(_message_id(_nested_messages(part)[0]))
        if kind == "text/rfc822-headers" and not part.is_multipart():
            returned = BytesParser(policy=compat32).parsebytes(_payload(part).lstrip(b"\r\n"), headersonly=True)
            return _without_brackets(_message_id(returned))
    for part in report.walk():
        if part.get_content_type() == "text/plain" and (
            match := _MESSAGE_ID_LINE.search(_payload(part).decode("utf-8", "replace"))
        ):
            return match[1]
    return None


def _message_id(message: Message) -> str | None:
    """Return the Message-ID field of a returned message, None if it has none.

    The parser ends the header at a line that is no field. The field is therefore looked for behind that line too.
    """
    found = _field(message, "Message-ID")
    if found is None and any(isinstance(defect, MissingHeaderBodySeparatorDefect) for defect in message.defects):
        found = _raw_field(_payload(message).partition(b"\r\n\r\n")[0], _MESSAGE_ID)
    return found


def _nested_messages(part: Message) -> list[Message]:
    """Return the messages directly inside a part, [] if it is not a multipart."""
    payload = part.get_payload()
    return [inner for inner in payload if isinstance(inner, Message)] if isinstance(payload, list) else []


def _payload(part: Message) -> bytes:
    """Return a part's decoded octets, b"" if it is a multipart."""
    payload = part.get_payload(decode=True)
    return payload if isinstance(payload, bytes) else b""
