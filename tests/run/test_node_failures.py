"""A node that has ended is blamed on the server, the machine or the harness, by its cause."""

import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance import paths
from conformance.candidates.assignment import Assignment
from conformance.candidates.description import Candidate
from conformance.execute import judge
from conformance.history.events import Attempt, NodeEvent
from conformance.judge.incremental import IncrementalJudge
from conformance.run.cell import CellRunner, RecordedRun
from conformance.run.cell_loop import OWN_LOOP, run_without_loop
from conformance.run.settings import Settings
from conformance.scenarios.loader import read_corpus
from conformance.verdicts import Outcome, Verdict, worst_in_cell
from tests.suite.helpers import command, environment

pytestmark = [pytest.mark.integration, pytest.mark.timed]

RESTARTED = """\
id: restarted
title: A server that was killed starts again on its own queue
requirements: [RL-ACK-01]
needs: [relay]
topology: relay
drain: 30m
steps:
  - send: {as: m, to: victor@outside.test, via: mta1}
  - kill: mta1
  - start: mta1
"""

AT_A_MOMENT = """\
  - kill: {node: mta1, at: {from: outside, to: mta1, after: dot, nth: 2}}
  - start: {node: mta1, at: {from: outside, to: mta1, after: dot, nth: 2}}
  - send: {as: m, to: victor@outside.test, via: mta1}
  - send: {as: n, to: victor@outside.test, via: mta1}
"""

ANOTHER_MESSAGE = """\
  - send: {as: n, to: victor@outside.test, via: mta1}
"""

SHORT_DRAIN = "configure: {MessageRetryInterval: 10s}\ndrain: 1m"

KILLED_BY_THE_SECOND = "os.kill(os.getpid(), 9) if hasattr(self, 'has_one') else setattr(self, 'has_one', True)"

SERVER = """
import asyncio, os, pathlib, signal, sys
from aiosmtpd.controller import UnthreadedController
queue = pathlib.Path(sys.argv[2], "queue")
if queue.exists() and {on_a_queue!r}:
    exec({on_a_queue!r})
class Handler:
    async def handle_DATA(self, server, session, envelope):
        if {accepts}:
            queue.write_bytes(envelope.content)
        {then}
        return "250 taken" if {accepts} else "451 later"
loop = asyncio.new_event_loop()
loop.add_signal_handler(signal.SIGTERM, loop.stop)
UnthreadedController(Handler(), "127.0.0.1", int(sys.argv[1]), loop=loop).begin()
loop.run_forever()
"""


def run_cell(
    tmp_path: Path, *, on_a_queue: str = "", then: str = "pass", accepts: bool = True, scenario: str = RESTARTED
) -> tuple[RecordedRun, dict[str, Verdict]]:
    """Run a cell with a server whose handlers execute these texts; return the recorded run and the verdicts by check."""
    (tmp_path / "restarted.scenario.yaml").write_text(scenario, "utf-8")
    (cell,) = read_corpus([tmp_path / "restarted.scenario.yaml"], paths.fixtures())[0].cells("smoke")
    server = SERVER.format(on_a_queue=on_a_queue, then=then, accepts=accepts)
    toy = Candidate(
        name="toy", kind="exec", claims=("relay",), listeners=("frontend",),
        argv=("{python}", "-c", server, "{listen.frontend}", "{data}"),
    )  # fmt: skip
    assignment, settings = Assignment(toy), Settings(clock="scaled", scale=60.0)
    done = run_without_loop(CellRunner(cell, assignment, settings, tmp_path / "cell", IncrementalJudge()).run(OWN_LOOP))
    verdicts = judge(cell, assignment, settings, done.events, complete=done.problem == "")
    return done, {verdict.check: verdict for verdict in verdicts}


@pytest.mark.parametrize(
    "scenario",
    [RESTARTED, RESTARTED.split("  - send")[0] + AT_A_MOMENT],
    ids=["by a step", "at a moment of the protocol"],
)
def test_a_server_that_does_not_restart_on_its_own_queue_has_lost_acknowledged_mail(tmp_path: Path, scenario: str):
    done, verdicts = run_cell(tmp_path, on_a_queue="raise RuntimeError('the queue is torn')", scenario=scenario)
    assert done.problem == ""
    assert "start" in done.wrong_state
    lost = verdicts["invariant.nothing-acknowledged-is-lost"]
    assert lost.outcome is Outcome.FAIL
    assert lost.requirements[0] == "RL-ACK-01"
    assert "did not start again on its own queue" in lost.sentence
    assert "RuntimeError: the queue is torn" in lost.sentence
    assert worst_in_cell(verdict.outcome for verdict in verdicts.values()) is Outcome.FAIL


