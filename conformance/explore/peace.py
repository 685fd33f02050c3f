"""The end of a random plan: how long its drain may last, so that "acknowledged mail is delivered" is decided by then.

The drain heals all faults, starts all servers, and ends once every acknowledged message is accounted for: delivered or reported.
What can still deliver a message is a retry, or a takeover by a shadow server, so the drain need last no longer than these take.
No message waits for its expiry, since every next hop accepts mail by then.
"""

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from conformance.parameters import effective_parameters
from conformance.scenarios.steps.action import Step, flattened
from conformance.scenarios.steps.nodes import Configure
from conformance.topology import Topology

_SESSIONS_S = 3600
"""Documented seconds for sessions that the plan has left hanging, and for the steps of a delivery over several servers."""


def drain_bound(topology: Topology, steps: tuple[Step, ...]) -> float:
    """Return documented seconds within which every acknowledged message must have been accounted for.

    That is twice the longest way to a delivery: the loss of a message is decided by what the second half shows.
    """
    return 2 * max(_longest_way(settings) for settings in _settings_of_servers(topology, steps))


def most_rounds(topology: Topology, steps: tuple[Step, ...], end: float) -> float:
    """Return how often a server may do the same until the end of a drain that lasts as long as it may.

    A shadow server asks for discard notifications in each ShadowHeartbeatFrequency, and before it takes over what it holds, so in
    each ShadowResubmitTimeSpan; a server tries a message again in each MessageRetryInterval. `end`: when the drain begins, in
    documented seconds.
    """
    names = ("ShadowHeartbeatFrequency", "ShadowResubmitTimeSpan", "MessageRetryInterval")
    settings = _settings_of_servers(topology, steps)
    shortest = min(value for one in settings for name in names for value in _values(one, name))
    return (end + drain_bound(topology, steps)) / shortest


def _settings_of_servers(topology: Topology, steps: tuple[Step, ...]) -> list[list[Mapping[str, JsonValue]]]:
    """Return for each server its parameters at the start, and what replaces some of them later."""
    # A change counts for every server, also where the step names others, so the bound may be longer than needed.
    changes = [step.action.transport for step in flattened(steps) if isinstance(step.action, Configure)]
    return [[effective_parameters(topology.transport, server.transport), *changes] for server in topology.servers]


def _values(settings: Sequence[Mapping[str, JsonValue]], name: str) -> list[float]:
    """Return all values that a numeric parameter has in these settings."""
    return [value for one in settings if isinstance(value := one.get(name), int | float)]


def _longest_way(settings: Sequence[Mapping[str, JsonValue]]) -> float:
    """Return the documented seconds in which a server has delivered a message, or a holder has taken it over.

    That is the longest takeover, two retries, and `_SESSIONS_S`. `settings` are the server's parameters at the start, and what
    replaces some of them later. The largest value of each parameter counts, so that any combination of changes is covered.
    """

    def seconds(name: str) -> float:
        """Return the largest value of a numeric parameter."""
        return max(_values(settings, name))

    takeover = seconds("ShadowResubmitTimeSpan") + 2 * seconds("ShadowHeartbeatFrequency")
    takeover_2010 = seconds("ShadowHeartbeatTimeoutInterval") * (seconds("ShadowHeartbeatRetryCount") + 1)
    return max(takeover, takeover_2010) + 2 * seconds("MessageRetryInterval") + _SESSIONS_S
