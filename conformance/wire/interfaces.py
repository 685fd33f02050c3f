"""What a relay needs from outside of its session: the link that it belongs to, and who intercepts what passes.

`Link` implements `RelayOwner`, `FaultInjector` implements `Interceptor`; both know relays, which know only these
protocols. A *fault* disturbs a session; a *moment* is a point of a session at which a function is called, such as one
that kills a server. A *lane* is one direction of a relay, a *unit* what is forwarded as a whole (`units`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from conformance.history.dialects import Dialect
from conformance.history.recorder import Recorder
from conformance.history.values import Listener
from conformance.wire.units import Unit

if TYPE_CHECKING:
    from conformance.wire.lane import Lane
    from conformance.wire.link import Link
    from conformance.wire.relay import Relay


@dataclass(frozen=True, slots=True)
class Pair:
    """Identifies a link: the party that dials, the party that is dialled, and the listener of the latter.

    `listener` is a server's `frontend`, `transport` or `delivery`, or the protocol of a sink (`smtp`, `lmtp`).
    """

    client: str
    server: str
    listener: Listener

    def __str__(self) -> str:
        """Return the link's name in events and messages, such as `edge1 -> hub1 transport`."""
        return f"{self.client} -> {self.server} {self.listener}"


class Interceptor(Protocol):
    """Decides about new connections and about every unit before it is forwarded."""

    def may_act_on(self, pair: Pair) -> bool:
        """Whether any fault or moment may concern the link; if not, relays forward octets without asking."""
        ...

    def admit(self, link: Link, relay: Relay) -> None:
        """Act on a client's new connection before the server is dialled: refuse, hold or answer it, or do nothing."""
        ...

    def intercept(self, relay: Relay, lane: Lane, unit: Unit, skip: int) -> Unit | None:
        """Return the unit to forward in place of `unit`, the first `skip` octets of which were written before.

        None means that nothing is to be forwarded now: the interceptor has queued, answered or dropped the unit.
        """
        ...

    def after_write(self, relay: Relay, lane: Lane, unit: Unit) -> None:
        """Act on a unit that was forwarded through the lane's queue; a throttled lane may not have written all of it yet.

        It is not called for units that are forwarded without being queued, because nothing may act on them.
        """
        ...


class RelayOwner(Protocol):
    """The link of a relay: notified of the stages of the session.

    `dialect` is how its server spells the commands of shadow redundancy.
    """

    pair: Pair
    recorder: Recorder
    dialect: Dialect
    interceptor: Interceptor

    def client_connected(self, relay: Relay) -> None:
        """Dial (connect to) the server, unless the connection is held or refused, or a fault answers in the server's place."""
        ...

    def server_connected(self, relay: Relay) -> None:
        """Record the session, and forward what the client has sent so far."""
        ...

    def session_ended(self, relay: Relay) -> None:
        """Remove the session from the active ones; its connections may still be closing."""
        ...

    def session_closed(self, relay: Relay) -> None:
        """Drop the last reference to the session, whose connections are closed."""
        ...
