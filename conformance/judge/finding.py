"""What a check found, before it becomes a verdict."""

from dataclasses import dataclass, field

from conformance.history.events import AnyEvent, Attempt, MessageMade
from conformance.judge.trace import Trace
from conformance.scenarios.document import Cell


@dataclass(slots=True)
class Finding:
    """`wrong` holds a sentence for each violation, with its evidence; `times` when what was expected came true."""

    expected: str
    occasions: int = 0
    wrong: list[tuple[str, tuple[int, ...], str | None]] = field(default_factory=list)
    evidence: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    def violated(self, sentence: str, *evidence: int, message: str | None = None) -> None:
        """Note a violation."""
        self.wrong.append((sentence, evidence, message))

    def met(self, n: int, t: float) -> None:
        """Note an event that shows what was expected."""
        self.evidence.append(n)
        self.times.append(t)


@dataclass(frozen=True, slots=True)
class View:
    """What an expectation is judged on: the cell, and the history up to where the scenario had waited for it."""

    cell: Cell
    trace: Trace
    since: float
    since_n: int

    def messages(self, name: str) -> list[MessageMade]:
        """Return the messages of that name."""
        return self.trace.named(name)

    def attempts(self, message: str) -> list[Attempt]:
        """Return the harness's transmissions of a message."""
        return self.trace.attempts_of(message)

    def site(self, server: str) -> str:
        """Return a server's site."""
        return self.cell.topology.by_name[server].site


def told(made: MessageMade) -> str:
    """Name a message for a stranger."""
    return f"{made.message} (<{made.message_id}>)"


def at(event: AnyEvent) -> str:
    """Say when and where in the history something was."""
    return f"at {event.t:g} s (event {event.n})"
