"""All links of a cell: laid for every pair that may talk, found by pair, broken and healed by name."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

from pydantic import TypeAdapter

from conformance.history.dialects import PROFILE_1, Dialect
from conformance.history.events import Listener
from conformance.history.recorder import Recorder
from conformance.scenarios.steps.breaking import Fault, Partition
from conformance.scenarios.steps.nodes import Moment
from conformance.wire.breaks import Breaks
from conformance.wire.link import LOOPBACK, Address, Link, RecordedSession, SessionNames
from conformance.wire.relay import Relay
from conformance.wire.roles import Pair

_LISTENER: TypeAdapter[Listener] = TypeAdapter(Listener)


class Links:
    """The registry of links, and of what breaks them. `duration` turns documented seconds into the loop's."""

    def __init__(self, recorder: Recorder, *, duration: Callable[[float], float] = lambda seconds: seconds) -> None:
        self._recorder = recorder
        self._links: dict[tuple[str, str, str], Link] = {}
        self._names = SessionNames()
        self._breaks = Breaks(recorder, duration, lambda: self)

    def __iter__(self) -> Iterator[Link]:
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
        """Lay a link; the client dials it at `at`, on a free port where that is 0.

        Raises ValueError for an unknown listener, or a link that there is; OSError without a port.
        """
        key = (client, server, listener)
        pair = Pair(client, server, _LISTENER.validate_python(listener))
        if key in self._links:
            raise ValueError(f"there is a link {pair} already")
        link = Link(pair, target, self._recorder, dialect, self._breaks, self._names)
        await link.open(at)
        self._links[key] = link
        return link

    def link(self, client: str, server: str, listener: str) -> Link:
        """Return a link. Raises KeyError when it was not laid."""
        try:
            return self._links[client, server, listener]
        except KeyError:
            raise KeyError(f"no link {client} -> {server} {listener}") from None

    def address(self, client: str, server: str, listener: str) -> Address:
        """Return what `client` must dial to reach a door of `server`. Raises KeyError when there is no such link."""
        return self.link(client, server, listener).address

    @property
    def active(self) -> tuple[Relay, ...]:
        """Every session that is not over, in the order of the links."""
        return tuple(relay for link in self._links.values() for relay in link.relays)

    @property
    def quiet(self) -> bool:
        """Whether no session owes a reply, is amid a content or holds octets back."""
        return all(relay.quiet for relay in self.active)

    def session_behind(self, port: int, dialled: int) -> RecordedSession | None:
        """Return who is behind a connection, by the port it comes from and the port it dialled: at a sink its peer's
        and the sink's, at a sender its own and the link's. None when nobody is."""
        return self._names.session_behind(port, dialled)

    def arm(self, fault: Fault) -> None:
        """Arm a fault. Raises ValueError when it makes no sense, or when no link is the one it names."""
        self._breaks.arm(fault)

    def partition(self, partition: Partition) -> None:
        """Cut every link between two groups of parties. Raises ValueError when there is none between them."""
        self._breaks.partition(partition)

    def heal(self, what: str) -> None:
        """Take a fault or partition away by its name, or `all`. Raises ValueError when nothing has that name."""
        self._breaks.heal(what)

    def freeze(self, party: str, frozen: bool) -> None:
        """Let nothing through to or from a party that is frozen, until it thaws."""
        self._breaks.freeze(party, frozen=frozen)

    def run_at_moment(self, moment: Moment, do: Callable[[], Awaitable[None]], *, name: str = "moment") -> None:
        """Have something done, once, at a moment of the protocol; it begins with the next turn of the loop.

        `name` is what the history calls it when it comes.
        """
        self._breaks.run_at_moment(moment, do, name)

    async def close(self) -> None:
        """Close every link. Raises the first exception of what was done at moments, if there was one."""
        for link in self._links.values():
            await link.close()
        await asyncio.sleep(0)
        await self._breaks.close()
