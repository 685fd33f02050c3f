"""A Spark session leaves nothing behind; a cluster gives the same tables, even if a worker is lost."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil
import pytest

pytest.importorskip("pyspark")

import pyarrow.parquet as pq
from pyspark import SparkContext
from pyspark.sql import SparkSession

from conformance.results.parquet import write_parquet
from conformance.spark import partitioning
from conformance.spark.aggregation import TABLES, aggregate
from conformance.spark.progress import Progress
from conformance.spark.session import SparkFailed, _end_session, open_session
from tests.spark.cluster import Cluster
from tests.spark.synthetic import DEFECTS, MadeCell, make_run

pytestmark = pytest.mark.spark


def settings() -> tuple[object, ...]:
    return dict(os.environ), signal.getsignal(signal.SIGINT)


def java_children() -> list[psutil.Process]:
    return [process for process in psutil.Process().children(recursive=True) if process.name() == "java"]


def interrupted(java: list[psutil.Process]) -> None:
    before = settings()
    with open_session("local[1]") as session:
        assert session.range(3).count() == 3
        assert not any(one == other for one, other in zip(settings(), before, strict=True)), "it changes both"
        java += java_children()
        raise KeyboardInterrupt


@pytest.mark.slow
def test_an_interrupted_session_leaves_no_process_and_no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    before = settings(), psutil.Process().children(recursive=True)
    java: list[psutil.Process] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted(java)
    assert (settings(), psutil.Process().children(recursive=True)) == before
    assert java
    assert not any(process.is_running() for process in java), "none goes on with another parent"


def ask_for_nothing(java: list[psutil.Process]) -> None:
    with open_session("local[1]") as session:
        java += java_children()
        session.sql("SELECT * FROM nowhere").collect()


@pytest.mark.slow
def test_an_error_of_spark_is_readable_after_its_jvm_ended() -> None:
    java: list[psutil.Process] = []
    with pytest.raises(SparkFailed) as failed:
        ask_for_nothing(java)
    assert java
    assert not any(process.is_running() for process in java)
    assert "nowhere" in str(failed.value)


@pytest.fixture
def users_session() -> Iterator[SparkSession]:
    """Return a session with the settings of Spark, as spark-submit opens one."""
    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    yield session
    _end_session(session)


@pytest.mark.slow
def test_an_active_session_is_used_and_told_what_it_lacks(users_session: SparkSession) -> None:
    notes: list[str] = []
    with open_session(notify=notes.append) as session:
        assert session is users_session
    assert [note.partition(":")[0] for note in notes] == ["the session has no spark.buffer.pageSize"]
    with pytest.raises(SparkFailed, match="No value present"), open_session():
        # Not an error of a query: it reaches Python as an error of Py4J.
        users_session._jvm.java.util.Optional.empty().get()  # type: ignore[union-attr]
    assert users_session.range(3).count() == 3, "it is still open"


COUNTS = """
from conformance.spark.session import open_session
with open_session("local[1]") as session:
    print(session.range(3).count())
"""
IN_CONTAINER = 'hostname nameless && ip link set lo up && exec unshare --user --map-user=54321 "$@"'


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root and unshare")
def test_a_session_needs_no_account_and_no_resolvable_host_name() -> None:
    """As in a container without a network, whose user is that of the caller."""
    words = ["unshare", "--uts", "--net", "sh", "-c", IN_CONTAINER, "sh", sys.executable, "-c", COUNTS]
    ran = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "3\n", "")


class Killing(Progress):
    """Kills a worker with its executor in the middle of an aggregation, as soon as a stage begins.

    The stage goes on when the master knows that the worker is gone.
    """

    def __init__(self, cluster: Cluster, victim: psutil.Process, stage: str) -> None:
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


@pytest.mark.long
@pytest.mark.parametrize(
    "small",
    [
        pytest.param(partitioning.SMALL_OCTETS, id="one part"),
        pytest.param(0, id="several parts", marks=pytest.mark.slow),  # five minutes on two slow cores
    ],
)
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
