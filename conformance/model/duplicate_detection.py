"""Judges what duplicate detection must let pass, and when it forgets (SR-DUP-02 to SR-DUP-07).

A message is a duplicate for a mailbox when one with the same Message-ID and the same instant in its Date was delivered there
within the *tracking window* (DuplicateTrackingWindow). Every other message that the mailbox's server took must be delivered.
`duplicates` judges that duplicates are not.

`taken` is the transaction in which the mailbox's server took a message: MAIL is event `n`, the final dot `dot_n` at `dot_t`,
`acceptance` is the positive final reply or None, `digest` identifies the content. A `Delivered` event is a message that a *sink*
took for one recipient: the store of a mailbox server, or a server of the harness. An `Inspection` is what a node showed when the
scenario inspected it; its `delivered_to` is the number of entries of duplicate detection. Times are documented seconds.

Each rule judges one recorded history and returns a `Finding` of occasions (chances to fail) and violations, as `conformance.model`
describes. Only candidates that claim `duplicate-detection` are judged.
"""

from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache

from conformance.history.events import CommandRun, Delivered, Drained, StepEvent
from conformance.history.values import Digest
from conformance.model.facts import Facts
from conformance.model.processing import Inspection, inspections
from conformance.model.relaying import Relaying
from conformance.model.rules import rule
from conformance.model.server_facts import STOPPING_ACTIONS
from conformance.trace.finding import Finding, format_seconds
from conformance.trace.sessions import Transaction

_MAX_WINDOW_S, _WINDOW_ABOVE_MAX_S = 49 * 86400.0, 86400.0
"""A DuplicateTrackingWindow above the maximum is ignored and the other one used instead (SR-DUP-04). Seconds."""

_CLEAN_UP_DELAY_S = 60.0
"""By how much the clean-up of expired entries may follow its interval. Seconds."""


@lru_cache(maxsize=256)
def parse_date(date: str | None) -> datetime | None:
    """Return the client submit time that a Date field gives, None where the field is absent or unreadable.

    A Date without a zone, or with -0000, is a time in UTC (RFC 5322 3.3).
    """
    if not date:
        return None
    try:
        parsed = parsedate_to_datetime(date)
    except (ValueError, OverflowError):  # a number in it is out of range
        return None
    return parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)


def _longest_window(facts: Facts, server: str, after_n: int, before_n: int) -> float:
    """Return the longest tracking window, in documented seconds, that a server may have had between two events.

    A value above the maximum of 49 days counts as one day (SR-DUP-04). Values that are not numbers are left out; the maximum if
    there are no others.
    """
    values = facts.parameter_numbers_between(server, "DuplicateTrackingWindow", after_n, before_n)
    return max((_WINDOW_ABOVE_MAX_S if value > _MAX_WINDOW_S else value for value in values), default=_MAX_WINDOW_S)


@rule("SR-DUP-02", "SR-DUP-03", "SR-DUP-04", "SR-DUP-05", "SR-DUP-06")
def no_other_message_is_a_duplicate(facts: Facts) -> Finding:
    """Check that a mailbox gets each message that its server took and that is no duplicate of one delivered before.

    Occasions are messages that resemble one that was delivered: it had the same Message-ID or the same Date only, or was delivered
    to another mailbox, before the window, or before the mailbox moved. Only a history whose drain became quiet is judged, at its
    end. Left out are servers that are down then, and messages that `_may_be_missing_for_other_reason`.
    """
    finding = Finding("a message that is no duplicate is delivered")
    drained = facts.trace.events_of(Drained)
    if "duplicate-detection" not in facts.context.claims or not drained or not drained[-1].quiet:
        return finding
    delivered: dict[str, list[Delivered]] = defaultdict(list)
    for event in facts.trace.events_of(Delivered):
        if facts.context.normalize_address(event.recipient) in facts.context.mailboxes:
            delivered[facts.context.normalize_address(event.recipient)].append(event)
    hosts = {box.address.casefold(): box.server for box in facts.topology.mailboxes}
    for name in facts.trace.messages:
        for taken in facts.trace.transactions_of(name):
            if (
                taken.kind == "shadow"
                or not facts.is_tested_server(taken.server)
                or taken.dot_t is None
                or taken.digest is None
            ):
                continue
            for recipient in sorted(
                facts.context.normalize_addresses(taken.accepted_recipients) & facts.context.mailboxes
            ):
                is_here = hosts[recipient] == taken.server and taken.acceptance is not None
                if (
                    is_here
                    and not facts.is_down_at_end(taken.server)
                    and not _may_be_missing_for_other_reason(facts, taken, recipient)
                ):
                    _check_delivery(facts, finding, taken, recipient, delivered)
    return finding


