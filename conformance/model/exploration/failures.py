"""The failures that the model has found, in words: what each means, and the scenario that shows it.

A failure is one or more ways (causes.py), minimal sets of causes, with the same explanation. `page.py` writes them, and raises
Undescribed when the search finds a way that is not described here, or does not find one that is.
"""

from dataclasses import dataclass

from conformance.model.exploration.causes import Outcome

WINDOW = "the window of duplicate detection passes"
"""The cause that a way to a duplicate has for a mailbox, in addition to those for a recipient outside; not after a failover."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One entry of the page: what is lost or duplicated, in servers of which generation, why, and by which ways.

    `ways` are sets of essential causes (`essential_causes`).
    """

    outcome: Outcome
    generation: str
    title: str
    explanation: str
    scenario: str
    """A cell of the corpus: `FILE::ID`, or `FILE::ID[AXIS=VALUE]`."""
    ways: tuple[frozenset[str], ...]


def essential_causes(causes: frozenset[str]) -> frozenset[str]:
    """Return the causes without the two that add nothing to an explanation.

    These are WINDOW, and the outage of a server whose disk is lost too: `outage of ROLE` beside `new database of ROLE`.
    """
    lost = {cause.removeprefix("new database of ") for cause in causes if cause.startswith("new database of ")}
    return causes - {WINDOW} - {f"outage of {role}" for role in lost}


def _parse_ways(*ways: str) -> tuple[frozenset[str], ...]:
    """Return a set of causes for each string: `one + other` is the set of these two."""
    return tuple(frozenset(way.split(" + ")) for way in ways)


_DISK = "new database of the primary server"
_HANDED_ON = "the primary server, which has handed the message on"
_UNANSWERED = "outage of the server that has not answered the sender yet"
_SPAN = "ShadowResubmitTimeSpan passes"
_INTERVALS = "heartbeat intervals pass"
_LOST_SHADOW_REPLY = "lost reply of a shadow server"

