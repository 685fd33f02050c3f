"""What a check is asked on, and what it found, before it becomes a verdict."""

from dataclasses import dataclass, field

from conformance.generations import GENERATIONS
from conformance.history.events import AnyEvent, Attempt, Delivered, MessageMade
from conformance.judge.blame import Kind
from conformance.judge.trace import Trace
from conformance.scenarios import values
from conformance.scenarios.document import Cell
from conformance.topology import Server


def of_2010(server: Server) -> bool:
    """Whether a server is one of the 2010 generation, whose documents do not describe the shadow copies of 2013."""
    return "shadow-2013" not in GENERATIONS[server.generation]


@dataclass(frozen=True, slots=True)
class Met:
    """An event that shows what was expected: its number, its time in documented seconds, and the message it is about."""

    n: int
    t: float
    made: MessageMade | None


@dataclass(frozen=True, slots=True)
class Observation:
    """A sentence about what was seen, the numbers of the events that show it, the message, and the row it is about."""

    sentence: str
    evidence: tuple[int, ...]
    message: str | None
    row: str | None = None
    kind: Kind = ""


@dataclass(slots=True)
class Finding:
    """What one check found.

    `inapplicable` says why nothing of it binds this server, or ''. `wrong` holds each violation, `unclear` each thing that could not be decided; `came_true` is what was expected, each time that it was seen. `occasions` counts how often the check could have failed.
    """

    expected: str
    occasions: int = 0
    wrong: list["Observation"] = field(default_factory=list)
    unclear: list["Observation"] = field(default_factory=list)
    evidence: list[int] = field(default_factory=list)
    came_true: list[Met] = field(default_factory=list)
    inapplicable: str = ""

    def violated(
        self, sentence: str, *evidence: int, message: str | None = None, row: str | None = None, kind: Kind = ""
    ) -> None:
        """Note a violation.

        `row` is the requirement that it breaks, where a check judges several; `kind` is what was wrong, by which the
        row of an expectation is found.
        """
        self.wrong.append(Observation(sentence, evidence, message, row, kind))

    def untold(self, sentence: str, *evidence: int, message: str | None = None) -> None:
        """Note what looks like a violation, and need not be one."""
        self.unclear.append(Observation(sentence, evidence, message))

    def met(self, n: int, t: float, made: MessageMade | None = None) -> None:
        """Note an event that shows what was expected, of which message."""
        self.evidence.append(n)
        self.came_true.append(Met(n, t, made))


@dataclass(frozen=True, slots=True)
class Case:
    """What an invariant is judged on. `tolerance` is the clock's, documented seconds."""

    cell: Cell
    trace: Trace
    tolerance: float = 0.0
    claims: frozenset[str] = frozenset()

    @property
    def slack(self) -> float:
        """By how much a time may be off, documented seconds: the tolerance, and what floating point leaves."""
        return self.tolerance + 1e-6

    @property
    def mailboxes(self) -> frozenset[str]:
        """The addresses of all mailboxes, folded."""
        return frozenset(mailbox.address.casefold() for mailbox in self.cell.topology.mailboxes)

    def same(self, address: str) -> str:
        """Return what two ways of writing one address have in common (ruling 23, RFC 5321 2.4).

        A mailbox of the topology is found in any letter case; of an address outside only the domain is.
        """
        folded = address.casefold()
        if folded in self.mailboxes:
            return folded
        local, at_sign, domain = address.rpartition("@")
        return f"{local}{at_sign}{domain.casefold()}"

    def deliveries_of(self, message: str, recipient: str) -> list[Delivered]:
        """Return what sinks took of a message for one recipient."""
        wanted = self.same(recipient)
        return [event for event in self.trace.deliveries_of(message) if self.same(event.recipient) == wanted]

    def tested(self, party: str) -> bool:
        """Whether a party is a server under test, and none of the harness's own."""
        return party in self.cell.topology.by_name

    def acts(self, party: str, session: str) -> bool:
        """Whether a session was opened by a server under test: the harness can speak under a server's name."""
        return self.tested(party) and session not in self.trace.spoken

    def of_2010(self, server: str) -> bool:
        """Whether a server is one of the 2010 generation, to which the rules of shadow copies do not apply."""
        return of_2010(self.cell.topology.by_name[server])

    def site(self, server: str) -> str:
        """Return a server's site."""
        return self.cell.topology.by_name[server].site


@dataclass(frozen=True, slots=True)
class View(Case):
    """What an expectation is judged on: the cell, and the history up to where the scenario had waited for it."""

    since: float = 0.0
    since_n: int = 0

    def messages(self, name: str) -> list[MessageMade]:
        """Return the messages of that name."""
        return self.trace.named(name)

    def attempts(self, message: str) -> list[Attempt]:
        """Return the harness's transmissions of a message."""
        return self.trace.attempts_of(message)


def named(made: MessageMade) -> str:
    """Name a message for a stranger."""
    return f"{made.message} (<{made.message_id}>)" if made.message_id else f"{made.message} (without Message-ID)"


def moment(t: float) -> str:
    """Write a time of the cell as the documents write durations: `2h0.012s`."""
    return values.format_duration(round(t, 3))


def at(event: AnyEvent) -> str:
    """Say when and where in the history something was."""
    return f"at {moment(event.t)} (event {event.n})"
