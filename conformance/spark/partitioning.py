"""How a history is spread over parts: nearly all that is asked of it is asked of each cell on its own.

So rows of a cell are put together once, and joined where they are. A small history is one part: then
Spark plans hardly an exchange, and a query is one stage.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PART = 128 * 1024 * 1024
"""Octets of history in a part: thirty runs of five hundred cells, of which a task holds what it joins in memory."""
SMALL = 64 * 1024 * 1024
"""Octets of history below which there is one part, and compiling queries takes longer than interpreting them."""
LEAST = 4
"""Parts of a history that is not small."""
MOST = 1000
"""Parts, however large the history."""


@dataclass(frozen=True, slots=True)
class Partitioning:
    """So many parts, each with all rows of some cells."""

    parts: int
    local: bool = True
    """Whether everything is computed in this process: then nothing that it keeps can be lost on the way."""

    @property
    def several(self) -> bool:
        """Whether there is more than one part."""
        return self.parts > 1

    def repartition_by_cell(self, rows: "DataFrame") -> "DataFrame":
        """Return rows put together; they must have the column `cell_id`."""
        return rows.coalesce(1) if self.parts == 1 else rows.repartition(self.parts, "cell_id")

    def cached(self, rows: "DataFrame") -> "DataFrame":
        """Return rows that are computed once, for several queries.

        Of a small history the rows lie in memory, and a query's plan begins with them instead of with how they were
        made; else columns lie on disk, of which a query reads those that it wants: they would fill the heap. Of a
        cluster any node may go, and its rows are then made again.
        """
        if self.parts == 1 and self.local:
            return self.hash_join_hint(rows.localCheckpoint(eager=True))  # by whoever defines it: others plan meanwhile
        from pyspark import StorageLevel

        return self.hash_join_hint(rows.persist(StorageLevel.DISK_ONLY))

    def cached_in_memory_when_small(self, rows: "DataFrame") -> "DataFrame":
        """Return rows that nearly every query reads: of a small history from memory, once one has read them."""
        return rows.localCheckpoint(eager=False) if self.parts == 1 and self.local else rows

    def cached_when_small(self, rows: "DataFrame") -> "DataFrame":
        """Return rows that one other query is made of: planned and computed by themselves where the history is small."""
        return self.cached(rows) if self.parts == 1 and self.local else rows

    def hash_join_hint(self, rows: "DataFrame") -> "DataFrame":
        """Return rows that a join looks up, and does not sort: a part has few of them, which Spark cannot know."""
        return rows.hint("shuffle_hash")

    def register_bucketed_table(self, session: "SparkSession", table: str, columns: str, folder: Path) -> None:
        """Let a session know files by a table's name: those of several parts, each by the part that its cells are in.

        Spark does not move what it reads from them. They must be there as `buckets.write_buckets` writes them.
        """
        path = str(folder).replace("\\", "\\\\").replace("'", "\\'")
        session.sql(
            f"CREATE TABLE {table} ({columns}) USING parquet "
            f"OPTIONS ('path' '{path}', '__globPaths__' 'false') "  # a path that is no pattern
            f"CLUSTERED BY (cell_id) INTO {self.parts} BUCKETS"
        )

    def broadcast(self, rows: "DataFrame") -> "DataFrame":
        """Return a few rows that every part is joined with."""
        return self.hash_join_hint(rows.coalesce(1)) if self.parts == 1 else rows.hint("broadcast")


def partition_count(octets: int) -> int:
    """Return how many parts a history of this size has."""
    return 1 if octets < SMALL else min(max(octets // PART, LEAST), MOST)


ONE_PART = {
    # Spark leaves one part as it is only where it takes it for small, and it takes the product of two sides for the size of a join:
    # after a few joins that is beyond any limit, and each join and sum was an exchange (110 of them in one aggregation).
    "spark.sql.maxSinglePartitionBytes": f"{2**62}b",
    "spark.sql.defaultSizeInBytes": "1",
    "spark.sql.sources.fileCompressionFactor": "0.000001",
    # Of an inner join Spark lists both sides as what the rows are parted by, and knows one part in a list of one only.
    "spark.sql.optimizer.expressionProjectionCandidateLimit": "1",
    # What holds of all rows of a query serves to plan it better, not to plan it sooner; and of rows that were computed
    # before, Spark 4.3 looks for columns that it has dropped, and fails.
    "spark.sql.constraintPropagation.enabled": "false",
}
"""What lets Spark see that rows which lie in one part need not be moved. No side is broadcast by these sizes: see
`session.DEFAULTS`."""


def settings_for_size(octets: int) -> dict[str, str]:
    """Return Spark's settings that suit a history of this size."""
    small = octets < SMALL
    return {
        **(ONE_PART if small else {}),
        "spark.sql.shuffle.partitions": str(partition_count(octets)),
        "spark.serializer": f"org.apache.spark.serializer.{'Java' if small else 'Kryo'}Serializer",
        "spark.kryoserializer.buffer.max": "1g",
        "spark.sql.codegen.wholeStage": str(not small).lower(),
        "spark.sql.codegen.factoryMode": "NO_CODEGEN" if small else "FALLBACK",
        "spark.sql.adaptive.enabled": "false",
        # What is written by part is in its part already, and would be sorted by it.
        "spark.sql.optimizer.plannedWrite.enabled": str(small).lower(),
    }
