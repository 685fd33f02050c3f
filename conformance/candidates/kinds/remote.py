"""The kind `remote`: a server that runs already, somewhere, with the user's own commands for its life.

A server that the harness starts itself is told everything: addresses, parameters, times. Of one that was set up by
somebody else it is known only what its description says.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import Field

from conformance.candidates.fields import Address, CommonFields, KindFields, ListenerName
from conformance.candidates.kind import Kind
from conformance.candidates.step_demands import recipients
from conformance.scenarios.document import Cell
from conformance.scenarios.steps.blocks import Step
from conformance.scenarios.steps.breaking import Answer, Fault, Partition
from conformance.scenarios.steps.nodes import NodeAction
from conformance.scenarios.steps.timing import Advance

FIRST_NEXT_HOP = 12525
"""`tcp:HOST:PORT` must have been set up to relay to this port of 127.0.0.1: there the harness's sink answers."""

_TIMED = (Advance, Answer, Fault, NodeAction, Partition)
"""Steps after which it matters when a server tries again."""


class RemoteFields(KindFields):
    """What only this kind has in its description."""

    addresses: dict[ListenerName, Address] = Field({}, description="remote: where its doors are")
    next_hops: dict[str, Address] = Field(
        {},
        alias="next-hops",
        description="remote: where it was set up to dial each party of the topology, its links: a sink, a server, "
        "`SERVER.delivery`, `SERVER-store` -> address",
    )
    scale: float | None = Field(
        None,
        gt=0,
        description="remote: by what the documents' times were divided when it was set up; unsaid, what depends on its "
        "times is not applicable",
    )


class Remote(Kind):
    """A server that was set up by somebody else, or is started by a command of its description."""

    name = "remote"
    needs = "addresses"
    fields = RemoteFields
    builtin_commands = frozenset()
    word = "tcp:HOST:PORT"

    def parse_word(self, what: str, name: str) -> dict[str, Any]:
        """See Kind."""
        host, _, port = what.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(what)
        return {
            "name": f"tcp-{name}",
            "addresses": {"frontend": Address(host=host.strip("[]"), port=int(port))},
            "next_hops": {"outside": Address(port=FIRST_NEXT_HOP)},
        }

    def check(self, candidate: CommonFields) -> None:
        """See Kind."""
        fields = RemoteFields.of(candidate)
        if "frontend" not in fields.addresses:
            raise ValueError("addresses: every server has a frontend")
        if "start" in candidate.commands and not {"stop", "kill"} & set(candidate.commands):
            raise ValueError("commands: whoever is started must be ended, by 'stop' or 'kill'")
        places = [address.at for address in fields.next_hops.values()]
        if len(set(places)) != len(places):
            raise ValueError("next-hops: two parties have one address")

    def listener_names(self, candidate: CommonFields) -> tuple[ListenerName, ...]:
        """See Kind; those with an address."""
        return tuple(RemoteFields.of(candidate).addresses)

    def is_configured_here(self, candidate: CommonFields) -> bool:
        """See Kind; not where it runs already."""
        return "start" in candidate.commands

    def external_addresses(self, candidate: CommonFields) -> Mapping[str, Address]:
        """See Kind."""
        fields = RemoteFields.of(candidate)
        here = {f"addresses.{door}": address for door, address in fields.addresses.items()}
        return {**here, **{f"next-hops.{party}": address for party, address in fields.next_hops.items()}}

    def unsupported_reasons(
        self, cell: Cell, server: str, plays: Callable[[str], CommonFields], scale: float
    ) -> Iterator[str]:
        """See Kind."""
        candidate = plays(server)
        fields = RemoteFields.of(candidate)
        others = (one.name for one in cell.topology.servers if one.name != server)
        if any(RemoteFields.of(plays(other)).addresses == fields.addresses for other in others):
            yield "it is one server, and cannot be several at the same time; SERVER=CANDIDATE,... gives it one part"
        yield from super().unsupported_reasons(cell, server, plays, scale)
        if self.is_configured_here(candidate):
            return
        own = cell.topology.by_name[server]
        if set(cell.topology.transport) | set(own.transport) | set(own.listeners):
            yield "it was set up by somebody else, and this scenario wants parameters that differ from the defaults"
        steps = cell.all_steps
        for party in _dialled(cell, server, steps):
            if party not in fields.next_hops:
                yield f"it was not set up to dial {party}: its description names no such address in `next-hops`"
        timed = any(isinstance(step.action, _TIMED) for step in steps)
        if fields.scale != scale and not candidate.flush_to_retry and timed:
            said = "does not say by what" if fields.scale is None else f"says that by {fields.scale:g}"
            yield f"its description {said} its times were divided (`scale`), and in this run it is {scale:g}"


def _dialled(cell: Cell, server: str, steps: Sequence[Step]) -> Iterator[str]:
    """Yield every party that the server must dial: for its shadows, and for the recipients of the messages."""
    if any(need.startswith("shadow") for need in cell.needs):
        boundary = cell.topology.boundary(server)
        yield from (other.name for other in cell.topology.servers if other.name in boundary - {server})
    for recipient in recipients(steps):
        yield from cell.topology.next_hops(server, recipient)
