"""A kill for lack of memory counts only in the cell whose process the kernel killed."""

import subprocess
import sys
from pathlib import Path

import pytest

from conformance import shortage
from conformance.nodes import cgroups
from conformance.shortage import ResourceMonitor

GREEDY = "a = bytearray(1 << 30); a[::4096] = b'x' * len(a[::4096])"


def test_a_kill_elsewhere_is_ignored_if_own_processes_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = 0
    monkeypatch.setattr(shortage, "_count", lambda path: killed if path.name == "vmstat" else 0)
    machine = ResourceMonitor(tmp_path)
    assert machine.shortage() == ""
    killed = 1
    assert machine.shortage() == "the kernel has killed a process for lack of memory"
    assert machine.shortage(kills=False) == ""
    assert machine.explanation_of("it exited on its own", kills=False) == ""


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
