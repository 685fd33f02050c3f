"""What servers were handed and have passed on, and what their queues held when they were inspected: facts for rules about queues.

A server has *passed on* a message for a recipient when a next hop, a mailbox store or another server took it from the server with a
positive final reply that was seen. It has *processed* the message when it has passed it on to every recipient as often as it was handed
it. `n` is an event's number, times are documented seconds.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from conformance.history.events import Configured, Inspected
from conformance.model.facts import Facts
from conformance.model.server_facts import STOPPING_ACTIONS
from conformance.trace.sessions import Transaction

COMMIT_TIME_S = 1.0
"""A server that stops within this time after an event may have forgotten it: it was not on disk yet. Seconds."""


def may_have_forgotten_event(facts: Facts, server: str, n: int, t: float) -> bool:
    """Return whether a server stopped within `COMMIT_TIME_S` after event `n` at time `t`, so that it may have forgotten the event."""
    return any(
        e.n > n and e.t - t < COMMIT_TIME_S and e.action in STOPPING_ACTIONS and e.action not in ("paused", "wiped")
        for e in facts.node_events.get(server, ())
    )


def was_queue_wiped(facts: Facts, server: str, after_n: int, before_n: int) -> bool:
    """Return whether a server's queue was deleted between two events."""
    return any(e.action == "wiped" and after_n < e.n < before_n for e in facts.node_events.get(server, ()))


@dataclass(frozen=True, slots=True)
class Processing:
    """What a server did with a message.

    `handed` has the transactions in which it may have taken the message as its own; `passed_on` has, for each normalized recipient, the
    positive final replies to its own transmissions: number, time and next hop of each. `unread` has the numbers of those that a fault
    delayed and nothing shows that the server read: it may have left before.
    """

    handed: tuple[Transaction, ...]
    passed_on: Mapping[str, list[tuple[int, float, str]]]
    unread: frozenset[int]

    def last_reply_if_processed(
        self, facts: Facts, before_n: int, *, unread_counts: bool = False
    ) -> tuple[int, float, str] | None:
        """Return number, time and next hop of the last reply by which the message was processed before event `before_n`.

        None where it was not handed to the server, where a handing has no final reply, or where some recipient was not passed on
        as often as it was accepted. Only replies count that the server surely read; with `unread_counts` those too that it may
        not have read.
        """
        handed = [t for t in self.handed if t.dot_n is not None and t.dot_n < before_n]
        if not handed or not all(t.replies for t in handed):
            return None
        last: tuple[int, float, str] = (-1, 0.0, "")
        for recipient in facts.context.normalize_addresses(r for t in handed for r in (*t.recipients, *t.refused)):
            times = sum(recipient in facts.context.normalize_addresses(t.recipients) for t in handed)
            taken = [
                one
                for one in self.passed_on.get(recipient, ())
                if one[0] < before_n and (unread_counts or one[0] not in self.unread)
            ]
            if len(taken) < times:
                return None
            last = max(last, max(taken, default=last))
        return last if last[0] >= 0 else None


def processing_of(facts: Facts, server: str, name: str) -> Processing:
    """Return what a server did with a message, transmissions of shadow copies left out; computed once for each pair.

    Altered sessions do not count, nor do replies that the server may have forgotten, since it stopped right after them.
    """
    known = facts.compute_once(_known_processings)
    if (server, name) not in known:
        known[server, name] = _process(facts, server, name)
    return known[server, name]


def _known_processings(facts: Facts) -> dict[tuple[str, str], Processing]:
    """Return an empty cache for `processing_of`, which fills it; `Facts.compute_once` keeps one for each history."""
    del facts
    return {}


def _process(facts: Facts, server: str, name: str) -> Processing:
    """Return what a server did with a message; called once for each pair, by `processing_of`.

    A reply within `COMMIT_TIME_S` of the server's stop is left out, since the server may have forgotten it. So are sessions that
    a fault altered, and sessions that the harness opened under the server's name.
    """
    handed, passed_on, unread = [], dict[str, list[tuple[int, float, str]]](), set[int]()
    for t in facts.trace.transactions_of(name):
        if t.kind == "shadow" or t.session in facts.trace.altered_sessions:
            continue
        if t.server == server and (not t.replies or t.acceptance is not None):
            handed.append(t)
        elif t.client == server and facts.is_opened_by_tested_server(server, t.session):
            for reply in t.replies:
                if reply.code // 100 == 2 and not may_have_forgotten_event(facts, server, reply.n, reply.t):
                    if facts.trace.may_be_unread(t.session, reply.n):
                        unread.add(reply.n)
                    for recipient in (reply.recipient,) if reply.recipient else t.recipients:
                        address = facts.context.normalize_address(recipient)
                        passed_on.setdefault(address, []).append((reply.n, reply.t, t.server))
    return Processing(tuple(handed), passed_on, frozenset(unread))


