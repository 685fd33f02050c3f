"""Without the functions that only Linux has, commands that read files work, and those that run cells say what is missing."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.suite.helpers import ROOT, conformance_command, environment

pytestmark = pytest.mark.integration

ELSEWHERE = """
import os, select, signal, socket, sys
ONLY_LINUX = {
    socket: ("TCP_INFO", "SO_PEERCRED", "AF_NETLINK"), select: ("epoll",), signal: ("pidfd_send_signal",),
    os: ("pidfd_open", "memfd_create", "sched_getaffinity", "splice", "eventfd"),
}
for module, names in ONLY_LINUX.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
from conformance.cli import main
sys.exit(main(sys.argv[1:]))
"""


def elsewhere(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a Python without the functions that only Linux has."""
    return subprocess.run(
        [sys.executable, "-c", ELSEWHERE, *words],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run, made on Linux."""
    folder = tmp_path_factory.mktemp("ran")
    words = ("run", "-k", "inbound-acknowledged", "--candidate", "reference", "--run-dir", "run")
    assert conformance_command(*words, cwd=folder).returncode == 0
    return folder


@pytest.mark.long
@pytest.mark.parametrize(
    "words",
    [
        ("validate", str(ROOT / "scenarios" / "creation")),
        ("list", "--requirement", "RLY"),
        ("schema", "node"),
        ("judge", "run"),
        ("report", "run", "--out", "site"),
    ],
    ids=lambda words: words[0],
)
def test_validate_list_schema_judge_and_report_work_on_other_systems(ran: Path, words: tuple[str, ...]):
    done = elsewhere(*words, cwd=ran)
    assert done.returncode == 0, done.stdout + done.stderr
    assert words[0] != "report" or (ran / "site/index.html").is_file()
    usual = conformance_command(*words, cwd=ran)
    assert (done.stdout, done.stderr) == (usual.stdout, usual.stderr), "it prints what it prints on Linux"


@pytest.mark.parametrize(
    "words",
    [
        ("run", "--candidate", "reference"),
        ("defects", "acknowledges-before-shadow"),
        ("mutants", "--sample", "1"),
        ("explore", "alone-in-its-boundary", "--plans", "1", "--out", "found"),
        ("smuggling", "aiosmtpd", "--out", "matrix"),
        ("candidate", "check", "reference"),
    ],
    ids=lambda words: words[0],
)
def test_running_cells_on_another_system_is_refused_with_a_reason(words: tuple[str, ...], tmp_path: Path):
    done = elsewhere(*words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "running cells needs Linux: the harness reads TCP_INFO of its connections\n"
    assert list(tmp_path.iterdir()) == []
