"""The transport parameters in force on a server at an event.

Later values override earlier ones: the documented default, what the scenario's topology sets for all servers, what it sets
for this one, and each configuration that was offered to the server since and that it did not refuse. The defaults are
stated here a second time on purpose (see `conformance.parameters`): judging goes by the documents alone. `n` is the number
of the event.
"""

from collections.abc import Mapping

from pydantic import JsonValue

from conformance.history.events import Configured
from conformance.trace.context import CheckContext

DEFAULTS: Mapping[str, JsonValue] = {
    "ShadowRedundancyEnabled": True,
    "RejectMessageOnShadowFailure": False,
    "ShadowMessagePreferenceSetting": "PreferRemote",
    "MaxRetriesForRemoteSiteShadow": 4,
    "MaxRetriesForLocalSiteShadow": 2,
    "ShadowResubmitTimeSpan": 3 * 3600,
    "ShadowHeartbeatFrequency": 120,
    "DuplicateTrackingWindow": 3600,
    "DuplicateCleanupInterval": 600,
    "MessageRetryInterval": 60,
    "ShadowMessageAutoDiscardInterval": 2 * 86400,
    "MessageExpirationTimeout": 2 * 86400,
    "SafetyNetHoldTime": 2 * 86400,
    "ShadowHeartbeatTimeoutInterval": 300,
    "ShadowHeartbeatRetryCount": 3,
    "MaxAcknowledgementDelay": 30,
    "SendConnectionInactivityTimeout": 600,
    "MaxMessageSize": 36700160,
}
"""Documented defaults of the parameters that checks use (EX2016, EX2013: parameters; GURU: duplicates). Times in seconds."""

LISTENER_LIMITS: Mapping[str, Mapping[str, float]] = {
    "edge": {"connection_timeout": 300.0, "connection_inactivity_timeout": 60.0},
    "": {"connection_timeout": 600.0, "connection_inactivity_timeout": 300.0},
}
"""Documented limits of a receive connector in seconds by the role of the server, '' for the other roles (EX2016, EX2013)."""


def parameter_at(context: CheckContext, server: str, name: str, n: int) -> JsonValue:
    """Return a parameter's value in force on a server when event `n` happened.

    The changes offered to the server before that event count, in their order, except those that it refused. Raises KeyError for a
    parameter that has no default in DEFAULTS and that the topology does not set.
    """
    topology = context.cell.topology
    value = {**DEFAULTS, **topology.transport, **topology.by_name[server].transport}[name]
    for event in context.trace.events_of(Configured):
        if event.n < n and event.node == server and event.refused is None and name in event.changes:
            value = event.changes[name]
    return value


def numeric_parameter_at(context: CheckContext, server: str, name: str, n: int) -> float:
    """Return the value in force of a parameter that is a time (documented seconds) or a number.

    That is the value when event `n` happened. The documented default takes the place of a value that is not a number, which
    the server should have refused.
    """
    value = parameter_at(context, server, name, n)
    number = value if isinstance(value, int | float) else DEFAULTS[name]
    assert isinstance(number, int | float)
    return float(number)