FAILURES = (
    Failure(
        "lost",
        "ex2013",
        "A message was accepted without a shadow, and its primary loses the disk",
        "While no shadow can be made, the message is accepted without one unless RejectMessageOnShadowFailure is true. One disk "
        "then has the only copy. With RejectMessageOnShadowFailure the sender keeps the message.",
        "failure-analysis/mailbox-servers.scenario.yaml::lost-after-it-was-accepted-without-a-shadow[reject=no]",
        _parse_ways(
            f"{_DISK} + outage of a server without the message",
            f"{_DISK} + {_UNANSWERED}",
            f"{_DISK} + refused shadow copy",
            f"{_DISK} + interruption between the servers",
        ),
    ),
    Failure(
        "lost",
        "ex2013",
        "Both servers that have a copy lose their disks",
        "Together, or one after the other before the message has a second copy again. RejectMessageOnShadowFailure does not help.",
        "boundary/roles-and-losses.scenario.yaml::both-disks-lost-may-lose-it",
        _parse_ways(f"{_DISK} + {_DISK}, again", f"{_DISK} + new database of the shadow server"),
    ),
    Failure(
        "lost",
        "ex2013",
        "A mailbox database fails over without its last deliveries, after SafetyNetHoldTime",
        "Safety Net has what a mailbox may have lost for SafetyNetHoldTime only. A copy of the database that is further behind "
        "gets nothing back.",
        "failure-analysis/mailbox-servers.scenario.yaml::not-resubmitted-after-the-hold-time[asked=too-late]",
        _parse_ways("SafetyNetHoldTime passes + failover of the mailbox that loses the message"),
    ),
    Failure(
        "duplicated",
        "ex2013",
        "The sender does not see the acknowledgement, and sends again",
        "The server keeps what it has stored, and the second transmission is a message of its own. Any SMTP server does this "
        "(RFC 1047).",
        "relay/relay.scenario.yaml::lost-between-dot-and-reply[lost-by=drop,sent=again]",
        _parse_ways("lost reply to the sender"),
    ),
    Failure(
        "duplicated",
        "ex2013",
        "A server crashes before it answers, and the sender sends again",
        "What the server had received may be on its disk, and is delivered when the server is back.",
        "failure-analysis/mailbox-servers.scenario.yaml::sent-again-after-a-crash-before-the-answer",
        _parse_ways(_UNANSWERED),
    ),
    Failure(
        "duplicated",
        "ex2013",
        "The destination takes the message, and its reply is lost",
        "The server has to send again what may not have arrived. Any SMTP server does this (RFC 1047).",
        "relay/relay.scenario.yaml::whatever-breaks-on-the-way-out[fault=dot-after-drop]",
        _parse_ways("lost reply of the destination"),
    ),
    Failure(
        "duplicated",
        "ex2013",
        "A primary comes back with its queue after ShadowResubmitTimeSpan",
        "The shadow server has delivered the message, and the primary delivers it too.",
        "outage/late-and-new.scenario.yaml::outside-may-see-it-twice-after-a-late-return[time-span=default]",
        _parse_ways(f"{_SPAN} + outage of the primary server"),
    ),
    Failure(
        "duplicated",
        "ex2013",
        "A primary fails after it has handed the message on, and before its shadow server has asked",
        "The shadow server cannot know that the message was handed on. It takes over after ShadowResubmitTimeSpan, or at once if "
        "the primary has a new database.",
        "failure-analysis/mailbox-servers.scenario.yaml::taken-over-although-it-was-handed-on[database=same]",
        _parse_ways(f"{_SPAN} + outage of {_HANDED_ON}", f"new database of {_HANDED_ON}"),
    ),
    Failure(
        "duplicated",
        "ex2013",
        "Primary and shadow server are cut off from each other for ShadowResubmitTimeSpan",
        "Each of them delivers. A server that cannot be reached looks like one that has failed.",
        "failure-analysis/mailbox-servers.scenario.yaml::taken-over-although-the-primary-lives",
        _parse_ways(f"{_SPAN} + interruption between the servers"),
    ),
    Failure(
        "duplicated",
        "ex2013",
        "A shadow server stores a copy, and its reply is lost",
        "The primary has no note of that copy, makes another or rejects the message, and sends no discard notification for it. "
        "When the primary fails, the copy is delivered too.",
        "failure-analysis/mailbox-servers.scenario.yaml::a-shadow-copy-that-nobody-accounts-for",
        _parse_ways(
            f"{_LOST_SHADOW_REPLY} + {_SPAN} + outage of the shadow server",
            f"{_LOST_SHADOW_REPLY} + new database of the shadow server",
            f"{_LOST_SHADOW_REPLY} + {_DISK}",
        ),
    ),
    Failure(
        "duplicated",
        "ex2013",
        "A mailbox fails over and had the message",
        "Safety Net sends it again on request, and the delivered-to table has stayed behind (SR-DUP-06).",
        "safety-net/safety-net.scenario.yaml::resubmitted-to-the-new-active-copy",
        _parse_ways("failover of the mailbox"),
    ),
    Failure(
        "lost",
        "ex2010",
        "A message was acknowledged after MaxAcknowledgementDelay, and the server loses the disk",
        "Until a next hop has the message, the server has the only copy. The documents give this example themselves.",
        "exchange-2010/delayed-acknowledgement.scenario.yaml::best-effort-may-lose-it",
        _parse_ways(f"MaxAcknowledgementDelay passes + {_DISK}"),
    ),
    Failure(
        "lost",
        "ex2010",
        "Both servers that have a copy lose their disks",
        "The hop that has the message, and the server before it that keeps the shadow.",
        "exchange-2010/boundary.scenario.yaml::both-disks-of-two-hubs-lost-may-lose-it",
        _parse_ways(f"{_DISK} + {_DISK}, again", f"{_DISK} + new database of the shadow server"),
    ),
    Failure(
        "lost",
        "ex2010",
        "A shadow copy without an alternative route expires, and the primary loses the disk",
        "The primary was away for days, and comes back without its queue.",
        "failure-analysis/hubs.scenario.yaml::lost-after-its-shadow-expired",
        _parse_ways(f"a shadow copy expires + {_DISK}"),
    ),
    Failure(
        "duplicated",
        "ex2010",
        "The sender does not see the acknowledgement, and sends again",
        "As in later versions.",
        "relay/relay.scenario.yaml::lost-between-dot-and-reply[lost-by=drop,sent=again]",
        _parse_ways("lost reply to the sender"),
    ),
    Failure(
        "duplicated",
        "ex2010",
        "A server crashes while it withholds the acknowledgement",
        "It may have handed the message on, or has it on its disk. The sender sends it again.",
        "exchange-2010/delayed-acknowledgement.scenario.yaml::dead-while-it-withholds[queue=kept]",
        _parse_ways(_UNANSWERED),
    ),
    Failure(
        "duplicated",
        "ex2010",
        "The destination takes the message, and its reply is lost",
        "As in later versions.",
        "relay/relay.scenario.yaml::whatever-breaks-on-the-way-out[fault=dot-after-drop]",
        _parse_ways("lost reply of the destination"),
    ),
    Failure(
        "duplicated",
        "ex2010",
        "The next hop takes the message, and its reply is lost",
        "The server hands the message on again.",
        "failure-analysis/hubs.scenario.yaml::hub-sends-again-after-a-lost-reply",
        _parse_ways("lost reply of a next hop"),
    ),
    Failure(
        "duplicated",
        "ex2010",
        "A hop comes back with its queue after it was declared failed",
        "The message has gone over the alternative route, and the hop delivers it too.",
        "exchange-2010/outage.scenario.yaml::back-with-the-same-database-and-an-alternative-route[recipient=outside]",
        _parse_ways(f"{_INTERVALS} + outage of the primary server"),
    ),
    Failure(
        "duplicated",
        "ex2010",
        "A hop fails after it has handed the message on, and before the server before it has asked",
        "That server cannot know that the message was handed on, and sends it again: over an alternative route, or to the new "
        "database.",
        "failure-analysis/hubs.scenario.yaml::hub-resubmits-although-it-was-handed-on[came-back=not]",
        _parse_ways(f"{_INTERVALS} + outage of {_HANDED_ON}", f"new database of {_HANDED_ON}"),
    ),
)
