"""Each documented default, wrong by itself: a cell with `parameters: default` fails and blames the row of that default."""

from functools import cache
from typing import Any

import pytest

from conformance import paths
from conformance.defects.plan import Defect, plan_trials
from conformance.parameters import DEFAULTS, LISTENER_LIMITS
from conformance.reference.defects.defaults import OtherDefaults
from conformance.reference.defects.defect import DEFECTS
from conformance.reference.defects.defect import Defect as WrongReference
from conformance.scenarios.document import Cell
from conformance.scenarios.loader import read_corpus
from tests.defects.blames import is_blamed

PARAMETERS: list[tuple[str, Any, str]] = [
    ("ShadowRedundancyEnabled", False, "SR-ENA-01"),
    ("RejectMessageOnShadowFailure", True, "SR-ENA-03"),
    ("ShadowMessagePreferenceSetting", "RemoteOnly", "SR-PRF-01"),
    ("MaxRetriesForRemoteSiteShadow", 3, "SR-PRF-04"),
    ("MaxRetriesForRemoteSiteShadow", 5, "SR-PRF-04"),
    ("MaxRetriesForLocalSiteShadow", 1, "SR-PRF-05"),
    ("MaxRetriesForLocalSiteShadow", 3, "SR-PRF-05"),
    ("ShadowHeartbeatFrequency", 60, "SR-MNT-03"),
    ("ShadowHeartbeatFrequency", 180, "SR-MNT-03"),
    ("ShadowResubmitTimeSpan", 9000, "SR-MNT-10"),
    ("ShadowResubmitTimeSpan", 12600, "SR-MNT-09"),
    ("ShadowMessageAutoDiscardInterval", 86400, "SR-MNT-12"),
    ("ShadowMessageAutoDiscardInterval", 3 * 86400, "SR-MNT-12"),
    ("SafetyNetHoldTime", 86400, "SR-SFN-02"),
    ("SafetyNetHoldTime", 3 * 86400, "SR-SFN-02"),
    ("MessageExpirationTimeout", 86400, "SR-MNT-14"),
    ("MessageExpirationTimeout", 3 * 86400, "SR-MNT-14"),
    ("ShadowHeartbeatTimeoutInterval", 200, "SR-E10-06"),
    ("ShadowHeartbeatTimeoutInterval", 400, "SR-E10-06"),
    ("ShadowHeartbeatRetryCount", 2, "SR-E10-08"),
    ("ShadowHeartbeatRetryCount", 4, "SR-E10-08"),
    ("MaxAcknowledgementDelay", 25, "SR-E10-16"),
    ("MaxAcknowledgementDelay", 35, "SR-E10-16"),
    ("SendConnectionInactivityTimeout", 500, "SR-TMO-08"),
    ("SendConnectionInactivityTimeout", 700, "SR-TMO-08"),
    ("DuplicateTrackingWindow", 3000, "SR-DUP-03"),
    ("DuplicateTrackingWindow", 4200, "SR-DUP-03"),
    ("DuplicateCleanupInterval", 3000, "SR-DUP-07"),
    ("MessageRetryInterval", 120, "RL-RTY-01"),
    ("MaxMessageSize", 10485760, "RL-CNT-02"),
    ("MaxMessageSize", 73400320, "RL-CNT-02"),
]
"""(parameter, another value than its default, the row to blame): both sides of each, where a row binds both.

No row forbids a clean-up, or a try after a failure, that comes sooner.
"""

LIMITS = [
    ("", "connection_inactivity_timeout", 240, "SR-TMO-06"),
    ("", "connection_inactivity_timeout", 360, "SR-TMO-06"),
    ("", "connection_timeout", 540, "SR-TMO-07"),
    ("", "connection_timeout", 660, "SR-TMO-07"),
    ("edge", "connection_inactivity_timeout", 50, "SR-TMO-06"),
    ("edge", "connection_inactivity_timeout", 70, "SR-TMO-06"),
    ("edge", "connection_timeout", 240, "SR-TMO-07"),
    ("edge", "connection_timeout", 360, "SR-TMO-07"),
]
"""(role of the server, limit, another value than its default, the row to blame)."""


@cache
def default_cells() -> list[Cell]:
    """Return the cells in which nodes get no defaults."""
    found = read_corpus([paths.corpus()], paths.fixtures())
    return [cell for scenario in found for cell in scenario.cells("smoke") if cell.parameters == "default"]


def is_noticed(wrong: type[OtherDefaults], row: str, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Return whether a cell that judges a row blames it on a reference with other defaults."""
    name = "has-another-default"
    monkeypatch.setitem(DEFECTS, name, WrongReference(name, row, "", {"configuration": wrong}))
    planned = plan_trials([Defect(name, row, "")], default_cells())
    return is_blamed(row, [one for one in planned if one.defect is not None])


@pytest.mark.parametrize(("parameter", "value", "row"), PARAMETERS)
def test_another_default_of_a_parameter_is_blamed_on_its_row(
    parameter: str, value: Any, row: str, monkeypatch: pytest.MonkeyPatch
):
    wrong = type("Wrong", (OtherDefaults,), {"other_transport": {parameter: value}, "__module__": __name__})
    assert is_noticed(wrong, row, monkeypatch)


@pytest.mark.parametrize(("role", "limit", "value", "row"), LIMITS)
def test_another_default_limit_of_a_listener_is_blamed_on_its_row(
    role: str, limit: str, value: float, row: str, monkeypatch: pytest.MonkeyPatch
):
    key = "other_edge_limits" if role == "edge" else "other_limits"
    wrong = type("Wrong", (OtherDefaults,), {key: {limit: value}, "__module__": __name__})
    assert is_noticed(wrong, row, monkeypatch)


def test_every_default_is_made_wrong():
    assert {parameter for parameter, _, _ in PARAMETERS} == set(DEFAULTS)
    assert {(role, limit) for role, limit, _, _ in LIMITS} == {
        (role, limit) for role, limits in LISTENER_LIMITS.items() for limit in limits
    }
