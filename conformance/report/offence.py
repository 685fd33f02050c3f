"""Names the offending exchange in one line: which event, when, who to whom, what was said, about which message."""

from collections.abc import Mapping
from dataclasses import dataclass

from conformance.history.events import AnyEvent, Attempt, Content, Delivered, MessageMade, Reply
from conformance.report.conversation import whereabouts
from conformance.report.material import Material
from conformance.report.safe import visible
from conformance.report.words import described, meaning, moment
from conformance.verdicts import Verdict


@dataclass(frozen=True, slots=True)
class Offence:
    """Where a verdict points: the event's number, the line about it, and the message (either may be '').

    Both texts are printable. `message` has the scenario's name of the message and its Message-ID.
    """

    event: int
    exchange: str
    message: str


def offence_of(verdict: Verdict, material: Material) -> Offence | None:
    """Return what the first of the verdict's events was, or None when it names none that the history has."""
    event = next((material.by_number[n] for n in material.evidence(verdict) if n in material.by_number), None)
    if event is None:
        return None
    session, parties = whereabouts(event, material.sessions)
    means = meaning(event)
    told = f"event #{event.n} at {moment(event.t)}: " + (f"{session} " if session else "") + parties + described(event)
    return Offence(event.n, told + (f"  [{means}]" if means else ""), _message(verdict, event, material))


def _message(verdict: Verdict, event: AnyEvent, material: Material) -> str:
    made = {one.message: one.message_id for one in material.events if isinstance(one, MessageMade)}
    name = verdict.message or _name(event, material, made)
    if not name:
        return ""
    identity = made.get(name)
    return visible(f"{name}, Message-ID {identity}" if identity else name, 300)


def _name(event: AnyEvent, material: Material, made: Mapping[str, str | None]) -> str:
    """Return the name of the message that an event is about; one that the harness did not make has its Message-ID."""
    match event:
        case Attempt():
            return event.message
        case Content() | Delivered():
            identity = event.digest.message_id
        case Reply(to="CONTENT"):
            earlier = (
                one.digest.message_id
                for one in reversed(material.events)
                if one.n < event.n and isinstance(one, Content) and one.session == event.session
            )
            identity = next(earlier, None)
        case _:
            return ""
    return next((name for name, known in made.items() if identity and known == identity), identity or "")
