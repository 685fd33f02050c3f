"""How the rows of a history are partitioned for Spark: by cell, and in one partition where the history is small.

Nearly all queries join and aggregate within a cell. The rows of a cell are brought together once, and then joined without a
shuffle. With a single partition Spark plans hardly any exchange, and a query is one stage. `views` and `aggregation` call this.

*Rows* are one of Spark's data frames. A *hint* is advice for Spark's planner; no result depends on it. *Local* means that Spark
runs in this process alone.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OCTETS_PER_PARTITION = 128 * 1024 * 1024
"""Octets of history in a partition: thirty runs of five hundred cells. A task holds what it joins of that in memory."""
SMALL_OCTETS = 256 * 1024 * 1024
"""Octets of history below which there is one partition: two corpus runs. With several, Spark plans many more stages."""
INTERPRETED_OCTETS = 40 * 1024 * 1024
"""Octets of history below which compiling queries takes longer than interpreting them: three hundred cells."""
MIN_PARTITIONS = 4
"""The fewest partitions of a history that is not small."""
MAX_PARTITIONS = 1000
"""The most partitions, however large a history is."""


@dataclass(frozen=True, slots=True)
class Partitioning:
    """The number of partitions, each with all rows of some cells, and what follows from it for Spark's data frames.

    The methods that take rows return a data frame with the same rows, placed, cached or hinted.
    """

    partitions: int
    local: bool = True
    """Whether Spark runs in this process alone: then no cached partition can be lost with a node."""

    @property
    def several(self) -> bool:
        """Whether there is more than one partition."""
        return self.partitions > 1

    def repartition_by_cell(self, rows: "DataFrame") -> "DataFrame":
        """Return the rows distributed over the partitions by `cell_id`; with a single partition, all in that one."""
        return rows.repartition(self.partitions, "cell_id") if self.several else rows.coalesce(1)

    def cached(self, rows: "DataFrame") -> "DataFrame":
        """Return the rows so that several queries compute them once, with the hint that a join hashes them.

        In one local partition they are computed now, into memory, which blocks: the plans of later queries then begin with the
        rows and not with their query. Else they are stored on disk when they are first read, since they would fill the heap;
        on a cluster Spark computes again what is lost with a machine.
        """
        if not self.several and self.local:
            return self.hash_join_hint(rows.localCheckpoint(eager=True))  # in its task's thread: others plan meanwhile
        from pyspark import StorageLevel

        return self.hash_join_hint(rows.persist(StorageLevel.DISK_ONLY))

    def cached_in_memory_when_small(self, rows: "DataFrame") -> "DataFrame":
        """Return the rows so that Spark keeps them in memory when they are first read, where there is one local partition.

        Else return them as they are. Nothing is computed here.
        """
        return rows if self.several or not self.local else rows.localCheckpoint(eager=False)

    def cached_when_small(self, rows: "DataFrame") -> "DataFrame":
        """Return the rows as `cached` does, computed now, where there is one local partition; else return them as they are."""
        return rows if self.several or not self.local else self.cached(rows)

    def hash_join_hint(self, rows: "DataFrame") -> "DataFrame":
        """Return the rows with the hint that a join hashes them and sorts neither side.

        A partition has few of them, which Spark cannot know.
        """
        return rows.hint("shuffle_hash")

    def register_bucketed_table(self, session: "SparkSession", table: str, columns: str, folder: Path) -> None:
        """Create a Spark table of this name over the Parquet files in a folder, with as many buckets as there are partitions.

        Spark joins its rows by cell without a shuffle. The files must be there as `buckets.write_buckets` writes them; `columns`
        is their schema in Spark's DDL. The caller drops the table.
        """
        path = str(folder).replace("\\", "\\\\").replace("'", "\\'")
        session.sql(
            f"CREATE TABLE {table} ({columns}) USING parquet "
            f"OPTIONS ('path' '{path}', '__globPaths__' 'false') "  # the path is not a glob pattern
            f"CLUSTERED BY (cell_id) INTO {self.partitions} BUCKETS"
        )

    def broadcast(self, rows: "DataFrame") -> "DataFrame":
        """Return these few rows with the hint that a join copies them to every partition.

        With a single partition the hint is that a join hashes them.
        """
        return rows.hint("broadcast") if self.several else self.hash_join_hint(rows.coalesce(1))


def partition_count(octets: int) -> int:
    """Return how many partitions a history of this size has: 1 below `SMALL_OCTETS`, else one for each `OCTETS_PER_PARTITION`.

    A history that is not small has at least `MIN_PARTITIONS` and at most `MAX_PARTITIONS`.
    """
    if octets < SMALL_OCTETS:
        return 1
    return min(max(octets // OCTETS_PER_PARTITION, MIN_PARTITIONS), MAX_PARTITIONS)


ONE_PARTITION_SETTINGS = {
    # Spark shuffles a single partition unless it estimates that as small, and it estimates a join as the product of its sides:
    # after a few joins that exceeds any limit. Without these, one aggregation had 110 exchanges.
    "spark.sql.maxSinglePartitionBytes": f"{2**62}b",
    "spark.sql.defaultSizeInBytes": "1",
    "spark.sql.sources.fileCompressionFactor": "0.000001",
    # For an inner join Spark lists the keys of both sides as partitionings, and recognizes a single partition only in a list of
    # one.
    "spark.sql.optimizer.expressionProjectionCandidateLimit": "1",
    # Inferring constraints makes better plans, but planning longer; and over cached rows Spark 4.3 fails, looking for columns
    # that it has dropped.
    "spark.sql.constraintPropagation.enabled": "false",
}
"""Settings by which Spark sees that rows in a single partition need no shuffle. They make no side small enough to be broadcast:
`spark.sql.autoBroadcastJoinThreshold` is off."""


INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""The settings by which Spark interprets queries."""
COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
"""The settings by which Spark compiles queries."""


def settings_for_size(octets: int) -> dict[str, str]:
    """Return the Spark settings that depend on the octets of history to be read.

    A history below `SMALL_OCTETS` has one partition, without shuffles. Queries are interpreted below `INTERPRETED_OCTETS`, else
    compiled.
    """
    small, interpreted = octets < SMALL_OCTETS, octets < min(SMALL_OCTETS, INTERPRETED_OCTETS)
    return {
        **(ONE_PARTITION_SETTINGS if small else {}),
        "spark.sql.shuffle.partitions": str(partition_count(octets)),
        "spark.serializer": f"org.apache.spark.serializer.{'Java' if small else 'Kryo'}Serializer",
        "spark.kryoserializer.buffer.max": "1g",
        **(INTERPRETED if interpreted else COMPILED),
        "spark.sql.adaptive.enabled": "false",
        # Rows are partitioned already when they are written: a planned write would sort them again.
        "spark.sql.optimizer.plannedWrite.enabled": str(small).lower(),
    }
