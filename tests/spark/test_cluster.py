"""The commands of docs/spark-cluster.md, on a standalone cluster of two workers: the tables are those of local mode.

The tox environment `cluster` runs this.
"""

import json
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from conformance.spark.aggregation import TABLES
from conformance.spark.master import MasterUnreachable, driver_address
from tests.spark.cluster import PAGE, URL, USES, Cluster
from tests.suite.helpers import ROOT, conformance_command

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.integration]

RUN, AGGREGATE, SUBMIT = USES
OF_THE_RUN = frozenset({"run", "started", "wall_seconds", "cpu_seconds", "before_run", "repeat", "place"})
"""Columns that differ between two runs of the same cells."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with ExitStack() as stack:
        started = Cluster(tmp_path_factory.mktemp("work"), stack)
        started.add_workers(2)
        yield started


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the scenarios, the program for spark-submit, and a run of the page's scenarios without a cluster."""
    made = tmp_path_factory.mktemp("here")
    (made / "scenarios").symlink_to(ROOT / "scenarios")
    (program,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (made / "aggregate.py").write_text(program, "utf-8")
    scenarios = shlex.split(RUN)[2]
    ran = conformance_command("run", scenarios, "--candidate", "reference", "--run-dir", "reports/local", cwd=made)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return made


def on_cluster(command: str, cluster: Cluster, folder: Path, **changes: str) -> str:
    """Run a command of the page on the test's own cluster; return what it prints."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    (programs / "conformance").write_text(f'#!/bin/sh\nexec {sys.executable} -m conformance "$@"\n', "utf-8")
    (programs / "conformance").chmod(0o755)
    for old, new in {URL: cluster.url, **changes}.items():
        assert old in command
        command = command.replace(old, new)
    path = f"{programs}:{cluster.environment['PATH']}"
    ran = subprocess.run(
        ["bash", "-ec", command], cwd=folder, env=cluster.environment | {"PATH": path, "PYSPARK_PYTHON": sys.executable},
        capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def tables(out: Path) -> dict[str, list[dict[str, Any]]]:
    return {table.name: json.loads((out / "tables" / f"{table.name}.json").read_text("utf-8")) for table in TABLES}


def of_run(rows: list[dict[str, Any]], run: str) -> list[str]:
    """Return the rows of one run without what differs between two runs of the same cells, sorted."""
    kept = (row for row in rows if row.get("run") == run)
    return sorted(json.dumps({key: value for key, value in row.items() if key not in OF_THE_RUN}) for row in kept)


def test_a_cluster_gives_what_local_mode_gives(cluster: Cluster, folder: Path) -> None:
    said = on_cluster(RUN, cluster, folder)
    assert re.search(r"^\d+ pass$", said, re.MULTILINE), said
    on_cluster(AGGREGATE, cluster, folder, **{"/reports/cluster": "/reports"})
    local = conformance_command("aggregate", "reports", "--out", "alone", "--master", "local[2]", cwd=folder)
    assert local.returncode == 0, local.stdout + local.stderr
    alone, together = tables(folder / "alone"), tables(folder / "tables")
    assert together == alone, "the same runs, aggregated locally and on the cluster"
    assert {row["run"] for row in alone["runs"]} == {"local", "cluster"}
    compared = [name for name in alone if of_run(alone[name], "local")]
    assert {"runs", "requirements", "checks", "latency", "placement", "rechecks"} <= set(compared)
    for name in compared:
        if name != "slowest":  # ordered by real time
            assert of_run(alone[name], "cluster") == of_run(alone[name], "local"), name


def test_spark_submit_gives_the_same_tables(cluster: Cluster, folder: Path) -> None:
    assert (folder / "alone").is_dir(), "the test before has run"
    on_cluster(SUBMIT, cluster, folder, **{"reports/cluster": "reports"})
    assert tables(folder / "submitted") == tables(folder / "alone")


@pytest.fixture
def silent_master() -> Iterator[str]:
    """Return the address of a master that never accepts: its queue of connections is full."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(2):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield f"spark://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("command", ["aggregate", "run"])
def test_an_unreachable_master_is_reported_before_a_run_is_deleted_or_a_table_is_written(
    command: str, silent_master: str, folder: Path
) -> None:
    words = {
        "aggregate": ["reports/local", "--out", "nothing", "--master", silent_master],
        "run": ["-k", "inbound", "--spark", silent_master, "--run-dir", "reports/local", "--fresh"],
    }[command]
    outdated = folder / "nothing" / "warehouse" / "summaries" / "runs.parquet"
    outdated.parent.mkdir(parents=True, exist_ok=True)
    outdated.touch()
    (outdated.parent.parent / "catalog.json").write_text('{"version": 1, "layout": "another"}', "utf-8")
    before = sorted((folder / "reports").rglob("*"))
    ran = conformance_command(command, *words, cwd=folder)
    assert ran.returncode == 2
    assert f"{silent_master} cannot be reached: " in ran.stderr
    assert sorted((folder / "reports").rglob("*")) == before, "nothing was deleted"
    assert not (folder / "nothing" / "tables").exists()
    assert outdated.is_file(), "a warehouse that would be made anew is kept"
    assert folder / "reports" / "local" / "run.json" in before


def test_the_wait_for_an_unreachable_master_ends_within_ten_seconds(silent_master: str) -> None:
    began = time.monotonic()
    with pytest.raises(MasterUnreachable, match="timed out"):
        driver_address(f"{silent_master},{silent_master.removeprefix('spark://')}")
    assert time.monotonic() - began < 10


def test_one_reachable_master_of_several_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as master:
        port = master.getsockname()[1]
        assert driver_address(f"spark://127.0.0.1:1,127.0.0.1:{port}") == "127.0.0.1"
    with pytest.raises(MasterUnreachable, match=r"mine is not HOST:PORT; 127\.0\.0\.1:1: .*refused"):
        driver_address("spark://mine,127.0.0.1:1")
    assert driver_address("local[2]") == "127.0.0.1"


def test_the_driver_has_the_address_that_the_master_sees() -> None:
    own = [address[4][0] for address in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)]
    for host, driver in ((own[0], own[0]), ("127.0.0.2", "127.0.0.1")):  # the second is not the master's own address
        with socket.create_server((host, 0)) as master:
            assert driver_address(f"spark://{host}:{master.getsockname()[1]}") == driver
            connection, seen = master.accept()
            connection.close()
        assert seen[0] == driver


@pytest.mark.parametrize("scheme", ["hdfs", "s3a", "https"])
def test_a_url_of_another_scheme_is_refused(scheme: str, tmp_path: Path) -> None:
    ran = conformance_command("aggregate", f"{scheme}://host/run", "--out", "x", cwd=tmp_path)
    assert ran.returncode == 2
    assert f"{scheme}://host/run is neither a path nor a file:// URL" in ran.stderr
    assert list(tmp_path.iterdir()) == []
