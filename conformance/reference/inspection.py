"""The queues of a node: as the JSON object of `inspect` (node contract), and as a table (`conformance queues NODE`).

The node answers the command `inspect` with the object; the harness compares it with what it expects. The program makes the table
of it.

The kinds of queues: `submission` (messages for which a shadow is still to be made), `delivery` (to one next hop), `shadow`
(copies kept for another server, their primary), `safety-net` and `shadow-safety-net` (messages and copies held after their
processing), and `discard` (notifications by which another server learns that it may give up a copy). Times are POSIX seconds. The
*delivered-to table* records the deliveries into mailboxes here, by which duplicates are recognised.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from conformance.reference.host import Host
from conformance.reference.message import Message, Recipient

Queues = dict[tuple[str, str, str], list[dict[str, Any]]]
"""The items of each queue by its name, kind and next hop."""


def queue_state(host: Host) -> dict[str, Any]:
    """Return the JSON object of `inspect`: id of the queue database, queues with their items, number of rows in the delivered-to table.

    Each queue has `queue` (its name), `kind`, `next_hop` and `items`; an empty queue is not listed. For the keys of an item see
    `_item`.
    """
    queues: Queues = {}
    _add_primary_messages(host, queues)
    for shadow in host.shadow_queues.all_queued():
        name = f"shadow {shadow.primary} to {shadow.next_hop}"
        _add_item(queues, name, "shadow", shadow.primary, _item(shadow.message, shadow.recipients))
    for message in host.messages.held_as("safety-net"):
        _add_item(queues, "safety-net", "safety-net", host.name, _item(message))
    for message in host.messages.held_as("shadow-safety-net"):
        name = f"shadow-safety-net {message.primary}"
        _add_item(queues, name, "shadow-safety-net", message.primary, _item(message))
    for event in host.discards.all_notifications():
        item: dict[str, Any] = {
            "message_id": None,
            "shadow_id": event.shadow_id,
            "primary": host.name,
            "recipients": [],
        }
        _add_item(queues, f"discard {event.server}", "discard", event.server, {**item, "since": event.queued})
    return {
        "database": host.identity.database,
        "queues": [
            {"queue": name, "kind": kind, "next_hop": hop, "items": items}
            for (name, kind, hop), items in queues.items()
        ],
        "delivered_to": host.delivered.count(),
    }


def _add_primary_messages(host: Host, queues: Queues) -> None:
    """Add the primary messages to `queues`, with their pending recipients.

    Until the attempt to make a shadow has ended (`redundancy_pending`), a message is in the submission queue, even if none of its
    recipients is pending any more. Then it is in the queue of each next hop of its pending recipients; without any, while it
    waits for the reports about it, it is in no queue.
    """
    for message in host.messages.held_as("primary"):
        pending = host.messages.pending_recipients(message.id)
        if message.redundancy_pending:
            _add_item(queues, "submission", "submission", host.name, _item(message, pending))
            continue
        for hop, recipients in host.routing.group_by_next_hop(pending).items():
            _add_item(queues, f"delivery {hop.name}", "delivery", hop.name, _item(message, recipients))


def _add_item(queues: Queues, name: str, kind: str, hop: str, item: dict[str, Any]) -> None:
    """Append an item to the queue with this name, kind and next hop in `queues`; add the queue if it does not exist."""
    queues.setdefault((name, kind, hop), []).append(item)


def _item(message: Message, recipients: Iterable[Recipient] | None = None) -> dict[str, Any]:
    """Return a message as an item of a queue, with these recipients or, for None, all of its own.

    In the item `message_id` is its Message-ID header field (None if it has none) and `shadow_id` its id between primary and
    shadow server; `primary` is the name of the primary server of a shadow, None for a message of this server itself; `since` is
    when the message came to its place (POSIX seconds).
    """
    listed = message.envelope.recipients if recipients is None else recipients
    return {
        "message_id": message.internet_id,
        "shadow_id": message.shadow_id,
        "primary": message.primary or None,
        "recipients": [recipient.address for recipient in listed],
        "since": message.since,
    }


_COLUMNS = ("queue", "next hop", "messages", "oldest since")


def table_rows(state: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield one row of the table, with the columns of `_COLUMNS`, for each queue in the JSON object of `inspect`.

    The last column is the time in UTC since which its oldest item is there, "" for a queue without items.
    """
    for queue in state["queues"]:
        oldest = min((item["since"] for item in queue["items"]), default=None)
        since = "" if oldest is None else datetime.fromtimestamp(oldest, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        yield queue["queue"], queue["next_hop"], str(len(queue["items"])), since


def format_table(state: dict[str, Any]) -> str:
    """Return the JSON object of `inspect` as a table for people, several lines without a last line end.

    The queue database's id is above the table, and the size of the delivered-to table below.
    """
    lines = [_COLUMNS, *table_rows(state)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_COLUMNS))]
    body = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([f"database {state['database']}", *body, f"delivered-to: {state['delivered_to']} rows"])
