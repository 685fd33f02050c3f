"""All links of a cell, by client, server and listener, and the faults, partitions and moments on them.

The run of a cell opens its links here, and its steps arm and heal faults here. A *moment* is a point of a session at which a
function is called. *Documented* seconds are those of the scenario. A *listener* is a server's `frontend`, `transport` or
`delivery`, or a sink's `smtp` or `lmtp`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

from pydantic import TypeAdapter

from conformance.history.dialects import PROFILE_1, Dialect
from conformance.history.recorder import Recorder
from conformance.history.values import Listener
from conformance.scenarios.steps.breaking import Fault, Partition
from conformance.scenarios.steps.nodes import Moment
from conformance.wire.fault_injector import FaultInjector
from conformance.wire.interfaces import Pair
from conformance.wire.link import LOOPBACK, Address, Link, RecordedSession, SessionNames

_LISTENER: TypeAdapter[Listener] = TypeAdapter(Listener)


class Links:
    """Opens links and finds them; `duration` converts documented seconds to seconds of the event loop.

    `_links` has them by (client, server, listener). `_names` finds sessions by ports, `_injector` applies faults.
    """

    def __init__(self, recorder: Recorder, *, duration: Callable[[float], float] = lambda seconds: seconds) -> None:
        self._recorder = recorder
        self._links: dict[tuple[str, str, str], Link] = {}
        self._names = SessionNames()
        self._injector = FaultInjector(recorder, duration, lambda: self)

    def __iter__(self) -> Iterator[Link]:
        """Iterate over the links, in the order in which they were opened."""
        return iter(tuple(self._links.values()))

    async def open(
        self,
        client: str,
        server: str,
        listener: str,
        target: Address | None,
        *,
        dialect: Dialect = PROFILE_1,
        at: Address = LOOPBACK,
    ) -> Link:
        """Open a link that listens at `at` (port 0: any free one) and dials `target`; None refuses every connection.

        `dialect` is how the two parties spell the commands of shadow redundancy, for the history and the faults.
        Raises ValueError for an unknown listener or if the link is open already, OSError if the port is not free.
        """
        key = (client, server, listener)
        pair = Pair(client, server, _LISTENER.validate_python(listener))
        if key in self._links:
            raise ValueError(f"there is a link {pair} already")
        link = Link(pair, target, self._recorder, dialect, self._injector, self._names)
        await link.open(at)
        self._links[key] = link
        return link

    def link(self, client: str, server: str, listener: str) -> Link:
        """Return a link. Raises KeyError if it was not opened."""
        try:
            return self._links[client, server, listener]
        except KeyError:
            raise KeyError(f"no link {client} -> {server} {listener}") from None

    def address(self, client: str, server: str, listener: str) -> Address:
        """Return the address that `client` dials to reach a listener of `server`. Raises KeyError if there is no link."""
        return self.link(client, server, listener).address

    def session_behind(self, port: int, dialled: int) -> RecordedSession | None:
        """Return the latest session with a connection from `port` to the port `dialled`, None if there was none.

        A sink asks with its peer's port and its own, a sender with its own and the link's.
        """
        return self._names.session_behind(port, dialled)

    def arm(self, fault: Fault) -> None:
        """Arm a fault, after healing what had its name. Raises ValueError if it makes no sense or matches no link."""
        self._injector.arm(fault)

    def partition(self, partition: Partition) -> None:
        """Put a partition between two groups of parties in force, also for open sessions, after healing what had its name.

        Raises ValueError if no link crosses it.
        """
        self._injector.partition(partition)

    def heal(self, name: str) -> None:
        """Heal the fault or partition of this name, or with `all` every one. Raises ValueError if none has the name."""
        self._injector.heal(name)

    def freeze(self, party: str, frozen: bool) -> None:
        """Forward nothing to or from a party from now on (`frozen`), or forward again what was held."""
        self._injector.freeze(party, frozen=frozen)

    def run_at_moment(self, moment: Moment, do: Callable[[], Awaitable[None]], *, name: str = "moment") -> None:
        """Have `do` called once, in a task, when a moment of the protocol comes; `name` is its name in the history."""
        self._injector.run_at_moment(moment, do, name)

    async def close(self) -> None:
        """Close every link, then disarm all faults and cancel the functions called at moments that still run.

        Raises the first exception that such a function has raised.
        """
        for link in self._links.values():
            await link.close()
        await asyncio.sleep(0)  # the loop calls connection_lost() of the connections that were just reset
        await self._injector.close()
