"""A Spark session that says nothing, listens on loopback only, and leaves neither a process nor a file behind."""

import logging
import os
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from conformance import paths
from conformance.shortage import said_by_others
from conformance.spark import ahead
from conformance.spark.java import java_home, options_for, version_of
from conformance.spark.spread import SMALL, settings_for

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


class SparkFailed(RuntimeError):
    """Spark could not do what it was asked; the text is its own."""


class BadSetting(ValueError):
    """A `--conf` is not of the form key=value."""


def settings(words: list[str]) -> dict[str, str]:
    """Read `key=value` words. Raises BadSetting."""
    pairs = [word.partition("=") for word in words]
    for key, equals, _ in pairs:
        if not equals or not key.startswith("spark."):
            raise BadSetting(f"--conf {key}{equals}...: write spark.something=value")
    return {key: value for key, _, value in pairs}


@contextmanager
def open_session(
    master: str = "local[*]",
    conf: Mapping[str, str] | None = None,
    *,
    octets: int = 0,
    learn: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> Iterator[SparkSession]:
    """Give a session, and end its JVM afterwards, however the block is left; `octets` is how much will be read.

    With `learn` a session makes a cache when it has ended, which lets later ones start sooner, and says so by `tell`. Another
    one says when there is a cache that it cannot use, and why.
    Where a session is active already (a notebook, a shell, spark-submit) that one is given, and left as it was.
    Raises JavaMissing; SparkFailed for what Spark raised within the block.
    """
    if (active := SparkSession.getActiveSession()) is not None:
        with _set(active, {**DEFAULTS, **settings_for(octets), **(conf or {})}):
            yield active
        return
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # what failed is raised, and told once
    handler = signal.getsignal(signal.SIGINT)
    with tempfile.TemporaryDirectory(prefix="conformance-spark-") as folder, _environment():
        chosen = {**DEFAULTS, **settings_for(octets), **(conf or {})}
        java = Path(os.environ["JAVA_HOME"]) / "bin" / "java"
        cache = ahead.ahead_of(java, paths.cache(), Path(folder))
        room = _ROOM if octets < SMALL and "spark.driver.memory" not in (conf or {}) else ()
        options = _options(java, Path(folder), cache, room, brief=octets < SMALL, learn=learn)
        session = _build(master, chosen, Path(folder), options)
        started = None
        try:
            if not learn and (why := cache.unfit()):
                tell(f"{cache.cache.parent}: the cache for Java is not used: {why}; `--make-jvm-cache` makes it anew")
            yield session
            started = ahead.started_with(session)
        except PySparkException as error:
            text = str(error)  # its words live in the JVM that is about to end
            raise SparkFailed(_first(text)) from said_by_others(text)
        finally:
            _end(session)
            signal.signal(signal.SIGINT, handler)  # pyspark had put its own
        if learn and started is not None and cache.record.is_file():
            tell("keeping what Java loaded, so that it starts sooner the next time (once, some 20 s)")
            made = cache.make(java, *started)
            tell(f"kept in {cache.cache}" if made else "this Java could not keep it")


@contextmanager
def _set(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Let settings of queries hold within the block; what only a new session can have stays as it is."""
    runtime = {name: value for name, value in settings.items() if session.conf.isModifiable(name)}
    before = {name: session.conf.get(name, None) for name in runtime}
    for name, value in runtime.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, was in before.items():
            if was is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, was)


def _first(text: str) -> str:
    """Return what is wrong, without the plan of the whole query that Spark prints after it."""
    return text.partition(";\n'")[0][:2000]


@contextmanager
def _environment() -> Iterator[None]:
    """Set what Spark's launcher reads from the environment, and put it back."""
    before = dict(os.environ)
    os.environ["JAVA_HOME"] = str(java_home(os.environ, paths.cache()))
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    try:
        yield
    finally:  # pyspark sets some too
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


def _options(
    java: Path, folder: Path, cache: ahead.Ahead, room: Sequence[str], *, brief: bool, learn: bool
) -> tuple[list[str], list[str]]:
    """Return Java's options for the driver, and for executors."""
    version = version_of(java) or 0
    log4j = folder / "log4j2.properties"
    log4j.write_text(_LOG4J, "utf-8")
    own = _BRIEF if brief else ("-XX:+UseParallelGC", *_LATE)
    both = [*own, *options_for(version)]
    kept = cache.options(brief=brief, learn=learn) if version >= ahead.OLDEST else ()
    loading = () if kept or not brief else _UNVERIFIED
    driver = [*both, *room, *loading, f"-Dlog4j2.configurationFile=file:{log4j}", f"-Djava.io.tmpdir={folder}"]
    return [*driver, *kept], both


def _build(master: str, conf: Mapping[str, str], folder: Path, options: tuple[list[str], list[str]]) -> SparkSession:
    builder = SparkSession.builder.master(master).appName("conformance aggregate")
    own = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": " ".join(options[0]),
        "spark.executor.extraJavaOptions": " ".join(options[1]),
        "spark.local.dir": str(folder / "scratch"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    for key, value in {**own, **conf}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _end(session: SparkSession) -> None:
    """Stop the session, and its JVM too: pyspark itself would leave that running until Python ends."""
    session.stop()
    gateway = SparkContext._gateway
    if gateway is None:
        return
    gateway.shutdown()
    process = gateway.proc
    process.stdin.close()  # the JVM ends when nobody holds the other end
    process.wait()
    SparkContext._gateway = None
    SparkContext._jvm = None
