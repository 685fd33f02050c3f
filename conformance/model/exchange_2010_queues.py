"""Judges what the queues of 2010 servers hold when they are inspected: shadows, and notifications for primaries.

In 2010 the sender of a message, the *holder*, keeps its shadow, and the next hop, its *primary*, *tracks* the message. The holder
keeps the shadow of each tracked message until the primary has reported its delivery by a *discard notification*, and no other
shadow. If the primary fails, the holder *takes over*: it transmits the message again, and queues a notification for the failed
primary. `n` is an event's number, times are documented seconds. Rulings are those of docs/rulings.md.

Each rule judges one recorded history and returns a `Finding` of occasions (chances to fail) and violations, as `conformance.model`
describes. Functions that take a `finding` add to it. `facts.slack` is by how much a time may miss a bound. A `HeldInterval`
(`held`) is a stored shadow, its `copy`, and the event and time until which it is surely held (`until_n`, `until_t`; None: to the
end). An `Inspection` is what a node's queues held when the scenario inspected it, by the `kind` of queue. A *contact* is an
attempt at a session: `reached`, `failed` or `unclear`.
"""

from collections import defaultdict
from itertools import takewhile

from conformance.model.exchange_2010 import alternative_hops, tracked_shadows
from conformance.model.facts import Facts, HeldInterval
from conformance.model.processing import COMMIT_TIME_S, Inspection, inspections, may_have_forgotten_event, processing_of
from conformance.model.rules import rule
from conformance.trace.finding import Finding, format_seconds

_CLEAN_UP_S = 1800.0
"""How long a shadow may stay beyond its time; no interval of the clean-up is documented. Seconds."""


@rule("SR-E10-12", "SR-E10-01", "SR-E10-03", "SR-E10-07", "SR-E10-08", "SR-E10-14")
def queues_of_2010(facts: Facts) -> Finding:
    """Check that an inspected 2010 server holds what it has to hold, and nothing that it had to drop.

    A shadow stays until the notification, or until the longest time after which it may expire (ruling 31). A message that the
    server has passed on to all next hops leaves its queues for delivery. What was taken over leaves a notification for the
    primary that failed.
    """
    finding = Finding("the shadows of what was tracked and not reported, and no others")
    shadows: dict[str, list[HeldInterval]] = defaultdict(list)
    for held in tracked_shadows(facts):
        shadows[held.copy.holder].append(held)
    used = {t.shadow_id for t in facts.trace.transactions if t.kind == "tracked"}
    for inspection in facts.compute_once(inspections):
        if not facts.is_2010(inspection.node):
            continue
        for held in shadows[inspection.node]:
            _check_shadow(facts, finding, inspection, held)
        secured = any(session.client == inspection.node for session in facts.starttls_sessions)
        for item in inspection.items_in(("shadow",)):
            finding.occasions += 1
            if item.shadow_id is not None and item.shadow_id not in used and not secured:
                finding.add_violation(
                    f"{inspection.node} keeps a shadow {item.shadow_id} for {item.next_hop}, to which it sent no message with it",
                    inspection.n,
                    row="SR-E10-14",
                )
        for name, message in facts.trace.messages.items():
            done = processing_of(facts, inspection.node, name).last_reply_if_processed(facts, inspection.n)
            if done is not None and inspection.t - done[1] > COMMIT_TIME_S and message.message_id is not None:
                if any(
                    held.copy.transaction.message == name and _may_be_taken_over(facts, held, inspection.n)
                    for held in shadows[inspection.node]
                ):
                    continue  # it may wait for another next hop
                finding.occasions += 1
                if inspection.items_in(("delivery", "submission"), message.message_id):
                    finding.add_message_violation(
                        message,
                        f"{inspection.node} had passed it on to all its next hops by {format_seconds(done[1])}, and it is queued "
                        f"for delivery at {format_seconds(inspection.t)}",
                        inspection.n,
                        done[0],
                        row="SR-E10-01",
                    )
    return finding


def _check_shadow(facts: Facts, finding: Finding, inspection: Inspection, held: HeldInterval) -> None:
    """Check that one shadow is in its shadow queue while it is to be kept, and in none once it was reported or must have expired.

    Expiry is judged only of a shadow whose primary has failed (`_has_failed`). A shadow that was not stored at the inspection, or
    whose reply the holder may not have read, is not judged; any other is an occasion. For one that was taken over,
    `_check_notification` is called.
    """
    holder, primary, shadow_id = held.copy.holder, held.copy.primary, held.copy.shadow_id
    if held.since_n > inspection.n or not _has_read_reply(
        facts, held.copy.transaction.session, held.since_n, inspection
    ):
        return
    finding.occasions += 1
    kept = [item for item in inspection.items_in(("shadow",)) if item.shadow_id == shadow_id]
    names = ("MessageExpirationTimeout", "ShadowMessageAutoDiscardInterval")
    lives = [facts.possible_parameter_range(holder, name, held.since_n, inspection.n) for name in names]
    age = inspection.t - held.since_t
    words = f"the shadow {shadow_id} of what it had sent to {primary} at {format_seconds(held.since_t)}"
    if held.covers(inspection.n):
        if age > max(most for _, most in lives) + _CLEAN_UP_S + facts.slack:
            # it waits for the notification until its primary has failed; only one that finds no route then is said to expire
            if kept and _has_failed(facts, held, inspection.n):
                finding.add_violation(
                    f"{holder} still keeps {words} at {format_seconds(inspection.t)}", inspection.n, held.since_n
                )
        elif (
            age < min(least for least, _ in lives) - facts.slack
            and not _is_shadow_shown(inspection, held)
            and not facts.may_be_off(holder, held.since_n, inspection.n)
            and not _may_be_taken_over(facts, held, inspection.n)
        ):
            restarted = facts.was_interrupted_between(holder, held.since_n, inspection.n)
            finding.add_violation(
                f"{holder} does not keep {words}",
                inspection.n,
                held.since_n,
                message=held.copy.transaction.message,
                row="SR-E10-01" if restarted else "SR-E10-03",
            )
        return
    discards = facts.discards_by_copy.get((primary, shadow_id, holder), ())
    notified = next((d for d in discards if held.copy.transaction.n < d.n < inspection.n), None)
    if notified is not None and facts.is_opened_by_tested_server(holder, notified.session):
        if (
            kept
            and _has_read_reply(facts, notified.session, notified.n, inspection)
            and not may_have_forgotten_event(facts, holder, notified.n, notified.t)
        ):
            finding.add_violation(
                f"{holder} keeps {words}, though {primary} reported its delivery at {format_seconds(notified.t)}",
                inspection.n,
                notified.n,
                row="SR-E10-07",
            )
    elif notified is None and held.until_t is not None and inspection.t - held.until_t >= COMMIT_TIME_S:
        _check_notification(facts, finding, inspection, held, words)


