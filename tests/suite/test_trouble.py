"""Runs that fail: candidates that do not start, invalid files, a run that is killed.

Each ends with a clear message and the right verdict, and leaves no process behind.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from conformance.results.reader import Damage, read_run
from tests.nodes import programs
from tests.suite.helpers import command, conformance_command, environment

pytestmark = pytest.mark.integration

RELAYED = """\
id: relayed
title: A message is passed on
requirements: [RL-ACK-01]
needs: [relay]
topology: relay
steps:
  - send: {as: m, to: victor@outside.test, via: mta1}
  - expect: {delivered: {of: m, at: outside, copies: 1, within: 1m}}
"""

LONG = """\
id: long
title: Many messages, one after the other, which take long enough to kill the run
requirements: [SR-CRE-01]
needs: [shadow-2013]
topology: two-servers-one-dag
axes: {messages: [1, 2000]}
steps:
  - send: {as: m, count: "${messages}", to: bob@corp.test, via: mbx1}
  - expect: {mailbox: {of: m, who: bob@corp.test, copies: 1, within: 1h}}
"""


@pytest.fixture(autouse=True)
def no_process_left(tmp_path: Path) -> Iterator[None]:
    """Assert after the test that no process of its run is left, not even one whose parent has ended."""
    yield
    assert psutil.Process().children(recursive=True) == []
    running = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    assert [words for words in running if str(tmp_path) in words] == []


def describe(directory: Path, program: str, ready_within: int) -> Path:
    """Write the description of a candidate that is one small program."""
    script = directory / "program.py"
    script.write_text(program, "utf-8")
    description = {
        "name": "toy",
        "kind": "exec",
        "claims": ["relay"],
        "argv": ["{python}", str(script), "{config}"],
        "ready-within": ready_within,
        "stop-within": 1,
    }
    path = directory / "toy.yaml"
    path.write_text(json.dumps(description), "utf-8")  # JSON is YAML
    return path


@pytest.mark.long
@pytest.mark.parametrize(
    ("program", "ready_within", "error"),
    [
        pytest.param(programs.LEAVES_AT_ONCE, 60, "exit code 3: no licence file", id="exits at once"),
        pytest.param(programs.NEVER_LISTENS, 1, "gave no greeting within 1 s", id="never listens"),
        pytest.param(programs.SAYS_NOTHING, 1, "gave no greeting within 1 s", id="listens and says nothing"),
        pytest.param(programs.SPEAKS_HTTP, 60, "in place of a 220 greeting", id="speaks another protocol"),
        pytest.param(programs.GREETS_WITH_554, 60, "'554 no service' in place of a 220", id="offers no service"),
    ],
)
def test_a_candidate_that_does_not_start_is_reported_as_a_harness_error(
    tmp_path: Path, program: str, ready_within: int, error: str
):
    (tmp_path / "relayed.scenario.yaml").write_text(RELAYED, "utf-8")
    candidate = describe(tmp_path, program, ready_within)
    ran = conformance_command(
        "run", "relayed.scenario.yaml", "--candidate", candidate.name, "--run-dir", "run", cwd=tmp_path
    )
    assert ran.returncode == 3, ran.stdout
    assert error in " ".join(ran.stdout.split())
    assert "HARNESS ERROR" in ran.stdout
    assert "Traceback" not in ran.stdout + ran.stderr
    footer = json.loads((tmp_path / "run" / "footer.json").read_text("utf-8"))
    assert footer["outcomes"]["error"] == 1


def test_a_server_that_was_never_started_has_no_log_and_causes_no_internal_error(tmp_path: Path):
    (tmp_path / "relayed.scenario.yaml").write_text(
        RELAYED.replace("topology: relay", "topology: two-servers-one-dag").replace("mta1", "mbx1"), "utf-8"
    )
    candidate = describe(tmp_path, programs.LEAVES_AT_ONCE, 60)
    ran = conformance_command(
        "run", "relayed.scenario.yaml", "--candidate", candidate.name, "--run-dir", "run", cwd=tmp_path
    )
    assert ran.returncode == 3, ran.stdout
    assert "HARNESS ERROR" in ran.stdout
    assert "INTERNALERROR" not in ran.stdout
    assert [path.parent.name for path in (tmp_path / "run").rglob("node.log")] == ["mbx1"]


def test_an_invalid_scenario_stops_the_run_and_the_places_are_reported(tmp_path: Path):
    wrong = RELAYED.replace("topology: relay", "topology: relais").replace("RL-ACK-01", "RL-ACK-99")
    (tmp_path / "wrong.scenario.yaml").write_text(wrong, "utf-8")
    ran = conformance_command("run", "wrong.scenario.yaml", "--run-dir", "run", cwd=tmp_path)
    assert ran.returncode == 2, ran.stdout
    assert "wrong.scenario.yaml:3:16: " in ran.stdout, "the requirement's place"
    assert "wrong.scenario.yaml:5:11: " in ran.stdout, "the topology's place"
    assert "did you mean 'relay'" in ran.stdout
    assert "Traceback" not in ran.stdout + ran.stderr
    assert not (tmp_path / "run").exists()


def second_cell_has_events(run: Path) -> bool:
    """Whether the second cell's file has grown beyond its header."""
    return any(path.stat().st_size > 50_000 for path in run.glob("cells/*messages=2000*.jsonl"))


def kill_run_in_second_cell(tmp_path: Path) -> None:
    """Start a run in `tmp_path`, and kill it in the middle of its second cell."""
    (tmp_path / "long.scenario.yaml").write_text(LONG, "utf-8")
    words = command("run", "long.scenario.yaml", "--run-dir", "run")
    with subprocess.Popen(
        words, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as run:
        assert run.stdout is not None
        while run.poll() is None and not second_cell_has_events(tmp_path / "run"):
            time.sleep(0.01)
        run.kill()
        rest = run.stdout.read()
    assert run.returncode == -signal.SIGKILL, rest


@pytest.mark.long
def test_a_killed_run_can_be_read_and_judged(tmp_path: Path):
    kill_run_in_second_cell(tmp_path)
    damage: list[Damage] = []
    cells = list(read_run(tmp_path / "run").cells(damage))
    assert len([cell for cell in cells if cell.cut_short]) == 1
    assert [cell for cell in cells if not cell.cut_short], "what was done before is whole"

    judged = conformance_command("judge", "run", "--scenarios", "long.scenario.yaml", cwd=tmp_path)
    assert judged.returncode == 3, judged.stdout
    assert "cut short after" in judged.stdout
    assert "1 cut short; 1 differ from what is recorded" in judged.stdout, "it had no verdict before"
    assert "Traceback" not in judged.stdout + judged.stderr


@pytest.mark.long
@pytest.mark.spark
def test_a_killed_run_is_aggregated_and_its_incomplete_cell_is_counted(tmp_path: Path):
    kill_run_in_second_cell(tmp_path)
    ran = conformance_command("aggregate", "run", "--out", "tables", cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "2 cells, 1 of them cut short" in " ".join(ran.stdout.split())
    matrix = json.loads((tmp_path / "tables" / "tables" / "matrix.json").read_bytes())
    assert sum(row["passed"] for row in matrix) == 1, "the cell that had ended"


def test_a_reader_of_the_output_that_ends_early_is_no_error_of_the_harness(tmp_path: Path):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        command("run", "--help"), cwd=tmp_path, env=environment(), stdout=writer, stderr=subprocess.PIPE, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")
