"""The grammar of random plans, as data: topologies, parameters, traffic, administration and faults, with their weights.

`scenes` draws what happens without faults, `aiming` draws the faults. A *feature* is a word of `FEATURES`: half of the plans leave
out a random half of them, because one feature can hide another (a partition hides what would happen on its links).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

from pydantic import JsonValue

from conformance.faults import FAULTS
from conformance.parameters import DEFAULTS, TransportParameters
from conformance.scenarios.steps.nodes import Kill, Stop

MAX_SERVERS = 5


@dataclass(frozen=True, slots=True)
class Group:
    """Some servers of a topology that are alike: their role, and the generations and sites of which each gets one.

    `many` are the least and the greatest number of them.
    """

    prefix: str
    role: str
    many: tuple[int, int]
    generations: tuple[str, ...] = ("ex2013", "ex2016")
    sites: tuple[str, ...] = ("NewYork", "London")
    dag: str | None = None


_HUBS_2010 = Group(prefix="hub", role="hub", many=(1, 2), generations=("ex2010",), sites=("NewYork",))
_EDGES = Group(prefix="edge", role="edge", many=(1, 2), generations=("ex2010",), sites=("Perimeter",))


def _mailbox_servers(fewest: int, most: int, dag: str | None = "DAG1") -> Group:
    """Return a group of mailbox servers of 2013 or later, from `fewest` to `most`, in a DAG; in none with None."""
    return Group(prefix="mbx", role="mailbox", many=(fewest, most), dag=dag)


SHAPES: Mapping[tuple[Group, ...], int] = {
    (_mailbox_servers(2, 5),): 6,
    (_mailbox_servers(2, 4, dag=None),): 3,
    (_mailbox_servers(2, 3), _mailbox_servers(1, 2, "DAG2")): 3,
    (_mailbox_servers(2, 3), _mailbox_servers(1, 2, dag=None)): 2,
    (_mailbox_servers(2, 3), _HUBS_2010): 3,
    (Group(prefix="hub", role="hub", many=(2, 4), generations=("ex2010",), sites=("NewYork",)),): 3,
    (_HUBS_2010, _EDGES): 2,
    (_mailbox_servers(2, 3), _EDGES): 1,
}
"""Groups that make a topology, with the weight of each combination."""

COST_OF_SITE_LINKS = (1, 10, 20)

QUICK: Mapping[str, JsonValue] = {
    "ShadowHeartbeatFrequency": 30,
    "ShadowResubmitTimeSpan": 600,
    "ShadowMessageAutoDiscardInterval": 3600,
    "SafetyNetHoldTime": 3600,
    "MessageExpirationTimeout": 3600,
    "ShadowHeartbeatTimeoutInterval": 60,
    "DuplicateTrackingWindow": 900,
    "DuplicateCleanupInterval": 120,
    "MessageRetryInterval": 20,
}
"""Shorter times for half of the plans: many things happen in little time, which makes a plan cheap."""

_BOUNDS: Mapping[str, tuple[float, float]] = {
    "MaxRetriesForRemoteSiteShadow": (0, 255),
    "MaxRetriesForLocalSiteShadow": (0, 255),
    "ShadowHeartbeatFrequency": (10, 86400),
    "ShadowResubmitTimeSpan": (1, 86400),
    "ShadowMessageAutoDiscardInterval": (5, 90 * 86400),
    "SafetyNetHoldTime": (15, 90 * 86400),
    "MessageExpirationTimeout": (600, 90 * 86400),
    "ShadowHeartbeatTimeoutInterval": (10, 86400),
    "ShadowHeartbeatRetryCount": (1, 255),
    "MaxAcknowledgementDelay": (0, 86400),
    "SendConnectionInactivityTimeout": (1, 86400),
    "DuplicateTrackingWindow": (1, 86400),
    "DuplicateCleanupInterval": (1, 86400),
    "MessageRetryInterval": (5, 86400),
    "MaxMessageSize": (1024, 2**31 - 1),
}
"""Least and greatest value of the parameters that are numbers, as the documents have them or a plan can afford."""


def values_of(name: str) -> tuple[JsonValue, ...]:
    """Return the values of a parameter to draw from.

    Of a number these are the default, the least and the greatest, and those one beside them within the bounds; of a switch or a
    word all values.
    """
    kind = TransportParameters.model_fields[name].annotation
    default = DEFAULTS[name]
    if name not in _BOUNDS:
        return (True, False) if kind is bool else get_args(kind)
    low, high = _BOUNDS[name]
    near = (low, low + 1, default - 1, default, default + 1, high - 1, high)
    return tuple(dict.fromkeys(value for value in near if low <= value <= high))


CHANGED_PARAMETERS = (0, 0, 1, 1, 2, 3)
"""How many parameters are drawn in addition to those of `QUICK`; one of these numbers is drawn each time."""

OUTSIDE = ("victor@outside.test", "wendy@outside.test", "xavier@second.test")
LEGACY = "peggy@legacy.test"
"""A recipient whose mail leaves through the hub of 2010, where there is one."""

SENDERS: Mapping[str, int] = {"alice@outside.test": 6, "trudy@outside.test": 1, "": 2}
MESSAGES: Mapping[str, int] = {
    "plain": 12,
    "no-message-id": 1,
    "dots": 1,
    "eight-bit": 1,
    "empty-body": 1,
    "multipart": 1,
}
SIZES = (None, None, None, 900, 5000, 70000)
RECIPIENTS: Mapping[int, int] = {1: 5, 2: 3, 3: 2}
COUNTS: Mapping[int, int] = {1: 6, 2: 2, 3: 1}
SENDS: Mapping[int, int] = {1: 4, 2: 3, 3: 2, 4: 1}

PAUSES = (0.0, 0.0, 0.5, 5.0, 61.0, 200.0, 1000.0)
"""Documented seconds between two steps of a scene."""

MOST_ROUNDS = 8000
"""How often a server may ask another for discard notifications, or try a message, in a plan; each takes some milliseconds.

