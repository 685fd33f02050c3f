"""A Spark session that says nothing, listens on loopback only, and leaves neither a process nor a file behind."""

import logging
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from conformance.shortage import system_error_in
from conformance.spark import jvm_aot_cache
from conformance.spark.prepare_session import JavaLaunch, PreparedSession, prepare_session


class SparkFailed(RuntimeError):
    """Spark could not do what it was asked; the text is its own."""


class BadSetting(ValueError):
    """A `--conf` is not of the form key=value."""


def parse_settings(words: list[str]) -> dict[str, str]:
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
    """Start Java and give a session, and end both afterwards; `octets` is how much will be read. See `opened`.

    Raises JavaMissing; SparkFailed for what Spark raised within the block.
    """
    with (
        prepare_session(master, conf, octets=octets, learn=learn) as beginning,
        connect_session(beginning, tell) as session,
    ):
        yield session


@contextmanager
def connect_session(beginning: PreparedSession, tell: Callable[[str], None] = lambda _: None) -> Iterator[SparkSession]:
    """Give a session of a Java that was begun, and end both afterwards, however the block is left.

    One that learns makes a cache when it has ended, which lets later ones start sooner, and says so by `tell`. Another one
    says when there is a cache that it cannot use, and why.
    Where a session is active already (a notebook, a shell, spark-submit) that one is given, and left as it was.
    Raises SparkFailed for what Spark raised within the block.
    """
    active, java = SparkSession.getActiveSession(), beginning.java
    if java is None:
        assert active is not None
        with _set(active, beginning.settings):
            yield active
        return
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # what failed is raised, and told once
    handler = signal.getsignal(signal.SIGINT)
    cache = java.cache
    with _environment(java.program):
        session = _build(beginning, java)
        started = None
        try:
            if not java.learn and (why := cache.mismatch_reason()):
                tell(f"{cache.cache.parent}: the cache for Java is not used: {why}; `--make-jvm-cache` makes it anew")
            yield session
            started = jvm_aot_cache.launch_arguments(session)
        except PySparkException as error:
            text = str(error)  # its words live in the JVM that is about to end
            raise SparkFailed(_first(text)) from system_error_in(text)
        finally:
            _end(session)
            signal.signal(signal.SIGINT, handler)  # pyspark had put its own
        if java.learn and started is not None and cache.record.is_file():
            tell("keeping what Java loaded, so that it starts sooner the next time (once, some 20 s)")
            made = cache.make(java.program, *started)
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
def _environment(java: Path) -> Iterator[None]:
    """Set what Spark's launcher reads from the environment, and put it back."""
    before = dict(os.environ)
    os.environ["JAVA_HOME"] = str(java.parent.parent)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    try:
        yield
    finally:  # pyspark sets some too
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


def _build(beginning: PreparedSession, java: JavaLaunch) -> SparkSession:
    if java.gateway is not None:
        SparkContext._gateway = gateway = java.gateway.connect()
        SparkContext._jvm = gateway.jvm
    builder = SparkSession.builder.master(beginning.master).appName("conformance aggregate")
    own = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": " ".join(java.options[0]),
        "spark.executor.extraJavaOptions": " ".join(java.options[1]),
        "spark.local.dir": str(java.folder / "scratch"),
        "spark.sql.warehouse.dir": str(java.folder / "warehouse"),
    }
    for key, value in {**own, **beginning.settings}.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except BaseException:
        SparkContext._gateway = SparkContext._jvm = None  # its Java ends
        raise


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