def _check_delivery(
    facts: Facts, finding: Finding, taken: Transaction, recipient: str, delivered: Mapping[str, list[Delivered]]
) -> None:
    """Count an occasion if a message is like a delivered one and no duplicate of it; add a violation if it was not delivered.

    `taken` is the transaction by which the mailbox's server took the message, `delivered` has all deliveries by mailbox address.
    The message counts as delivered if one that `_is_same_message` was delivered after its MAIL, or, to the server's own store,
    less than the tracking window before its final dot. Once a mailbox database has moved (`activate`), only what this server
    itself delivered makes a message a duplicate (SR-DUP-06).
    """
    assert taken.digest is not None
    assert taken.dot_t is not None
    same = [e for e in delivered[recipient] if _is_same_message(e.digest, taken.digest)]
    first_n = same[0].n if same else taken.n
    window = _longest_window(facts, taken.server, first_n, facts.end_n) + facts.slack
    store = facts.topology.store_name(taken.server)
    fresh = [e for e in same if e.t > taken.dot_t - window and (e.n > taken.n or e.sink == store)]
    moved = any(step.verb == "activate" and step.n < taken.n for step in facts.trace.events_of(StepEvent))
    likeness = _find_likeness(taken, recipient, same, delivered, window if not moved else None)
    if likeness is None:
        return
    finding.occasions += 1
    if not fresh:
        row, words = likeness
        if (
            row == "SR-DUP-03"
            and facts.possible_parameter_range(taken.server, "DuplicateTrackingWindow", first_n, facts.end_n).greatest
            > _MAX_WINDOW_S
        ):
            row = "SR-DUP-04"
        finding.add_violation(
            f"{taken.server} took <{taken.digest.message_id}> for {recipient} at {format_seconds(taken.dot_t)}, and did not "
            f"deliver it; {words}",
            taken.acceptance.n if taken.acceptance else taken.n,
            message=taken.message,
            row=row,
        )


def _is_same_message(one: Digest, other: Digest) -> bool:
    """Return whether duplicate detection takes two contents for the same message: by Message-ID and the instant in Date.

    Where the first lacks one of the two, or its Date is unreadable, they are the same if body and Message-ID are equal.
    """
    if one.message_id is None or parse_date(one.date) is None:
        return one.body_sha256 == other.body_sha256 and one.message_id == other.message_id
    return one.message_id == other.message_id and parse_date(one.date) == parse_date(other.date)


def _find_likeness(
    taken: Transaction,
    recipient: str,
    same: list[Delivered],
    delivered: Mapping[str, list[Delivered]],
    window: float | None,
) -> tuple[str, str] | None:
    """Return why a message is no duplicate of one that it resembles, as (requirement's id, words for the sentence); else None.

    None is returned for a duplicate, and for a message that resembles none delivered before its final dot. `same` are the
    deliveries to this mailbox of messages with the same Message-ID and Date, `delivered` all deliveries by mailbox. `window` is
    the tracking window in documented seconds; None where a mailbox database has moved: then only what the server itself delivered
    makes a duplicate.
    """
    assert taken.digest is not None
    assert taken.dot_t is not None
    digest, dot_n = taken.digest, taken.dot_n or taken.n
    before = [e for e in same if e.n < dot_n]
    if before and parse_date(digest.date) is not None and digest.message_id is not None:
        if window is None:
            elsewhere = all(e.sink.removesuffix("-store") != taken.server for e in before)
            words = "it was delivered before the mailbox moved, and the history stays behind"
            return ("SR-DUP-06", words) if elsewhere else None
        last = max(e.t for e in before)
        if taken.dot_t - last > window:
            return "SR-DUP-03", f"it had been delivered at {format_seconds(last)}, longer ago than the window"
        return None
    if any(
        e.n < dot_n and _is_same_message(e.digest, digest)
        for address, es in delivered.items()
        if address != recipient
        for e in es
    ):
        return "SR-DUP-05", "it had been delivered to another mailbox"
    for e in delivered[recipient]:
        if e.n < dot_n and (
            e.digest.message_id == digest.message_id is not None
            or (parse_date(e.digest.date) is not None and parse_date(e.digest.date) == parse_date(digest.date))
        ):
            return (
                "SR-DUP-02",
                f"<{e.digest.message_id}> of {e.digest.date} had been delivered, this one is of {digest.date}",
            )
    return None


