"""How a history is spread over parts: what is asked of it is asked of each run, or each cell, on its own.

So rows that belong together are put together once, and no query moves them again. A small history is one part: then
Spark plans no exchange at all, and a query is one stage.
"""

from collections.abc import Collection
from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import DataFrame

PART = 128 * 1024 * 1024
"""Octets of history in a part: thirty runs of five hundred cells, which a task sorts in memory."""
SMALL = 64 * 1024 * 1024
"""Octets of history below which there is one part, and compiling queries takes longer than interpreting them."""
LEAST = 4
"""Parts of a history that is not small."""
MOST = 1000
"""Parts, however large the history."""


@dataclass(frozen=True, slots=True)
class Spread:
    """So many parts, each with all rows of some runs, or of some cells."""

    parts: int
    keys: tuple[str, ...]
    local: bool = True
    """Whether everything is computed in this process: then nothing that it keeps can be lost on the way."""

    def together(self, rows: DataFrame) -> DataFrame:
        """Return rows put together; they must have the columns `run` and `cell`."""
        return rows.coalesce(1) if self.parts == 1 else rows.repartition(self.parts, *self.keys)

    def kept(self, rows: DataFrame) -> DataFrame:
        """Return rows that are computed once, for several queries.

        Of a small history the rows lie in memory, and a query's plan begins with them instead of with how they were
        made; else columns lie on disk, of which a query reads those that it wants: they would fill the heap. Of a
        cluster any node may go, and its rows are then made again.
        """
        if self.parts == 1 and self.local:
            return rows.localCheckpoint(eager=False)
        return rows.persist(StorageLevel.DISK_ONLY)

    def everywhere(self, rows: DataFrame) -> DataFrame:
        """Return a few rows that every part is joined with."""
        return rows.coalesce(1) if self.parts == 1 else rows.hint("broadcast")


def spread_of(octets: Collection[int], *, local: bool = True) -> Spread:
    """Return how runs of these sizes are spread: by run, unless one alone would make its part much too large."""
    total = sum(octets)
    parts = parts_of(total)
    even = parts == 1 or max(octets) * parts <= 4 * total
    return Spread(parts, ("run",) if even else ("run", "cell"), local)


def parts_of(octets: int) -> int:
    """Return how many parts a history of this size has."""
    return 1 if octets < SMALL else min(max(octets // PART, LEAST), MOST)


def settings_for(octets: int) -> dict[str, str]:
    """Return Spark's settings that suit a history of this size."""
    small = octets < SMALL
    return {
        "spark.sql.shuffle.partitions": str(parts_of(octets)),
        "spark.sql.codegen.wholeStage": str(not small).lower(),
        "spark.sql.codegen.factoryMode": "NO_CODEGEN" if small else "FALLBACK",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.autoBroadcastJoinThreshold": "-1" if small else "10m",
    }
