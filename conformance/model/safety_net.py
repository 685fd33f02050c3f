"""Judges what Safety Net holds, and for how long (SR-SFN-01, SR-SFN-02, SR-SFN-03).

Safety Net of a mailbox server of 2013 or later holds the messages that the server has processed: it has passed them on to every
recipient. What is in it shows when the server is inspected. `n` is an event's number, times are documented seconds. `name` is the
scenario's name of a message; a *holder* keeps the shadow copy of a message that a *primary* delivers.

Each rule judges one recorded history, `facts`, and returns a `Finding` of occasions (chances to fail) and violations, as
`conformance.model` describes. Functions that take a `finding` add to it. A violation blames its `row`, else the rule's first
requirement. A `Transaction` is one mail transaction: `n` and `t` are those of its MAIL, `dot_n` and `dot_t` those of its final
dot (None before it), `replies` the final replies, and `message` the scenario's name of the message or None. Its `kind` is
`shadow` (a copy that the server is to hold, 2013 and later), `tracked` (2010: mail of which the client keeps the shadow) or
`plain`. A session is *altered* where a fault changed, added or removed octets in it. Of a server's listeners `frontend` is for
mail from outside, `transport` for other servers, `delivery` that of its mailbox store. `facts.slack` is by how many seconds a
time may miss a bound. `claims` are the capabilities that the candidate claims.

Records: an `Inspection` is what a node's queues held when the scenario inspected it; a `Processing` is what one server was handed
and has passed on of one message; a `CommandRun` is an administrator's command to a server. `facts.held_intervals` has each stored
copy with the time in which it is surely held; `Relaying` has the tries of servers to pass messages on, and their connections
without mail.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from conformance.history.events import CommandRun
from conformance.model.facts import Facts
from conformance.model.processing import (
    COMMIT_TIME_S,
    Inspection,
    inspections,
    may_have_forgotten_event,
    processing_of,
    was_queue_wiped,
)
from conformance.model.relaying import Relaying
from conformance.model.rules import rule
from conformance.trace.finding import Finding, format_seconds

_CLEAN_UP_S = 1800.0
"""How long a message may stay in a queue beyond its time; no interval of the clean-up is documented. Seconds."""

_ANY_QUEUE = ("shadow", "shadow-safety-net", "delivery", "submission", "safety-net")


def _has_safety_net(facts: Facts, server: str) -> bool:
    """Return whether a server has a Safety Net: a mailbox server of 2013 or later."""
    return not facts.is_2010(server) and facts.topology.by_name[server].role == "mailbox"


def _was_command_run(facts: Facts, server: str, after_n: int, before_n: int) -> bool:
    """Return whether any command was given to a server between two events: it may send messages again, or move them."""
    return any(e.node == server and after_n < e.n < before_n for e in facts.trace.events_of(CommandRun))


@rule("SR-SFN-01", "SR-SFN-02")
def safety_net_holds_what_was_processed(facts: Facts) -> Finding:
    """Check that an inspected Safety Net holds each message that was processed, for SafetyNetHoldTime, and nothing else.

    A message that was processed is in no queue for delivery any more. Only messages are judged that the server surely processed,
    or surely did not, and only candidates that claim `safety-net`.
    """
    finding = Finding("processed messages in Safety Net for SafetyNetHoldTime, and no others")
    if "safety-net" not in facts.context.claims:
        return finding
    seen: set[tuple[str, str]] = set()
    for inspection in facts.compute_once(inspections):
        if not _has_safety_net(facts, inspection.node):
            continue
        for message_id, names in _messages_by_id(facts).items():
            held = bool(inspection.items_in(("safety-net",), message_id))
            for name in names:
                _check_message(facts, finding, inspection, name, held, (inspection.node, message_id) in seen)
            if held:
                seen.add((inspection.node, message_id))
    return finding


def _messages_by_id(facts: Facts) -> Mapping[str, list[str]]:
    """Return the names of the messages with each Message-ID.

    Messages without one are left out, and those whose Message-ID is not ASCII: no document says how `inspect` prints that.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for message in facts.trace.messages.values():
        if message.message_id is not None and message.message_id.isascii():
            found[message.message_id].append(message.message)
    return found


