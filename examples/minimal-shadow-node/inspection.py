"""`inspect`: what a node holds, read beside it while it runs."""

import json
import sqlite3
from contextlib import closing
from typing import Any

from config import Config
from routing import next_hop

Queues = dict[tuple[str, str, str], list[dict[str, Any]]]


def inspect(config: Config) -> dict[str, Any]:
    """Return what the command prints (node contract, "inspect")."""
    queues: Queues = {}
    with closing(sqlite3.connect(f"file:{config.data_dir / 'queue.db'}?mode=ro", uri=True)) as database:
        for (row,) in database.execute("SELECT row FROM message ORDER BY id"):
            _list(queues, config, json.loads(row))
        for server, shadow_id, since in database.execute("SELECT server, shadow_id, since FROM discard ORDER BY id"):
            item = {
                "message_id": None,
                "shadow_id": shadow_id,
                "primary": config.name,
                "recipients": [],
                "since": since,
            }
            queues.setdefault(("discard", server, ""), []).append(item)
        ((name,),) = database.execute("SELECT value FROM meta WHERE key = 'database'")
        ((rows,),) = database.execute("SELECT count(*) FROM delivered")
    listed = [{"queue": " ".join(key), "kind": key[0], "next_hop": key[1], "items": queues[key]} for key in queues]
    return {"database": name, "queues": listed, "delivered_to": rows}


def _list(queues: Queues, config: Config, row: dict[str, Any]) -> None:
    """Put a message into a queue for each of its next hops, with the recipients that go there."""
    primary, hops = row["primary_name"], dict[str, list[str]]()
    for address in row["recipients"]:
        hops.setdefault(next_hop(config, address).name, []).append(address)
    for hop, addresses in hops.items():
        item = {"message_id": row["internet_id"], "shadow_id": row["shadow_id"], "primary": primary or None}
        queue = queues.setdefault(("shadow", primary, hop) if primary else ("delivery", hop, ""), [])
        queue.append({**item, "recipients": addresses, "since": row["arrived"]})
