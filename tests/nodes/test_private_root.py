"""A private root: its layer is visible inside only, signals and exit codes pass, and no process stays behind."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.candidates.availability import INSTALLED_VARIABLE
from conformance.candidates.description import Candidate
from conformance.nodes import guard, private_root, processes
from conformance.nodes.contract import NodeError
from conformance.nodes.exec_node import ExecNode

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces of its own need root"),
]


def run_in(tmp_path: Path, script: str) -> subprocess.CompletedProcess[str]:
    layer, keep = tmp_path / "layer", tmp_path / "node"
    (layer / "etc").mkdir(parents=True)
    (layer / "etc" / "laid-over").write_text("from the layer")
    keep.mkdir()
    words = [
        "--namespaces",
        sys.executable,
        private_root.__file__,
        str(layer),
        str(keep),
        "mta1",
        "--",
        "sh",
        "-c",
        script,
    ]
    command = [sys.executable, guard.__file__, *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.read()  # read first: the end of its input makes the guard kill the program
        return subprocess.CompletedProcess(command, process.wait(timeout=20), said)


def test_the_layer_is_visible_inside_only_and_stays_unchanged(tmp_path: Path):
    inside = run_in(tmp_path, "cat /etc/laid-over; touch /etc/written /usr/written && echo; cat /etc/hosts")
    assert inside.stdout.startswith("from the layer\n"), "it could write"
    assert "mta1.test" in inside.stdout
    assert not Path("/etc/laid-over").exists()
    assert not Path("/etc/written").exists()
    assert not Path("/usr/written").exists()
    layer = tmp_path / "layer"
    assert [path.relative_to(layer) for path in layer.rglob("*") if path.is_file()] == [Path("etc/laid-over")]
    assert (layer / "etc/laid-over").read_text() == "from the layer"


def test_the_node_s_directory_is_shared_at_both_of_its_paths(tmp_path: Path):
    assert run_in(tmp_path, f"echo a > /node/a; cat {tmp_path}/node/a").stdout == "a\n"
    assert (tmp_path / "node/a").read_text() == "a\n"


def test_processes_outside_are_not_visible(tmp_path: Path):
    mark = f"outside-{tmp_path.name}"
    program = "print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program, mark], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as outside:
        assert outside.stdout is not None
        assert outside.stdout.readline()
        assert mark in Path(f"/proc/{outside.pid}/cmdline").read_text()
        inside = run_in(tmp_path, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
        outside.kill()
    assert "cat /proc/" in inside.stdout
    assert mark not in inside.stdout


@pytest.mark.parametrize(("script", "code"), [("exit 7", 7), ("kill -9 $$", 137), ("exec no-such-program", 127)])
def test_the_exit_code_is_the_command_s(tmp_path: Path, script: str, code: int):
    assert run_in(tmp_path, script).returncode == code


def test_syslog_is_printed(tmp_path: Path):
    assert "I speak to syslog" in run_in(tmp_path, "logger I speak to syslog").stdout


def test_sigterm_reaches_the_command_and_its_remaining_processes_are_killed(tmp_path: Path):
    keep = tmp_path / "node"
    keep.mkdir()
    (tmp_path / "layer").mkdir()
    script = "trap 'echo terminated; exit 3' TERM; setsid sleep 3600 & echo ready; while :; do sleep 0.01; done"
    words = ["--namespaces", sys.executable, private_root.__file__, str(tmp_path / "layer"), str(keep), "mta1", "--"]

    async def steps() -> tuple[int, bytes, list[int]]:
        process = await asyncio.create_subprocess_exec(
            sys.executable, guard.__file__, *words, "sh", "-c", script,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
        below = list(processes.descendants(process.pid))
        process.stdin.write(b"T")
        said, _ = await process.communicate()
        return await process.wait(), said, below

    code, said, below = asyncio.run(asyncio.wait_for(steps(), 30))
    assert (code, said) == (3, b"terminated\n")
    assert len(below) >= 3, "the root's init, the command, and what that has left running"
    assert not [pid for pid in below if Path(f"/proc/{pid}").exists()]


def wipe_by(script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wipe a node that is down by a command of its description; its layer has `/etc/laid-over`, its queue the file `queued`."""
    installed, data = tmp_path / "installed" / "toy", tmp_path / "mta1" / "data"
    (installed / "etc").mkdir(parents=True)
    (installed / "etc" / "laid-over").write_text("from the layer")
    data.mkdir(parents=True)
    (data / "queued").write_text("mail")
    monkeypatch.setenv(INSTALLED_VARIABLE, str(installed.parent))
    fields = {
        "name": "toy",
        "kind": "exec",
        "claims": ("relay",),
        "argv": ("true",),
        "installed": "toy",
        "private-root": True,
    }
    candidate = Candidate.model_validate({**fields, "commands": {"wipe": ("sh", "-c", script)}})

    async def steps() -> None:
        node = ExecNode("mta1", candidate, tmp_path / "mta1")
        try:
            await node.wipe()
        finally:
            await node.close()

    asyncio.run(asyncio.wait_for(steps(), 30))


def test_the_wipe_command_of_a_node_that_is_down_sees_its_root_and_its_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    wipe_by("cat /etc/hostname >{data}/by && cat /etc/laid-over >>{data}/by && rm {data}/queued", tmp_path, monkeypatch)
    assert (tmp_path / "mta1/data/by").read_text() == "mta1\nfrom the layer"
    assert not (tmp_path / "mta1/data/queued").exists()


def test_a_wipe_command_that_fails_in_a_private_root_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(NodeError, match="nothing to wipe"):
        wipe_by("echo nothing to wipe >&2; exit 3", tmp_path, monkeypatch)