def _check_message(
    facts: Facts, finding: Finding, inspection: Inspection, name: str, held: bool, was_held: bool
) -> None:
    """Add violations for one message in one inspection: Safety Net holds it (`held`) and must not, or does not and must.

    A message that was processed and still waits for delivery is a violation too. A message since whose first transmission to the
    server a fault was in force on its disk may be missing, and may still wait. `was_held`: an earlier inspection of the server
    showed it in Safety Net.
    """
    server, n, t = inspection.node, inspection.n, inspection.t
    message = facts.trace.messages[name]
    processing = processing_of(facts, server, name)
    replies = [one for taken in processing.passed_on.values() for one in taken if one[0] < n]
    # what is in no queue for delivery any more has been processed, whether or not the reply was read
    is_queued = bool(inspection.items_in(("delivery", "submission"), message.message_id))
    done = processing.last_reply_if_processed(facts, n, unread_counts=not is_queued)
    # the reply of the next hop may be recorded after the end of the server that no longer read it
    since = max((given.n for given in processing.handed), default=n)
    if (
        done is not None
        and not was_queue_wiped(facts, server, since, n)
        and not _was_command_run(facts, server, done[0], n)
    ):
        hold = facts.possible_parameter_range(server, "SafetyNetHoldTime", done[0], n).least
        if t - done[1] > COMMIT_TIME_S:
            finding.occasions += 1
            sentence = f"{server} had processed it by {format_seconds(done[1])}, and at {format_seconds(t)}"
            # what came over `delivery` stays with the server that sent it, whose Safety Net holds it; what came before a wipe is gone
            is_kept_here = any(
                given.listener != "delivery" and not was_queue_wiped(facts, server, given.n, n)
                for given in processing.handed
            )
            # of several times that it was passed on, one may be that of a message which stays elsewhere
            stays_elsewhere = any(given.listener == "delivery" for given in processing.handed)
            kept_since = min(one[1] for one in replies) if stays_elsewhere else done[1]
            first_n = min((given.n for given in processing.handed), default=n)
            had_disk_trouble = facts.had_disk_trouble(server, first_n, n)
            if t - kept_since < hold - facts.slack and not held and is_kept_here and not had_disk_trouble:
                finding.add_message_violation(
                    message,
                    f"{sentence} its Safety Net does not hold it; the hold time is {format_seconds(hold)}",
                    n,
                    done[0],
                    row="SR-SFN-02" if was_held else "SR-SFN-01",
                )
            if is_queued and not had_disk_trouble and not _may_be_another(facts, inspection, name):
                finding.add_message_violation(message, f"{sentence} it is still queued for delivery", n, done[0])
    if not held:
        return
    handed_n = min((given.n for given in processing.handed), default=-1)
    longest = facts.possible_parameter_range(server, "SafetyNetHoldTime", handed_n, n).greatest
    if (
        replies
        and t - max(replies)[1] > longest + _CLEAN_UP_S + facts.slack
        and not _may_be_processed_unseen(facts, server, name, max(replies)[0], n)
    ):
        finding.occasions += 1
        finding.add_message_violation(
            message,
            f"{server} passed it on at {format_seconds(max(replies)[1])}, and its Safety Net holds it at {format_seconds(t)}; the "
            f"hold time is {format_seconds(longest)}",
            n,
            max(replies)[0],
            row="SR-SFN-02",
        )
    elif not replies and len(facts.trace.indistinguishable_messages(message)) == 1:
        finding.occasions += 1
        if not (
            _may_be_processed_unseen(facts, server, name, -1, n) or _may_have_expired(facts, server, name, inspection)
        ):
            finding.add_message_violation(message, f"{server} has not passed it on, and its Safety Net holds it", n)


def _may_be_another(facts: Facts, inspection: Inspection, name: str) -> bool:
    """Return whether an item with a message's Message-ID may be what the server has not surely processed.

    That is another message, or a shadow copy that the server had reason to promote: it is the server's own from then on.
    """
    same_id = _messages_by_id(facts).get(facts.trace.messages[name].message_id or "", ())
    for other in same_id:
        processing = processing_of(facts, inspection.node, other)
        copies = tuple(
            copy
            for copy in facts.copy_transactions_by_holder.get(inspection.node, ())
            if copy.message == other and copy.dot_n is not None and copy.dot_n < inspection.n
            and _may_be_promoted(facts, inspection.node, copy.client, copy.dot_n, inspection)
        )  # fmt: skip
        if other == name and not copies:
            continue
        with_copies = replace(processing, handed=(*processing.handed, *copies))
        done = with_copies.last_reply_if_processed(facts, inspection.n)
        if done is None or inspection.t - done[1] <= COMMIT_TIME_S:
            return True
    return False


def _may_have_expired(facts: Facts, server: str, name: str, inspection: Inspection) -> bool:
    """Return whether a message may have reached its lifetime on a server by an inspection.

    The lifetime counts from any transmission to the server. Then the server may have given it up with nothing to see: a null
    reverse-path causes no report.
    """
    lifetime = facts.possible_parameter_range(server, "MessageExpirationTimeout", -1, inspection.n).least
    return any(
        t.server == server and t.dot_t is not None and inspection.t - t.dot_t >= lifetime - facts.slack
        for t in facts.trace.transactions_of(name)
    )


