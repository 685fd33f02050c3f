"""A second opinion: the rules of seven invariants once more, slow and plain, written from the catalogue alone.

Nothing of `conformance.judge` is used here.
"""

from collections.abc import Callable
from typing import Any

from tests.judge.transfers import Transfer, World, transfers, transfers_of


def loses_acknowledged_message(world: World) -> bool:
    """RL-ACK-01: acknowledged, and neither delivered, reported, dropped as a duplicate, nor destroyed with all that had
    it (SR-BND-09)."""
    for attempt in world.kind("attempt"):
        if attempt.code is None or not 200 <= attempt.code <= 299:
            continue
        made = next(m for m in world.kind("message") if m.message == attempt.message)
        for recipient in attempt.accepted:
            arrived = any(d.recipient == recipient and world.message(d.digest) is made for d in world.kind("delivered"))
            reported = any(
                d.digest.report == "delivery-status" and d.digest.about == made.message_id
                and recipient in d.digest.failed and d.recipient == made.sender
                for d in world.kind("delivered")
            )  # fmt: skip
            duplicate = any(
                d.recipient == recipient and recipient in [box.address for box in world.topology.mailboxes]
                and d.digest.message_id == made.message_id and d.digest.date == made.digest.date
                for d in world.kind("delivered")
            )  # fmt: skip
            if not (arrived or reported or duplicate or _gone(world, attempt, made)) and world.kind("drained"):
                return True
    return False


def _gone(world: World, attempt: Any, made: Any) -> bool:
    had = [(attempt.server, attempt.n)]
    had += [
        (p.server, p.acceptance.n)
        for p in transfers_of(world, made)
        if p.acceptance is not None and world.is_server(p.server)
    ]
    return all(
        any(e.node == server and e.action == "wiped" and e.n > n for e in world.kind("node")) for server, n in had
    )


def acknowledges_without_shadow(world: World) -> bool:
    """SR-CRE-01, SR-PRF-07: acknowledged before another server of the boundary had the shadow, and not every permitted
    attempt had failed."""
    for made in world.kind("message"):
        for p in transfers_of(world, made):
            if p.acceptance is None or p.shadow is not None or not world.is_server(p.server) or world.broken(p.session):
                continue
            if p.door == "delivery" or p.client in world.boundary(p.server):
                continue
            others = world.boundary(p.server) - {p.server}
            stored = any(
                q.shadow is not None and q.client == p.server and q.server in others and q.acceptance is not None
                and p.mail < q.acceptance.n < p.acceptance.n
                for q in transfers_of(world, made)
            )  # fmt: skip
            if others and not stored and not _in_vain(world, p, made, others):
                return True
    return False


def _in_vain(world: World, p: Transfer, made: Any, others: set[str]) -> bool:
    if world.parameters["RejectMessageOnShadowFailure"]:
        return False
    tries = 0
    for event in world.events[p.mail : p.acceptance.n]:
        if event.kind == "connect-failed" and event.client == p.server and event.server in others:
            tries += event.listener == "transport"
        if event.kind != "connected" or event.client != p.server or event.server not in others:
            continue
        shadows = [q for q in transfers(world) if q.session == event.session and q.shadow is not None]
        for_it = [q for q in shadows if world.message(q.dot.digest) in (None, made)]
        tries += len(for_it)
    return tries >= world.parameters["MaxRetriesForLocalSiteShadow"] or any(
        _gave_up(world, e.session, p) for e in world.events[p.mail : p.acceptance.n]
        if e.kind == "connected" and e.client == p.server and e.server in others and e.listener == "transport"
    )  # fmt: skip


def _gave_up(world: World, session: str, p: Transfer) -> bool:
    """Ruling 16: nothing was refused in a session for a shadow, it did not end with QUIT, and no copy came of it later."""
    mine = [e for e in world.events if getattr(e, "session", None) == session]
    if any(e.kind == "command" and e.verb in ("QUIT", "XQDISCARD", "XQUERYDISCARD") for e in mine):
        return False
    left = next((e for e in mine if e.kind == "closed"), None)
    if left is not None and left.n < p.acceptance.n and left.by != "client":
        return False
    until = p.acceptance.n if left is None else min(p.acceptance.n, left.n)
    if any(e.kind == "reply" and e.n < until and e.code >= 400 for e in mine):
        return False
    ways = [q for q in transfers(world) if q.session == session]
    if any(q.shadow is None for q in ways):
        return False
    return not any(
        q.acceptance is not None and q.acceptance.n > p.acceptance.n and (left is None or left.n > q.acceptance.n)
        for q in ways
    )


def uses_shadow_outside_boundary(world: World) -> bool:
    """SR-BND-01: a shadow asked for, sent or queried where no shadow may be."""
    for command in world.kind("command"):
        where = world.session(command.session)
        if command.operation is None or not (world.is_server(where.client) and world.is_server(where.server)):
            continue
        if where.server not in world.boundary(where.client) and not world.by_harness(command.session):
            return True
    return False


