"""Behaviours: what the local part of a recipient's address asks the next hop to do, in the words of the fault language.

`rcpt-451@any.test` is a reply, `drop-heard-dot@any.test` a fault of `conformance.faults`, `silent@any.test` short for one. What
follows a `+` distinguishes addresses: `rcpt-451+2@any.test` behaves the same, for another message.
"""

import difflib
import re
from dataclasses import dataclass, replace

from pydantic import ValidationError

from conformance.faults import FAULTS, WHENS, FaultKind, When, fault_place
from conformance.scenarios.steps.breaking import Fault
from conformance.scenarios.values import parse_duration
from conformance.wire.fault_plan import check_fault

CLIENT, SINK = "client", "listen"
"""The names of the two parties in the history."""

_BEFORE_RCPT = ("connect", "greeting", "EHLO", "HELO", "MAIL")
_PLACES = {place.lower(): place for place in (*_BEFORE_RCPT, "RCPT", "DATA", "body", "dot", "RSET", "NOOP", "QUIT")}
_REPLY_PLACES = tuple(word for word, place in _PLACES.items() if place not in ("connect", "body"))
_AT_CONNECT = ("refuse", "drop", "reset")
_AT_BODY = ("drop", "reset", "stall", "cut", "mute", "throttle")
_ON_REPLY = frozenset({"stall", "delay", "cut", "garble", "throttle", "split", "merge", "half-close"})
"""Kinds that act on the reply unless the address says otherwise."""

_UNSEEN_BY_CLIENT = frozenset({"cut", "garble", "throttle", "split", "merge"})
"""Kinds that the client cannot notice when they act on what it sends itself."""

_WITHOUT_REPLY_FIELD = {name: kind for name, kind in FAULTS.items() if name not in ("replace", "answer")}
_REPLY_NAME = re.compile(rf"({'|'.join(_REPLY_PLACES)})-([0-9]+)")
_TIMES = re.compile(r"(.+)-(?:x([1-9][0-9]?)|(always))")
_FIRST_WORDS = frozenset({*_PLACES, *(name.split("-")[0] for name in _WITHOUT_REPLY_FIELD), "silent"})
_NO_EXTENSIONS = "ehlo-250"
_UNAVAILABLE = 421


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What one address asks for.

    `name` is the local part without what follows `+`. `faults` are armed on the session, or, if `early`, for the next
    occurrence in any session: their place comes before RCPT. `dot_reply` is the reply to the final dot, None if a fault
    decides. `times` is at how many attempts for the same address it acts before one is accepted, None for all.
    """

    name: str
    faults: tuple[Fault, ...] = ()
    dot_reply: str | None = None
    times: int | None = 1
    early: bool = False


class UnknownBehaviour(ValueError):
    """A local part looks like a behaviour and is none; the message says what is wrong."""


def parse_behaviour(address: str) -> Behaviour | None:
    """Return the behaviour that an address asks for; None if its local part does not begin with a word of the language.

    Behind such a word comes `-`; only `silent` and `refuse` may stand alone, another word alone is an address like any other.
    Raises UnknownBehaviour if it begins so and cannot be parsed, or asks for something that cannot be done.
    """
    name = address.rpartition("@")[0].partition("+")[0].lower() or address.lower()
    if "-" not in name and name not in ("silent", "refuse"):
        return None
    if name.split("-")[0] not in _FIRST_WORDS:
        return None
    matched = _TIMES.fullmatch(name)
    base = matched[1] if matched else name
    if replied := _REPLY_NAME.fullmatch(base):
        behaviour = _reply_behaviour(name, _PLACES[replied[1]], int(replied[2]))
    else:
        behaviour = _fault_behaviour(name, base)
    if matched is None:
        return behaviour
    return replace(behaviour, times=None if matched[3] else int(matched[2]))


def _reply_behaviour(name: str, place: str, code: int) -> Behaviour:
    """Return the behaviour that replies with a code at a place of the protocol, and closes the connection after 421.

    A code from 500 on, at RCPT or later, is the reply to every attempt; any other code to the first one for each address. The
    caller replaces this number where the name states one (`-x3`, `-always`). `ehlo-250` offers no extensions. Raises
    UnknownBehaviour for another code than 400 to 599.
    """
    if (place, code) == ("EHLO", 250):
        return _with_faults(name, _fault("replace", place, "after", reply=f"250 {SINK}.test"))
    if not 400 <= code <= 599:
        raise UnknownBehaviour(f"{name}: a reply has a code from 400 to 599 (or is {_NO_EXTENSIONS})")
    # the greeting and EHLO are answered without an enhanced code (RFC 2034 3)
    enhanced = "" if place in _BEFORE_RCPT and place != "MAIL" else f"{code // 100}.3.0 "
    reply = f"{code} {enhanced}{name}"
    closing = [_fault("drop", place, "answered")] if code == _UNAVAILABLE else []
    if place == "dot":
        return Behaviour(name, tuple(closing), dot_reply=reply, times=None if code >= 500 else 1)
    first = (
        _fault("replace", place, "after", reply=reply)
        if place == "greeting"
        else _fault("answer", place, "before", reply=reply)
    )
    permanent = code >= 500 and place not in _BEFORE_RCPT
    behaviour = _with_faults(name, first, *closing)
    return Behaviour(name, behaviour.faults, times=None if permanent else 1, early=behaviour.early)


def _fault_behaviour(name: str, base: str) -> Behaviour:
    """Return the behaviour `KIND[-WHEN]-PLACE[-VALUE]`, or `silent[-PLACE]`, which is `stall-after-PLACE`. Raises UnknownBehaviour.

    `base` is the name without `-x3` or `-always`. Without WHEN a kind of `_ON_REPLY`, such as `stall`, acts on the reply
    (`after`); any other kind, and every kind at connect and body, acts `before` the command is forwarded. What a client could
    not notice raises UnknownBehaviour too.
    """
    if base == "silent" or base.startswith("silent-"):
        base = f"stall-after-{base.removeprefix('silent').removeprefix('-') or 'dot'}"
    does = next((kind for kind in _WITHOUT_REPLY_FIELD if base == kind or base.startswith(f"{kind}-")), None)
    if does is None:
        raise UnknownBehaviour(f"{name}: no such behaviour{_suggestion(base)}")
    words = base.removeprefix(does).removeprefix("-").split("-")
    when: When | None = next((when for when in WHENS if when == words[0]), None)
    at, *values = words[1:] if when else words
    if not at and FAULTS[does].at == ("connect",):
        at = "connect"
    if at not in _PLACES:
        raise UnknownBehaviour(f"{name}: {at!r} is not a place in a session: {', '.join(_PLACES)}")
    place = _PLACES[at]
    if when is None:
        when = "after" if does in _ON_REPLY and place not in ("body", "connect") else "before"
    allowed = {"connect": _AT_CONNECT, "body": _AT_BODY}.get(place)
    if (allowed is not None and does not in allowed) or (
        place != "body" and when == "before" and does in _UNSEEN_BY_CLIENT
    ):
        raise UnknownBehaviour(f"{name}: a client would not notice {does} {when} {at}; write after, or another place")
    return _with_faults(name, _fault(does, place, when, value="-".join(values), name=name))


def _with_faults(name: str, *faults: Fault) -> Behaviour:
    """Return the behaviour with these faults, at the first attempt only; the first fault's place decides whether it is early."""
    return Behaviour(name, faults, early=faults[0].at in _BEFORE_RCPT)


