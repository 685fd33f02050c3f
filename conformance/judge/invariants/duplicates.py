"""No duplicates: none in a mailbox that tells them (SR-DUP-01), and none at all without a cause (RL-ACK-04)."""

from collections import defaultdict

from conformance.history.events import (
    Attempt,
    Closed,
    CommandRun,
    Delivered,
    FaultArmed,
    FaultFired,
    NodeEvent,
    StepEvent,
)
from conformance.judge.finding import Case, Finding, moment, named
from conformance.judge.invariants.check import invariant
from conformance.judge.parameters import seconds
from conformance.judge.takeover import takeovers

LONGEST = 49 * 86400.0
HONOURED_INSTEAD = 86400.0
"""A tracking window above the longest is not honoured, and this is used (SR-DUP-04). Seconds."""


@invariant("no-duplicate-in-mailbox", "SR-DUP-01")
def no_duplicate_in_mailbox(case: Case) -> Finding:
    """A mailbox gets a message once within the tracking window, if it can be told from others by Message-ID and Date.

    Not judged: a store whose reply the server never heard, or whose server lost its queue, and so what it had tracked.
    """
    finding = Finding("no mailbox gets a message twice within the tracking window")
    if "duplicate-detection" not in case.claims:
        return finding
    for (sink, recipient, message_id, _), copies in _by_mailbox(case).items():
        server = sink.removesuffix("-store")
        finding.occasions += len(copies)
        for number, second in enumerate(copies):
            window = seconds(case, server, "DuplicateTrackingWindow", second.n)
            window = HONOURED_INSTEAD if window > LONGEST else window
            for first in copies[:number]:
                if second.t - first.t < window - case.slack and not _forgotten(case, server, first, second):
                    finding.violated(
                        f"<{message_id}>: {recipient} got it from {first.giver} at {moment(first.t)} and again from "
                        f"{second.giver} at {moment(second.t)}, within {moment(window)}",
                        second.n,
                        first.n,
                        message=case.trace.message_of(second.digest),
                    )
                    break
    return finding


def _by_mailbox(case: Case) -> dict[tuple[str, str, str, str], list[Delivered]]:
    """Return the deliveries to mailboxes, by store, recipient, and what makes a duplicate."""
    found: dict[tuple[str, str, str, str], list[Delivered]] = defaultdict(list)
    stores = {case.cell.topology.store_name(server) for server in case.cell.topology.by_name}
    for event in case.trace.of(Delivered):
        digest, recipient = event.digest, case.same(event.recipient)
        if event.sink in stores and recipient in case.mailboxes and digest.message_id and digest.date:
            found[event.sink, recipient, digest.message_id, digest.date].append(event)
    return found


def _forgotten(case: Case, server: str, first: Delivered, second: Delivered) -> bool:
    """Whether the server cannot know of the first delivery."""
    wiped = any(
        event.node == server and event.action == "wiped" and first.n < event.n < second.n
        for event in case.trace.of(NodeEvent)
    )
    return wiped or not _heard(case, first)


def _heard(case: Case, delivery: Delivered) -> bool:
    """Whether the reply by which the store took a message is seen to have passed; true where nobody looked."""
    session = case.trace.sessions.get(delivery.session or "")
    if session is None:
        return True
    return any(
        reply.to == "CONTENT" and reply.code // 100 == 2 and reply.n > delivery.n
        and reply.recipient in (None, delivery.recipient)
        for reply in session.replies
    )  # fmt: skip


@invariant("no-duplicate-without-cause", "RL-ACK-04")
def no_duplicate_without_cause(case: Case) -> Finding:
    """Where nothing was broken, no recipient gets more copies than the sender was acknowledged (RL-ACK-04)."""
    finding = Finding("no recipient gets a message twice where nothing was broken")
    if _cause(case):
        return finding
    for name, made in case.trace.messages.items():
        attempts = case.trace.attempts_of(name)
        answered = [a for a in attempts if a.code is not None and a.code // 100 == 2]
        for recipient in dict.fromkeys(case.same(r) for attempt in attempts for r in attempt.accepted):
            sent = sum(case.same(accepted) == recipient for attempt in answered for accepted in attempt.accepted)
            copies = case.deliveries_of(name, recipient)
            finding.occasions += bool(copies)
            if sent and len(copies) > sent:
                finding.violated(
                    f"{named(made)}: {sent} acknowledged for {recipient}, and {len(copies)} copies arrived, the last at "
                    f"{moment(copies[-1].t)}",
                    *[copy.n for copy in reversed(copies)],
                    message=name,
                )
    return finding


def _cause(case: Case) -> bool:
    """Whether anything happened by which a message may arrive twice."""
    trace = case.trace
    broken = any(event.action not in ("started", "ready", "reloaded") for event in trace.of(NodeEvent))
    lost = any(event.how == "reset" or event.by == "link" for event in trace.of(Closed))
    unheard = any(event.outcome != "answered" for event in trace.of(Attempt))
    asked = any(event.verb in ("resubmit", "redirect", "activate") for event in trace.of(StepEvent))
    return (
        broken or lost or unheard or asked
        or bool(trace.of(FaultFired) or trace.of(FaultArmed) or trace.of(CommandRun))
        or any(takeovers(case, name) for name in trace.messages)
    )  # fmt: skip
