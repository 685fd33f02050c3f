"""A cell of a candidate whose clock cannot be shifted is not applicable, with the reason."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from conformance import paths
from conformance.results.reader import read_run
from conformance.verdicts import Outcome
from tests.run.shifted.shifted_process import MARKS, compile_program
from tests.suite.helpers import environment

pytestmark = MARKS

SCENARIO = paths.corpus() / "relay" / "relay.scenario.yaml"
CELL = f"{SCENARIO}::no-report-about-the-null-sender"

DESCRIPTION = """
name: mine
kind: exec
claims: [relay, dsn]
listeners: [frontend]
argv: {argv}
files:
  start: |
    exec {program} {{{{ node.listeners.frontend.port }}}}
"""


def outcome(directory: Path, candidate: str, **changes: str) -> tuple[Outcome, str]:
    """Run a cell with the shifted clock, and return its outcome and the sentence that says why."""
    words = [sys.executable, "-m", "conformance", "run", CELL, "--candidate", candidate, "--clock", "shifted"]
    ran = subprocess.run(
        [*words, "--run-dir", str(directory / "run")],
        env={**environment(), **changes},
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode in (0, 1), ran.stdout + ran.stderr
    (cell,) = read_run(directory / "run").cells([])
    assert cell.footer is not None
    assert ran.returncode == (cell.footer.outcome is Outcome.FAIL), ran.stdout + ran.stderr
    return cell.footer.outcome, cell.footer.sentence


def described(directory: Path, argv: str, *flags: str) -> str:
    """Compile a server that greets and then leaves, describe it, and return the description's path."""
    directory.mkdir(exist_ok=True)
    program = compile_program(directory, "greets", *flags)
    path = directory / "mine.yaml"
    path.write_text(DESCRIPTION.format(argv=argv.format(program=program), program=program), "utf-8")
    return str(path)


def test_a_static_server_is_not_applicable(tmp_path: Path) -> None:
    argv = '["{program}", "{{listen.frontend}}"]'
    found, why = outcome(tmp_path, described(tmp_path, argv, "-static"))
    assert found is Outcome.NOT_APPLICABLE
    dynamic = tmp_path / "dynamic"
    assert outcome(dynamic, described(dynamic, argv))[0] is Outcome.FAIL, "the same server is judged otherwise"
    assert why == f"--clock shifted: {tmp_path / 'greets'} is linked statically: it reads the clock around the shim"


def test_a_script_that_starts_a_static_server_is_not_applicable(tmp_path: Path) -> None:
    argv = '[sh, "{{directory}}/start"]'
    found, why = outcome(tmp_path, described(tmp_path, argv, "-static"))
    assert found is Outcome.NOT_APPLICABLE
    dynamic = tmp_path / "dynamic"
    assert outcome(dynamic, described(dynamic, argv))[0] is Outcome.FAIL, "the same server is judged otherwise"
    assert why.endswith(
        f"({tmp_path / 'greets'}) runs without the shim: it is static, setuid, or cleaned its environment"
    )


def test_a_server_on_a_machine_without_a_compiler_is_not_applicable(tmp_path: Path) -> None:
    bare = tmp_path / "bin"
    bare.mkdir()
    for name in ("sh", "env"):
        (bare / name).symlink_to(shutil.which(name) or os.devnull)
    found, why = outcome(tmp_path, "exec:reference", PATH=str(bare), XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert found is Outcome.NOT_APPLICABLE
    assert why == "--clock shifted: the shifted clock needs a C compiler (cc), and this machine has none"
