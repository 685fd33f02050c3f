"""Facts about the parameters that were in force on the servers of one recorded history, at an event or between two.

A *transport parameter* is a setting of a server by its documented name, such as `ShadowRedundancyEnabled`. Its value comes from the
topology, from configurations that were offered to the server while the cell ran, else it is the documented default. A server may
refuse a configuration; then its value does not change. A *listener* is a receive connector, such as `transport`, with limits of
its own.

`n` is an event's number in the history. `is_change_offered_between` looks between events `after_n` and `before_n`, these two
excluded; all other functions with these parameters include them. A change is *under way* from its offer to the server's answer;
meanwhile the old and the new value are possible. `Facts` (`conformance.model.facts`), which every rule of the model gets,
inherits these facts. Nothing here decides whether something was right, reads a file or waits.
"""

from functools import cached_property

from pydantic import JsonValue

from conformance.history.events import Configured
from conformance.model.parameter_changes import ParameterChanges, ParameterRange
from conformance.model.server_facts import ServerFacts
from conformance.trace.parameters import LISTENER_LIMITS, parameter_at


class ParameterFacts(ServerFacts):
    """The parameters and receive connectors' limits of each server, with the facts about servers; properties are cached."""

    def parameter(self, server: str, name: str, n: int) -> JsonValue:
        """Return the value of a transport parameter that is in force on a server just before event `n`.

        Without a value from the topology or an accepted configuration it is the documented default; changes that the server
        refused are left out. Raises KeyError for an unknown parameter that the topology does not set, and for an unknown server.
        """
        return parameter_at(self.context, server, name, n)

    def numeric_parameter(self, server: str, name: str, n: int) -> float | None:
        """Return a parameter's value in force at event `n` as documented seconds or a count.

        None where the value that was set is not a number.
        """
        value = self.parameter(server, name, n)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    def is_change_offered_between(self, server: str, name: str, after_n: int = -1, before_n: int | None = None) -> bool:
        """Return whether a configuration that names the parameter was offered to the server between two events.

        It counts whether the server refused it or not. By default the whole history is looked at.
        """
        end = self.end_n if before_n is None else before_n
        return any(
            e.node == server and after_n < e.n < end and name in e.changes for e in self.trace.events_of(Configured)
        )

    def parameter_numbers_between(self, server: str, name: str, after_n: int, before_n: int) -> list[float]:
        """Return the numbers, documented seconds or counts, that a parameter may have been from one event to another, both included.

        The oldest comes first. Values that are not numbers are left out; [] if none is one.
        """
        values = self.possible_parameter_values(server, name, after_n, before_n)
        return [float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool)]

    def listener_limits(self, server: str, listener: str, n: int) -> dict[str, float]:
        """Return the limits of a receive connector in force at event `n`: limit's name -> documented seconds.

        The limits are `connection_timeout` and `connection_inactivity_timeout`; while a change is under way, the old ones.
        `listener` names the connector, such as `transport` (SR-TMO-06, SR-TMO-07).
        """
        return self.listener_limits_between(server, listener, n, n)[0]

    def listener_limits_between(
        self, server: str, listener: str, after_n: int, before_n: int
    ) -> list[dict[str, float]]:
        """Return the limits that a receive connector may have had from one event to another, both included; the oldest first.

        Each entry is what `listener_limits` returns. A change counts from its offer to the server's answer with both values.
        """
        limits = self._first_limits.get((server, listener))
        if limits is None:
            own = self.topology.by_name[server]
            limits = {**LISTENER_LIMITS["edge" if own.role == "edge" else ""], **own.listeners.get(listener, {})}  # type: ignore[dict-item]
            self._first_limits[server, listener] = limits
        found = []
        for offered_n, answered_n, change in self._parameter_changes.accepted(server, f"listeners.{listener}"):
            if isinstance(change, dict) and offered_n <= before_n:
                if answered_n >= after_n:
                    found.append(limits)
                limits = {**limits, **change}  # type: ignore[dict-item]  # what was taken is a number, or SR-CFG-03 fails
        return [*found, limits]

    @cached_property
    def _first_limits(self) -> dict[tuple[str, str], dict[str, float]]:
        """The limits of receive connectors from the start, by server and listener; `listener_limits_between` fills it."""
        return {}

    @cached_property
    def _parameter_changes(self) -> ParameterChanges:
        """The accepted changes of parameters, with the events between which each took effect."""
        return ParameterChanges(self.context)

    def possible_parameter_values(self, server: str, name: str, after_n: int, before_n: int) -> list[JsonValue]:
        """Return each value that a transport parameter may have had from one event to another, both included; the oldest first.

        A change is under way from its offer until the server's answer: then the old and the new value are possible.
        """
        return self._parameter_changes.possible_values(server, name, after_n, before_n)

    def possible_parameter_range(self, server: str, name: str, after_n: int, before_n: int) -> ParameterRange:
        """Return the least and the greatest number that a parameter may have been from one event to another, both included.

        A change under way counts with both values. The documented default takes the place of a value that is not a number.
        """
        return self._parameter_changes.possible_range(server, name, after_n, before_n)

    def possible_rights(self, server: str, peer: str, right: str, after_n: int, before_n: int) -> set[bool]:
        """Return the values that a right on a server's connector may have had from one event to another, both included.

        `accept_xshadow` is the peer's right to be offered the shadow verbs, `send_xshadow` the server's own to use them towards the
        peer. Where neither the topology nor a change says anything, both are granted to servers of the topology, and to no other
        party.
        """
        entry = next((e for e in self.topology.rights if (e.server, e.peer) == (server, peer)), None)
        value = peer in self.topology.by_name if entry is None else bool(getattr(entry, right))
        found = set()
        for offered_n, answered_n, change in self._parameter_changes.accepted(server, f"peers.{peer}"):
            if isinstance(change, dict) and right in change and offered_n <= before_n:
                if answered_n >= after_n:
                    found.add(value)
                value = bool(change[right])
        return {*found, value}

    def may_be_off(self, server: str, after_n: int, before_n: int) -> bool:
        """Return whether shadow redundancy may be off on a server at some time from one event to another, both included.

        It may be while a change from or to off is under way. No document says whether a server keeps its shadow copies while
        redundancy is off: it may drop them, or keep them (ruling 37).
        """
        values = self.possible_parameter_values(server, "ShadowRedundancyEnabled", after_n, before_n)
        return any(value is not True for value in values)
