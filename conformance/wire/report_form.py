"""Whether a report of delivery status has the form of RFC 3464, and what it returns of the message that it is about.

`content` calls this for each report that passes. A *problem* is a text that says what is wrong; it continues a sentence about the
report. A *block* is a group of header fields in the report's status part: one about the message, then one for each recipient.
"""

import re
from collections.abc import Sequence
from email.message import Message
from email.utils import parsedate_tz
from typing import Literal

_ACTIONS = {"failed": "45", "delayed": "4", "delivered": "2", "relayed": "2", "expanded": "2"}
"""The actions of RFC 3464 2.3.3, each with the classes of the status codes that fit it."""

_STATUS = re.compile(r"([245])\.[0-9]{1,3}\.[0-9]{1,3}")
_COMMENT = re.compile(r"\([^()]*\)")
_EIGHT_BIT_ENCODINGS = frozenset({"8bit", "binary"})


def find_form_problem(report: Message, blocks: Sequence[Message], *, eight_bit: bool) -> str:
    """Return in words the first thing that a report lacks of the form of RFC 3464, '' for nothing.

    `blocks` are the groups of fields of its status part: that of the message first, then one for each recipient.
    `eight_bit`: its body has octets above 127, which must be declared (RFC 2045 6.2).
    """
    if not _is_date(report.get("Date")):
        return "it has no valid Date"
    if eight_bit and _encoding(report) not in _EIGHT_BIT_ENCODINGS:
        return "it does not declare its eight-bit octets"
    if not blocks or not blocks[0].get("Reporting-MTA"):
        return "it names no Reporting-MTA"
    if len(blocks) < 2:
        return "it is about no recipient"
    for block in blocks[1:]:
        if problem := _find_problem_of_recipient(block):
            return problem
    for part in report.walk():
        if part.get_content_type() == "text/rfc822-headers" and (problem := _find_problem_of_header(part)):
            return problem
    return ""


def _find_problem_of_recipient(block: Message) -> str:
    """Return in words what the fields about one recipient lack (RFC 3464 2.3), '' for nothing."""
    if ";" not in str(block.get("Final-Recipient", "")):
        return "it names a recipient without Final-Recipient, or without its type"
    action = without_comments(str(block.get("Action", ""))).lower()
    status = _STATUS.fullmatch(without_comments(str(block.get("Status", ""))))
    if action not in _ACTIONS:
        return f"its Action is {action!r}"
    if status is None or status[1] not in _ACTIONS[action]:
        return f"its Status for the action {action} is {block.get('Status')!r}"
    return ""


def _find_problem_of_header(part: Message) -> str:
    """Return in words what is wrong with a returned header (RFC 6522 4), '' for nothing."""
    payload = part.get_payload(decode=True)
    octets = payload if isinstance(payload, bytes) else b""
    if b"\r\n\r\n" in octets.strip():
        return "the header that it returns has a body"
    if not octets.isascii() and _encoding(part) not in _EIGHT_BIT_ENCODINGS | {"quoted-printable", "base64"}:
        return "it does not declare the eight-bit octets of the header that it returns"
    return ""


def find_returned(report: Message) -> Literal["message", "header"] | None:
    """Return what a report returns of the message, by its first such part: all of it, its header only, or nothing (None)."""
    for part in report.walk():
        if part.get_content_type() == "message/rfc822":
            return "message"
        if part.get_content_type() == "text/rfc822-headers":
            return "header"
    return None


def without_comments(value: str) -> str:
    """Return the value of a field without comments in parentheses (RFC 5322 3.2.2), and without white space around it."""
    return _COMMENT.sub("", value).strip()


def _encoding(part: Message) -> str:
    """Return the Content-Transfer-Encoding of a part in lower case, '' if it declares none."""
    return str(part.get("Content-Transfer-Encoding", "")).strip().lower()


def _is_date(value: object) -> bool:
    """Return whether the value of a Date field can be read."""
    return parsedate_tz(str(value)) is not None
