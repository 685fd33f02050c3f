"""Delivery status notifications: what senders are told of their recipients (RFC 3461, RFC 3464)."""

import re
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path

from client import Reply
from store import Message

REPORT = Path(__file__).with_name("report.txt").read_text("utf-8")


def make_report(message: Message, settled: dict[str, Reply], name: str, new_id: Callable[[], str]) -> Message | None:
    """Return the report on recipients that are delivered or failed, or None if the sender wants none of them."""
    due = {address: action for address, reply in settled.items() if (action := _action(message, address, reply))}
    if not due or not message.sender:
        return None
    envelope, number = message.parameters, new_id()
    status = f"Original-Envelope-Id: {_decoded(envelope['ENVID'])}\n" if "ENVID" in envelope else ""
    for address, action in due.items():
        words, reply = message.recipients[address], settled[address]
        code = re.match(rf"{reply.code // 100}\.\d{{1,3}}\.\d{{1,3}}", reply.lines[0])
        said = str(reply).encode("ascii", "replace").decode()
        status += f"\nOriginal-Recipient: {_decoded(words['ORCPT'])}\n" if "ORCPT" in words else "\n"
        status += f"Final-Recipient: rfc822; {address}\nAction: {action}\n"
        status += f"Status: {code[0] if code else f'{reply.code // 100}.0.0'}\nDiagnostic-Code: smtp; {said}\n"
    full = envelope.get("RET", "").upper() == "FULL" and "failed" in due.values()
    quoted = message.content if full else message.content.partition(b"\r\n\r\n")[0] + b"\r\n"
    text = REPORT.format(
        to=message.sender, name=name, number=number, date=formatdate(), status=status,
        due="\n".join(f"{action}: {address}" for address, action in due.items()),
        kind="message/rfc822" if full else "text/rfc822-headers", encoding="7bit" if quoted.isascii() else "8bit",
    )  # fmt: skip
    head, tail = (part.encode() for part in text.replace("\n", "\r\n").rsplit("(original)", 1))
    to = {message.sender: {"NOTIFY": "NEVER"}}
    return Message("", {}, to, head + quoted + tail, f"{number}@{name}", number, parent=message.id, copied=False)


def _action(message: Message, address: str, reply: Reply) -> str:
    """Return the action to report, or "" for none."""
    action, wanted = ("failed", "FAILURE") if reply.code // 100 == 5 else (reply.success, "SUCCESS")
    return action if wanted in message.recipients[address].get("NOTIFY", "FAILURE").upper() else ""


def _decoded(xtext: str) -> str:
    """Return the text that xtext stands for (RFC 3461 4); xtext as it is if that has no place in a header."""
    text = re.sub(r"\+([0-9A-F]{2})", lambda found: chr(int(found[1], 16)), xtext)
    return text if text.isascii() and text.isprintable() else xtext
