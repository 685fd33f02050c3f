"""Rules for a whole server or the network: crash, restart, loss of a disk, an interruption between the servers.

A rule gets the scope and the `Site` (what all messages share: running servers, faults that are left), and yields each
`ServerStep` that is permitted, with the site afterwards. The step's effect is a function that `search.py` applies to each
message. A step's `cause` names what has gone wrong, as seen from a message. Servers are numbers.

A `Custody` is one server's responsibility for a message: `copy` is what that server, the *primary*, has of it; `held` is, by
number of the server, what each other server holds of it as its *shadow server*. HELD is a shadow that the primary knows of,
UNNOTED one of which it has no note, DISCARDABLE one whose discard notification waits at the primary, ORPHANED one whose primary
has a new queue database; TAKEN (2010) means that the shadow was taken over, and that its holder will notify the failed primary.
Of `copy`, RECEIVED is a message whose sender waits for the reply, HANDED_ON one that the next hop has too (2010), QUEUED one on
disk, GONE nothing.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from conformance.model.exploration.rules import letter, with_custody_replaced, with_entries_replaced
from conformance.model.exploration.scope import Scope
from conformance.model.exploration.state import (
    SHADOWS,
    Copy,
    Custody,
    Held,
    Message,
    Site,
    after_lost_session,
    with_custodies,
)

Effect = Callable[[Message], tuple[Message, ...]]
"""What a step of a server does to each message: the states in which it may be afterwards."""


class ServerStep(NamedTuple):
    """One step of a server or the network: its sentence, the site afterwards, and what it does to each message."""

    text: str
    site: Site
    effect: Effect | None = None
    """None: messages stay as they are."""
    cause: Callable[[Message], str] | None = None
    """What has gone wrong, as seen from one message; None: nothing."""


ServerRule = Callable[[Scope, Site], Iterator[ServerStep]]
SERVER_RULES: dict[str, tuple[tuple[str, ...], ServerRule]] = {}


def server_rule(*rows: str) -> Callable[[ServerRule], ServerRule]:
    """Return a decorator that enters a function into SERVER_RULES under its name, with the rows that it is written from.

    The decorator returns the function unchanged.
    """

    def enter(permitted: ServerRule) -> ServerRule:
        """Enter the function into SERVER_RULES, in place of one of the same name, and return it."""
        SERVER_RULES[permitted.__name__] = (rows, permitted)
        return permitted

    return enter


def role_in_message(message: Message, server: int) -> str:
    """Return in words what a server is for a message when it fails: the first role that fits, as a part of a cause's name.

    A server that fits no role is `a server without the message`.
    """
    mine = [c for c in message.custodies if c.primary == server]
    if any(c.copy in (Copy.RECEIVED, Copy.HANDED_ON) for c in mine):
        return "the server that has not answered the sender yet"
    if any(c.copy in (Copy.QUEUED, Copy.ALONE) for c in mine):
        return "the primary server"
    if any(c.held[server] in SHADOWS for c in message.custodies):
        return "the shadow server"
    if any(set(c.held) & SHADOWS for c in mine):
        return "the primary server, which has handed the message on"
    if any(c.copy == Copy.NET for c in mine) or any(c.held[server] == Held.RELEASED for c in message.custodies):
        return "a server with the message in its Safety Net"
    return "a server without the message"


def _name_of_cause(what: str, server: int, message: Message) -> str:
    """Return the name of the cause that the failure of a server is for a message: `outage of the primary server`.

    `what` is the begin of the name, to which the server's role in the message is added.
    """
    return f"{what} {role_in_message(message, server)}"


@server_rule("SR-BND-09", "SR-MNT-05", "SR-E10-17")
def crash(scope: Scope, site: Site) -> Iterator[ServerStep]:
    """Yield the crash of each server that runs, while crashes are left. What was on its disk stays there."""
    if not site.crashes_left:
        return
    for server in range(scope.servers):
        if site.up[server]:
            yield ServerStep(
                f"{letter(server)} crashes",
                site._replace(
                    up=_with_server_running(site.up, server, running=False), crashes_left=site.crashes_left - 1
                ),
                effect=partial(after_crash, server=server),
                cause=partial(_name_of_cause, "outage of", server),
            )


def after_crash(message: Message, server: int) -> tuple[Message, ...]:
    """Return what a message can be after a crash of a server, one state or two.

    What the server had RECEIVED may be on the disk (QUEUED), or not; what it had HANDED_ON is GONE, and so is its reply. Shadows
    of what is gone are unnoted. The sender, whose session is lost, keeps the message (RL-ACK-03). A message of which the server
    had neither of the two is unchanged.
    """
    for custody in message.custodies:
        if custody.primary != server or custody.copy not in (Copy.RECEIVED, Copy.HANDED_ON):
            continue
        held = with_entries_replaced(custody.held, REFUSED=Held.NONE)
        gone = with_custody_replaced(
            message, custody, custody._replace(copy=Copy.GONE, held=with_entries_replaced(held, HELD=Held.UNNOTED))
        )
        if custody.copy == Copy.HANDED_ON:
            return (after_lost_session(gone),)
        return after_lost_session(gone), after_lost_session(
            with_custody_replaced(message, custody, custody._replace(copy=Copy.QUEUED, held=held))
        )
    return (message,)


@server_rule("SR-OUT-06", "SR-E10-23")
def restart(scope: Scope, site: Site) -> Iterator[ServerStep]:
    """Yield the start of each server that is down, with what is on its disk."""
    for server in range(scope.servers):
        if not site.up[server]:
            yield ServerStep(
                f"{letter(server)} starts again", site._replace(up=_with_server_running(site.up, server, running=True))
            )


@server_rule("SR-OUT-01", "SR-OUT-07", "SR-E10-20", "SR-E10-21")
def lose_disk(scope: Scope, site: Site) -> Iterator[ServerStep]:
    """Yield the loss of its disk for each server that is down, while disks are left to lose.

    The server will start with a new queue database.
    """
    if not site.databases_left:
        return
    for server in range(scope.servers):
        if not site.up[server]:
            yield ServerStep(
                f"{letter(server)} loses its disk",
                site._replace(databases_left=site.databases_left - 1),
                effect=partial(after_new_database, server=server),
                cause=partial(_name_of_cause, "new database of", server),
            )


def after_new_database(message: Message, server: int) -> tuple[Message, ...]:
    """Return, as a tuple of one, a message after a server lost everything that it had of it.

    Shadows that others hold for the server are orphaned.
    """
    return (with_custodies(message, [_without_disk(custody, server) for custody in message.custodies]),)


def _without_disk(custody: Custody, server: int) -> Custody:
    """Return a custody after a server has lost its disk.

    As the primary it has nothing, and the shadow copies of it are orphaned; what was taken over from it need not be notified any
    more (TAKEN becomes NONE). As a shadow server it holds nothing.
    """
    if custody.primary != server:
        return custody._replace(held=(*custody.held[:server], Held.NONE, *custody.held[server + 1 :]))
    orphaned = with_entries_replaced(
        custody.held, HELD=Held.ORPHANED, UNNOTED=Held.ORPHANED, DISCARDABLE=Held.ORPHANED, TAKEN=Held.NONE
    )
    return custody._replace(copy=Copy.GONE, held=orphaned)


@server_rule("SR-OUT-03", "SR-OUT-04")
def cut(scope: Scope, site: Site) -> Iterator[ServerStep]:
    """Yield the interruption after which no server reaches another, if one is left and none is in force."""
    if site.cuts_left and not site.cut:
        yield ServerStep(
            "the network between the servers fails",
            site._replace(cut=True, cuts_left=site.cuts_left - 1),
            cause=lambda message: "interruption between the servers",
        )


@server_rule("SR-MNT-10")
def heal(scope: Scope, site: Site) -> Iterator[ServerStep]:
    """Yield the end of the interruption that is in force, if any."""
    if site.cut:
        yield ServerStep("the network between the servers works again", site._replace(cut=False))


def _with_server_running(up: tuple[bool, ...], server: int, *, running: bool) -> tuple[bool, ...]:
    """Return a tuple of running servers (`up`) with one server's entry set to `running`."""
    return (*up[:server], running, *up[server + 1 :])
