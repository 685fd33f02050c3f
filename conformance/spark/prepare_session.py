"""Starts the Java of a session, with what suits the size of what it will read. Nothing here needs pyspark, so that Java
starts while that is loaded.
"""

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from conformance import paths
from conformance.spark import jvm_aot_cache
from conformance.spark.find_java import find_java, find_java_home, java_version, warning_free_options
from conformance.spark.gateway import Gateway, can_start_directly, start_java
from conformance.spark.partitioning import SMALL, settings_for_size

DEFAULTS = {
    "spark.sql.files.maxPartitionBytes": "32m",
    "spark.sql.files.openCostInBytes": "128k",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.driver.memory": "2g",
    "spark.buffer.pageSize": "1m",
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.maxConcurrentOutputFileWriters": "64",
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "1000000",
    "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Of every query that is begun its plan is told to listeners: in simple form that costs a tenth as much to write.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.maxPlanStringLength": "1000",
    # Else the first lower() of a session makes the title case of every letter there is: a second of CPU.
    "spark.sql.icu.caseMappings.enabled": "false",
    "spark.log.level": "ERROR",
}
"""Measured on two cores; whatever the user says with --conf goes first.

What is broadcast is said in the plan: by the size of its files Spark would broadcast four million verdicts.
"""

_LOG4J = """status = error
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
"""


_LATE = (
    "-XX:Tier4InvocationThreshold=100000",
    "-XX:Tier4MinInvocationThreshold=12000",
    "-XX:Tier4CompileThreshold=240000",
    "-XX:Tier4BackEdgeThreshold=800000",
)
"""Java's second compiler later than it would: planning and fifty queries have much code that runs a few times only."""

_BRIEF = (
    "-XX:+UseSerialGC",
    # In a short session the second compiler took a third of all CPU, and had hardly ended when the JVM did.
    "-XX:TieredStopAtLevel=1",
    # Classes and code that fill what Java begins with made it collect its whole heap eight times, to find nothing.
    "-XX:MetaspaceSize=384m",
    "-XX:ReservedCodeCacheSize=192m",
)
"""Java's options for a session of half a minute at most: what would pay off later is left out."""

_UNVERIFIED = ("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote")
"""What is loaded is what pip installed: to verify its classes takes a tenth of the start. Those of a cache are verified."""

_ROOM = ("-Xms1280m", "-Xmn768m")
"""Room for new objects that such a session fills a few times only; what it does not touch it does not take from the machine.
Where the user says how large the heap may be, Java divides that as it likes."""


@dataclass(frozen=True, slots=True)
class JavaLaunch:
    """The Java of a session: the program, its options (driver, executors), and the process where it has been started.

    Without `gateway` Spark's own scripts start it: the user has set something up that only they know how to follow.
    """

    program: Path
    folder: Path
    cache: jvm_aot_cache.AotCache
    learn: bool
    options: tuple[list[str], list[str]]
    gateway: Gateway | None = None


@dataclass(frozen=True, slots=True)
class PreparedSession:
    """What a session is opened with. Where one is active already it has its Java."""

    master: str
    settings: Mapping[str, str]
    java: JavaLaunch | None


@contextmanager
def prepare_session(
    master: str = "local[*]", conf: Mapping[str, str] | None = None, *, octets: int = 0, learn: bool = False
) -> Iterator[PreparedSession]:
    """Start Java for a session that will read about so many octets; what is left of it when the block is left ends.

    With `learn` it records what it loads. Raises JavaMissing.
    """
    conf = conf or {}
    chosen = {**DEFAULTS, **settings_for_size(octets), **conf}
    if _is_active():
        yield PreparedSession(master, chosen, None)
        return
    with tempfile.TemporaryDirectory(prefix="conformance-spark-") as name:
        folder = Path(name)
        alone = can_start_directly(master, conf, os.environ)
        program = find_java(os.environ) if alone else find_java_home(os.environ, paths.cache()) / "bin" / "java"
        cache = jvm_aot_cache.aot_cache_for(program, paths.cache(), folder)
        room = _ROOM if octets < SMALL and "spark.driver.memory" not in conf else ()
        options = _options(program, folder, cache, room, brief=octets < SMALL, learn=learn)
        java = JavaLaunch(program, folder, cache, learn, options)
        if not alone:
            yield PreparedSession(master, chosen, java)
            return
        with start_java(program, [f"-Xmx{chosen['spark.driver.memory']}", *options[0]], folder, quiet=learn) as gateway:
            yield PreparedSession(master, chosen, replace(java, gateway=gateway))


def _is_active() -> bool:
    """Whether a session is active in this process (a notebook, a shell, spark-submit)."""
    if "pyspark" not in sys.modules:
        return False
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() is not None


def _options(
    java: Path, folder: Path, cache: jvm_aot_cache.AotCache, room: Sequence[str], *, brief: bool, learn: bool
) -> tuple[list[str], list[str]]:
    """Return Java's options for the driver, and for executors."""
    version = java_version(java) or 0
    log4j = folder / "log4j2.properties"
    log4j.write_text(_LOG4J, "utf-8")
    own = _BRIEF if brief else ("-XX:+UseParallelGC", *_LATE)
    both = [*own, *warning_free_options(version)]
    kept = cache.options(brief=brief, learn=learn) if version >= jvm_aot_cache.MIN_JAVA else ()
    loading = () if kept or not brief else _UNVERIFIED
    driver = [*both, *room, *loading, f"-Dlog4j2.configurationFile=file:{log4j}", f"-Djava.io.tmpdir={folder}"]
    return [*driver, *kept], both
