"""Choose the settings of a Spark session by the size of what it will read, and start its Java.

`aggregation` calls `prepare_session`, and `session.connect_session` opens the session on what it prepared. Nothing here
imports pyspark before Java runs, so that both load at the same time. A session is one of Spark; it is *active* where a
notebook, a shell or spark-submit opened it in this process before. The *AOT cache* has classes that Java then need not load
(`jvm_aot_cache`).
"""

import os
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from conformance import paths
from conformance.spark.find_java import find_java, find_java_home, java_version, warning_free_options
from conformance.spark.gateway import Gateway, can_start_directly, start_java
from conformance.spark.jvm_aot_cache import MIN_JAVA, AotCache, aot_cache_for
from conformance.spark.master import driver_address
from conformance.spark.partitioning import SMALL_OCTETS, settings_for_size

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
    # Spark formats the plan of every query for its listeners: the simple form takes a tenth of the time.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.maxPlanStringLength": "1000",
    # With ICU the first lower() of a session computes the title case of every letter there is: a second of CPU.
    "spark.sql.icu.caseMappings.enabled": "false",
    "spark.log.level": "ERROR",
}
"""Spark's settings, measured on two cores; the user's `--conf` overrides them.

Queries name what is broadcast: by the size of its files Spark would broadcast four million verdicts.
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


_LATE_COMPILER = (
    "-XX:Tier4InvocationThreshold=100000",
    "-XX:Tier4MinInvocationThreshold=12000",
    "-XX:Tier4CompileThreshold=240000",
    "-XX:Tier4BackEdgeThreshold=800000",
)
"""Makes Java's second compiler start later: planning fifty queries runs much code a few times only."""

_BRIEF_SESSION = (
    "-XX:+UseSerialGC",
    # In a short session the second compiler took a third of all CPU, and ended hardly before the JVM did.
    "-XX:TieredStopAtLevel=1",
    # With the initial sizes, loading classes and code caused eight full garbage collections that freed nothing.
    "-XX:MetaspaceSize=384m",
    "-XX:ReservedCodeCacheSize=192m",
)
"""Java's options for a session of half a minute at most, without what pays off only later."""

_NO_VERIFICATION = ("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote")
"""Skips verification of the classes that pip installed: a tenth of the start. Classes of an AOT cache are verified already."""

_HEAP = ("-Xms1280m", "-Xmn768m")
"""A heap whose young generation a brief session fills a few times only; pages that it does not touch cost nothing.

Not used where the user sets `spark.driver.memory`.
"""


@dataclass(frozen=True, slots=True)
class JavaLaunch:
    """How the Java of a session is started.

    `gateway` is the started process; None where pyspark starts Java by Spark's own scripts, since there are settings that only
    those read.
    """

    program: Path
    folder: Path
    """Temporary folder of the session."""
    cache: AotCache
    record: bool
    """Whether it records the classes that it loads, for the cache."""
    driver_options: Sequence[str]
    executor_options: Sequence[str]
    gateway: Gateway | None = None


@dataclass(frozen=True, slots=True)
class PreparedSession:
    """What a session is opened with; `java` is None where a session is active already.

    `driver_address` is the address of this machine that executors connect to.
    """

    master: str
    settings: Mapping[str, str]
    java: JavaLaunch | None
    driver_address: str = "127.0.0.1"


@contextmanager
def prepare_session(
    master: str = "local[*]", conf: Mapping[str, str] | None = None, *, octets: int = 0, record_classes: bool = False
) -> Iterator[PreparedSession]:
    """Yield what a session that will read about `octets` of history is opened with, and end its Java after the block.

    Where Java can be started directly (`can_start_directly`), it is started here, and the block begins before it listens. On a
    cluster, or with settings that only Spark's scripts read, `session.connect_session` starts it; a session that is active
    already has its own. `conf` has Spark settings that override the defaults. With `record_classes` Java records what it
    loads, for the AOT cache. The session's temporary folder is deleted after the block. Raises JavaMissing; MasterUnreachable.
    """
    conf = conf or {}
    settings = {**DEFAULTS, **settings_for_size(octets), **conf}
    if _is_active():
        yield PreparedSession(master=master, settings=settings, java=None)
        return
    address = driver_address(master)
    with tempfile.TemporaryDirectory(prefix="conformance-spark-") as name:
        folder, brief = Path(name), octets < SMALL_OCTETS
        direct = can_start_directly(master, conf, os.environ)
        program = find_java(os.environ) if direct else find_java_home(os.environ, paths.cache()) / "bin" / "java"
        cache = aot_cache_for(program, paths.cache(), folder)
        heap = _HEAP if brief and "spark.driver.memory" not in conf else ()
        driver, executor = _java_options(program, folder, cache, heap, brief=brief, record=record_classes)
        java = JavaLaunch(
            program=program,
            folder=folder,
            cache=cache,
            record=record_classes,
            driver_options=driver,
            executor_options=executor,
        )
        if not direct:
            yield PreparedSession(master=master, settings=settings, java=java, driver_address=address)
            return
        with start_java(
            program,
            [f"-Xmx{settings['spark.driver.memory']}", *driver, *_host_name_options(folder)],
            folder,
            quiet=record_classes,
        ) as gateway:
            yield PreparedSession(
                master=master, settings=settings, java=replace(java, gateway=gateway), driver_address=address
            )


def _is_active() -> bool:
    """Return whether a session is active in this process (a notebook, a shell, spark-submit)."""
    if "pyspark" not in sys.modules:
        return False
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() is not None


def _host_name_options(folder: Path) -> list[str]:
    """Return options with which Java resolves this machine's name; [] where the name can be resolved already.

    A container without a network, or a machine that is offline, may not resolve its own name; Java would then print errors. The
    options name a file `hosts`, which is written into `folder`. It replaces all other resolution of names, of which a session in
    this process needs none.
    """
    name = socket.gethostname()
    try:
        socket.gethostbyname(name)
    except OSError:
        hosts = folder / "hosts"
        hosts.write_text(f"127.0.0.1 localhost {name}\n", "utf-8")
        return [f"-Djdk.net.hosts.file={hosts}"]
    return []


def _java_options(
    java: Path, folder: Path, cache: AotCache, heap: Sequence[str], *, brief: bool, record: bool
) -> tuple[list[str], list[str]]:
    """Return Java's options for the driver and for executors; writes the driver's log configuration into `folder`.

    `brief`: the session lasts half a minute at most. `record`: it records classes for `cache`, and does not use it; before Java
    25 neither is done. `heap` are options of the driver only.
    """
    version = java_version(java) or 0
    log4j = folder / "log4j2.properties"
    log4j.write_text(_LOG4J, "utf-8")
    compiler = _BRIEF_SESSION if brief else ("-XX:+UseParallelGC", *_LATE_COMPILER)
    executor = [*compiler, *warning_free_options(version)]
    cached = cache.options(brief=brief, record=record) if version >= MIN_JAVA else ()
    loading = () if cached or not brief else _NO_VERIFICATION
    driver = [*executor, *heap, *loading, f"-Dlog4j2.configurationFile=file:{log4j}", f"-Djava.io.tmpdir={folder}"]
    return [*driver, *cached], executor
