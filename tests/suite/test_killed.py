"""A run is killed with SIGKILL in the middle of a cell whose servers are programs: none of them outlives the run."""

import json
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from conformance.nodes.places import FIRST, LAST
from tests.suite.helpers import command, environment

pytestmark = pytest.mark.integration

LONG = """\
id: long
title: A message, and then a wait that is long enough to kill the run
requirements: [SR-CRE-01]
needs: [shadow-2013]
topology: two-servers-one-dag
steps:
  - send: {as: m, to: bob@corp.test, via: mbx1}
  - expect: {mailbox: {of: m, who: bob@corp.test, copies: 1, within: 10m}}
  - advance: 30d
"""


def waits_in_the_long_step(run: Path) -> bool:
    """Whether the cell's file says that the last step has begun."""
    lines = [line for path in run.glob("cells/*.jsonl") for line in path.read_text("utf-8").splitlines()]
    return any('"advance"' in line and json.loads(line).get("phase") == "began" for line in lines[1:])


@pytest.mark.long
def test_no_server_process_and_no_listener_outlives_a_killed_run(tmp_path: Path):
    (tmp_path / "long.scenario.yaml").write_text(LONG, "utf-8")
    words = command("run", "long.scenario.yaml", "--candidate", "exec:reference", "--run-dir", "run")
    with subprocess.Popen(
        words, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as run:
        assert run.stdout is not None
        while run.poll() is None and not waits_in_the_long_step(tmp_path / "run"):
            time.sleep(0.01)
        tree = psutil.Process(run.pid).children(recursive=True)
        assert sum("conformance.reference" in process.cmdline() for process in tree) >= 2, "both nodes are up"
        leased = listener_ports(tmp_path / "run")
        assert leased
        assert leased <= ports_with_a_listener()
        run.kill()
        rest = run.stdout.read()
    assert run.returncode == -signal.SIGKILL, rest
    psutil.wait_procs(tree, timeout=30)
    assert [process for process in tree if process.is_running()] == []
    assert listener_ports(tmp_path / "run") == leased <= set(range(FIRST, LAST))
    assert not leased & ports_with_a_listener()


def ports_with_a_listener() -> set[int]:
    """Return the TCP ports of this machine at which any process listens."""
    return {one.laddr.port for one in psutil.net_connections("tcp") if one.status == psutil.CONN_LISTEN}


def listener_ports(run: Path) -> set[int]:
    """Return the ports of all listeners in the configurations of the run's nodes."""
    configurations = [json.loads(path.read_text("utf-8")) for path in run.rglob("node.json")]
    return {listener["port"] for node in configurations for listener in node["listeners"].values()}
