"""The values that components pass around: envelopes, recipients, messages, and the fates of recipients.

A *primary message* is one that this server must deliver; its *shadow* is a copy that another server keeps, and delivers if this
one is lost. *Safety Net* keeps messages for a while after their delivery.
"""

from dataclasses import dataclass, replace
from typing import Literal

from conformance.reference.headers import client_submit_time, internet_message_id

Place = Literal["primary", "shadow", "safety-net", "shadow-safety-net"]
"""Where this server holds a message, which is in exactly one place at a time.

`primary`: it must deliver the message; `shadow`: it keeps a copy for the primary server; `safety-net` and
`shadow-safety-net`: a message, or a shadow, is held for a while after the primary has processed it.
"""

Fate = Literal["pending", "delivered", "relayed", "passed-on", "redirected", "failed", "expired"]
"""The fate of a recipient: `pending` (still to be delivered), `delivered` into a mailbox, `passed-on` to a server that takes over status
notifications (RFC 3461), `relayed` to one that does not, `redirected` by an administrator, `failed` or `expired`."""


@dataclass(frozen=True, slots=True)
class Recipient:
    """A recipient with its RFC 3461 parameters NOTIFY and ORCPT; "" if not given."""

    address: str
    notify: str = ""
    orcpt: str = ""


@dataclass(frozen=True, slots=True)
class Envelope:
    """The arguments of MAIL and RCPT; a parameter not given is "" or False. An empty reverse-path is the null one.

    `body`, `ret` and `envid` are the values of BODY, RET and ENVID.
    """

    reverse_path: str
    recipients: tuple[Recipient, ...]
    body: str = ""
    ret: str = ""
    envid: str = ""
    smtputf8: bool = False

    def for_recipients(self, recipients: tuple[Recipient, ...]) -> "Envelope":
        """Return a copy of the envelope with these recipients."""
        return replace(self, recipients=recipients)


@dataclass(frozen=True, slots=True)
class Message:
    """A message that this server holds, without its content.

    - `id` is its row id in the queue database, 0 before it is stored; `message_id` is this server's id for it in replies and
      logs.
    - `internet_id` (Message-ID) and `submitted` (Date, POSIX seconds) identify duplicates; None if absent or invalid. `size` is
      octets.
    - `since` is when it came to its present `place`, POSIX seconds.
    - `shadow_id` identifies it between primary and shadow server. For a shadow, `primary` and `database` are its primary server
      and that server's queue database; for a primary message they are empty.
    - `cause` is the row id of the message that this one reports about (a status notification or a journal report), or None. A
      message is released only after all reports about it.
    - `redundancy_pending`: the attempt to make a shadow has not ended; `journal_due`: the journal report has not been made;
      `resubmitted`: it is a copy of a message in Safety Net, made to be delivered again.
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
    primary: str
    database: str
    cause: int | None
    redundancy_pending: bool
    resubmitted: bool
    journal_due: bool


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
    """Return a message that is not stored yet (id 0); its `internet_id`, `submitted` and `size` are taken from the content.

    `message_id` is this server's id for it, `since` when it came to `place` (POSIX seconds). `shadow_id` identifies it between
    primary and shadow server; without one it is `message_id`. For a shadow, `primary` is the name of its primary server and
    `database` the id of that server's queue database. `cause` is the row id of the message that this one reports about, None if
    it is no report. `redundancy_pending`: a shadow has still to be made; `resubmitted`: it is a copy out of Safety Net;
    `journal_due`: a journal report about it has still to be made.
    """
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
