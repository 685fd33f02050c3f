"""Unique ids: that of the queue database, and those of messages in it.

Servers tell each other the ids of their queue databases: from a new one they see that a server has lost its messages.
"""

import hashlib
from collections import Counter
from pathlib import Path

from conformance.reference.storage.database import Database

_databases_made: Counter[Path] = Counter()
"""How many databases this process has made in each directory: two that are made at the same instant get different ids."""


class Identity:
    """The id of this queue database, and new message ids.

    The id of the database is a hash of the node's seed and name, the time, and how many databases this process has made in the
    directory. Message ids contain the incarnation, a counter that is incremented on disk at every start, so that an id which was
    given out and lost in a kill is not given out again. A lost and newly made database has another id: so other servers see the
    loss.
    """

    def __init__(self, db: Database, *, directory: Path, seed: int, name: str, now: float) -> None:
        """Begin a new incarnation: increment the counter in `db`, and make the id of the database if it has none.

        The caller commits that before the first id is given out. `directory` is where the database is, `seed` and `name` are
        those of the node, `now` is the time (POSIX seconds).
        """
        if not db.read("SELECT 1 FROM node"):  # a node may be killed after making the tables and before this
            _databases_made[directory] += 1
            source = f"{seed}:{name}:{now!r}:{_databases_made[directory]}"
            database = hashlib.sha256(source.encode()).hexdigest()[:16]
            db.write("INSERT INTO node (database, incarnation) VALUES (?, 0)", (database,))
        db.write("UPDATE node SET incarnation = incarnation + 1")
        row = db.read("SELECT database, incarnation FROM node")[0]
        self.database: str = row["database"]
        self._incarnation: int = row["incarnation"]
        self._count = 0

    def new_id(self) -> str:
        """Return a new id, for a message or a shadow: 1 to 64 characters of A-Za-z0-9-, unique among all servers.

        It is made of the id of the database, the number of this start of the node (incarnation), and a counter.
        """
        self._count += 1
        return f"{self.database}-{self._incarnation}-{self._count}"
