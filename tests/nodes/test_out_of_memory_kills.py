"""A kill for lack of memory counts only in the cell whose process the kernel killed."""

import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conformance import shortage
from conformance.history.events import NodeEvent
from conformance.history.recorder import Recorder
from conformance.nodes import cgroups
from conformance.run.node_supervisor import NodeSupervisor
from conformance.shortage import ResourceMonitor

KILLED = "the kernel has killed a process for lack of memory"
GREEDY = "a = bytearray(1 << 30); a[::4096] = b'x' * len(a[::4096])"


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Return the counters of the kernel by the names of their files; all are 0."""
    counted: Counter[str] = Counter()
    monkeypatch.setattr(shortage, "_count", lambda path: counted[path.name])
    return counted


def test_only_the_kernels_kills_are_ignored_on_request(
    tmp_path: Path, counts: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = ResourceMonitor(tmp_path)
    assert machine.shortage() == ""
    for counter in ("memory.events", "vmstat"):
        counts.clear()
        counts[counter] = 1
        assert machine.shortage() == KILLED
        assert machine.shortage(kills=False) == ""
    assert machine.explanation_of("write: Cannot allocate memory", kills=False) == "Cannot allocate memory"
    assert machine.explanation_of(shortage.KILLED_EXTERNALLY, kills=False) == shortage.KILLED_EXTERNALLY
    assert machine.explanation_of("it exited on its own") == KILLED
    assert machine.explanation_of("it exited on its own", kills=False) == ""
    counts["pids.events"] = 1
    assert machine.shortage(kills=False) == "the limit on processes was reached"
    assert machine.explanation_of("it exited on its own", kills=False) == "the limit on processes was reached"
    monkeypatch.setattr(shortage, "_MIN_FREE", 1 << 80)
    assert machine.shortage(kills=False) == f"no space is left on the disk of {tmp_path}"


@pytest.mark.parametrize(
    ("own_kills", "failure", "counts_as_shortage"),
    [
        (0, "it exited on its own", False),
        (1, "it exited on its own", True),
        (None, "it exited on its own", True),
        (1, "killed: it used too much memory", False),
    ],
)
def test_a_kill_elsewhere_is_ignored_if_own_processes_are_counted(
    tmp_path: Path, counts: Counter[str], own_kills: int | None, failure: str, counts_as_shortage: bool
) -> None:
    """`own_kills` are those of the node's own processes, None where they are not counted."""
    node: Any = SimpleNamespace(name="mbx1", oom_kills=own_kills, failure=failure)
    recorder = Recorder(SimpleNamespace(elapsed=lambda: 0.0))
    supervisor = NodeSupervisor(node, lambda *_: {}, recorder, ResourceMonitor(tmp_path))
    counts["vmstat"] = 1
    supervisor.is_running = True
    supervisor.record_failure()
    recorded = [(event.action, event.detail) for event in recorder.events if isinstance(event, NodeEvent)]
    assert recorded == [("exited", failure), *([("starved", KILLED)] if counts_as_shortage else [])]
    assert supervisor.may_be_short_of_memory is counts_as_shortage


@pytest.mark.integration
def test_a_cgroup_counts_the_kills_of_its_own_processes_only() -> None:
    greedy, modest = (cgroups.make_cgroup(cgroups.Limits(processes=50, memory=64 << 20)) for _ in range(2))
    if greedy is None or modest is None or greedy.oom_kills() is None:
        pytest.skip("no cgroup that counts kills can be made here")
    try:
        done = subprocess.run(
            [*greedy.join_prefix, sys.executable, "-S", "-c", GREEDY], check=False, capture_output=True
        )
        assert done.returncode == -9
        assert greedy.oom_kills() == 1
        assert modest.oom_kills() == 0
    finally:
        assert greedy.kill_and_remove() == ""
        assert modest.kill_and_remove() == ""
