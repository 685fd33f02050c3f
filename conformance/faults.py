"""The kinds of faults that a scenario can arm on a link (`does`), in the order in which fault grids try them.

A *unit* is a part of a conversation that passes a link or is broken as a whole: a command line, a reply (the greeting
is one), a part of the body, the final dot. Each kind is declared here; `conformance.wire.faults` has the handlers that
do it, under the same name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

Place = Literal["connect", "greeting", "verb", "dot", "body"]
"""Where a fault can act; `verb` is any command."""

When = Literal["before", "heard", "after", "answered"]
"""When a fault acts: a command has arrived (`before`), was forwarded (`heard`); its reply has arrived, was forwarded."""

WHENS: tuple[When, ...] = ("before", "heard", "after", "answered")

Field = Literal["lasting", "rate", "reply", "offset"]
"""Fields of a `fault` that only some kinds use."""

_UNITS: tuple[Place, ...] = ("greeting", "verb", "dot", "body")
_REPLIED: tuple[Place, ...] = ("greeting", "verb", "dot")


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultKind:
    """The declaration of a kind; `about` is its text in the reference of scenarios, `at` are the places where it can act."""

    about: str
    at: tuple[Place, ...]
    after_unit: bool = False
    """Whether it can act after a unit was forwarded (`heard`, `answered`)."""
    acts_on_reply: bool = False
    """Whether it acts on the reply to the command at its place even if `when` is `before`."""
    invalid_points: Mapping[tuple[Place, When], str] = field(default_factory=dict)
    """Points at its places where it makes no sense, and why."""
    field_meanings: Mapping[Field, str] = field(default_factory=dict)
    """What the fields that it uses mean for it."""
    required_field: Field | None = None
    """The field that must be given."""
    alters: bool = False
    """Whether a session in which it fired may show what no party has sent, or lack what one has sent."""
    holds: bool = False
    """Whether it keeps octets, and the end of a session, from arriving while it is in force."""
    only_ends: bool = False
    """Whether all that it does is to end a session at once."""
    grid: Mapping[Place, tuple[When, ...]] = field(default_factory=dict)
    """The points at which fault grids try it."""


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
        at=("connect", *_UNITS), after_unit=True, field_meanings={"lasting": "how long (else until it is healed)"}, holds=True,
        grid={"greeting": ("after",), "verb": _BOTH_WAYS, "body": ("before",), "dot": _BOTH_WAYS},
    ),
    "delay": FaultKind(
        about="holds the unit, and what comes behind it in its direction, for a while",
        at=("connect", *_UNITS), field_meanings={"lasting": "how long"}, required_field="lasting",
        grid={"verb": _BOTH_WAYS, "dot": _BOTH_WAYS},
    ),
    "replace": FaultKind(
        about="gives another reply in place of the server's, which has acted on the command",
        at=_REPLIED, acts_on_reply=True, field_meanings={"reply": "the reply, without CRLF"}, required_field="reply", alters=True,
        grid={"greeting": ("after",), "verb": ("after",), "dot": ("after",)},
    ),
    "half-close": FaultKind(
        about="ends the unit's direction (FIN); the other still passes",
        at=_UNITS, after_unit=True, grid={"dot": ("before",)},
    ),
    "cut": FaultKind(
        about="passes a part of the unit, and ends the connection (FIN)",
        at=_UNITS, field_meanings={"offset": "elsewhere, how many octets pass (else half)"}, alters=True, grid={"body": ("before",)},
    ),
    "mute": FaultKind(
        about="lets nothing pass any more, either way; resets the connection when it is healed",
        at=("connect", *_UNITS), after_unit=True, alters=True, grid={"connect": ("before",)},
    ),
    "throttle": FaultKind(
        about="lets the unit's direction pass slowly (at connect: both)",
        at=("connect", *_UNITS), field_meanings={"rate": "octets a second"}, required_field="rate",
    ),
    "garble": FaultKind(
        about="makes the unit unreadable except its line ends; of the body, one octet",
        at=_UNITS, alters=True,
        invalid_points={("dot", "before"): "a garbled dot ends nothing; garble the body, or the reply (`when: after`)"},
    ),
    "answer": FaultKind(
        about="gives a reply in place of the server, which does not receive the command; to a reply, as `replace`",
        at=("connect", *_REPLIED), field_meanings={"reply": "the reply, without CRLF"}, required_field="reply", alters=True,
    ),
    "split": FaultKind(about="passes the unit octet by octet", at=_UNITS),
    "merge": FaultKind(
        about="keeps the unit and passes it together with the next octets",
        at=_UNITS, field_meanings={"lasting": "how long it waits for the next octets (else 1s)"},
    ),
}  # fmt: skip

if TYPE_CHECKING:
    FaultName = str
else:
    FaultName = Literal[tuple(FAULTS)]

ALTERING_FAULTS = frozenset(name for name, kind in FAULTS.items() if kind.alters)
HOLDING_FAULTS = frozenset(name for name, kind in FAULTS.items() if kind.holds)
DELAYING_FAULTS = frozenset({"delay", "merge", "throttle"})
"""Faults that hold octets back for a while, and with them the end of the connection that follows them."""
ENDING_FAULTS = frozenset(name for name, kind in FAULTS.items() if kind.only_ends)


def fault_place(at: str) -> Place:
    """Return the place that `at` of a fault stands for: `verb`, unless it is the name of another place.

    A scenario writes a command's verb there, such as `RCPT`.
    """
    places: dict[str, Place] = {"connect": "connect", "greeting": "greeting", "dot": "dot", "body": "body"}
    return places.get(at, "verb")


def field_meaning(name: Field) -> str:
    """Return what a field means for each kind that uses it: `stall: how long (else until it is healed); delay: how long`."""
    kinds: dict[str, list[str]] = {}
    for kind_name, kind in FAULTS.items():
        if name in kind.field_meanings:
            kinds.setdefault(kind.field_meanings[name], []).append(kind_name)
    return "; ".join(f"{', '.join(names)}: {meaning}" for meaning, names in kinds.items())
