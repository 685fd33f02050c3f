"""A session leaves nothing behind; a cluster gives the same tables, also when it loses a worker on the way."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest

pyspark = pytest.importorskip("pyspark")

from conformance.spark.java import cache_folder, java_home
from conformance.spark.job import aggregate
from conformance.spark.progress import Progress
from conformance.spark.session import SparkFailed, open_session
from tests.spark.synthetic import DEFECTS, MadeCell, make_run

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_an_interrupted_session_leaves_no_process_and_no_setting() -> None:
    before = dict(os.environ), signal.getsignal(signal.SIGINT), psutil.Process().children(recursive=True)
    with pytest.raises(KeyboardInterrupt), open_session("local[1]") as session:
        assert session.range(3).count() == 3
        assert len(psutil.Process().children(recursive=True)) > len(before[2])
        raise KeyboardInterrupt
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
    def stage(self, what: str) -> Iterator[None]:
        if what.startswith(self._stage):
            for process in [*self._victim.children(recursive=True), self._victim]:
                self.killed.append(process.name())
                process.kill()
        with super().stage(what):
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
            "JAVA_HOME": str(java_home(os.environ, cache_folder(os.environ))),
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
        log = self._folder / f"{len(list(self._folder.glob('*.log')))}.log"
        command = [self._program, name, *arguments, "--webui-port", "0"]
        if name.endswith("Worker"):
            command = [self._program, name, *arguments[:-1], "--webui-port", "0", arguments[-1]]
        process = self._stack.enter_context(
            subprocess.Popen(command, env=self._environment, stderr=subprocess.PIPE, stdout=log.open("w"), text=True)
        )
        self._stack.callback(process.kill)
        assert process.stderr is not None
        return process, iter(process.stderr)


def test_a_cluster_that_loses_a_worker_makes_the_same_tables(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [MadeCell(name, name) for name in DEFECTS] + [MadeCell("fine")])
    aggregate([run], tmp_path / "local", master="local[1]")
    conf = {"spark.executor.memory": "512m", "spark.executor.cores": "1"}
    with ExitStack() as stack:
        cluster = Cluster(tmp_path, stack)
        victim = cluster.add_worker()
        cluster.add_worker()
        killing = Killing(victim, "following")
        aggregate([run], tmp_path / "cluster", master=cluster.url, conf=conf, progress=killing)
    assert "java" in killing.killed
    for path in sorted((tmp_path / "local" / "tables").glob("*.json")):
        assert json.loads(path.read_text()) == json.loads((tmp_path / "cluster" / "tables" / path.name).read_text())
