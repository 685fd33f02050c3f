"""Faults that end a session, or a direction of it, or all that can be heard of it."""

from collections.abc import Callable

from conformance.wire.faults.effect import Blow, Effect, effect
from conformance.wire.link import Link
from conformance.wire.units import Unit


class _AtOnce(Effect):
    """Does the same to a unit that is about to pass as behind one that has passed."""

    def on_unit(self, blow: Blow, unit: Unit, skip: int) -> Unit | None:
        """The unit does not pass."""
        self.behind(blow)
        return None


@effect("drop")
class Drop(_AtOnce):
    """Ends the connection."""

    def behind(self, blow: Blow) -> None:
        """By FIN, both ways."""
        blow.relay.drop()

    def on_connection(self, blow: Blow, link: Link, let_go: Callable[[str], None]) -> None:
        """The client is accepted, and its connection ended."""
        blow.fired("at connect")
        link.refuse(blow.relay, blow.armed.reason, fin=True)


@effect("refuse")
class Refuse(Effect):
    """Refuses the connection."""

    def on_connection(self, blow: Blow, link: Link, let_go: Callable[[str], None]) -> None:
        """By RST."""
        blow.fired("at connect")
        link.refuse(blow.relay, blow.armed.reason)


@effect("reset")
class Reset(Refuse, _AtOnce):
    """Resets the connection; a new one as if it were refused."""

    def behind(self, blow: Blow) -> None:
        """By RST, both ways."""
        blow.relay.reset("link")


@effect("half-close")
class HalfClose(_AtOnce):
    """Ends one direction."""

    def behind(self, blow: Blow) -> None:
        """By FIN; what is said in the other still passes."""
        blow.relay.half_close(blow.lane)


@effect("cut")
class Cut(Effect):
    """Ends the connection amid a unit."""

    def on_unit(self, blow: Blow, unit: Unit, skip: int) -> Unit | None:
        """In the body it is between two units already."""
        fault = blow.fault
        if fault.at != "body":
            blow.lane.target.write(unit.raw[skip : len(unit.raw) // 2 if fault.offset is None else fault.offset])
        blow.relay.drop()
        return None


@effect("mute")
class Mute(_AtOnce):
    """Nothing is heard any more, either way."""

    def behind(self, blow: Blow) -> None:
        """Until it is healed: then the connection is reset."""
        blow.relay.mute()
        blow.armed.on_heal.append(lambda: blow.relay.reset("link"))

    def on_connection(self, blow: Blow, link: Link, let_go: Callable[[str], None]) -> None:
        """The client is accepted, and nobody is dialled."""
        link.record(blow.relay)
        blow.fired("at connect")
        blow.relay.up.release("connecting")
        self.behind(blow)
        blow.relay.down.finished = True