def _fault(does: str, at: str, when: When, *, reply: str | None = None, value: str = "", name: str = "") -> Fault:
    """Return a fault of the next hop; `value` is the text of its duration, rate or offset, '' for none.

    Raises UnknownBehaviour, about the behaviour `name`, if it makes no sense.
    """
    fields: dict[str, object] = {
        "as": "x",
        "from": CLIENT,
        "to": SINK,
        "does": does,
        "at": at,
        "when": when,
        "reply": reply,
    }
    kind = FAULTS[does]
    try:
        if value:
            fields[_value_field(kind, at)] = parse_duration(value) if "lasting" in kind.field_meanings else value
        fault = Fault.model_validate(fields)
        check_fault(fault)
    except ValidationError as error:
        unit = "octets a second" if "rate" in kind.field_meanings else "octets"
        raise UnknownBehaviour(f"{name}: {value!r} is not a number of {unit} ({error.errors()[0]['msg']})") from None
    except ValueError as error:
        problem = str(error).removeprefix("fault x: ")
        raise UnknownBehaviour(f"{name}: {problem}") from None
    return fault


def _value_field(kind: FaultKind, at: str) -> str:
    """Return which field of a fault the value in an address is for. Raises ValueError if it takes none."""
    for field in ("lasting", "rate"):
        if field in kind.field_meanings:
            return field
    if fault_place(at) == "body" or "offset" in kind.field_meanings or kind is FAULTS["cut"]:
        return "offset"
    raise ValueError(f"nothing may follow {at.lower()}")


def _suggestion(base: str) -> str:
    """Return `; did you mean NAME?` for the behaviour whose name is most like this one, '' if none is."""
    names = [f"{kind}-{place}" for kind in _WITHOUT_REPLY_FIELD for place in _PLACES]
    close = difflib.get_close_matches(base, names, 1)
    return f"; did you mean {close[0]}?" if close else ""


def describe_behaviours() -> str:
    """Return the text of `listen --list`: the language of local parts, with every kind of fault and every place."""
    rows = [
        ("PLACE-CODE", f"replies CODE (400 to 599) at PLACE: {' '.join(_REPLY_PLACES)}; 421 also closes"),
        (_NO_EXTENSIONS, "replies to EHLO without any extension"),
        ("silent[-PLACE]", "does not reply (stall-after-PLACE); without PLACE: to the final dot"),
        *((_pattern(name, kind), kind.about) for name, kind in _WITHOUT_REPLY_FIELD.items()),
    ]
    width = max(len(pattern) for pattern, _ in rows)
    lines = ["The local part of a recipient's address says what this next hop does:", ""]
    lines += [f"  {pattern:{width}}  {about}" for pattern, about in rows]
    lines += [
        "",
        f"PLACE: {' '.join(_PLACES)} (connect: {' '.join(_AT_CONNECT)}; body: {' '.join(_AT_BODY)})",
        "WHEN:  before (the command arrives), heard (the sink has it), after (its reply is to be sent), answered (was sent)",
        "",
        "Each message to an address meets its behaviour at the first attempt, and is accepted when it is tried again.",
        "-x3 at the end: at three attempts. -always: at all; so are replies from 500 at rcpt and later places.",
        "A place before rcpt is met by the next connection: this one is answered 451 for the recipient, so that it comes back.",
        "+anything distinguishes messages (rcpt-451+7@example.test). All other addresses are accepted.",
    ]
    return "\n".join(lines)


def _pattern(name: str, kind: FaultKind) -> str:
    """Return how a kind of fault is written in an address, such as `delay-[WHEN-]PLACE-DURATION`."""
    if kind.at == ("connect",):
        return name
    value = "-DURATION" if kind.required_field == "lasting" else "-RATE" if kind.required_field == "rate" else ""
    optional = (
        "[-DURATION]" if "lasting" in kind.field_meanings else "[-OCTETS]" if "offset" in kind.field_meanings else ""
    )
    return f"{name}-[WHEN-]PLACE{value or optional}"
