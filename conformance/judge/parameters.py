"""The parameters that are in force on a server at a moment: the documents' defaults, what the world of the scenario
sets, and what was configured since and not refused."""

from collections.abc import Mapping

from pydantic import JsonValue

from conformance.history.events import Configured
from conformance.judge.finding import Case

DEFAULTS: Mapping[str, JsonValue] = {
    "ShadowRedundancyEnabled": True,
    "RejectMessageOnShadowFailure": False,
    "ShadowMessagePreferenceSetting": "PreferRemote",
    "MaxRetriesForRemoteSiteShadow": 4,
    "MaxRetriesForLocalSiteShadow": 2,
    "ShadowResubmitTimeSpan": 3 * 3600,
    "ShadowHeartbeatFrequency": 120,
    "DuplicateTrackingWindow": 3600,
    "MessageRetryInterval": 60,
}
"""What the checks ask for, as the documents have it (EX2016, EX2013: parameters; GURU: duplicates). Seconds."""

CONNECTION_TIMEOUT = {"edge": 300.0}
"""ConnectionTimeout of a receive connector by the server's role, seconds; others have 600 (SR-TMO-07)."""


def parameter(case: Case, server: str, name: str, n: int) -> JsonValue:
    """Return a parameter as it was in force on a server when the event `n` happened."""
    topology = case.cell.topology
    value = {**DEFAULTS, **topology.transport, **topology.by_name[server].transport}[name]
    for event in case.trace.of(Configured):
        if event.n < n and event.node == server and event.refused is None and name in event.changes:
            value = event.changes[name]
    return value


def seconds(case: Case, server: str, name: str, n: int) -> float:
    """Return a parameter that is a time (in seconds) or a number."""
    return _number(parameter(case, server, name, n), DEFAULTS[name])


def connection_timeout(case: Case, server: str, listener: str, n: int) -> float:
    """Return the ConnectionTimeout of a listener at an event, seconds."""
    one = case.cell.topology.by_name[server]
    value: object = one.listeners.get(listener, {}).get("connection_timeout", CONNECTION_TIMEOUT.get(one.role, 600.0))
    for event in case.trace.of(Configured):
        changed = event.changes.get(f"listeners.{listener}")
        if event.n < n and event.node == server and event.refused is None and isinstance(changed, dict):
            value = changed.get("connection_timeout", value)
    return _number(value, 600.0)


def _number(value: object, default: object) -> float:
    """Return a number; of what is none (and which a server should have refused) the default is in force."""
    chosen = value if isinstance(value, int | float) else default
    assert isinstance(chosen, int | float)
    return float(chosen)
