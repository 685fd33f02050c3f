"""What is passed about inside a node: envelopes, recipients, messages, and what became of recipients."""

from dataclasses import dataclass
from typing import Literal

Place = Literal["primary", "shadow", "safety-net", "shadow-safety-net"]
"""Where a message is held on this server: it is in exactly one place at a time."""

Fate = Literal["pending", "delivered", "relayed", "passed-on", "redirected", "failed", "expired"]
"""What became of a recipient: `delivered` into a mailbox, `passed-on` to a server that reports itself (RFC 3461),
`relayed` to one that does not, `redirected` by an administrator, `failed` or `expired` with a report."""


@dataclass(frozen=True, slots=True)
class Recipient:
    """A recipient with its RFC 3461 parameters: NOTIFY (empty: not given) and ORCPT."""

    address: str
    notify: str = ""
    orcpt: str = ""


@dataclass(frozen=True, slots=True)
class Envelope:
    """What MAIL and RCPT said. An empty reverse-path is the null one."""

    reverse_path: str
    recipients: tuple[Recipient, ...]
    body: str = ""
    ret: str = ""
    envid: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a next hop made of one recipient: a fate, or `pending` when it is to be tried again."""

    fate: Fate
    status: str
    text: str
    remote: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """A message that this server holds, without its content.

    `id` is the row, `message_id` our own name for it in replies and logs; `internet_id` and `submitted` (POSIX
    seconds) tell duplicates, None where the header field is absent or unreadable. `since` is when it came to its
    present place. `shadow_id` is its name between primary and shadow; `primary` and `database` say whose shadow it
    is, and are empty for a primary message.
    """

    id: int
    message_id: str
    place: Place
    envelope: Envelope
    internet_id: str | None
    submitted: float | None
    size: int
    since: float
    shadow_id: str
    primary: str = ""
    database: str = ""
    cause: int | None = None
    redundancy_pending: bool = False
    resubmitted: bool = False