@pytest.mark.long
def test_a_failed_restart_without_an_acknowledgement_is_inconclusive(tmp_path: Path):
    torn = "raise RuntimeError('the queue is torn')"
    done, verdicts = run_cell(tmp_path, on_a_queue=torn, accepts=False, then="queue.write_bytes(b'')")
    assert done.problem == ""
    failed = [event for event in done.events if isinstance(event, NodeEvent) and event.action == "failed"]
    assert ["the queue is torn" in event.detail for event in failed] == [True]
    assert not any(event.code == 250 for event in done.events if isinstance(event, Attempt))
    assert worst_in_cell(verdict.outcome for verdict in verdicts.values()) is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(
    ("server", "words"),
    [
        ({"on_a_queue": "os.kill(os.getpid(), 9)"}, "the machine may have run out of memory"),
        ({"on_a_queue": "raise OSError(28, 'No space left on device')"}, "No space left on device"),
        (
            {
                "then": KILLED_BY_THE_SECOND,
                "scenario": RESTARTED.split("  - kill")[0].replace("drain: 30m", SHORT_DRAIN) + ANOTHER_MESSAGE,
            },
            "the machine may have run out of memory",
        ),
    ],
    ids=["killed as it starts", "no space as it starts", "killed while it runs"],
)
def test_a_shortage_of_the_machine_makes_the_cell_inconclusive(tmp_path: Path, server: dict[str, str], words: str):
    done, verdicts = run_cell(tmp_path, **server)  # type: ignore[arg-type]
    assert done.problem == ""
    assert any(event.action == "starved" for event in done.events if isinstance(event, NodeEvent))
    assert worst_in_cell(verdict.outcome for verdict in verdicts.values()) is Outcome.INCONCLUSIVE
    assert words in verdicts["invariant.nothing-acknowledged-is-lost"].sentence


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for a run that has begun, and not for one that has ended."""
    if os.geteuid():
        pytest.skip("needs root, for a small file system")
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96k", "none", str(place)], check=True)
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.long
def test_a_full_disk_of_the_harness_is_not_a_violation(small_disk: Path, tmp_path: Path):
    words = ("run", "-k", "content-passes-unchanged", "--run-dir", str(small_disk / "run"))
    done = subprocess.run(
        command(*words), cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 3, done.stdout + done.stderr
    assert "the machine ran out of something: no space is left on the disk" in done.stdout + done.stderr
    assert "VIOLATION" not in done.stdout


@pytest.mark.long
@pytest.mark.parametrize("limit", [34, 37, 40])
def test_a_harness_without_file_descriptors_reports_no_violation(tmp_path: Path, limit: int):
    """Each limit is enough for the run to start and to end, and too small for the cell."""

    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

    words = ("run", "-k", "an-alternative-next-hop-is-used", "--run-dir", "run")
    done = subprocess.run(
        command(*words), cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=200, check=False,
        preexec_fn=few,
    )  # fmt: skip
    assert done.returncode == 3, done.stdout + done.stderr
    assert "Too many open files" in " ".join(done.stdout.partition("= conformance =")[2].split()), done.stdout
    assert "VIOLATION" not in done.stdout


BROKEN_JUDGE = """
from conformance.model import RULES
from conformance.model.rules import Rule
def broken(facts):
    raise KeyError("no such thing")
RULES["invariant.content-unchanged"] = Rule(broken, ("RL-CNT-01",), timed=False)
"""


@pytest.mark.long
def test_an_exception_in_the_judge_is_reported_as_a_harness_error(tmp_path: Path):
    (tmp_path / "breaks_the_judge.py").write_text(BROKEN_JUDGE, "utf-8")
    words = ("run", "-p", "breaks_the_judge", "-k", "each-message-once", "--run-dir", "run")
    path = os.pathsep.join([str(tmp_path), environment()["PYTHONPATH"]])
    done = subprocess.run(
        command(*words), cwd=tmp_path, env={**environment(), "PYTHONPATH": path}, capture_output=True, text=True,
        timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 3, done.stdout + done.stderr
    assert "the harness itself broke: KeyError: 'no such thing'" in done.stdout
