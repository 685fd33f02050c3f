"""What a check may ask: the cell, its history as a `Trace`, and facts about the servers of its topology.

A *check* is a rule of the model or an expectation of the scenario. A *server under test* is one of the topology's servers; the
other parties (senders, sinks) are the harness's own. `claims` are the capabilities that the candidate claims. A message is
known by the scenario's name of it: `m#1` is the first of the messages that the scenario calls `m`. Times are documented
seconds since the cell began.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from conformance.generations import GENERATIONS
from conformance.history.events import Attempt, Delivered, MessageMade, StepEvent
from conformance.scenarios.document import Cell
from conformance.topology import Server
from conformance.trace.trace import Trace

RELAY_CAPABILITIES = frozenset({"relay", "dsn", "lmtp-delivery", "inspect"})
"""Capabilities of a relay without shadow redundancy: a candidate that claims no other is bound by the relay rows alone."""


def is_relay_only(claims: frozenset[str]) -> bool:
    """Return whether a candidate with these claims (capabilities) is a relay without shadow redundancy; True for no claims.

    An ordinary server may delay its acknowledgement; the rows about that are judged by their own claim.
    """
    return claims <= RELAY_CAPABILITIES | {"delayed-acknowledgement"}


def is_generation_2010(server: Server) -> bool:
    """Return whether a server's generation has no `shadow-2013` (Exchange 2010): there the server that sent a message keeps the copy."""
    return "shadow-2013" not in GENERATIONS[server.generation]


@dataclass(frozen=True, slots=True)
class CheckContext:
    """What a check judges: the cell and its history, with the clock's tolerance in seconds and the candidate's claims."""

    cell: Cell
    trace: Trace
    tolerance: float = 0.0
    claims: frozenset[str] = frozenset()

    @property
    def slack(self) -> float:
        """By how many seconds a time may miss a bound: the tolerance, and a microsecond for floating point."""
        return self.tolerance + 1e-6

    @property
    def mailboxes(self) -> frozenset[str]:
        """The addresses of all mailboxes of the topology, case-folded."""
        return frozenset(mailbox.address.casefold() for mailbox in self.cell.topology.mailboxes)

    def normalize_address(self, address: str) -> str:
        """Return the form of an address under which it is compared (ruling 23, RFC 5321 2.4).

        A mailbox of the topology is case-folded as a whole, any other address in its domain only.
        """
        folded = address.casefold()
        if folded in self.mailboxes:
            return folded
        local, at_sign, domain = address.rpartition("@")
        return f"{local}{at_sign}{domain.casefold()}"

    def normalize_addresses(self, addresses: Iterable[str]) -> set[str]:
        """Return the forms of several addresses under which they are compared."""
        return set(map(self.normalize_address, addresses))

    def deliveries_of(self, name: str, recipient: str) -> list[Delivered]:
        """Return the deliveries of a message (`m#1`) to sinks for one recipient, in order; addresses are compared normalized."""
        address = self.normalize_address(recipient)
        return [event for event in self.trace.deliveries_of(name) if self.normalize_address(event.recipient) == address]

    def next_hop_servers(self, server: str, address: str) -> frozenset[str]:
        """Return the parties to which a server may pass mail for an address at any time of the history.

        These are the next hops of the topology (of `SERVER.delivery` the server), and for a mailbox also those that a move of its
        database made: by a step `activate` it becomes active on another server. Not included are detours between sites.
        """
        topology, folded = self.cell.topology, address.casefold()
        hops = set(topology.next_hop_servers(server, address))
        databases = {box.database for box in topology.mailboxes if box.address.casefold() == folded}
        for step in self.trace.events_of(StepEvent) if databases else ():
            for database, host in moved_databases(step).items():
                if database in databases:
                    hops.add(topology.store_name(server) if host == server else host)
        return frozenset(hops)

    def is_tested_server(self, party: str) -> bool:
        """Return whether a party is a server under test, and not one of the harness's own; False for an unknown name."""
        return party in self.cell.topology.by_name

    def is_opened_by_tested_server(self, client: str, session: str) -> bool:
        """Return whether `client` is a server under test that opened the session itself; False if the harness did so in its name."""
        return self.is_tested_server(client) and session not in self.trace.harness_sessions

    def is_2010(self, server: str) -> bool:
        """Return whether a server under test is of the 2010 generation, in which the sending server keeps the shadow copy.

        Raises KeyError for another party.
        """
        return is_generation_2010(self.cell.topology.by_name[server])

    def site_of(self, server: str) -> str:
        """Return the name of the site of a server under test. Raises KeyError for another party."""
        return self.cell.topology.by_name[server].site


@dataclass(frozen=True, slots=True)
class ExpectationContext(CheckContext):
    """What an expectation is judged on: the history up to the end of its step.

    `since` is the time from which the bounds `after` and `within` count, `since_n` the number of the event from which the check
    counts what happened. Both are those of the beginning of the step with the label in `since:` (of a `start`, its end).
    Without a label `since` is when the expectation was reached, and `since_n` is 0.
    """

    since: float = 0.0
    since_n: int = 0

    def messages(self, name: str) -> list[MessageMade]:
        """Return the message `m#3`, or every message of `m`, as far as they were made; [] for none."""
        return self.trace.find_messages(name)

    def attempts(self, name: str) -> list[Attempt]:
        """Return the harness's own transmissions of a message (`m#1`) that have ended, in order."""
        return self.trace.attempts_of(name)


def moved_databases(step: StepEvent) -> dict[str, str]:
    """Return the server on which each database that a step `activate` moved is active; {} for the step's begin and other steps.

    The detail of its end is `DB1 is active on mbx2; DB2 is active on mbx2`.
    """
    if (step.verb, step.phase) != ("activate", "ended"):
        return {}
    parts = (part.partition(" is active on ") for part in step.detail.split("; "))
    return {database: host for database, _, host in parts}
