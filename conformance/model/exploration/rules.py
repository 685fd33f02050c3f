"""What a rule of the explored model is: which steps an obedient server, a sender or a clock may take for one message.

A rule yields each step that it permits in a state. Its name is that of its function, and `rows` are the rows of the catalogue
from which it is written. The table `RULES` has all of them (those of whole servers are in `server_rules.SERVER_RULES`); the
search (`search.py`) applies them to every state, and can leave some out, which is how they are tested. Below the table are the
helpers with which rules build the next state of a message; states are never changed in place. Servers are numbers.

A `Custody` is one server's responsibility for the message (`copy`: what that server has of it), with what each other server holds of it as
a shadow (`held`, by number of the server): HELD is a shadow that the primary knows of, UNNOTED one of which it has no note, DISCARDABLE one
whose discard notification waits at the primary. Of `copy`, RECEIVED is a message whose sender waits for the reply, HANDED_ON one that the
next hop has too (2010), NET one in Safety Net, GONE nothing.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from conformance.model.exploration.scope import Destination, Scope
from conformance.model.exploration.state import DUPLICATED, Copy, Custody, Held, Message, with_custodies

Cost = Literal["replies", "refusals", "failovers"]


class Step(NamedTuple):
    """One permitted step of one message: what a rule yields."""

    text: str
    """A sentence for the shortest sequences."""
    message: Message
    """The message afterwards."""
    cause: str = ""
    """What has gone wrong or which long interval has passed; '' for an ordinary step."""
    cost: Cost | None = None
    """The fault that it uses up, of the number that the scope allows."""


@dataclass(frozen=True, slots=True)
class World:
    """What a step of one message depends on besides the message: who is up, whether the network is cut, where the message goes."""

    scope: Scope
    up: tuple[bool, ...]
    cut: bool
    destination: Destination

    def linked(self, one: int, other: int) -> bool:
        """Return whether two different servers can open sessions with each other."""
        return one != other and self.up[one] and self.up[other] and not self.cut

    @property
    def keeps_processed(self) -> bool:
        """Whether what Safety Net holds is a part of the state: only where a failover of a mailbox may read it (SR-SFN-04).

        That is for a message to a mailbox, in a scope of 2013 or later with failovers.
        """
        return self.scope.failovers > 0 and self.scope.generation != "ex2010" and self.destination == "mailbox"

    def others(self, server: int) -> Iterator[int]:
        """Yield the numbers of all other servers of the scope, up or not."""
        return (s for s in range(self.scope.servers) if s != server)


Rule = Callable[[World, Message], Iterator[Step]]


@dataclass(frozen=True, slots=True)
class Entry:
    """A rule in the table: the rows that it is made from, the generations that it is for, and the function itself."""

    rows: tuple[str, ...]
    generations: tuple[str, ...]
    permitted: Rule


RULES: dict[str, Entry] = {}


def rule(*rows: str, generations: tuple[str, ...] = ("ex2010", "ex2013")) -> Callable[[Rule], Rule]:
    """Return a decorator that enters a function into RULES under its name and returns it unchanged.

    `rows` are ids of requirements that it is written from; a scope of another generation than `generations` does not use it.
    """

    def enter(permitted: Rule) -> Rule:
        """Enter the function into RULES, in place of one of the same name, and return it."""
        RULES[permitted.__name__] = Entry(rows=rows, generations=generations, permitted=permitted)
        return permitted

    return enter


def letter(server: int) -> str:
    """Return the letter by which texts call a server: A, B or C. Raises IndexError for a fourth one."""
    return "ABC"[server]


def with_held_by(held: tuple[Held, ...], server: int, what: Held) -> tuple[Held, ...]:
    """Return `held` with the entry of server number `server` replaced by `what`."""
    return (*held[:server], what, *held[server + 1 :])


def with_entries_replaced(held: tuple[Held, ...], **by: Held) -> tuple[Held, ...]:
    """Return `held` with every entry of a named value replaced: `HELD=Held.NONE` replaces each Held.HELD by Held.NONE."""
    return tuple(by.get(entry.name, entry) for entry in held)


def nothing_held(scope: Scope) -> tuple[Held, ...]:
    """Return the entries of a custody without shadows."""
    return (Held.NONE,) * scope.servers


def with_custody_replaced(message: Message, old: Custody, *new: Custody) -> Message:
    """Return the message with one custody, equal to `old`, replaced by others; unchanged if it has arrived twice.

    A message that has arrived twice is followed no further. Raises ValueError where the message has no such custody.
    """
    if message.arrived == 2:
        return message
    custodies = list(message.custodies)
    custodies.remove(old)
    return with_custodies(message, [*custodies, *new])


def distinct_custodies(message: Message) -> Iterator[Custody]:
    """Yield each custody once: equal ones permit equal steps."""
    return iter(dict.fromkeys(message.custodies))


def after_acceptance(world: World, message: Message) -> Message:
    """Return the message after its destination has accepted one transmission of it.

    A mailbox drops it if the delivered-to table has it (`tracked`, SR-DUP-01): then the message is unchanged, the same object. A
    second copy that arrives makes it DUPLICATED, a constant message without custodies.
    """
    if message.tracked:
        return message
    if message.arrived:
        return DUPLICATED
    return message._replace(arrived=1, tracked=world.destination == "mailbox")


def after_handing_on(world: World, custody: Custody, *, notify_unnoted: bool) -> Custody:
    """Return a custody whose primary has handed the message on: discard notifications wait for its shadow servers (SR-MNT-01).

    `notify_unnoted`: also for a copy whose acknowledgement the primary has never seen (ruling 18: either is right). The primary's
    copy is HANDED_ON if it was RECEIVED, else in Safety Net or gone.
    """
    held = with_entries_replaced(
        custody.held, HELD=Held.DISCARDABLE, UNNOTED=Held.DISCARDABLE if notify_unnoted else Held.UNNOTED
    )
    if custody.copy == Copy.RECEIVED:
        return custody._replace(copy=Copy.HANDED_ON, held=held)
    return custody._replace(copy=Copy.NET if world.keeps_processed else Copy.GONE, held=held)


def custodies_after_handing_on(world: World, custody: Custody) -> Iterator[Custody]:
    """Yield what a custody can be once its primary has handed the message on: one, or two if a shadow is unnoted (ruling 18).

    The second has a discard notification for the unnoted shadow too.
    """
    yield after_handing_on(world, custody, notify_unnoted=False)
    if Held.UNNOTED in custody.held:
        yield after_handing_on(world, custody, notify_unnoted=True)