A scene in which it might do so more often is drawn anew: where a message waits in vain, a shadow server that asks every second for two
days would keep a plan running for half an hour.
"""

TAILS: Mapping[float, int] = {60: 3, 900: 3, 4 * 3600: 3, 11 * 3600: 1}
"""Documented seconds after the last step of a scene, in which faults can still occur, with their weights."""

SINK_REPLIES: Mapping[str, int] = {"451 4.3.0 try later": 4, "421 4.3.2 closing": 1, "550 5.7.1 refused": 1}
SINK_PLACES = ("connect", "MAIL", "RCPT", "DATA", "dot")

ADMINISTRATION: Mapping[str, int] = {"reload": 4, "activate": 2, "redirect": 2, "resubmit": 1}


@dataclass(frozen=True, slots=True)
class Bias:
    """How random plans are drawn.

    `leaves_out`: half of them leave out a random half of `FEATURES`; else every plan may use all. `aimed`: faults are drawn for
    protocol points of the run without faults; else for any time of that run.
    """

    leaves_out: bool = True
    aimed: bool = True


_TRAFFIC = ("several-recipients", "null-senders", "one-session", "submission", "retries", "odd-messages", "abandoned")
_NODES = ("kill", "kill-at-timer", "stop", "wipe", "partition")
FEATURES = (
    *_TRAFFIC, *ADMINISTRATION, "sink-trouble", "quick", "parameters", *_NODES, *FAULTS,
)  # fmt: skip
"""What a plan may leave out."""

FAULT_NUMBERS: Mapping[int, int] = {1: 3, 2: 4, 3: 2, 4: 1}
FAULT_SOURCES: Mapping[str, int] = {"link": 5, "kill": 3, "kill-at-timer": 2, "partition": 1}
ENDINGS: Mapping[type[Kill | Stop], int] = {Kill: 3, Stop: 1}
"""How a server goes down, with the weights."""

LASTING = (1.0, 59.0, 119.0, 121.0, 299.0, 301.0, 601.0, 1200.0)
"""Documented seconds for which faults hold a unit; around the limits of sessions."""

REPLIES = ("451 4.3.0 try later", "550 5.7.1 refused", "421 4.3.2 closing", "250 2.0.0 ok", "452 4.3.1 full")
"""Replies that a fault gives in place of the server's."""

REPLIES_TO_CONTENT = tuple(reply for reply in REPLIES if not reply.startswith("2"))
"""The same to a final dot: a link that takes a message in place of the server loses it, and no server is to blame."""

TIMES: Mapping[int | None, int] = {1: 8, 2: 1, 4: 1, None: 1}
"""How often a fault of a link fires; None: until it is healed."""

NEAR = (-1.0, 0.0, 1.0)
"""Documented seconds around the moment of a timer."""