def discards_before_delivery(world: World) -> bool:
    """SR-MNT-01: a discard notification before all recipients of the shadow were served."""
    everything = transfers(world)
    for reply in world.kind("reply"):
        if reply.operation is None or reply.operation.name != "discard-list":
            continue
        primary = world.session(reply.session).server
        for shadow in everything:
            if shadow.shadow not in reply.operation.shadow_ids or shadow.client != primary or shadow.acceptance is None:
                continue
            made = world.message(shadow.dot.digest)
            if made is None:
                continue
            given = [
                q for q in transfers_of(world, made) if q.server == primary and q.shadow is None and q.dot.n < reply.n
            ]
            if given and all(q.finals and q.acceptance is None for q in given):
                continue
            reported = any(
                q.dot.digest.report == "delivery-status" and q.dot.digest.about == made.message_id
                and (q.dot.digest.failed or q.dot.digest.action in (None, "failed"))
                and q.acceptance is not None and q.acceptance.n < reply.n
                for q in everything
            )  # fmt: skip
            served = all(_served(world, made, primary, recipient, reply.n) for recipient in shadow.accepted)
            if not served and not reported:
                return True
    return False


def _served(world: World, made: Any, primary: str, recipient: str, before: int) -> bool:
    passed = any(
        q.client == primary
        and q.shadow is None
        and recipient in q.accepted
        and q.accepted_for(recipient)
        and q.acceptance.n < before
        for q in transfers_of(world, made)
    )
    boxes = [box.address for box in world.topology.mailboxes]
    in_box = any(
        d.n < before and d.recipient == recipient and recipient in boxes
        and (d.digest.message_id, d.digest.date) == (made.message_id, made.digest.date)
        for d in world.kind("delivered")
    )  # fmt: skip
    return passed or in_box


def delivers_duplicate(world: World) -> bool:
    """SR-DUP-01: the same Message-ID and Date twice in one mailbox of one store, within the window."""
    window = world.parameters["DuplicateTrackingWindow"]
    window = 24 * 3600 if window > 49 * 24 * 3600 else window
    taken = [
        d for d in world.kind("delivered")
        if d.sink.endswith("-store") and d.recipient in [box.address for box in world.topology.mailboxes]
    ]  # fmt: skip
    for first in taken:
        for second in taken:
            same = (first.sink, first.recipient, first.digest.message_id, first.digest.date) == (
                second.sink, second.recipient, second.digest.message_id, second.digest.date
            )  # fmt: skip
            if second.n <= first.n or not same or second.t - first.t >= window:
                continue
            heard = any(
                r.session == first.session and r.to == "CONTENT" and r.n > first.n and 200 <= r.code <= 299
                and r.recipient == first.recipient
                for r in world.kind("reply")
            )  # fmt: skip
            wiped = any(
                e.action == "wiped" and e.node + "-store" == first.sink and first.n < e.n < second.n
                for e in world.kind("node")
            )
            if heard and not wiped:
                return True
    return False


def replies_twice(world: World) -> bool:
    """RL-RPL-01: more than one final reply, or one that answers nothing."""
    sessions = {s.session: s for s in world.kind("connected")}
    for r in world.kind("reply"):
        if r.to == "" and r.code != 421 and world.is_server(sessions[r.session].server) and not world.broken(r.session):
            return True
    for p in transfers(world):
        if not p.finals or not world.is_server(p.server) or world.broken(p.session):
            continue
        if len(p.finals) > (len(p.accepted) if p.door in ("lmtp", "delivery") else 1):
            return True
    return False


def alters_content(world: World) -> bool:
    """SR-CRE-06, RL-CNT-01: content or envelope is not what the server was given."""
    for made in world.kind("message"):
        ways = transfers_of(world, made)
        for p in ways:
            if not world.is_server(p.client) or world.broken(p.session) or world.by_harness(p.session):
                continue
            given = [q for q in ways if q.server == p.client and q.mail < p.dot.n]
            contents = [q.dot.digest.stable_sha256 for q in given] or [made.digest.stable_sha256]
            if p.dot.digest.stable_sha256 not in contents or p.sender != made.sender:
                return True
            if not set(p.accepted) <= set(made.recipients):
                return True
            waiting = [
                q for q in given if q.shadow is None and q.mail < p.mail and not any(r.n < p.mail for r in q.finals)
            ]
            if p.shadow is not None and waiting and not any(set(q.accepted) <= set(p.accepted) for q in waiting):
                return True
    return False


ORACLE: dict[str, Callable[[World], bool]] = {
    "nothing-acknowledged-is-lost": loses_acknowledged_message,
    "two-copies-at-acknowledgement": acknowledges_without_shadow,
    "shadow-inside-boundary": uses_shadow_outside_boundary,
    "no-discard-before-delivery": discards_before_delivery,
    "no-duplicate-in-mailbox": delivers_duplicate,
    "one-final-reply": replies_twice,
    "content-unchanged": alters_content,
}
"""Invariant -> whether a world violates it."""