def _may_be_processed_unseen(facts: Facts, server: str, name: str, after_n: int, before_n: int) -> bool:
    """Return whether a server may have processed a message between two events without a reply that shows it for sure.

    It was handed the message again (this does not count where `after_n` is -1, the whole history), or transmitted it and the
    reply is not known, was a refusal or may be forgotten; a recipient was, or may have been, refused before the content; it sent
    a report of any kind; or it had a session after STARTTLS.
    """
    for t in facts.trace.transactions_of(name):
        if t.kind == "shadow" or t.dot_n is None or not after_n < t.dot_n < before_n:
            continue
        if t.server == server and after_n >= 0:
            return True
        if t.client == server and (
            not t.replies
            or t.session in facts.trace.altered_sessions
            or any(r.code // 100 == 5 or may_have_forgotten_event(facts, server, r.n, r.t) for r in t.replies)
        ):
            return True
    relaying = facts.compute_once(Relaying)
    if any(
        one.reply is not None and one.reply.code // 100 == 5 and after_n < one.reply.n < before_n
        for recipient in facts.context.normalize_addresses(facts.trace.messages[name].recipients)
        for one in relaying.tries.get((server, name, recipient), ())
    ):
        return True
    # a message that was promoted may be refused before its content
    contacts = relaying.hop_connections.get(server, ())
    if any(c.may_be_final and after_n < c.n < before_n for c in contacts):
        return True
    return any(s.client == server and after_n < s.n < before_n for s in facts.starttls_sessions) or any(
        t.digest is not None and t.digest.report is not None and after_n < t.n < before_n
        for t in facts.transactions_by_client.get(server, ())
    )


@rule("SR-SFN-03")
def unacknowledged_shadows_leave_in_the_end(facts: Facts) -> Finding:
    """Check that an inspected server keeps a shadow that was not acknowledged for the documented time, and no longer.

    Not acknowledged: no discard notification for it came from the primary. The documented time is SafetyNetHoldTime and
    MessageExpirationTimeout together; `_CLEAN_UP_S` may come on top. A shadow may be missing earlier where the server may have
    promoted it (its primary was away for ShadowResubmitTimeSpan, or showed another database), or where redundancy may have been
    off. Only candidates that claim `safety-net` are judged.
    """
    finding = Finding("an unacknowledged shadow for SafetyNetHoldTime and MessageExpirationTimeout")
    by_node: dict[str, list[Inspection]] = defaultdict(list)
    for inspection in facts.compute_once(inspections):
        by_node[inspection.node].append(inspection)
    if "safety-net" not in facts.context.claims or not by_node:
        return finding
    for one in facts.held_intervals:
        copy = one.copy
        if (
            copy.transaction.kind != "shadow"
            or copy.transaction.message is None
            or not facts.is_tested_server(copy.primary)
        ):
            continue
        message = facts.trace.messages[copy.transaction.message]
        if message.message_id is None:
            continue
        for inspection in by_node.get(copy.holder, ()):
            if not one.covers(inspection.n) or copy.transaction.session in facts.trace.altered_sessions:
                continue
            n, age = inspection.n, inspection.t - one.since_t
            lives = [
                facts.possible_parameter_range(copy.holder, name, one.since_n, n)
                for name in ("SafetyNetHoldTime", "MessageExpirationTimeout")
            ]
            shadows = inspection.items_in(("shadow", "shadow-safety-net"), message.message_id)
            finding.occasions += 1
            if age > sum(most for _, most in lives) + _CLEAN_UP_S + facts.slack:
                others = any(
                    other.copy is not copy and other.copy.holder == copy.holder and other.since_n > one.since_n
                    and other.copy.transaction.message == copy.transaction.message
                    for other in facts.held_intervals
                )  # fmt: skip
                if shadows and not others:
                    finding.add_message_violation(
                        message,
                        f"{copy.holder} got its shadow at {format_seconds(one.since_t)}, no notification of it, and keeps it at "
                        f"{format_seconds(inspection.t)}",
                        n,
                        one.since_n,
                    )
            elif (
                age < sum(least for least, _ in lives) - facts.slack
                and not inspection.items_in(_ANY_QUEUE, message.message_id)
                and not _may_be_promoted(facts, copy.holder, copy.primary, one.since_n, inspection)
                and not facts.may_be_off(copy.holder, one.since_n, n)
            ):
                finding.add_message_violation(
                    message,
                    f"{copy.holder} got its shadow at {format_seconds(one.since_t)}, no notification of it, and does not hold it "
                    f"at {format_seconds(inspection.t)}",
                    n,
                    one.since_n,
                )
    return finding


def _may_be_promoted(facts: Facts, holder: str, primary: str, since_n: int, inspection: Inspection) -> bool:
    """Return whether a holder may have had a reason to promote what it holds for a primary before an inspection.

    It had no contact with the primary for ShadowResubmitTimeSpan, or saw more than one name of the primary's queue database in
    the history.
    """
    span = facts.possible_parameter_range(holder, "ShadowResubmitTimeSpan", since_n, inspection.n).least
    times = [
        c.end_t
        for c in facts.contacts_by_client_and_server.get((holder, primary), ())
        if c.outcome == "reached" and since_n < c.end_n and c.n < inspection.n
    ]
    times.append(facts.trace.events[since_n].t)
    times = [*sorted(times), inspection.t]
    names = {name for _, _, name in facts.database_names_seen.get((holder, primary), ())}
    return len(names) > 1 or any(b - a >= span - facts.slack for a, b in pairwise(times))
