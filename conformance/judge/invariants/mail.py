"""Invariants about messages: none lost, none twice, none changed."""

import itertools

from conformance.history.events import Attempt, Delivered, Drained, Reply
from conformance.judge.finding import Finding, told
from conformance.judge.trace import Trace
from conformance.scenarios.document import Cell


def nothing_acknowledged_is_lost(cell: Cell, trace: Trace) -> Finding:
    """What was acknowledged has arrived at each accepted recipient, or was reported to its sender."""
    finding = Finding("every acknowledged message arrives, or is reported")
    if not trace.of(Drained):
        return finding
    reported = {d.digest.about for d in trace.of(Delivered) if d.digest.report == "delivery-status"}
    for attempt in trace.of(Attempt):
        made = trace.messages[attempt.message]
        if attempt.code is None or attempt.code // 100 != 2 or not attempt.dot_sent:
            continue
        for recipient in attempt.accepted:
            finding.occasions += 1
            if not trace.deliveries_of(made.message, recipient) and made.message_id not in reported:
                finding.violated(
                    f"{told(made)}: {attempt.server} acknowledged it at {attempt.t:g} s (event {attempt.n}), and it never "
                    f"reached {recipient}",
                    attempt.n,
                    message=made.message,
                )
    return finding


def one_final_reply(cell: Cell, trace: Trace) -> Finding:
    """A message gets one final reply (LMTP: one for each accepted recipient)."""
    finding = Finding("one final reply to each message")
    for t in trace.transactions:
        if t.dot is not None:
            finding.occasions += 1
            after = [r for r in t.replies if r.n > t.dot]
            if len(after) > 1 and t.listener not in ("delivery", "lmtp"):
                finding.violated(f"session {t.session}: {len(after)} final replies", *[r.n for r in after])
    return finding


def content_unchanged(cell: Cell, trace: Trace) -> Finding:
    """Content is the same everywhere, trace fields aside."""
    finding = Finding("content passes unchanged, trace fields aside")
    for event in trace.of(Delivered):
        name = trace.message_of(event.digest)
        if name is not None:
            finding.occasions += 1
            if event.digest.stable_sha256 != trace.messages[name].digest.stable_sha256:
                finding.violated(f"{told(trace.messages[name])}: {event.sink} got other content", event.n, message=name)
    return finding


def no_duplicate_in_mailbox(cell: Cell, trace: Trace) -> Finding:
    """A mailbox holds one copy of a message that can be told from others, within the tracking window."""
    finding = Finding("no mailbox gets a message twice within the tracking window")
    window = float(str(cell.topology.transport.get("DuplicateTrackingWindow", 3600)))
    window = 86400.0 if window > 49 * 86400 else window
    boxes = {mailbox.address.casefold() for mailbox in cell.topology.mailboxes}
    for name, made in trace.messages.items():
        if made.message_id is None or made.digest.date is None:
            continue
        for recipient in made.recipients:
            if recipient.casefold() not in boxes:
                continue
            copies = trace.deliveries_of(name, recipient)
            finding.occasions += len(copies)
            for first, second in itertools.pairwise(copies):
                if second.t - first.t < window and first.sink == second.sink:
                    finding.violated(
                        f"{told(made)}: {recipient} got it at {first.t:g} s and again at {second.t:g} s",
                        second.n,
                        first.n,
                        message=name,
                    )
    return finding


def replies_are_whole(cell: Cell, trace: Trace) -> Finding:
    """Every reply has three digits from 200 to 599."""
    finding = Finding("replies with codes from 200 to 599")
    for event in trace.of(Reply):
        finding.occasions += 1
        if not 200 <= event.code <= 599:
            finding.violated(f"session {event.session}: code {event.code}", event.n)
    return finding
