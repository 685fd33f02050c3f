"""Defects in reading the configuration again: what was changed while the server runs is ignored.

Each class makes one mistake on purpose, so that the checks of the harness can be tested: it takes the place of the configuration model of
a node that runs as `reference+NAME`, and violates the requirement `breaks`. The first file of a node has revision 1. In each later one
such a server does not see a parameter, and goes on with its documented default.
"""

from collections.abc import Collection
from typing import Any, ClassVar

from pydantic import model_validator

from conformance.reference.config import NodeConfiguration
from conformance.reference.defects.defect import defect


class IgnoresChanges(NodeConfiguration):
    """A configuration in whose later versions some parameters, and some limits of listeners, are not seen.

    `ignored` has the documented names of transport parameters, `ignored_limits` the keys of time limits of listeners.
    """

    ignored: ClassVar[Collection[str]] = ()
    ignored_limits: ClassVar[Collection[str]] = ()

    @model_validator(mode="before")
    @classmethod
    def _leave_out_ignored(cls, document: Any) -> Any:
        """Return the JSON document without what is ignored, unless its revision is 1: that of the node's start.

        This runs before the validator of the base class, which sets the documented defaults for what is left out. A document that
        lacks something else, or has a wrong type, is returned unchanged: validation refuses it.
        """
        try:
            if document.get("revision", 1) == 1:
                return document
            transport = {
                name: value for name, value in document.get("transport", {}).items() if name not in cls.ignored
            }
            listeners = {
                name: {key: value for key, value in listener.items() if key not in cls.ignored_limits}
                for name, listener in document["listeners"].items()
            }
        except (KeyError, AttributeError):
            return document
        return {**document, "transport": transport, "listeners": listeners}


@defect("ignores-a-changed-resubmit-time", breaks="SR-MNT-10", slot="configuration")
class IgnoresChangedResubmitTime(IgnoresChanges):
    """Ignores a ShadowResubmitTimeSpan that is changed while it runs."""

    ignored: ClassVar[Collection[str]] = {"ShadowResubmitTimeSpan"}


@defect("ignores-a-changed-idle-limit-of-send-connectors", breaks="SR-TMO-08", slot="configuration")
class IgnoresChangedSendLimit(IgnoresChanges):
    """Ignores a SendConnectionInactivityTimeout that is changed while it runs."""

    ignored: ClassVar[Collection[str]] = {"SendConnectionInactivityTimeout"}


@defect("ignores-a-changed-size", breaks="RL-CNT-02", slot="configuration")
class IgnoresChangedSize(IgnoresChanges):
    """Ignores a MaxMessageSize that is changed while it runs."""

    ignored: ClassVar[Collection[str]] = {"MaxMessageSize"}


@defect("ignores-a-changed-retry-interval", breaks="RL-RTY-01", slot="configuration")
class IgnoresChangedRetryInterval(IgnoresChanges):
    """Ignores a MessageRetryInterval that is changed while it runs."""

    ignored: ClassVar[Collection[str]] = {"MessageRetryInterval"}


@defect("ignores-changed-limits-of-sessions", breaks="SR-TMO-07", slot="configuration")
class IgnoresChangedSessionLimits(IgnoresChanges):
    """Ignores limits of receive connectors that are changed while it runs."""

    ignored_limits: ClassVar[Collection[str]] = {"connection_timeout", "connection_inactivity_timeout"}
