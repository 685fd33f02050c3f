"""What `inspect` prints: the queues of a node as one JSON object (node contract)."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from conformance.reference.host import Host
from conformance.reference.message import Message, Recipient

Queues = dict[tuple[str, str, str], list[dict[str, Any]]]
"""(name, kind, next hop) -> items."""


def state(host: Host) -> dict[str, Any]:
    """Return the queues of a node: database, queues with their items, rows of the delivered-to table."""
    queues: Queues = {}
    _own(host, queues)
    for shadow in host.shadow_queues.all_queued():
        name = f"shadow {shadow.primary} to {shadow.next_hop}"
        _put(queues, name, "shadow", shadow.primary, _item(shadow.message, shadow.recipients))
    for message in host.messages.in_place("safety-net"):
        _put(queues, "safety-net", "safety-net", host.name, _item(message))
    for message in host.messages.in_place("shadow-safety-net"):
        name = f"shadow-safety-net {message.primary}"
        _put(queues, name, "shadow-safety-net", message.primary, _item(message))
    for event in host.discards.all_events():
        item: dict[str, Any] = {
            "message_id": None,
            "shadow_id": event.shadow_id,
            "primary": host.name,
            "recipients": [],
        }
        _put(queues, f"discard {event.server}", "discard", event.server, {**item, "since": event.queued})
    return {
        "database": host.identity.database,
        "queues": [
            {"queue": name, "kind": kind, "next_hop": hop, "items": items}
            for (name, kind, hop), items in queues.items()
        ],
        "delivered_to": host.delivered.count(),
    }


def _own(host: Host, queues: Queues) -> None:
    """Primary messages: in the submission queue until they are redundant, then in the queues of their next hops."""
    for message in host.messages.in_place("primary"):
        pending = host.messages.pending(message.id)
        if message.redundancy_pending:
            _put(queues, "submission", "submission", host.name, _item(message, pending))
            continue
        for hop, recipients in host.routing.group_by_next_hop(pending).items():
            _put(queues, f"delivery {hop.name}", "delivery", hop.name, _item(message, recipients))


def _put(queues: Queues, name: str, kind: str, hop: str, item: dict[str, Any]) -> None:
    queues.setdefault((name, kind, hop), []).append(item)


def _item(message: Message, recipients: Iterable[Recipient] | None = None) -> dict[str, Any]:
    held = message.envelope.recipients if recipients is None else recipients
    return {
        "message_id": message.internet_id,
        "shadow_id": message.shadow_id,
        "primary": message.primary or None,
        "recipients": [recipient.address for recipient in held],
        "since": message.since,
    }


_HEAD = ("queue", "next hop", "messages", "oldest since")


def rows(state: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield one row for each queue of what `inspect` told."""
    for queue in state["queues"]:
        oldest = min((item["since"] for item in queue["items"]), default=None)
        since = "" if oldest is None else datetime.fromtimestamp(oldest, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        yield queue["queue"], queue["next_hop"], str(len(queue["items"])), since


def table(state: dict[str, Any]) -> str:
    """Return the table, with the database's id above it and the size of the delivered-to table below."""
    lines = [_HEAD, *rows(state)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEAD))]
    body = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([f"database {state['database']}", *body, f"delivered-to: {state['delivered_to']} rows"])
