"""What one check found, and the words in which it says so.

A check counts an *occasion* each time that it could have failed, adds a violation for each thing that is wrong, and a
confirmation for each event that shows what was expected. `conformance.judge.verdict_builder` makes a verdict of that. A
*row* is a requirement of the catalogue, by its id.
"""

from dataclasses import dataclass, field
from typing import Literal

from conformance.history.events import AnyEvent, MessageMade
from conformance.scenarios import values
from conformance.scenarios.expectations import Copies

ViolationKind = Literal[
    "", "missing", "partly", "surplus", "elsewhere", "near", "far", "early", "late", "other", "size"
]
"""What was wrong: `missing` altogether; there for some messages only (`partly`); more than expected (`surplus`); in another
place (`elsewhere`); too few or too many attempts in the server's own site (`near`) or in other sites (`far`); too `early`;
too `late`; another reply code of the same class (`other`); refused as too large though it was not (`size`, 552, RFC 1870);
anything else ('')."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """Number and time (documented seconds) of an event that shows what was expected, and the message, if it is of one."""

    n: int
    t: float
    message: MessageMade | None


@dataclass(frozen=True, slots=True)
class Observation:
    """A violation, or what may be one: a sentence, the numbers of the events that show it, and the name of the message.

    `row` is the requirement that it violates where the check judges several of them, `kind` what is wrong.
    """

    sentence: str
    evidence: tuple[int, ...]
    message: str | None
    row: str | None = None
    kind: ViolationKind = ""


@dataclass(slots=True)
class Finding:
    """What one check found.

    `expected` completes the sentence "expected ...". `undecided` has what looks like a violation and need not be one.
    `evidence` has the numbers of the events that confirm. `inapplicable` is the reason why the check does not apply to this
    server, or ''.
    """

    expected: str
    occasions: int = 0
    violations: list[Observation] = field(default_factory=list)
    undecided: list[Observation] = field(default_factory=list)
    evidence: list[int] = field(default_factory=list)
    confirmations: list[Confirmation] = field(default_factory=list)
    inapplicable: str = ""

    def add_violation(
        self,
        sentence: str,
        *evidence: int,
        message: str | None = None,
        row: str | None = None,
        kind: ViolationKind = "",
    ) -> None:
        """Add a violation: a sentence, the numbers of the events that show it, and the name of the message that it is about.

        `row` is the requirement that it violates where the check judges several, `kind` what is wrong.
        """
        self.violations.append(Observation(sentence=sentence, evidence=evidence, message=message, row=row, kind=kind))

    def add_message_violation(
        self,
        message: MessageMade | None,
        sentence: str,
        *evidence: int,
        row: str | None = None,
        kind: ViolationKind = "",
    ) -> None:
        """Add a violation about a message, which is described in front of the sentence; None: about no single message.

        The other arguments are those of `add_violation`.
        """
        if message is None:
            self.add_violation(sentence, *evidence, row=row, kind=kind)
        else:
            sentence = f"{describe_message(message)}: {sentence}"
            self.add_violation(sentence, *evidence, message=message.message, row=row, kind=kind)

    def add_undecided(self, sentence: str, *evidence: int, message: MessageMade | None = None) -> None:
        """Add what looks like a violation and need not be one: if the check finds no violation, the verdict is inconclusive.

        The message, if one is given, is described in front of the sentence. `evidence` are numbers of events.
        """
        if message is not None:
            sentence = f"{describe_message(message)}: {sentence}"
        self.undecided.append(
            Observation(sentence=sentence, evidence=evidence, message=message.message if message is not None else None)
        )

    def add_confirmation(self, n: int, t: float, message: MessageMade | None = None) -> None:
        """Add event `n` at time `t` (documented seconds), which shows what was expected.

        The judge compares its time with the expectation's `after` and `within`. `message` is the one that it is of, if any.
        """
        self.evidence.append(n)
        self.confirmations.append(Confirmation(n=n, t=t, message=message))


def describe_message(message: MessageMade) -> str:
    """Return the scenario's name of a message and its Message-ID: `m#1 (<1@x.example>)`."""
    return (
        f"{message.message} (<{message.message_id}>)"
        if message.message_id
        else f"{message.message} (without Message-ID)"
    )


def format_time(event: AnyEvent) -> str:
    """Return time and number of an event in words: `at 2h0.012s (event 17)`."""
    return f"at {format_seconds(event.t)} (event {event.n})"


def format_seconds(seconds: float) -> str:
    """Return a time or duration as the documents write durations, in milliseconds at the finest: `2h0.012s`."""
    return values.format_duration(round(seconds, 3))


def format_count(copies: Copies) -> str:
    """Return an expected number in words: `2`, `at least 1`, `1 to 3`."""
    if copies.max == copies.min:
        return str(copies.min)
    return f"at least {copies.min}" if copies.max is None else f"{copies.min} to {copies.max}"


def format_times(number: int) -> str:
    """Return how often something happened: `never`, `once`, `twice`, `3 times`."""
    return {0: "never", 1: "once", 2: "twice"}.get(number, f"{number} times")


def is_expected_count(copies: Copies, number: int) -> bool:
    """Return whether a number lies within the expected range."""
    return copies.min <= number and (copies.max is None or number <= copies.max)
