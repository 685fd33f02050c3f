"""Records what a sink says and hears within TLS, where the link sees encrypted octets only.

The events are those that the link would have recorded, under the same session name. A *unit* is what is recorded as a whole: a
command line, a reply, a part of a content or its end.
"""

from collections.abc import Sequence

from conformance.history.dialects import PROFILE_1
from conformance.history.recorder import Recorder
from conformance.wire.session_parser import SessionParser
from conformance.wire.unit_recorder import UnitRecorder
from conformance.wire.units import Unit


class SecuredRecord:
    """The record of one session from the TLS handshake on; `session` is its name in the history."""

    def __init__(self, recorder: Recorder, session: str) -> None:
        self._parser = SessionParser(greets=False)
        self._units = UnitRecorder(recorder, PROFILE_1, session)

    def heard(self, octets: bytes) -> None:
        """Record the units that octets of the client complete."""
        self._record(self._parser.feed_client(octets))

    def said(self, octets: bytes) -> None:
        """Record the replies that octets of the sink complete, and the client's octets that waited for these."""
        self._record(self._parser.feed_server(octets))
        while self._parser.client_unblocked:
            self.heard(b"")
            self._record(self._parser.feed_server(b""))

    def _record(self, units: Sequence[Unit]) -> None:
        """Record the events of units, in their order."""
        for unit in units:
            self._units.record(unit)
