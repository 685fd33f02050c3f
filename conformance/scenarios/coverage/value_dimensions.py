"""Detectors of the dimensions of settings: what is left out, and values at the ends of their ranges.

A *cell* is one scenario with one value for each of its axes; a *dimension* is something in which scenarios can differ. A detector returns
whether a cell varies its dimension, or yields the groups of requirements for which it does. A value is an occasion for the groups whose
rows say what the parameter does. What a parameter may be is of the group CFG, where a server is offered the value while it runs. An
argument of a shadow verb, in a conversation, is an occasion for WIR, the cost of a link between sites for BIF.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from conformance.parameters import DEFAULTS, LISTENER_LIMITS, TIME_PARAMETERS, TransportParameters
from conformance.scenarios.coverage.detection import actions, detector, sends
from conformance.scenarios.document import Cell
from conformance.scenarios.steps.nodes import Configure
from conformance.scenarios.steps.talking import Talk

_ATTEMPTS = frozenset({"BND", "ENA", "CRE", "PRF"})
_LIMITS = dict.fromkeys(LISTENER_LIMITS[""], frozenset({"TMO"}))
_GROUPS: Mapping[str, frozenset[str]] = {
    "MaxRetriesForRemoteSiteShadow": _ATTEMPTS,
    "MaxRetriesForLocalSiteShadow": _ATTEMPTS,
    "ShadowHeartbeatFrequency": frozenset({"MNT", "OUT"}),
    "ShadowResubmitTimeSpan": frozenset({"MNT", "OUT"}),
    "ShadowMessageAutoDiscardInterval": frozenset({"MNT"}),
    "SafetyNetHoldTime": frozenset({"SFN"}),
    "MessageExpirationTimeout": frozenset({"MNT", "SFN", "RLY"}),
    "ShadowHeartbeatTimeoutInterval": frozenset({"E10"}),
    "ShadowHeartbeatRetryCount": frozenset({"E10"}),
    "MaxAcknowledgementDelay": frozenset({"E10"}),
    "SendConnectionInactivityTimeout": frozenset({"TMO"}),
    "DuplicateTrackingWindow": frozenset({"DUP"}),
    "DuplicateCleanupInterval": frozenset({"DUP"}),
    "MessageRetryInterval": frozenset({"RLY"}),
    "MaxMessageSize": frozenset({"RLY"}),
    **_LIMITS,
}
"""The groups whose rows say what a numeric parameter, or a limit of a listener, does."""

LEAST_TIME_S = 1.0
"""A time has no least value above 0; this much, in seconds, counts as one."""
GREATEST_TIME_S = 50 * 86400.0
"""A time has no greatest value; this much, in seconds, counts as one: 32 bits hold fewer than 49.72 days in milliseconds."""
GREATEST_COST = 1_000_000
"""A cost of a site link has no greatest value; this counts as one."""

_COUNT = re.compile(r"XQ(?:UERY)?DISCARD \S+ (\d+)$", re.IGNORECASE)
_ID = re.compile(r"XSHADOW(?:REQUEST \S+ |=)([A-Za-z0-9-]+)$", re.IGNORECASE)


def _settings(cell: Cell) -> Iterator[tuple[str, Any]]:
    """Yield the parameters and limits of listeners that a cell sets, with their values."""
    yield from cell.topology.transport.items()
    for server in cell.topology.servers:
        yield from server.transport.items()
        for limits in server.listeners.values():
            yield from limits.items()
    for change in actions(cell, Configure):
        yield from change.transport.items()
        for limits in change.listeners.values():
            yield from limits.items()


def _numbers(cell: Cell) -> Iterator[tuple[str, float]]:
    """Yield the numeric ones of `_settings` whose groups are known (`_GROUPS`)."""
    for name, value in _settings(cell):
        if name in _GROUPS and isinstance(value, int | float) and not isinstance(value, bool):
            yield name, value


def _bound(name: str, kind: str) -> float | None:
    """Return the least (`kind` is `ge`) or greatest (`le`) value of a parameter; None where it has none, or is a listener's limit."""
    field = TransportParameters.model_fields.get(name)
    marks = field.metadata if field is not None else ()
    return next((getattr(mark, kind) for mark in marks if getattr(mark, kind, None) is not None), None)


def _groups_at_limit(cell: Cell, kind: str) -> Iterator[str]:
    """Yield the groups for which a parameter has the least (`ge`) or the greatest (`le`) value of its range.

    CFG comes for each such value of a parameter that a step changes while the server runs. A group may come several times.
    """
    offered = {name for change in actions(cell, Configure) for name in change.transport}
    for name, value in _numbers(cell):
        bound = _bound(name, kind)
        is_time = name in TIME_PARAMETERS
        extreme = (0 < value <= LEAST_TIME_S) if kind == "ge" else value >= GREATEST_TIME_S
        if value == bound or (is_time and bound is None and extreme):
            yield from _GROUPS[name]
            if name in offered:
                yield "CFG"


def _arguments(cell: Cell, pattern: re.Pattern[str]) -> list[str]:
    """Return what a pattern's group matches in each line that conversations say; a line without a match adds nothing."""
    lines = (line.say or "" for talk in actions(cell, Talk) for line in talk.lines)
    return [match[1] for line in lines if (match := pattern.search(line))]


@detector
def value_left_out(cell: Cell) -> bool:
    """Nothing is in the nodes' files that the scenario does not set."""
    return cell.axes.get("parameters") == "default" or cell.implied.get("parameters") == "default"


@detector
def value_at_its_minimum(cell: Cell) -> Iterator[str]:
    """A parameter, the cost of a link or an argument of a shadow verb has the least value of its range."""
    yield from _groups_at_limit(cell, "ge")
    if any(link.cost == 1 for link in cell.topology.site_links):
        yield "BIF"
    if "1" in _arguments(cell, _COUNT) or any(len(text) == 1 for text in _arguments(cell, _ID)):
        yield "WIR"


@detector
def value_at_its_maximum(cell: Cell) -> Iterator[str]:
    """A parameter, the cost of a link or an argument of a shadow verb has the greatest value of its range, or a very great one."""
    yield from _groups_at_limit(cell, "le")
    if any(link.cost >= GREATEST_COST for link in cell.topology.site_links):
        yield "BIF"
    if any(len(text) == 64 for text in _arguments(cell, _ID)):
        yield "WIR"


@detector
def value_zero(cell: Cell) -> Iterator[str]:
    """A numeric parameter or the argument of a query for discard events is 0."""
    offered = {name for change in actions(cell, Configure) for name in change.transport}
    for name, value in _numbers(cell):
        if value == 0:
            yield from _GROUPS[name]
            if name in offered:
                yield "CFG"
    if "0" in _arguments(cell, _COUNT):
        yield "WIR"


@detector
def size_at_the_limit(cell: Cell) -> bool:
    """A message has the size that servers take at most."""
    limits = {DEFAULTS["MaxMessageSize"], *(value for name, value in _numbers(cell) if name == "MaxMessageSize")}
    return any(send.whole in limits for send in sends(cell))
