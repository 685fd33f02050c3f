"""A cache of the classes that Java loads for Spark (Java's AOT cache), since loading them is half of a short session.

The cache is made only on request. A session of Java 25 or later records what it loads (`AotCache.options` with `record`); after
that session Java makes the cache from the record (`AotCache.build`: 200 MB, some 20 seconds of CPU, once). Java itself
rejects a cache that does not fit, and goes on without one. The file's name changes with the versions of Java and Spark, and an
older cache of the same installation is deleted when a new one is made. `prepare_session` and `session` call this.
"""

import hashlib
import importlib.metadata
import importlib.util
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIN_JAVA = 25
"""The oldest Java whose cache holds all that Spark needs."""

# Prefixes of the options by which a session uses or records a cache: Java is given others to make one.
_CACHE_OPTIONS = ("-XX:AOTMode=", "-XX:AOTConfiguration=", "-XX:AOTCache=")
_NO_LOG = "-Xlog:disable"
_WARNINGS = "-Xlog:aot*=warning,cds*=warning"
_NO_PROFILES = ("-XX:+IgnoreUnrecognizedVMOptions", "-XX:+UnlockDiagnosticVMOptions", "-XX:-AOTReplayTraining")
"""Makes Java ignore the cache's execution profiles. Those come from a short session without Java's second compiler: with
them a long session hardly used that compiler either, and its tasks took nearly twice the CPU."""
_BUILD_TIMEOUT_S = 900.0


@dataclass(frozen=True, slots=True)
class AotCache:
    """The cache file for one Java and one Spark, and the file in which a session records what goes into it.

    Java writes its warnings and errors about a cache that it uses to `_log`.
    """

    file: Path
    record: Path

    @property
    def _log(self) -> Path:
        """The file to which Java writes its warnings and errors about the cache that it uses."""
        return self.record.with_name("aot.log")

    def mismatch_reason(self) -> str:
        """Return why the session that has started does not use a cache that is there; '' where it uses one, or none is there.

        A cache that other versions of Java and Spark made, in the same folder, is there but not used.
        """
        if not self.file.is_file():
            return "it was made of another Java or Spark" if any(self.file.parent.glob("*.aot")) else ""
        lines = self._log.read_text("utf-8", "replace").splitlines() if self._log.is_file() else []
        rejected = any("[error" in line for line in lines)  # Java warns too, of parts that it goes on without
        # A line of Java's log begins with `[time][level][tags]`.
        return lines[0].rpartition("]")[2].strip() if rejected else ""

    def options(self, *, brief: bool, record: bool) -> tuple[str, ...]:
        """Return Java's options: with `record` to record the classes that it loads, else to use the cache; () without a cache.

        `brief`: the session lasts half a minute at most. A longer one takes only the classes from the cache, and profiles its
        methods itself.
        """
        if record:
            return ("-XX:AOTMode=record", f"-XX:AOTConfiguration={self.record}", _NO_LOG)
        if self.file.is_file():
            profiles = () if brief else _NO_PROFILES
            return (f"-XX:AOTCache={self.file}", *profiles, _NO_LOG, f"{_WARNINGS}:file={self._log}")
        return ()

    def build(self, java: Path, arguments: Sequence[str], class_path: str) -> bool:
        """Make the cache from the record of a session, and return whether that succeeded; blocks for some 20 seconds.

        `java`, `arguments` and `class_path` are those that the session was started with. The caches of other versions in the same
        folder are deleted. Returns False, and changes no cache, without a record, where Java fails, or after 15 minutes. Raises
        OSError; no cache is deleted before the new one is there.
        """
        if not self.record.is_file():
            return False
        self.file.parent.mkdir(parents=True, exist_ok=True)
        others = [argument for argument in arguments if not argument.startswith(_CACHE_OPTIONS)]
        # beside the cache, since a file can be renamed within one file system only
        with tempfile.TemporaryDirectory(dir=self.file.parent) as folder:
            scratch = Path(folder) / self.file.name
            create = ["-XX:AOTMode=create", f"-XX:AOTConfiguration={self.record}", f"-XX:AOTCache={scratch}"]
            try:
                process = subprocess.run(  # noqa: S603  # the Java that Spark itself was started with
                    [java, *others, *create, "-cp", class_path],
                    capture_output=True,
                    timeout=_BUILD_TIMEOUT_S,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return False
            if process.returncode or not scratch.is_file():
                return False
            scratch.replace(self.file)
        for old in self.file.parent.glob("*.aot"):
            if old != self.file:
                old.unlink(missing_ok=True)
        return True


def aot_cache_for(java: Path, cache_folder: Path, session_folder: Path) -> AotCache:
    """Return the cache for a Java and the installed Spark, whose files need not exist.

    The cache lies below `cache_folder`, the record of a session in that session's own folder.
    """
    spark = importlib.util.find_spec("pyspark")
    assert spark is not None
    assert spark.origin
    jars = Path(spark.origin).parent / "jars"
    installation = hashlib.sha256(f"{java} {jars}".encode()).hexdigest()[:12]
    versions = f"{importlib.metadata.version('pyspark')} {jars.stat().st_mtime_ns} {java.stat().st_mtime_ns}"
    name = hashlib.sha256(versions.encode()).hexdigest()[:12]
    return AotCache(cache_folder / f"spark-{installation}" / f"{name}.aot", session_folder / "loaded.config")


def launch_arguments(session: "SparkSession") -> tuple[list[str], str]:
    """Return the options and the class path that the Java of an open session was started with, as Java itself reports them."""
    jvm = session._jvm
    assert jvm is not None
    arguments = jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
    return [str(argument) for argument in arguments], str(jvm.java.lang.System.getProperty("java.class.path"))
