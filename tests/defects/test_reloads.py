"""Each parameter in a reload that a server ignores, or takes from a change that it refuses: some cell notices it."""

import json
from collections.abc import Collection, Sequence
from functools import cache
from typing import Any

import pytest

from conformance import paths
from conformance.defects.plan import Defect, PlannedTrial, plan_trials
from conformance.parameters import DEFAULTS, LISTENER_LIMITS
from conformance.reference.config import ConfigurationError, NodeConfiguration
from conformance.reference.defects.defect import DEFECTS
from conformance.reference.defects.defect import Defect as WrongReference
from conformance.reference.defects.reloads import IgnoresChanges
from conformance.reference.node import Node
from conformance.scenarios.document import Cell
from conformance.scenarios.loader import read_corpus
from conformance.scenarios.steps.nodes import Configure
from tests.defects.blames import is_blamed

ROWS = {
    "ShadowRedundancyEnabled": "SR-ENA-02",
    "RejectMessageOnShadowFailure": "SR-ENA-04",
    "ShadowMessagePreferenceSetting": "SR-PRF-03",
    "MaxRetriesForRemoteSiteShadow": "SR-PRF-04",
    "MaxRetriesForLocalSiteShadow": "SR-PRF-05",
    "ShadowHeartbeatFrequency": "SR-MNT-03",
    "ShadowResubmitTimeSpan": "SR-MNT-09",
    "ShadowMessageAutoDiscardInterval": "SR-MNT-12",
    "SafetyNetHoldTime": "SR-SFN-02",
    "MessageExpirationTimeout": "SR-MNT-14",
    "ShadowHeartbeatTimeoutInterval": "SR-E10-06",
    "ShadowHeartbeatRetryCount": "SR-E10-08",
    "MaxAcknowledgementDelay": "SR-E10-16",
    "SendConnectionInactivityTimeout": "SR-TMO-08",
    "DuplicateTrackingWindow": "SR-DUP-03",
    "DuplicateCleanupInterval": "SR-DUP-07",
    "MessageRetryInterval": "RL-RTY-01",
    "MaxMessageSize": "RL-CNT-02",
    "connection_inactivity_timeout": "SR-TMO-06",
    "connection_timeout": "SR-TMO-07",
}
"""A row that a parameter, or a limit of listeners, is judged by when its change is ignored."""

OTHER_ROWS = {
    "ShadowRedundancyEnabled": "SR-ENA-01",
    "RejectMessageOnShadowFailure": "SR-ENA-03",
    "ShadowMessagePreferenceSetting": "SR-PRF-01",
    "ShadowResubmitTimeSpan": "SR-MNT-10",
}
"""Where it is another one: the row that is blamed when the parameter is taken from a refused change."""


@cache
def changing_cells(name: str) -> list[Cell]:
    """Return the cells in which a step changes a parameter, or a limit of a listener."""
    scenarios = read_corpus([paths.corpus()], paths.fixtures())
    return [cell for one in scenarios for cell in one.cells("smoke") if any(changes(cell, name))]


def changes(cell: Cell, name: str) -> Sequence[Configure]:
    """Return the steps of a cell that change a parameter, or a limit of a listener."""
    found = [step.action for step in cell.all_steps if isinstance(step.action, Configure)]
    return [one for one in found if name in {*one.transport, *(key for of in one.listeners.values() for key in of)}]


def test_every_parameter_has_a_row():
    assert set(ROWS) == {*DEFAULTS, *LISTENER_LIMITS[""]}


@pytest.mark.long
@pytest.mark.parametrize("name", ROWS)
def test_a_parameter_whose_change_is_ignored_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch):
    ignored: Collection[str] = {name}
    body = {"ignored": ignored, "ignored_limits": ignored, "__module__": __name__}
    wrong = type("Wrong", (IgnoresChanges,), body)
    monkeypatch.setitem(DEFECTS, "ignores", WrongReference("ignores", ROWS[name], "", {"configuration": wrong}))
    planned = plan_trials([Defect("ignores", ROWS[name], "")], changing_cells(name))
    assert is_blamed(ROWS[name], [one for one in planned if one.defect is not None])


@pytest.mark.parametrize("name", ROWS)
def test_a_parameter_that_is_taken_from_a_refused_change_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch):
    reload = Node.reload

    async def takes_one(node: Node) -> None:
        before = node._running_host.config
        try:
            await reload(node)
        except ConfigurationError:
            document = json.loads(node._path.read_text("utf-8"))
            node._running_host.config = with_value(before, name, document)
            for component in node._running_host.components:
                component.reconfigured(before)
            raise

    cells = [cell for cell in changing_cells(name) if cell.axes.get("change") == "refused"]
    assert cells
    monkeypatch.setattr(Node, "reload", takes_one)
    assert is_blamed(OTHER_ROWS.get(name, ROWS[name]), [PlannedTrial(None, cell) for cell in cells])


def with_value(before: NodeConfiguration, name: str, document: dict[str, Any]) -> NodeConfiguration:
    """Return a configuration with one parameter, or one limit of listeners, from another document."""
    if name in DEFAULTS:
        transport = before.transport.model_copy(update={name: document["transport"][name]})
        return before.model_copy(update={"transport": transport})
    listeners = {
        of: getattr(before.listeners, of).model_copy(update={name: settings[name]})
        for of, settings in document["listeners"].items()
    }
    return before.model_copy(update={"listeners": before.listeners.model_copy(update=listeners)})
