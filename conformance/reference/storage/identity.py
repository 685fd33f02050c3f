"""Names that are unique for ever: of the database, and of messages in it."""

import hashlib
from collections import Counter
from pathlib import Path

from conformance.reference.storage.database import Database

_made: Counter[Path] = Counter()
"""How many databases this process has made at each place: two made at one instant of one clock still differ."""


class Identity:
    """Names this queue database and gives out message ids.

    The database's id is made once: from the node's seed and name, the time, and how often one was
    made here. Message ids hold the incarnation, which is counted up durably at every start, so that a number given
    out and lost in a kill is never given out again.
    """

    def __init__(self, db: Database, *, directory: Path, seed: int, name: str, now: float) -> None:
        if not db.read("SELECT 1 FROM node"):  # a node may be killed between making the tables and giving the id
            _made[directory] += 1
            words = f"{seed}:{name}:{now!r}:{_made[directory]}"
            database = hashlib.sha256(words.encode()).hexdigest()[:16]
            db.write("INSERT INTO node (database, incarnation) VALUES (?, 0)", (database,))
        db.write("UPDATE node SET incarnation = incarnation + 1")
        row = db.read("SELECT database, incarnation FROM node")[0]
        self.database: str = row["database"]
        self._incarnation: int = row["incarnation"]
        self._given = 0

    def new_id(self) -> str:
        """Return a new id: 1 to 64 characters of A-Za-z0-9-."""
        self._given += 1
        return f"{self.database}-{self._incarnation}-{self._given}"
