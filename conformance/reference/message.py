"""What is passed about inside a node: envelopes, recipients, messages, and what became of recipients."""

from dataclasses import dataclass
from typing import Literal

from conformance.reference.headers import client_submit_time, internet_message_id

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

    def for_recipients(self, recipients: tuple[Recipient, ...]) -> "Envelope":
        """Return the same envelope for some of its recipients."""
        return Envelope(self.reverse_path, recipients, self.body, self.ret, self.envid)


@dataclass(frozen=True, slots=True)
class Message:
    """A message that this server holds, without its content.

    `id` is the row (0 before it is stored), `message_id` our own name for it in replies and logs; `internet_id` and
    `submitted` (POSIX seconds) tell duplicates, None where the header field is absent or unreadable. `since` is when it
    came to its present place. `shadow_id` is its name between primary and shadow; `primary` and `database` say whose
    shadow it is, and are empty for a primary message. `cause` is the message that a report is about: it waits for the
    report. `redundancy_pending`: it is still to be made redundant; `journal_due`: its journal report is still to be
    made; `resubmitted`: Safety Net sent it again.
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
    journal_due: bool = False


def new_message(
    content: bytes,
    envelope: Envelope,
    *,
    message_id: str,
    since: float,
    place: Place = "primary",
    shadow_id: str = "",
    primary: str = "",
    database: str = "",
    cause: int | None = None,
    redundancy_pending: bool = False,
    resubmitted: bool = False,
    journal_due: bool = False,
) -> Message:
    """Return a message that is still to be stored; its shadow id is its message id where none is given."""
    return Message(
        id=0,
        message_id=message_id,
        place=place,
        envelope=envelope,
        internet_id=internet_message_id(content),
        submitted=client_submit_time(content),
        size=len(content),
        since=since,
        shadow_id=shadow_id or message_id,
        primary=primary,
        database=database,
        cause=cause,
        redundancy_pending=redundancy_pending,
        resubmitted=resubmitted,
        journal_due=journal_due,
    )
