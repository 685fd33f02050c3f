"""What Java loaded of Spark in an earlier session, kept for later ones: half of a short session is loading of classes.

It is made when it is asked for, and never else: a session of Java 25 or later records what it loads; when it has ended,
Java makes a cache of that (200 MB, some twenty seconds of CPU, once). Java itself refuses a cache that does not fit, and goes on
without; its name changes with Java and Spark, and the one that was there before goes.
"""

import hashlib
import importlib.metadata
import importlib.util
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIN_JAVA = 25
"""The oldest Java that keeps what it needs."""

_OWN = ("-XX:AOTMode=", "-XX:AOTConfiguration=", "-XX:AOTCache=")
_QUIET = "-Xlog:disable"
_TROUBLE = "-Xlog:aot*=warning,cds*=warning"
_AFRESH = ("-XX:+IgnoreUnrecognizedVMOptions", "-XX:+UnlockDiagnosticVMOptions", "-XX:-AOTReplayTraining")
"""How methods ran in the session that was recorded is kept too. That was a short one, without Java's second compiler: a
long one that went by it hardly used that compiler either, and its tasks took nearly twice the CPU."""
_LIMIT = 900.0
"""Seconds that making a cache may take."""


@dataclass(frozen=True, slots=True)
class AotCache:
    """The cache of one Java and one Spark, and where a session records what goes into it."""

    cache: Path
    record: Path

    @property
    def _said(self) -> Path:
        return self.record.with_name("said.log")

    def mismatch_reason(self) -> str:
        """Return why a cache that is there is not used by the session that has started; '' where it is, or there is none."""
        if not self.cache.is_file():
            return "it was made of another Java or Spark" if any(self.cache.parent.glob("*.aot")) else ""
        said = self._said.read_text("utf-8", "replace").splitlines() if self._said.is_file() else []
        refused = any("[error" in line for line in said)  # it warns of parts that it goes on without, too
        return said[0].rpartition("]")[2].strip() if refused else ""

    def options(self, *, brief: bool, learn: bool) -> tuple[str, ...]:
        """Return Java's options: those that record, if asked to, else those that use the cache where there is one.

        A session that is not `brief` takes the classes, and learns for itself what is worth compiling.
        """
        if learn:
            return ("-XX:AOTMode=record", f"-XX:AOTConfiguration={self.record}", _QUIET)
        if self.cache.is_file():
            return (f"-XX:AOTCache={self.cache}", *(() if brief else _AFRESH), _QUIET, f"{_TROUBLE}:file={self._said}")
        return ()

    def make(self, java: Path, arguments: Sequence[str], class_path: str) -> bool:
        """Make the cache of what a session recorded that was started so; say whether there is one now."""
        if not self.record.is_file():
            return False
        self.cache.parent.mkdir(parents=True, exist_ok=True)
        scratch = self.record.with_suffix(".aot")
        own = ["-XX:AOTMode=create", f"-XX:AOTConfiguration={self.record}", f"-XX:AOTCache={scratch}"]
        same = [one for one in arguments if not one.startswith(_OWN)]
        try:
            done = subprocess.run(  # noqa: S603  # the Java that Spark itself was started with
                [java, *same, *own, "-cp", class_path], capture_output=True, timeout=_LIMIT, check=False
            )
        except subprocess.TimeoutExpired:
            return False
        if done.returncode or not scratch.is_file():
            return False
        for old in self.cache.parent.glob("*.aot"):
            old.unlink(missing_ok=True)
        scratch.replace(self.cache)
        return True


def aot_cache_for(java: Path, folder: Path, scratch: Path) -> AotCache:
    """Return the cache for a Java and the Spark that is installed; `folder` is for what can be made again."""
    spark = importlib.util.find_spec("pyspark")
    assert spark is not None
    assert spark.origin
    jars = Path(spark.origin).parent / "jars"
    place = hashlib.sha256(f"{java} {jars}".encode()).hexdigest()[:12]
    stamp = f"{importlib.metadata.version('pyspark')} {jars.stat().st_mtime_ns} {java.stat().st_mtime_ns}"
    name = hashlib.sha256(stamp.encode()).hexdigest()[:12]
    return AotCache(folder / f"spark-{place}" / f"{name}.aot", scratch / "loaded.config")


def launch_arguments(session: "SparkSession") -> tuple[list[str], str]:
    """Return the options and the class path that a session's Java was started with."""
    jvm = session._jvm
    assert jvm is not None
    arguments = jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
    return [str(one) for one in arguments], str(jvm.java.lang.System.getProperty("java.class.path"))
