"""What `inspect` prints: the queues of a node as one JSON object (node contract)."""

from typing import Any

from conformance.reference.host import Host
from conformance.reference.message import Message
from conformance.reference.routing.forks import forks


def state(host: Host) -> dict[str, Any]:
    """Return the queues of a node: database, queues with their items, rows of the delivered-to table."""
    queues: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for message in host.messages.in_place("primary"):
        for hop in forks(host.config, host.messages.pending(message.id)):
            queues.setdefault(("delivery", hop.name), []).append(_item(message))
    for message in host.messages.in_place("shadow"):
        queues.setdefault(("shadow", message.primary), []).append(_item(message))
    for message in host.messages.in_place("safety-net"):
        queues.setdefault(("safety-net", "safety-net"), []).append(_item(message))
    for message in host.messages.in_place("shadow-safety-net"):
        queues.setdefault(("shadow-safety-net", message.primary), []).append(_item(message))
    for event in host.discards.everything():
        item: dict[str, Any] = {
            "message_id": None,
            "shadow_id": event.shadow_id,
            "primary": host.config.name,
            "recipients": [],
        }
        queues.setdefault(("discard", event.server), []).append({**item, "since": event.queued})
    return {
        "database": host.identity.database,
        "queues": [
            {"queue": f"{kind} {hop}", "kind": kind, "next_hop": hop, "items": items}
            for (kind, hop), items in queues.items()
        ],
        "delivered_to": host.delivered.rows(),
    }


def _item(message: Message) -> dict[str, Any]:
    return {
        "message_id": message.internet_id,
        "shadow_id": message.shadow_id,
        "primary": message.primary or None,
        "recipients": [recipient.address for recipient in message.envelope.recipients],
        "since": message.since,
    }