@dataclass(frozen=True, slots=True)
class QueuedItem:
    """A message in a queue, as `inspect` shows it; what a node left out is None, '' or (), a missing kind 'None'.

    `kind` is that of the queue, such as `delivery`, `shadow`, `safety-net` or `discard` (docs/node-contract.md).
    """

    kind: str
    next_hop: str
    message_id: str | None
    shadow_id: str | None
    recipients: tuple[str, ...] = ()


@dataclass(frozen=True)
class Inspection:
    """What was in a node's queues at event `n`; `delivered_to` is the number of entries of duplicate detection."""

    node: str
    n: int
    t: float
    items: tuple[QueuedItem, ...]
    delivered_to: int

    def items_in(self, kinds: tuple[str, ...], message_id: str | None = None) -> list[QueuedItem]:
        """Return the items in queues of these kinds, such as `shadow` or `delivery`; of one Message-ID, or of all with None."""
        items = self.items if message_id is None else self._items_by_message_id.get(message_id, ())
        return [item for item in items if item.kind in kinds]

    def shadow_ids_for(self, primary: str) -> set[str | None]:
        """Return the ids of the copies in the shadow queues for a primary."""
        return {item.shadow_id for item in self.items if item.kind == "shadow" and item.next_hop == primary}

    @cached_property
    def _items_by_message_id(self) -> Mapping[str | None, list[QueuedItem]]:
        """The items of each Message-ID, in order."""
        found: dict[str | None, list[QueuedItem]] = defaultdict(list)
        for item in self.items:
            found[item.message_id].append(item)
        return found


def inspections(facts: Facts) -> list[Inspection]:
    """Return the inspections of servers under test, in order; [] where the candidate does not claim `inspect`."""
    if "inspect" not in facts.context.claims:
        return []
    return [
        Inspection(
            node=event.node,
            n=event.n,
            t=event.t,
            items=_items(facts, event.state),
            delivered_to=_count(event.state.get("delivered_to")),
        )
        for event in facts.trace.events_of(Inspected)
        if facts.is_tested_server(event.node)
    ]


def inspections_after_switches(facts: Facts, server: str) -> list[tuple[int, float, Inspection]]:
    """Return the inspections of a server while redundancy is on again after it was off, each behind number and time of that switch.

    What such an inspection shows in a shadow queue has survived the switch off. No document says that it has to (ruling 37).
    """
    switches = [
        event
        for event in facts.trace.events_of(Configured)
        if event.node == server and event.refused is None and "ShadowRedundancyEnabled" in event.changes
    ]
    found = []
    for off, on, following in zip(switches, switches[1:], [*switches[2:], None], strict=False):
        if (off.changes["ShadowRedundancyEnabled"], on.changes["ShadowRedundancyEnabled"]) != (False, True):
            continue
        until_n = facts.end_n if following is None else following.n
        found += [
            (on.n, on.t, inspection)
            for inspection in facts.compute_once(inspections)
            if inspection.node == server and on.n < inspection.n < until_n
        ]
    return found


def _items(facts: Facts, state: Mapping[str, Any]) -> tuple[QueuedItem, ...]:
    """Return the items of all queues in what a node printed for `inspect`; the names of servers are spelled as in the topology."""
    return tuple(
        QueuedItem(
            kind=str(queue.get("kind")),
            next_hop=facts.server_named(str(queue.get("next_hop") or "")),
            message_id=str(item["message_id"]).strip("<>") if item.get("message_id") else None,
            shadow_id=str(item["shadow_id"]) if item.get("shadow_id") else None,
            recipients=tuple(str(recipient) for recipient in item.get("recipients") or ()),
        )
        for queue in state.get("queues", ())
        for item in queue.get("items", ())
    )


def _count(entries: Any) -> int:
    """Return the number of entries, given as that number or as a list; 0 for None."""
    return entries if isinstance(entries, int) else len(entries or ())
