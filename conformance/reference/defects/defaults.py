"""Defects in what a parameter is when a node's configuration file does not set it.

Each class takes the place of the configuration model of a node that runs as `reference+NAME`, and violates the requirement `breaks`, to
test the checks of the harness. It has another default than the documents state; a value that the file sets is used as it is.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import model_validator

from conformance.reference.config import DEFAULT_TIMES, NodeConfiguration
from conformance.reference.defects.defect import defect


class OtherDefaults(NodeConfiguration):
    """A configuration with other defaults; times in documented seconds.

    `other_transport`: by the name of the transport parameter. `other_limits` and `other_edge_limits`: time limits of listeners, on most
    servers and on an Edge server. What is not in them has its documented default.
    """

    other_transport: ClassVar[Mapping[str, Any]] = {}
    other_limits: ClassVar[Mapping[str, float]] = {}
    other_edge_limits: ClassVar[Mapping[str, float]] = {}

    @model_validator(mode="before")
    @classmethod
    def _set_other_defaults(cls, document: Any) -> Any:
        """Return the JSON document with other defaults for what it leaves out.

        Times in the document are divided by its `scale` already, so defaults are too. This runs before the validator of the base class,
        which sets the correct defaults for what is left out still. A document that lacks something else, or has a wrong type, is
        returned unchanged: validation refuses it.
        """
        try:
            scale = document.get("scale", 1)
            transport = {name: _scaled(name, value, scale) for name, value in cls.other_transport.items()}
            limits = cls.other_edge_limits if document.get("role") == "edge" else cls.other_limits
            listeners = {
                name: {**{limit: seconds / scale for limit, seconds in limits.items()}, **listener}
                for name, listener in document["listeners"].items()
            }
            return {**document, "transport": {**transport, **document.get("transport", {})}, "listeners": listeners}
        except (KeyError, TypeError, AttributeError, ZeroDivisionError):
            return document


def _scaled(name: str, value: Any, scale: float) -> Any:
    """Return the default `value` of a transport parameter, divided by the scale if the parameter is a time."""
    return value / scale if name in DEFAULT_TIMES else value


@defect("does-not-shadow-by-default", breaks="SR-ENA-01", slot="configuration")
class DoesNotShadowByDefault(OtherDefaults):
    """Has ShadowRedundancyEnabled false where nothing sets it."""

    other_transport: ClassVar[Mapping[str, Any]] = {"ShadowRedundancyEnabled": False}


@defect("rejects-where-nothing-is-set", breaks="SR-ENA-03", slot="configuration")
class RejectsByDefault(OtherDefaults):
    """Has RejectMessageOnShadowFailure true where nothing sets it."""

    other_transport: ClassVar[Mapping[str, Any]] = {"RejectMessageOnShadowFailure": True}


@defect("stays-remote-by-default", breaks="SR-PRF-01", slot="configuration")
class StaysRemoteByDefault(OtherDefaults):
    """Has ShadowMessagePreferenceSetting RemoteOnly where nothing sets it."""

    other_transport: ClassVar[Mapping[str, Any]] = {"ShadowMessagePreferenceSetting": "RemoteOnly"}


@defect("tries-three-remote-members-by-default", breaks="SR-PRF-04", slot="configuration")
class TriesThreeRemoteMembersByDefault(OtherDefaults):
    """Has MaxRetriesForRemoteSiteShadow 3 where nothing sets it."""

    other_transport: ClassVar[Mapping[str, Any]] = {"MaxRetriesForRemoteSiteShadow": 3}


@defect("holds-for-one-day-by-default", breaks="SR-SFN-02", slot="configuration")
class HoldsForOneDayByDefault(OtherDefaults):
    """Has a SafetyNetHoldTime of one day where nothing sets it."""

    other_transport: ClassVar[Mapping[str, Any]] = {"SafetyNetHoldTime": 86400}


@defect("closes-idle-sessions-after-four-minutes-by-default", breaks="SR-TMO-06", slot="configuration")
class ClosesIdleSessionsEarlyByDefault(OtherDefaults):
    """Closes an idle session after four minutes where nothing sets the limit."""

    other_limits: ClassVar[Mapping[str, float]] = {"connection_inactivity_timeout": 240}


@defect("has-the-limits-of-a-hub-on-an-edge", breaks="SR-TMO-07", slot="configuration")
class LimitsOfAHubOnAnEdge(OtherDefaults):
    """Has on an Edge server the limits of other servers where nothing sets them."""

    other_edge_limits: ClassVar[Mapping[str, float]] = {"connection_timeout": 600, "connection_inactivity_timeout": 300}


@defect("has-other-defaults-throughout", breaks="SR-MNT-03", slot="configuration")
class OtherDefaultsThroughout(OtherDefaults):
    """Has another default for everything that a file may leave out."""

    other_transport: ClassVar[Mapping[str, Any]] = {
        "ShadowRedundancyEnabled": True,  # without shadows most of the others would not show
        "RejectMessageOnShadowFailure": True,
        "ShadowMessagePreferenceSetting": "RemoteOnly",
        "MaxRetriesForRemoteSiteShadow": 3,
        "MaxRetriesForLocalSiteShadow": 3,
        "ShadowHeartbeatFrequency": 180,
        "ShadowResubmitTimeSpan": 7200,
        "ShadowMessageAutoDiscardInterval": 86400,
        "SafetyNetHoldTime": 86400,
        "MessageExpirationTimeout": 86400,
        "ShadowHeartbeatTimeoutInterval": 400,
        "ShadowHeartbeatRetryCount": 2,
        "MaxAcknowledgementDelay": 20,
        "SendConnectionInactivityTimeout": 300,
        "DuplicateTrackingWindow": 1800,
        "DuplicateCleanupInterval": 1200,
        "MessageRetryInterval": 120,
        "MaxMessageSize": 10485760,
    }
    other_limits: ClassVar[Mapping[str, float]] = {"connection_timeout": 500, "connection_inactivity_timeout": 240}
    other_edge_limits: ClassVar[Mapping[str, float]] = {"connection_timeout": 400, "connection_inactivity_timeout": 90}
