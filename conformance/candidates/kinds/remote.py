"""The kind `remote`: a server that its user set up, and that runs already or is started by a command of the description.

The harness configures every server that it starts itself: addresses, parameters, times. Of a remote server it knows only what
the description says, so a cell that depends on anything else is not applicable.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import Field

from conformance.candidates.fields import Address, CommonFields, KindFields, ListenerName
from conformance.candidates.kind import Kind, recipients
from conformance.scenarios.document import Cell
from conformance.scenarios.steps.action import Step
from conformance.scenarios.steps.breaking import Answer, Fault, Partition
from conformance.scenarios.steps.nodes import NodeAction
from conformance.scenarios.steps.timing import Advance

FIRST_NEXT_HOP = 12525
"""The port of 127.0.0.1 that a server named `tcp:HOST:PORT` must relay to: there the harness's sink listens."""

_RETRY_STEPS = (Advance, Answer, Fault, NodeAction, Partition)
"""Steps whose outcome depends on when a server retries."""


class RemoteFields(KindFields):
    """What only the kind `remote` has in its description."""

    addresses: dict[ListenerName, Address] = Field({}, description="remote: the addresses of its listeners")
    next_hops: dict[str, Address] = Field(
        {},
        alias="next-hops",
        description="remote: the address that it was configured to dial for each party of the topology: a sink, a server, "
        "`SERVER.delivery`, `SERVER-store` -> address",
    )
    scale: float | None = Field(
        None,
        gt=0,
        description="remote: what the documented times were divided by in its configuration; without it, scenarios that "
        "depend on its timers are not applicable",
    )


class Remote(Kind):
    """A server that its user configured. It runs already, or a command of the description starts it."""

    name = "remote"
    needs = "addresses"
    fields = RemoteFields
    builtin_commands = frozenset()
    word = "tcp:HOST:PORT"

    def parse_word(self, argument: str, name: str) -> dict[str, Any]:
        """Return the fields of a server at HOST:PORT that relays everything to FIRST_NEXT_HOP.

        Raises ValueError when the argument is not a host and a port from 1 to 65535.
        """
        host, _, port = argument.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(argument)
        return {
            "name": f"tcp-{name}",
            "addresses": {"frontend": Address(host=host.strip("[]"), port=int(port))},
            "next_hops": {"outside": Address(port=FIRST_NEXT_HOP)},
        }

    def check(self, candidate: CommonFields) -> None:
        """Raise ValueError unless a frontend has an address, what can be started can be ended, and next hops differ."""
        fields = RemoteFields.of(candidate)
        if "frontend" not in fields.addresses:
            raise ValueError("addresses: every server has a frontend")
        if "start" in candidate.commands and not {"stop", "kill"} & set(candidate.commands):
            raise ValueError("commands: 'start' needs 'stop' or 'kill', by which the server is ended")
        dialled = [address.at for address in fields.next_hops.values()]
        if len(set(dialled)) != len(dialled):
            raise ValueError("next-hops: two parties have the same address")

    def listener_names(self, candidate: CommonFields) -> tuple[ListenerName, ...]:
        """Return the listeners that the description has an address for."""
        return tuple(RemoteFields.of(candidate).addresses)

    def is_configured_here(self, candidate: CommonFields) -> bool:
        """Whether the harness starts the server, and so can configure it."""
        return "start" in candidate.commands

    def external_addresses(self, candidate: CommonFields) -> Mapping[str, Address]:
        """Return the addresses of the server's listeners and of its next hops, by their keys in the description."""
        fields = RemoteFields.of(candidate)
        listeners = {f"addresses.{name}": address for name, address in fields.addresses.items()}
        return {**listeners, **{f"next-hops.{party}": address for party, address in fields.next_hops.items()}}

    def unsupported_reasons(
        self, cell: Cell, server: str, candidate_of: Callable[[str], CommonFields], scale: float
    ) -> Iterator[str]:
        """Yield each reason why this candidate cannot play a server of a cell.

        No candidate of this kind can be two servers. One that the harness starts needs only the commands of the steps;
        one that runs already must also have been configured as the cell wants it. `candidate_of` returns the candidate of
        any server of the cell; `scale` is what the run divides times by.
        """
        candidate = candidate_of(server)
        fields = RemoteFields.of(candidate)
        others = (one.name for one in cell.topology.servers if one.name != server)
        if any(RemoteFields.of(candidate_of(other)).addresses == fields.addresses for other in others):
            yield "it is one server, and cannot be several at the same time; use SERVER=CANDIDATE,... to name the one it plays"
        yield from super().unsupported_reasons(cell, server, candidate_of, scale)
        if self.is_configured_here(candidate):
            return
        own = cell.topology.by_name[server]
        if set(cell.topology.transport) | set(own.transport) | set(own.listeners):
            yield "its user configured it, and this scenario sets parameters that differ from the defaults"
        steps = cell.all_steps
        for party in _dialled(cell, server, steps):
            if party not in fields.next_hops:
                yield f"it was not configured to dial {party}: `next-hops` of its description has no address for it"
        retries = any(isinstance(step.action, _RETRY_STEPS) for step in steps)
        if fields.scale != scale and not candidate.flush_to_retry and retries:
            stated = "does not state `scale`" if fields.scale is None else f"states `scale: {fields.scale:g}`"
            yield f"its description {stated}, and this run divides times by {scale:g}"


def _dialled(cell: Cell, server: str, steps: Sequence[Step]) -> Iterator[str]:
    """Yield each party that a server has to dial in a cell: possible shadow servers, and next hops of recipients.

    A party can come repeatedly.
    """
    if any(need.startswith("shadow") for need in cell.needs):
        boundary = cell.topology.boundary(server)
        yield from (other.name for other in cell.topology.servers if other.name in boundary - {server})
    for recipient in recipients(steps):
        yield from cell.topology.next_hops(server, recipient)
