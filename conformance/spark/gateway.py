"""Starts the Java that Python speaks to, as Spark's own scripts do, but sooner.

They start another Java first, to print the words of the command, and a Python to find Spark: most of a second. They also put
Spark's machine learning on the class path; what it adds to each session takes longer to load than all that a session needs.
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

_SERVER = "org.apache.spark.api.python.PythonGatewayServer"
_OPTIONS = "org/apache/spark/launcher/JavaModuleOptions.class"
_UNWANTED = ("--add-modules=jdk.incubator.vector", "--add-opens=java.base/sun.security.action=ALL-UNNAMED")
"""What a Java does not have, or Java 24 has no more, and warns of at each start."""
_LEFT_OUT = "spark-mllib_"
_FIRST = (
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
"""Where nearly all classes are: Java looks for each in one file after the other."""
_OF_SCRIPTS = ("SPARK_", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY", "HADOOP_CONF_DIR", "YARN_CONF_DIR")
_OF_NO_SCRIPT = ("SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME", "SPARK_LOCAL_DIRS")
_OF_SUBMIT = ("spark.driver.", "spark.jars", "spark.submit.", "spark.archives", "spark.files", "spark.pyspark.")
_MEMORY = "spark.driver.memory"
_EVERY = 0.02
"""Seconds between two looks for the file in which Java says where it listens: nothing else tells."""


class JavaEnded(RuntimeError):
    """Java ended before it listened; it has said why on standard error."""


@dataclass(frozen=True, slots=True)
class Gateway:
    """A Java that has been started, and the file in which it says where it listens."""

    process: "subprocess.Popen[bytes]"
    said: Path

    def connect(self) -> Any:
        """Return pyspark's gateway to it, once it listens. Raises JavaEnded."""
        from pyspark.java_gateway import launch_gateway

        connected: Callable[[], Any] = launch_gateway

        while not self.said.is_file():
            if self.process.poll() is not None:
                raise JavaEnded(f"Java ended with exit code {self.process.returncode} before Spark had started")
            time.sleep(_EVERY)
        octets = self.said.read_bytes()  # the port and the length of the secret, four octets each, and the secret
        port, length = struct.unpack_from(">ii", octets)
        told = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": octets[8 : 8 + length].decode()}
        os.environ.update(told)
        try:
            gateway = connected()
        finally:
            for name in told:
                del os.environ[name]
        gateway.proc = self.process
        return gateway


def can_start_directly(master: str, conf: Mapping[str, str], environ: Mapping[str, str]) -> bool:
    """Whether Java can be started so: everything in this process, by Spark as pip installed it, with no setting that
    Spark's own scripts must read.
    """
    home = _home()
    return (
        master.startswith("local")
        and home is not None
        and not (home / "conf").exists()
        and not any(name.startswith(_OF_SCRIPTS) for name in environ if name not in _OF_NO_SCRIPT)
        and not any(name.startswith(_OF_SUBMIT) for name in conf if name != _MEMORY)
        and bool(re.fullmatch(r"\d+[kmgKMG]", conf.get(_MEMORY, "1g")))
        and _launcher(home) is not None
    )


@contextmanager
def start_java(java: Path, options: Sequence[str], folder: Path, *, quiet: bool) -> Iterator[Gateway]:
    """Start Java, and end it when the block is left, unless it has ended. `folder` is for what it says; `quiet` lets it
    say nothing on standard output.
    """
    home = _home()
    assert home is not None
    said = folder / "gateway"
    process = subprocess.Popen(  # noqa: S603  # the Java that was found for Spark
        [java, "-cp", class_path(home), *options, *module_options(home), _SERVER],
        stdin=subprocess.PIPE,  # it ends when nobody holds the other end
        stdout=subprocess.DEVNULL if quiet else None,
        env={
            **os.environ,
            "SPARK_LOCAL_IP": os.environ.get("SPARK_LOCAL_IP", "127.0.0.1"),
            "SPARK_HOME": str(home),  # where Python's workers find pyspark
            "PYTHONHASHSEED": "0",  # the same in each of them
            "SPARK_CONNECT_MODE": "0",
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(said),
        },
        process_group=0,  # an interrupt from the terminal is Python's to handle
    )
    try:
        yield Gateway(process, said)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        if process.stdin is not None:
            process.stdin.close()


def class_path(home: Path) -> str:
    """Return the class path of an installed Spark: the same one each time, since a cache of what Java loaded goes by it."""
    jars = sorted((home / "jars").glob("*.jar"), key=lambda jar: (_place(jar.name), jar.name))
    return ":".join(str(jar) for jar in jars if not jar.name.startswith(_LEFT_OUT))


def module_options(home: Path) -> list[str]:
    """Return the options that Spark's launcher would give any Java: they are texts in one of its classes."""
    jar = _launcher(home)
    if jar is None:
        return []
    with zipfile.ZipFile(jar) as packed:
        texts = re.findall(rb"\x01..(-[\x21-\x7e]+)", packed.read(_OPTIONS), re.DOTALL)
    return [option for text in texts if (option := text.decode()) not in _UNWANTED]


def _place(name: str) -> int:
    return next((place for place, prefix in enumerate(_FIRST) if name.startswith(prefix)), len(_FIRST))


def _home() -> Path | None:
    found = importlib.util.find_spec("pyspark")
    return Path(found.origin).parent if found is not None and found.origin else None


def _launcher(home: Path) -> Path | None:
    return next((home / "jars").glob("spark-launcher_*.jar"), None)
