"""The kinds of faults that a scenario can arm on a link (`does`): each is declared here, in the order in which grids try them.

What one does on the wire, `conformance.wire.faults` knows by the same name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

Place = Literal["connect", "greeting", "verb", "dot", "body"]
"""Where a fault can strike; `verb` is any command."""

When = Literal["before", "heard", "after", "answered"]
"""A command arrived, and has passed; its reply arrived, and has passed."""

WHENS: tuple[When, ...] = ("before", "heard", "after", "answered")

Field = Literal["lasting", "rate", "reply", "offset"]
"""Fields of a `fault` that mean something for some kinds only."""

_UNITS: tuple[Place, ...] = ("greeting", "verb", "dot", "body")
_REPLIED: tuple[Place, ...] = ("greeting", "verb", "dot")


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultKind:
    """What the harness has to know of a kind; `about` is for the reference of scenarios."""

    about: str
    at: tuple[Place, ...]
    after_unit: bool = False
    """Whether it can strike behind a unit that has passed (`heard`, `answered`)."""
    acts_on_reply: bool = False
    """Whether it strikes a reply even where `before` is said."""
    invalid_points: Mapping[tuple[Place, When], str] = field(default_factory=dict)
    """Points of its places at which it makes no sense, and why."""
    takes: Mapping[Field, str] = field(default_factory=dict)
    """What fields mean for it."""
    needs: Field | None = None
    """The field that must be given."""
    alters: bool = False
    """Whether a session in which it fired shows what none of its parties said, or not what they said."""
    holds: bool = False
    """Whether it keeps what is said, and the end of a session, for as long as it is in force."""
    only_ends: bool = False
    """Whether it ends a session at once, and neither holds nor alters anything before."""
    grid: Mapping[Place, tuple[When, ...]] = field(default_factory=dict)
    """Where grids try it."""


_BOTH_WAYS: tuple[When, ...] = ("before", "after")
_ENDS: Mapping[Place, tuple[When, ...]] = {
    "greeting": ("after", "answered"), "verb": WHENS, "body": ("before",), "dot": WHENS
}  # fmt: skip

FAULTS = {
    "drop": FaultKind(
        about="ends the connection both ways (FIN); the unit does not pass",
        at=("connect", *_UNITS), after_unit=True, only_ends=True, grid=_ENDS,
    ),
    "refuse": FaultKind(about="refuses the connection (RST)", at=("connect",), grid={"connect": ("before",)}),
    "reset": FaultKind(
        about="resets the connection both ways (RST); the unit does not pass",
        at=("connect", *_UNITS), after_unit=True, only_ends=True, grid={"connect": ("before",), **_ENDS},
    ),
    "stall": FaultKind(
        about="holds the unit, and what comes behind it in its direction",
        at=("connect", *_UNITS), after_unit=True, takes={"lasting": "how long (else until it is healed)"}, holds=True,
        grid={"greeting": ("after",), "verb": _BOTH_WAYS, "body": ("before",), "dot": _BOTH_WAYS},
    ),
    "delay": FaultKind(
        about="holds the unit, and what comes behind it in its direction, for a while",
        at=("connect", *_UNITS), takes={"lasting": "how long"}, needs="lasting",
        grid={"verb": _BOTH_WAYS, "dot": _BOTH_WAYS},
    ),
    "replace": FaultKind(
        about="gives another reply in the place of the server's, which has done what it was told",
        at=_REPLIED, acts_on_reply=True, takes={"reply": "the reply, without CRLF"}, needs="reply", alters=True,
        grid={"greeting": ("after",), "verb": ("after",), "dot": ("after",)},
    ),
    "half-close": FaultKind(
        about="ends the unit's direction (FIN); the other still passes",
        at=_UNITS, after_unit=True, grid={"dot": ("before",)},
    ),
    "cut": FaultKind(
        about="passes a part of the unit, and ends the connection (FIN)",
        at=_UNITS, takes={"offset": "elsewhere, how many octets pass (else half)"}, alters=True, grid={"body": ("before",)},
    ),
    "mute": FaultKind(
        about="lets nothing pass any more, either way; resets the connection when it is healed",
        at=("connect", *_UNITS), after_unit=True, alters=True, grid={"connect": ("before",)},
    ),
    "throttle": FaultKind(
        about="lets the unit's direction pass slowly (at connect: both)",
        at=("connect", *_UNITS), takes={"rate": "octets a second"}, needs="rate",
    ),
    "garble": FaultKind(
        about="spoils the unit beyond recognition, its line ends excepted; of the body, one octet",
        at=_UNITS, alters=True,
        invalid_points={("dot", "before"): "a garbled dot ends nothing; garble the body, or the reply (`when: after`)"},
    ),
    "answer": FaultKind(
        about="gives a reply without the server's having heard the command; to a reply, as `replace`",
        at=("connect", *_REPLIED), takes={"reply": "the reply, without CRLF"}, needs="reply", alters=True,
    ),
    "split": FaultKind(about="passes the unit octet by octet", at=_UNITS),
    "merge": FaultKind(
        about="keeps the unit and passes it together with the next octets",
        at=_UNITS, takes={"lasting": "how long it waits for the next octets (else 1s)"},
    ),
}  # fmt: skip

if TYPE_CHECKING:
    FaultName = str
else:
    FaultName = Literal[tuple(FAULTS)]

ALTERING_FAULTS = frozenset(name for name, kind in FAULTS.items() if kind.alters)
HOLDING_FAULTS = frozenset(name for name, kind in FAULTS.items() if kind.holds)
ENDING_FAULTS = frozenset(name for name, kind in FAULTS.items() if kind.only_ends)


def fault_place(at: str) -> Place:
    """Return the place that `at` of a fault names: any but the places of their own is a verb."""
    places: dict[str, Place] = {"connect": "connect", "greeting": "greeting", "dot": "dot", "body": "body"}
    return places.get(at, "verb")


def field_meaning(of: Field) -> str:
    """Return what a field means, kind by kind."""
    kinds: dict[str, list[str]] = {}
    for name, kind in FAULTS.items():
        if of in kind.takes:
            kinds.setdefault(kind.takes[of], []).append(name)
    return "; ".join(f"{', '.join(names)}: {words}" for words, names in kinds.items())
