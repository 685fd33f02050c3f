"""The state vector: what the model of obedient servers remembers, field by field.

A state is a `Site` and one `Message` for each message of the scope. Two states are equal when all their fields are, and the
fields are all that a second enumerator needs to count the same states (tests/model/exploration/servers.pml does). States are
never changed in place: rules build new ones with the functions below.
"""

from enum import IntEnum
from typing import NamedTuple


class Copy(IntEnum):
    """What a server has of a message for which it is the primary server."""

    GONE = 0
    """Nothing: handed on, rejected or lost. The custody stays for as long as `held` has another entry than NONE."""
    RECEIVED = 1
    """The sender's final dot has arrived, and the sender waits for the reply."""
    QUEUED = 2
    """On disk, for the next hop."""
    ALONE = 3
    """As QUEUED, taken over or resubmitted, and not yet made redundant again (SR-BND-03, ruling 24)."""
    HANDED_ON = 4
    """Exchange 2010: the next hop has it, and the sender still waits for the withheld reply (SR-E10-15)."""
    NET = 5
    """Delivered, and kept in the Safety Net. Used only where the scope has a failover of a mailbox: nothing else reads it."""


class Held(IntEnum):
    """What another server holds of the same custody, as its shadow server."""

    NONE = 0
    HELD = 1
    """A shadow copy, and the primary has a note of it."""
    UNNOTED = 2
    """A shadow copy of which the primary has no note (any more), so that no discard notification will come."""
    DISCARDABLE = 3
    """A shadow copy, and a discard notification for it waits at the primary."""
    ORPHANED = 4
    """A shadow copy whose primary has a new queue database."""
    RELEASED = 5
    """In the shadow server's Safety Net. Used only where the scope has a failover of a mailbox."""
    REFUSED = 6
    """Nothing: this server refused the copy while the sender waits (SR-PRF-07)."""
    TAKEN = 7
    """Exchange 2010: nothing. The copy was taken over, and a discard notification for the failed primary waits (SR-E10-08)."""


SHADOWS = frozenset({Held.HELD, Held.UNNOTED, Held.DISCARDABLE, Held.ORPHANED})
"""The values of `Held` with which a server has a shadow copy on its disk."""

WAITING_COPIES = frozenset({Copy.RECEIVED, Copy.QUEUED, Copy.ALONE})
"""The values of `Copy` with which a server still has to hand the message on."""


class Sender(IntEnum):
    """The sending server outside: it keeps the message until it has read 250, and sends it at most twice without an answer."""

    KEEPS = 0
    """To be sent."""
    WAITS = 1
    """In a session, after the final dot. While it waits, exactly one custody is RECEIVED or HANDED_ON."""
    KEEPS_AGAIN = 2
    """To be sent again, since a session ended without a reply."""
    WAITS_AGAIN = 3
    """As WAITS, for the second time."""
    LEFT = 4
    """The second session ended without a reply too. The message is still the sender's."""
    ANSWERED = 5
    """Has read 250, and has forgotten the message."""


class Custody(NamedTuple):
    """One server's responsibility for one copy of a message, with the shadows that belong to it."""

    primary: int
    """The number of the server."""
    copy: Copy
    held: tuple[Held, ...]
    """For each server what it holds of it; NONE for the primary itself."""


class Message(NamedTuple):
    """Everything about one message."""

    sender: Sender
    arrived: int
    """How many copies the recipient can read: 0, 1, or 2 for two and more."""
    tracked: bool
    """The mailbox's delivered-to table has it, so that a further copy is dropped. Never true for a recipient outside."""
    requested: bool
    """The mailbox has failed over, and its request to resubmit has not been served."""
    custodies: tuple[Custody, ...]
    """A multiset, sorted. Custodies with nothing in them are left out."""


class Site(NamedTuple):
    """What the messages share. Each `..._left` says how many more of these faults may happen."""

    up: tuple[bool, ...]
    """Whether each server runs."""
    cut: bool
    """Whether no server can reach another. Senders and next hops still reach each."""
    crashes_left: int
    databases_left: int
    """How many more servers that are down may lose their disk and come back with a new queue database."""
    replies_left: int
    """How many more replies may be lost."""
    refusals_left: int
    failovers_left: int
    cuts_left: int


FIRST_MESSAGE = Message(Sender.KEEPS, 0, tracked=False, requested=False, custodies=())

DUPLICATED = Message(Sender.ANSWERED, 2, tracked=False, requested=False, custodies=())
"""A message that the recipient can read twice is not followed any further."""

UNANSWERED = Message(Sender.LEFT, 0, tracked=False, requested=False, custodies=())
"""A message that the sender has sent twice without an answer is not followed any further either: it is not acknowledged."""


def with_custodies(message: Message, custodies: list[Custody]) -> Message:
    """Return the message with these custodies, sorted.

    Those that are GONE, and whose `held` has only NONE, are left out.
    """
    return message._replace(custodies=tuple(sorted(c for c in custodies if c.copy != Copy.GONE or any(c.held))))


def after_lost_session(message: Message) -> Message:
    """Return the message after the sender's session has ended without a reply: to be sent again, or UNANSWERED the second time.

    The sender must be waiting for the reply.
    """
    sender = Sender(message.sender + 1)
    return UNANSWERED if sender == Sender.LEFT else message._replace(sender=sender)
