"""The command `inspect`: reads what a node holds from its database while it runs."""

import json
import sqlite3
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import Any

from config import Config
from routing import next_hop


def inspect(data_dir: str) -> dict[str, Any]:
    """Return what the command prints (node contract, "inspect"), by the configuration that is in force."""
    queues: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    with closing(sqlite3.connect(f"file:{Path(data_dir) / 'queue.db'}?mode=ro", uri=True)) as database:
        meta = dict(database.execute("SELECT key, value FROM meta"))
        ((rows,),) = database.execute("SELECT count(*) FROM delivered")
        messages = [json.loads(row) for (row,) in database.execute("SELECT row FROM message ORDER BY id")]
        discards = database.execute("SELECT server, shadow_id, since FROM discard ORDER BY id").fetchall()
    config = Config(json.loads(meta["file"]))
    for one in messages:
        item = {"message_id": one["internet_id"], "shadow_id": one["shadow_id"], "primary": one["primary_name"] or None}
        hops = defaultdict(list)
        for address in one["recipients"]:
            hops[next_hop(config, address).name].append(address)
        for hop, addresses in hops.items():
            queue = ("shadow", one["primary_name"], hop) if one["primary_name"] else ("delivery", hop)
            queues[queue].append(item | {"recipients": addresses, "since": one["arrived"]})
    for server, shadow_id, since in discards:
        item = {"message_id": None, "shadow_id": shadow_id, "primary": config.name, "recipients": [], "since": since}
        queues["discard", server].append(item)
    listed = [{"queue": " ".join(key), "kind": key[0], "next_hop": key[1], "items": queues[key]} for key in queues]
    return {"database": meta["database"], "queues": listed, "delivered_to": rows}
