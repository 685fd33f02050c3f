"""The octets on the link are compared with those of the scenario: an attack that the harness defuses proves nothing."""

import hashlib
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from conformance import paths
from conformance.candidates.assignment import read_assignment
from conformance.history.events import AnyEvent, Content, MessageMade
from conformance.judge.cell import JudgeSettings, judge_cell
from conformance.judge.incremental import IncrementalJudge
from conformance.run.cell import CellRunner
from conformance.run.cell_loop import OWN_LOOP, run_without_loop
from conformance.run.settings import DEFAULT_SEED, Settings
from conformance.run.steps import sending
from conformance.scenarios.loader import read_scenarios
from conformance.scenarios.messages import build_message
from conformance.verdicts import Outcome, Verdict
from conformance.wire.sender import Transmission

RAW = ["smuggling-crlf-dot-lf", "smuggling-crlf-dot-cr"]


def ran_and_judged(message: str, directory: Path) -> tuple[tuple[AnyEvent, ...], tuple[Verdict, ...]]:
    scenarios = read_scenarios(paths.corpus() / "relay" / "relay.scenario.yaml", paths.fixtures())
    wanted = f"no-smuggling[message={message}]"
    cell = next(cell for scenario in scenarios for cell in scenario.cells() if cell.id == wanted)
    assignment = read_assignment("reference", paths.fixtures() / "candidates")
    ran = run_without_loop(CellRunner(cell, assignment, Settings(), directory, IncrementalJudge()).run(OWN_LOOP))
    verdicts = judge_cell(cell, ran.events, JudgeSettings("virtual", 0.0, frozenset({"relay"}), complete=True))
    return ran.events, verdicts


@pytest.mark.parametrize("message", RAW)
def test_a_raw_attack_is_sent_as_written(message: str, tmp_path: Path) -> None:
    events, verdicts = ran_and_judged(message, tmp_path)
    outcomes = {verdict.outcome for verdict in verdicts}
    meant = next(event.digest for event in events if isinstance(event, MessageMade))
    sent = next(event.digest for event in events if isinstance(event, Content))
    assert (sent.sha256, sent.size) == (meant.sha256, meant.size)
    written = build_message(
        "m", message=message, sequence=1, scenario="no-smuggling", seed=DEFAULT_SEED,
        sender="", recipients=(), date=datetime.now(UTC),  # the header is another one, the body is the same
    ).partition(b"\r\n\r\n")[2]  # fmt: skip
    without_dot = written.replace(b"\r\n.", b"\r\n")  # what a receiver makes of a dot that was not stuffed
    assert without_dot != written
    assert sent.body_sha256 == hashlib.sha256(without_dot).hexdigest()
    assert outcomes - {Outcome.NOT_APPLICABLE} == {Outcome.PASS}


@pytest.mark.parametrize("message", RAW)
def test_an_attack_that_the_sender_defuses_is_an_error_of_the_harness(
    message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def defused(**fields: Any) -> Transmission:
        return replace(Transmission(**fields), raw=False)

    monkeypatch.setattr(sending, "Transmission", defused)
    found = {verdict.check: verdict for verdict in ran_and_judged(message, tmp_path)[1]}["harness.sent-as-meant"]
    assert found.outcome is Outcome.ERROR
    assert "with other octets than the scenario means" in found.sentence
