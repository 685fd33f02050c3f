"""A session leaves nothing behind; a cluster gives the same tables, also when it loses a worker on the way."""

import json
import os
import queue
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import psutil
import pytest

pytest.importorskip("pyspark")

import pyspark
from pyspark import SparkContext

from conformance import paths
from conformance.spark.java import java_home
from conformance.spark.job import aggregate
from conformance.spark.progress import Progress
from conformance.spark.session import SparkFailed, open_session
from tests.spark.synthetic import DEFECTS, MadeCell, make_run

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def interrupted() -> None:
    with open_session("local[1]") as session:
        assert session.range(3).count() == 3
        assert any(process.name() == "java" for process in psutil.Process().children(recursive=True))
        raise KeyboardInterrupt


def test_an_interrupted_session_leaves_no_process_and_no_setting() -> None:
    before = dict(os.environ), signal.getsignal(signal.SIGINT), psutil.Process().children(recursive=True)
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (dict(os.environ), signal.getsignal(signal.SIGINT), psutil.Process().children(recursive=True)) == before


def test_what_spark_says_outlives_its_jvm() -> None:
    with pytest.raises(SparkFailed, match="nowhere"), open_session("local[1]") as session:
        session.sql("SELECT * FROM nowhere").collect()


class Killing(Progress):
    """Kills a process as soon as a stage begins."""

    def __init__(self, victim: psutil.Process, stage: str) -> None:
        super().__init__()
        self._victim = victim
        self._stage = stage
        self.killed: list[str] = []

    @contextmanager
    def stage(self, what: str, spark: SparkContext | None = None) -> Iterator[None]:
        if what.startswith(self._stage):
            for process in [*self._victim.children(recursive=True), self._victim]:
                self.killed.append(process.name())
                process.kill()
        with super().stage(what, spark):
            yield


class Cluster:
    """A standalone master and workers, on loopback."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        home = Path(pyspark.__file__).parent
        self._program = home / "bin" / "spark-class"
        self._folder = folder
        self._stack = stack
        self._environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "SPARK_DAEMON_MEMORY": "256m",
            "JAVA_HOME": str(java_home(os.environ, paths.cache())),
        }
        _, said = self._start("org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0")
        self.url = next(match[0] for line in said if (match := re.search(r"spark://127\.0\.0\.1:[1-9]\d*", line)))

    def add_worker(self) -> psutil.Process:
        """Start a worker and wait until the master has it."""
        options = ("--host", "127.0.0.1", "--cores", "1", "--memory", "900m", "--work-dir", str(self._folder))
        process, said = self._start("org.apache.spark.deploy.worker.Worker", *options, self.url)
        next(line for line in said if "Successfully registered with master" in line)
        return psutil.Process(process.pid)

    def _start(self, name: str, *arguments: str) -> tuple[subprocess.Popen[str], Iterator[str]]:
        command = [self._program, name, "--webui-port", "0", *arguments]
        process = self._stack.enter_context(
            subprocess.Popen(
                command, env=self._environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
            )
        )
        said: queue.Queue[str] = queue.Queue()
        reader = threading.Thread(target=drain, args=(process.stderr, said))
        reader.start()
        self._stack.callback(reader.join)
        self._stack.callback(process.kill)
        return process, iter(said.get, "")


def drain(stream: IO[str], said: queue.Queue[str]) -> None:
    """Read a log to its end, so that its writer never waits; an empty line says that it ended."""
    for line in stream:
        said.put(line)
    said.put("")


def test_a_cluster_that_loses_a_worker_makes_the_same_tables(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [MadeCell(name, name) for name in DEFECTS] + [MadeCell("fine")])
    aggregate([run], tmp_path / "local", master="local[1]")
    conf = {"spark.executor.memory": "512m", "spark.executor.cores": "1", "spark.shuffle.io.retryWait": "1s"}
    with ExitStack() as stack:
        cluster = Cluster(tmp_path, stack)
        victim = cluster.add_worker()
        cluster.add_worker()
        killing = Killing(victim, "checking")
        aggregate([run], tmp_path / "cluster", master=cluster.url, conf=conf, progress=killing)
    assert "java" in killing.killed
    for path in sorted((tmp_path / "local" / "tables").glob("*.json")):
        assert json.loads(path.read_text()) == json.loads((tmp_path / "cluster" / "tables" / path.name).read_text())
