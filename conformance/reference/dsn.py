"""Delivery status notifications as multipart/report (RFC 3461, RFC 3464), formatted by pure functions; reports.py sends them.

A *report* here is such a notification: a message to a sender about what happened to some recipients of an earlier message. ORCPT
(of a recipient), RET and ENVID (of a message) are parameters of RFC 3461 that the sender gave.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from conformance.reference.headers import format_date, header_only
from conformance.reference.message import Envelope, Recipient

ReportAction = Literal["failed", "delayed", "delivered", "relayed"]

# The hexchar of RFC 3461 4, where it stands for a printable character of ASCII.
_PRINTABLE_HEXCHAR = re.compile(r"\+([2-6][0-9A-F]|7[0-9A-E])")
_SUBJECT: dict[ReportAction, str] = {
    "failed": "Undeliverable",
    "delayed": "Delivery delayed",
    "delivered": "Delivered",
    "relayed": "Relayed",
}
_TEXT: dict[ReportAction, str] = {
    "failed": "could not be delivered to",
    "delayed": "could not be delivered yet, and will be tried again, to",
    "delivered": "was delivered to",
    "relayed": "was passed on to a server that does not report deliveries, for",
}


@dataclass(frozen=True, slots=True)
class RecipientStatus:
    """What is reported about one recipient.

    `status` is the enhanced status code (RFC 3463), `diagnostic` the reply of the next hop and `remote` its name; the last two
    may be "".
    """

    recipient: Recipient
    status: str
    diagnostic: str = ""
    remote: str = ""


def format_report(
    action: ReportAction,
    statuses: Sequence[RecipientStatus],
    *,
    message_id: str,
    server: str,
    at: float,
    envelope: Envelope,
    content: bytes,
) -> bytes:
    """Return the content of the report about some recipients of a message, to be sent to its sender with a null reverse-path.

    `action` is what has happened to all of them. `server` is the name of this server, `message_id` the id of the report, `at` its
    time (POSIX seconds); `envelope` and `content` are those of the message. The report contains the whole message if its sender
    asks for that (RET=FULL) and the action is `failed`, else the header only. Of a message with an internationalized header (not
    ASCII, and MAIL had SMTPUTF8) it contains the header only in any case: a next hop may refuse such a message (RFC 6531 3.2).
    """
    boundary = f"report-{message_id}"
    header = header_only(content)
    full = envelope.ret == "FULL" and action == "failed" and (header.isascii() or not envelope.smtputf8)
    returned = content if full else header
    lines = [
        f"From: <postmaster@{server}>",
        f"To: <{printable(envelope.reverse_path)}>",
        f"Subject: {_SUBJECT[action]}",
        f"Date: {format_date(at)}",
        f"Message-ID: <{message_id}@{server}>",
        "Auto-Submitted: auto-replied",
        "MIME-Version: 1.0",
        f'Content-Type: multipart/report; report-type=delivery-status; boundary="{boundary}"',
        *([] if returned.isascii() else ["Content-Transfer-Encoding: 8bit"]),
        "",
        f"--{boundary}",
        "Content-Type: text/plain; charset=us-ascii",
        "",
        f"Your message {_TEXT[action]}:",
        *(f"<{printable(status.recipient.address)}> {_diagnostic(status)}".rstrip() for status in statuses),
        "",
        f"--{boundary}",
        "Content-Type: message/delivery-status",
        "",
        f"Reporting-MTA: dns; {server}",
        *([f"Original-Envelope-Id: {_decoded(envelope.envid)}"] if envelope.envid else []),
        "",
        *(line for status in statuses for line in _recipient_fields(action, status)),
        f"--{boundary}",
        "Content-Type: message/rfc822" if full else "Content-Type: text/rfc822-headers",
        *([] if returned.isascii() else ["Content-Transfer-Encoding: 8bit"]),
        "",
        "",
    ]
    return "\r\n".join(lines).encode("ascii") + returned + f"\r\n--{boundary}--\r\n".encode("ascii")


def _recipient_fields(action: ReportAction, status: RecipientStatus) -> list[str]:
    """Return the lines of the fields about one recipient (RFC 3464 2.3), with the blank line that ends them."""
    return [
        *([f"Original-Recipient: {_decoded(status.recipient.orcpt)}"] if status.recipient.orcpt else []),
        f"Final-Recipient: {_typed_address(status.recipient.address)}",
        f"Action: {action}",
        f"Status: {status.status}",
        *([f"Remote-MTA: dns; {status.remote}"] if status.remote else []),
        *([f"Diagnostic-Code: smtp; {_diagnostic(status)}"] if status.diagnostic else []),
        "",
    ]


def _typed_address(address: str) -> str:
    """Return an address with its type: `rfc822; address`, or `utf-8; address` with escapes for one that is not ASCII (RFC 6533 3)."""
    if address.isascii():
        return f"rfc822; {printable(address)}"
    escaped = "".join(c if "!" <= c <= "~" and c not in "+=\\" else f"\\x{{{ord(c):02X}}}" for c in address)
    return f"utf-8; {escaped}"


def _decoded(xtext: str) -> str:
    """Return the text that an ENVID or ORCPT in xtext stands for (RFC 3461 6.3).

    A code of a character that is not printable stays a code, since RFC 3461 4.2 and 4.4 permit none.
    """
    return printable(_PRINTABLE_HEXCHAR.sub(lambda found: chr(int(found[1], 16)), xtext))


def _diagnostic(status: RecipientStatus) -> str:
    """Return the reply of the next hop as one printable line of at most 400 characters; "" if there is no reply."""
    return printable(" ".join(status.diagnostic.split())[:400])


def printable(text: str) -> str:
    """Return text for a header field: every character but printable ASCII becomes `?`, so that it cannot begin another line."""
    return "".join(character if " " <= character <= "~" else "?" for character in text)
