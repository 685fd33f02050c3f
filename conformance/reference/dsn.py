"""Delivery status notifications: non-delivery reports as multipart/report (RFC 3461, RFC 3464)."""

from conformance.reference.headers import date, header_only
from conformance.reference.message import Envelope, Recipient


def failure_report(
    message_id: str,
    server: str,
    at: float,
    envelope: Envelope,
    content: bytes,
    recipient: Recipient,
    status: str,
    diagnostic: str,
) -> bytes:
    """Return the report that a recipient cannot be reached; it goes to the sender with a null reverse-path."""
    boundary = f"report-{message_id}"
    full = envelope.ret == "FULL"
    said = " ".join(diagnostic.split())[:400]
    lines = [
        f"From: <postmaster@{server}>",
        f"To: <{envelope.reverse_path}>",
        "Subject: Undeliverable",
        f"Date: {date(at)}",
        f"Message-ID: <{message_id}@{server}>",
        "Auto-Submitted: auto-replied",
        "MIME-Version: 1.0",
        f'Content-Type: multipart/report; report-type=delivery-status; boundary="{boundary}"',
        "",
        f"--{boundary}",
        "Content-Type: text/plain; charset=us-ascii",
        "",
        f"Your message could not be delivered to <{recipient.address}>.",
        said,
        "",
        f"--{boundary}",
        "Content-Type: message/delivery-status",
        "",
        f"Reporting-MTA: dns; {server}",
        *([f"Original-Envelope-Id: {envelope.envid}"] if envelope.envid else []),
        "",
        *([f"Original-Recipient: {recipient.orcpt}"] if recipient.orcpt else []),
        f"Final-Recipient: rfc822; {recipient.address}",
        "Action: failed",
        f"Status: {status}",
        f"Diagnostic-Code: smtp; {said}",
        "",
        f"--{boundary}",
        "Content-Type: message/rfc822" if full else "Content-Type: text/rfc822-headers",
        "",
        "",
    ]
    returned = content if full else header_only(content)
    return "\r\n".join(lines).encode("ascii", "replace") + returned + f"\r\n--{boundary}--\r\n".encode("ascii")
