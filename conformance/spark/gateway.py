"""Start the Java process that pyspark talks to, without Spark's own scripts.

The scripts start another Java first, to print the command, and a Python to find Spark: most of a second. They also put Spark's
machine learning on the class path, which takes longer to load in each session than all that a session here needs.
`prepare_session` calls `start_java`, and `session` connects to what it started. The *home* of a Spark is the folder of the
installed package pyspark.
"""

import importlib.util
import os
import re
import struct
import subprocess
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MAIN_CLASS = "org.apache.spark.api.python.PythonGatewayServer"
_OPTIONS_CLASS = "org/apache/spark/launcher/JavaModuleOptions.class"
_UNSUPPORTED_OPTIONS = (
    "--add-modules=jdk.incubator.vector", "--add-opens=java.base/sun.security.action=ALL-UNNAMED",
)  # fmt: skip
"""Options of Spark's launcher for a module or package that this Java lacks, so that it would warn at each start."""
_UNUSED_JAR = "spark-mllib_"
"""How the name of the jar with Spark's machine learning begins."""
_FIRST_JARS = (
    "spark-catalyst_",
    "spark-core_",
    "scala-library",
    "spark-",
    "scala-",
    "log4j",
    "jackson",
    "hadoop",
    "arrow",
    "parquet",
)
"""The jars with nearly all classes: Java searches for a class in one jar of the class path after the other."""
# Prefixes of environment variables and settings that only Spark's scripts read.
_SCRIPT_VARIABLES = ("SPARK_", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY", "HADOOP_CONF_DIR", "YARN_CONF_DIR")
_OTHER_VARIABLES = ("SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME", "SPARK_LOCAL_DIRS")
"""Variables that begin like those of the scripts, but are read by Spark itself."""
_SCRIPT_SETTINGS = ("spark.driver.", "spark.jars", "spark.submit.", "spark.archives", "spark.files", "spark.pyspark.")
_MEMORY = "spark.driver.memory"
"""The one setting of the scripts that callers of `start_java` can pass on, as `-Xmx`."""
_POLL_S = 0.02
"""Interval at which the file with Java's port is looked for: there is no other notification."""


class JavaEnded(RuntimeError):
    """Java ended before it listened; the reason is on its standard error."""


@dataclass(frozen=True, slots=True)
class Gateway:
    """A Java process, and the file to which it writes the port and the secret of its listener."""

    process: "subprocess.Popen[bytes]"
    connection_file: Path

    def connect(self) -> Any:
        """Block until Java listens, and return pyspark's gateway to it. Raises JavaEnded where Java ends before.

        pyspark gets the port and the secret by two environment variables, which are removed again.
        """
        from pyspark.java_gateway import launch_gateway

        connect: Callable[[], Any] = launch_gateway

        while not self.connection_file.is_file():
            if self.process.poll() is not None:
                raise JavaEnded(f"Java ended with exit code {self.process.returncode} before Spark had started")
            time.sleep(_POLL_S)
        octets = self.connection_file.read_bytes()  # port and length of the secret, four octets each, and the secret
        port, length = struct.unpack_from(">ii", octets)
        variables = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": octets[8 : 8 + length].decode()}
        os.environ.update(variables)
        try:
            gateway = connect()
        finally:
            for name in variables:
                del os.environ[name]
        gateway.proc = self.process
        return gateway


def can_start_directly(master: str, conf: Mapping[str, str], environ: Mapping[str, str]) -> bool:
    """Return whether Java can be started without Spark's scripts.

    It can where the master is `local...`, Spark is as pip installed it, and neither a setting in `conf` nor a variable in
    `environ` is present that only the scripts read. `spark.driver.memory` is permitted, as a number with a unit.
    """
    home = _spark_home()
    return (
        master.startswith("local")
        and home is not None
        and not (home / "conf").exists()
        and not any(name.startswith(_SCRIPT_VARIABLES) for name in environ if name not in _OTHER_VARIABLES)
        and not any(name.startswith(_SCRIPT_SETTINGS) for name in conf if name != _MEMORY)
        and bool(re.fullmatch(r"\d+[kmgKMG]", conf.get(_MEMORY, "1g")))
        and _launcher_jar(home) is not None
    )


@contextmanager
def start_java(java: Path, options: Sequence[str], folder: Path, *, quiet: bool) -> Iterator[Gateway]:
    """Start Java without waiting until it listens, yield it, and kill it after the block, unless it has ended.

    Java writes its port and secret into the file `gateway` in `folder`. With `quiet` its standard output is discarded. Spark
    must be installed.
    """
    home = _spark_home()
    assert home is not None
    connection_file = folder / "gateway"
    process = subprocess.Popen(  # noqa: S603  # the Java that was found for Spark
        [java, "-cp", class_path(home), *options, *module_options(home), _MAIN_CLASS],
        stdin=subprocess.PIPE,  # Java ends when this pipe is closed
        stdout=subprocess.DEVNULL if quiet else None,
        env={
            **os.environ,
            "SPARK_LOCAL_IP": os.environ.get("SPARK_LOCAL_IP", "127.0.0.1"),
            "SPARK_HOME": str(home),  # where Python's workers find pyspark
            "PYTHONHASHSEED": "0",  # the same in each worker
            "SPARK_CONNECT_MODE": "0",
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(connection_file),
        },
        process_group=0,  # an interrupt from the terminal is Python's to handle
    )
    try:
        yield Gateway(process, connection_file)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        if process.stdin is not None:
            process.stdin.close()


def class_path(home: Path) -> str:
    """Return the class path of an installed Spark without its machine learning, the jars of `_FIRST_JARS` first.

    The order is stable, since Java's AOT cache is only valid for one class path.
    """
    jars = sorted((home / "jars").glob("*.jar"), key=lambda jar: (_jar_rank(jar.name), jar.name))
    return ":".join(str(jar) for jar in jars if not jar.name.startswith(_UNUSED_JAR))


def module_options(home: Path) -> list[str]:
    """Return the options that Spark's launcher gives to any Java, but for `_UNSUPPORTED_OPTIONS`; [] without a launcher's jar.

    They are read as texts from one of the launcher's classes.
    """
    jar = _launcher_jar(home)
    if jar is None:
        return []
    with zipfile.ZipFile(jar) as packed:  # a text in a class file is octet 1, two octets of length, and its characters
        texts = re.findall(rb"\x01..(-[\x21-\x7e]+)", packed.read(_OPTIONS_CLASS), re.DOTALL)
    return [option for text in texts if (option := text.decode()) not in _UNSUPPORTED_OPTIONS]


def _jar_rank(name: str) -> int:
    """Return the position of a jar on the class path: that of its name's prefix in `_FIRST_JARS`; other jars come after those."""
    return next((rank for rank, prefix in enumerate(_FIRST_JARS) if name.startswith(prefix)), len(_FIRST_JARS))


def _spark_home() -> Path | None:
    """Return the folder of the installed package pyspark; None where it is not installed."""
    spec = importlib.util.find_spec("pyspark")
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def _launcher_jar(home: Path) -> Path | None:
    """Return the jar of Spark's launcher, which has the class `_OPTIONS_CLASS`; None where this Spark has no such jar."""
    return next((home / "jars").glob("spark-launcher_*.jar"), None)
