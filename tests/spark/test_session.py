"""A Spark session leaves nothing behind; a cluster gives the same tables, even if a worker is lost."""

import os
import queue
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

import psutil
import pytest

pytest.importorskip("pyspark")

import pyarrow.parquet as pq
import pyspark
from pyspark import SparkContext

from conformance import paths
from conformance.results.parquet import write_parquet
from conformance.spark import partitioning
from conformance.spark.aggregation import TABLES, aggregate
from conformance.spark.find_java import find_java_home
from conformance.spark.progress import Progress
from conformance.spark.session import SparkFailed, open_session
from tests.spark.synthetic import DEFECTS, MadeCell, make_run

pytestmark = pytest.mark.spark


def interrupted() -> None:
    with open_session("local[1]") as session:
        assert session.range(3).count() == 3
        assert any(process.name() == "java" for process in psutil.Process().children(recursive=True))
        raise KeyboardInterrupt


@pytest.mark.slow
def test_an_interrupted_session_leaves_no_process_and_no_setting() -> None:
    before = dict(os.environ), signal.getsignal(signal.SIGINT), psutil.Process().children(recursive=True)
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (dict(os.environ), signal.getsignal(signal.SIGINT), psutil.Process().children(recursive=True)) == before


@pytest.mark.slow
def test_an_error_of_spark_is_readable_after_its_jvm_ended() -> None:
    with pytest.raises(SparkFailed, match="nowhere"), open_session("local[1]") as session:
        session.sql("SELECT * FROM nowhere").collect()


class Killing(Progress):
    """Kills a worker with its executor in the middle of an aggregation, as soon as a stage begins.

    The stage goes on when the master knows that the worker is gone.
    """

    def __init__(self, cluster: "Cluster", victim: psutil.Process, stage: str) -> None:
        super().__init__()
        self._cluster = cluster
        self._victim = victim
        self._stage = stage
        self.killed: list[list[str]] = []
        self.stages_after: list[str] = []

    @contextmanager
    def stage(self, what: str, spark: SparkContext | None = None) -> Iterator[None]:
        if what.startswith(self._stage):
            for process in [*self._victim.children(recursive=True), self._victim]:
                with suppress(psutil.NoSuchProcess):  # a worker has short-lived children too
                    self.killed.append(process.cmdline())
                    process.kill()
            self._cluster.wait_for_master("Removing worker")
        with super().stage(what, spark):
            yield
        if self.killed:
            self.stages_after.append(what)


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
            "JAVA_HOME": str(find_java_home(os.environ, paths.cache())),
        }
        _, self._said = self._start("org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0")
        self.url = self.wait_for_master(r"spark://127\.0\.0\.1:[1-9]\d*")

    def wait_for_master(self, pattern: str) -> str:
        """Wait until the master says something; it must not end before."""
        return next(match[0] for line in self._said if (match := re.search(pattern, line)))

    def add_workers(self, count: int) -> list[psutil.Process]:
        """Start workers and wait until the master has them."""
        options = ("--host", "127.0.0.1", "--cores", "1", "--memory", "900m", "--work-dir", str(self._folder))
        name = "org.apache.spark.deploy.worker.Worker"
        started = [self._start(name, *options, self.url) for _ in range(count)]
        for _, said in started:
            next(line for line in said if "Successfully registered with master" in line)
        return [psutil.Process(process.pid) for process, _ in started]

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


@pytest.mark.parametrize("small", [partitioning.SMALL_OCTETS, 0], ids=["one part", "several parts"])
def test_a_cluster_that_loses_a_worker_makes_the_same_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    """Compared with what DuckDB makes of the same run: a second oracle, and much sooner there than a session of Spark."""
    pytest.importorskip("duckdb")
    from benchmarks.in_duckdb import difference, tables_of

    monkeypatch.setattr(partitioning, "SMALL_OCTETS", small)
    before = psutil.Process().children(recursive=True)
    run = make_run(tmp_path / "run", [MadeCell(name, name, messages=1) for name in DEFECTS] + [MadeCell("fine")])
    write_parquet(run)
    conf = {"spark.executor.memory": "512m", "spark.executor.cores": "1", "spark.shuffle.io.retryWait": "1s"}
    with ExitStack() as stack:
        cluster = Cluster(tmp_path, stack)
        victim, _ = cluster.add_workers(2)
        killing = Killing(cluster, victim, "checking")
        aggregate([run], tmp_path / "cluster", master=cluster.url, conf=conf, progress=killing)
    assert any("org.apache.spark.executor.CoarseGrainedExecutorBackend" in words for words in killing.killed)
    assert len(killing.stages_after) > 1, "the aggregation went on after the kill"
    expected = tables_of([run], 1)
    for table in TABLES:
        made = pq.read_table(tmp_path / "cluster" / "tables" / f"{table.name}.parquet")
        assert difference(table, made, expected[table.name]) == ""
    assert expected["rechecks"].num_rows > 0
    assert psutil.Process().children(recursive=True) == before