def _may_be_missing_for_other_reason(facts: Facts, taken: Transaction, recipient: str) -> bool:
    """Return whether a message may be missing in a mailbox for another reason than duplicate detection.

    The reasons: a fault altered the session, or the message was not accepted; the server's queue was wiped later; a mailbox
    database was moved later (`activate`); any server was given an administrator's command other than `resubmit`, at any time; a
    next hop may have refused the message for good in a later connection; the server named the recipient in a later transaction
    that may be of this message, and it was not accepted.
    """
    if taken.session in facts.trace.altered_sessions or taken.acceptance is None:
        return True
    n = taken.acceptance.n
    if any(e.action == "wiped" and e.n > n for e in facts.node_events.get(taken.server, ())):
        return True
    if any(command.command != "resubmit" for command in facts.trace.events_of(CommandRun)) or any(
        e.verb == "activate" and e.n > n for e in facts.trace.events_of(StepEvent)
    ):
        return True
    if any(
        c.n > taken.n and c.may_be_final for c in facts.compute_once(Relaying).hop_connections.get(taken.server, ())
    ):
        return True
    return any(
        t.n > taken.n and recipient in facts.context.normalize_addresses((*t.recipients, *t.refused))
        and t.message in (taken.message, None) and recipient not in facts.context.normalize_addresses(t.accepted_recipients)
        for t in facts.transactions_by_client.get(taken.server, ())
    )  # fmt: skip


@rule("SR-DUP-07")
def expired_entries_are_cleaned_up(facts: Facts) -> Finding:
    """Check that an inspected server shows no more entries of duplicate detection than deliveries young enough to be kept.

    An entry is kept for the tracking window and removed by the next clean-up. An occasion is an inspection of a server with a
    mailbox that has also made older deliveries.
    """
    finding = Finding("no entry in the delivered-to table beyond the window and the clean-up")
    if "duplicate-detection" not in facts.context.claims:
        return finding
    for inspection in facts.compute_once(inspections):
        server, n = inspection.node, inspection.n
        if not any(box.server == server for box in facts.topology.mailboxes):
            continue
        interval = facts.possible_parameter_range(server, "DuplicateCleanupInterval", -1, n).greatest
        interval += _CLEAN_UP_DELAY_S + facts.slack
        lifetime = _longest_window(facts, server, -1, n) + interval
        made = [e for e in facts.trace.events_of(Delivered) if e.sink == facts.topology.store_name(server) and e.n < n]
        cleaned = _time_in_operation(facts, inspection, interval)
        recent = sum(cleaned - e.t < lifetime for e in made)
        finding.occasions += recent < len(made)
        if inspection.delivered_to > recent and recent < len(made):
            finding.add_violation(
                f"{server} shows {inspection.delivered_to} entries at {format_seconds(inspection.t)}, and delivered {recent} "
                f"messages in the last {format_seconds(lifetime)}",
                n,
            )
    return finding


def _time_in_operation(facts: Facts, inspection: Inspection, interval: float) -> float:
    """Return the time (documented seconds) by which an inspected server has surely cleaned up what was due `interval` seconds before.

    It is the end of the last span of at least `interval` seconds without a stop: the inspection itself, or an earlier stop. The
    background clean-up may begin its interval anew after each start. Without such a span it is the server's first stop, or the
    inspection where it never stopped.
    """
    time = inspection.t
    for event in reversed([e for e in facts.node_events.get(inspection.node, ()) if e.n < inspection.n]):
        if event.action in STOPPING_ACTIONS:
            time = event.t
        elif event.action in ("ready", "resumed") and time - event.t >= interval:
            break
    return time