def _check_notification(facts: Facts, finding: Finding, inspection: Inspection, held: HeldInterval, words: str) -> None:
    """Add a violation if no notification is queued for the primary from which a shadow was taken over.

    Left out are holders whose discard status the primary has queried, or that lost their queue, notifications that expired, and a
    primary that lost its queue: its new database knows nothing of the shadow. `words` describe the shadow.
    """
    holder, primary, shadow_id = held.copy.holder, held.copy.primary, held.copy.shadow_id
    asked = any(
        q.client == primary and q.server == holder and q.is_answered and q.n < inspection.n for q in facts.trace.queries
    )
    lost = any(e.action == "wiped" and held.since_n < e.n < inspection.n for e in facts.node_events.get(holder, ()))
    lost |= any(e.action == "wiped" and e.n > held.since_n for e in facts.node_events.get(primary, ()))
    lifetime = facts.possible_parameter_range(
        holder, "ShadowMessageAutoDiscardInterval", held.since_n, inspection.n
    ).least
    assert held.until_t is not None
    if asked or lost or inspection.t - held.until_t > lifetime - facts.slack:
        return
    if len({name for _, _, name in facts.database_names_seen.get((holder, primary), ())}) > 1:
        return  # the new database knows nothing of it
    if not any(item.shadow_id == shadow_id for item in inspection.items_in(("discard",))):
        finding.add_violation(
            f"{holder} took over {words}, and has no notification of that queued for {primary}",
            inspection.n,
            held.until_n or held.since_n,
            row="SR-E10-08",
        )


def _has_read_reply(facts: Facts, session: str, after_n: int, inspection: Inspection) -> bool:
    """Return whether the client of a session surely read the reply of event `after_n` before an inspection.

    It sent a further command in the session, or `COMMIT_TIME_S` had passed. It read nothing if it was stopped between the
    session's begin and the reply.
    """
    asked = facts.trace.sessions[session]
    if facts.was_interrupted_between(asked.client, asked.n, after_n):
        return False
    said = any(after_n < e.command.n < inspection.n for e in asked.exchanges)
    return said or inspection.t - facts.trace.events[after_n].t >= COMMIT_TIME_S


def _is_shadow_shown(inspection: Inspection, held: HeldInterval) -> bool:
    """Return whether a shadow is shown in the queue of its primary.

    An item without a shadow id, or without a next hop, may be any shadow.
    """
    return any(
        item.shadow_id in (None, held.copy.shadow_id) and item.next_hop in ("", held.copy.primary)
        for item in inspection.items_in(("shadow",))
    )


def _has_failed(facts: Facts, held: HeldInterval, before_n: int) -> bool:
    """Return whether the holder of a shadow must have declared its primary failed before event `before_n`.

    It must if as many of its last contacts in a row as the greatest possible ShadowHeartbeatRetryCount failed. One that is
    `unclear` may have reached the primary, and counts as such.
    """
    holder, primary = held.copy.holder, held.copy.primary
    needed = facts.possible_parameter_range(holder, "ShadowHeartbeatRetryCount", held.since_n, before_n).greatest
    contacts = facts.contacts_by_client_and_server.get((holder, primary), ())
    since_held = [contact for contact in contacts if held.since_n < contact.n and contact.end_n < before_n]
    failed = takewhile(lambda contact: contact.outcome == "failed", reversed(since_held))
    return sum(1 for _ in failed) >= needed


def _may_be_taken_over(facts: Facts, held: HeldInterval, before_n: int) -> bool:
    """Return whether a holder may have taken a shadow over before event `before_n` without a transmission that shows it.

    It may have where two names of the primary's database were seen at any time, or where at least ShadowHeartbeatRetryCount
    contacts, in a row or not, did not reach the primary and there may be another next hop.
    """
    holder, primary = held.copy.holder, held.copy.primary
    contacts = [
        c for c in facts.contacts_by_client_and_server.get((holder, primary), ()) if held.since_n < c.n < before_n
    ]
    if len({name for _, _, name in facts.database_names_seen.get((holder, primary), ())}) > 1:
        return True
    needed = facts.possible_parameter_range(holder, "ShadowHeartbeatRetryCount", held.since_n, before_n).least
    return sum(contact.outcome != "reached" for contact in contacts) >= needed and _has_alternative(facts, held)


def _has_alternative(facts: Facts, held: HeldInterval) -> bool:
    """Return whether for any recipient there may be another next hop for a shadow's message than its primary (ruling 35).

    True too where the next hops are not known.
    """
    hops = [alternative_hops(facts, held.copy.holder, held.copy.primary, r) for r in held.copy.transaction.recipients]
    return any(alternative is None or alternative for alternative in hops)
