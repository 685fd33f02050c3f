"""Open a Spark session that prints nothing, listens on the loopback interface only, and leaves no process or file behind.

`aggregation` prepares Java by `prepare_session` first, and then opens the session here; `open_session` does both. This module
imports pyspark, which takes long, so it is imported late. A session is one of Spark, not of SMTP. One that is *active* already
was opened by a notebook, a shell or spark-submit in this process; it is used and left open.
"""

import logging
import os
import pwd
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from conformance.shortage import system_error_in
from conformance.spark.jvm_aot_cache import launch_arguments
from conformance.spark.prepare_session import DEFAULTS, JavaLaunch, PreparedSession, prepare_session

_PAGE_SIZE = "spark.buffer.pageSize"
"""The size of the pages of memory that each operator of a query takes at least one of. It cannot be changed in a session.

Without it Spark takes up to an eighth of an executor's memory; a stage of our queries has more operators than that.
"""


class SparkFailed(RuntimeError):
    """Spark raised an error; the text is Spark's."""


class BadSetting(ValueError):
    """A `--conf` is not of the form `spark.key=value`."""


def parse_settings(arguments: list[str]) -> dict[str, str]:
    """Return the `spark.key=value` arguments of `--conf` as a mapping; of equal keys the last counts. Raises BadSetting."""
    pairs = [argument.partition("=") for argument in arguments]
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
    record_classes: bool = False,
    notify: Callable[[str], None] = lambda _: None,
) -> Iterator[SparkSession]:
    """Start Java, yield a Spark session, and end both after the block: `prepare_session` and `connect_session` in one.

    A session that is active already is yielded instead, and left open. `octets` is the size of the history to be read,
    roughly; `record_classes` makes Java's AOT cache; `notify` gets lines about that cache. Raises what those two raise.
    """
    with (
        prepare_session(master, conf, octets=octets, record_classes=record_classes) as prepared,
        connect_session(prepared, notify) as session,
    ):
        yield session


@contextmanager
def connect_session(
    prepared: PreparedSession, notify: Callable[[str], None] = lambda _: None
) -> Iterator[SparkSession]:
    """Block until the prepared Java listens, yield a session on it, and end both after the block.

    A session that is active already is yielded with the prepared settings instead, and left open with its own. Where Java
    recorded what it loads, its AOT cache is made after a block that does not raise, which takes some 20 seconds; `notify` gets
    lines about that, a line when an existing cache cannot be used, and one when an active session has no page size. Raises
    JavaEnded; SparkFailed for what Spark raised within the block; Spark's own errors where the session cannot be opened;
    OSError where the cache cannot be written.
    """
    active, java = SparkSession.getActiveSession(), prepared.java
    if java is None:
        assert active is not None
        if active.sparkContext.getConf().get(_PAGE_SIZE) is None:
            notify(
                f"the session has no {_PAGE_SIZE}: if an executor runs out of memory, "
                f"start it with --conf {_PAGE_SIZE}={DEFAULTS[_PAGE_SIZE]}"
            )
        with _raising_spark_failed(), _temporary_settings(active, prepared.settings):
            yield active
        return
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # it would log what is raised as well
    sigint_handler = signal.getsignal(signal.SIGINT)
    cache = java.cache
    with _environment(java.program):
        session = _build_session(prepared, java)
        arguments = None
        try:
            if not java.record and (reason := cache.mismatch_reason()):
                notify(
                    f"{cache.file.parent}: the cache for Java is not used: {reason}; `--make-jvm-cache` makes it anew"
                )
            with _raising_spark_failed():
                yield session
                arguments = launch_arguments(session)
        finally:
            _end_session(session)
            signal.signal(signal.SIGINT, sigint_handler)  # pyspark had replaced it
        if java.record and arguments is not None and cache.record.is_file():
            notify(
                "making a cache of the classes that Java loaded, so that later sessions start sooner (once, some 20 s)"
            )
            built = cache.build(java.program, *arguments)
            notify(f"made {cache.file}" if built else "this Java could not make the cache")


@contextmanager
def _raising_spark_failed() -> Iterator[None]:
    """Raise SparkFailed for what Spark raises in the block; its cause is the error of the system that Spark's text quotes.

    What is no error of a query, as an executor without memory, reaches Python as an error of Py4J.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        text = str(error)  # read now: the text is in the JVM, which may be about to end
        # Where Spark's text quotes a full disk or the like, callers find that as the cause.
        raise SparkFailed(_without_plan(text)) from system_error_in(text)


@contextmanager
def _temporary_settings(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Change a session's settings for the block, and restore them after it; those that only a new session can have stay."""
    modifiable = {name: value for name, value in settings.items() if session.conf.isModifiable(name)}
    before = {name: session.conf.get(name, None) for name in modifiable}
    for name, value in modifiable.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, old)


def _without_plan(text: str) -> str:
    """Return the text of Spark's error up to the plan of the query (`;` and a line `'Project`), at most 2,000 characters."""
    return text.partition(";\n'")[0][:2000]


@contextmanager
def _environment(java: Path) -> Iterator[None]:
    """Set JAVA_HOME for this program `java`, and SPARK_LOCAL_IP unless it is set; restore the environment after the block."""
    before = dict(os.environ)
    os.environ["JAVA_HOME"] = str(java.parent.parent)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    try:
        yield
    finally:  # pyspark sets variables as well
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


def _build_session(prepared: PreparedSession, java: JavaLaunch) -> SparkSession:
    """Create the session and return it, on the Java that was started already where there is one; block until Spark is ready.

    Sets the Java that pyspark uses in this process, and removes it again where Spark fails. A user without an account gets
    the name `uid1234` for Hadoop. Raises JavaEnded, and what Spark raises.
    """
    if java.gateway is not None:
        SparkContext._gateway = gateway = java.gateway.connect()
        SparkContext._jvm = gateway.jvm
        if not _has_account():
            users = gateway.jvm.org.apache.hadoop.security.UserGroupInformation
            users.setLoginUser(users.createRemoteUser(f"uid{os.getuid()}"))
    builder = SparkSession.builder.master(prepared.master).appName("conformance aggregate")
    own = {
        "spark.driver.host": prepared.driver_address,
        "spark.driver.bindAddress": prepared.driver_address,
        "spark.driver.extraJavaOptions": " ".join(java.driver_options),
        "spark.executor.extraJavaOptions": " ".join(java.executor_options),
        "spark.local.dir": str(java.folder / "scratch"),
        "spark.sql.warehouse.dir": str(java.folder / "warehouse"),
    }
    for key, value in {**own, **prepared.settings}.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except BaseException:
        SparkContext._gateway = SparkContext._jvm = None  # a later session must not use this Java, which ends
        raise


def _has_account() -> bool:
    """Return whether the user of this process has an account on this machine.

    Without one, as in many containers, Hadoop cannot find a user name.
    """
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return True


def _end_session(session: SparkSession) -> None:
    """Stop the session and block until its Java has ended, which pyspark would leave running until Python ends.

    Afterwards pyspark can start another Java. Without a Java of pyspark only the session is stopped.
    """
    session.stop()
    gateway = SparkContext._gateway
    if gateway is None:
        return
    gateway.shutdown()
    process = gateway.proc
    process.stdin.close()  # the JVM ends when this pipe is closed
    process.wait()
    SparkContext._gateway = None
    SparkContext._jvm = None
