"""Numbers too large for any machine, given to servers that refuse them or crash on them: each cell ends by itself."""

import json
from pathlib import Path

import psutil
import pytest

from conformance import paths
from conformance.candidates.assignment import Assignment
from conformance.candidates.description import REFERENCE
from conformance.judge.incremental import IncrementalJudge
from conformance.results.reader import read_run
from conformance.run.cell import CellRunner
from conformance.run.cell_loop import OWN_LOOP, run_without_loop
from conformance.run.settings import Settings
from conformance.scenarios.loader import read_corpus
from conformance.scenarios.steps.nodes import Configure
from conformance.verdicts import Outcome
from tests.hostile.chokers import ABOUT_IT
from tests.suite.helpers import ROOT, conformance_command

NUMBER = "9" * 40
"""The longest that a scenario may have."""

GO_ON = {
    "takes it", "refuses it", "refuses it in what a terminal obeys", "answers with a number of 4000 digits",
}  # fmt: skip
"""Servers that continue with the value they had."""

OFFERED = """\
id: offered-WORD
title: A server that runs is offered a number that no machine holds
requirements: [RL-ACK-01]
needs: [relay]
topology: relay
steps:
  - configure: {node: mta1, transport: {MessageRetryInterval: VALUE}}
  - send: {as: m, to: victor@outside.test, via: mta1}
  - expect: {reply: {of: m, code: 250}}
---
id: started-with-WORD
title: A server is started with a number that no machine holds
requirements: [RL-ACK-01]
needs: [relay]
topology: relay
steps:
  - stop: mta1
  - configure: {node: mta1, transport: {MessageRetryInterval: VALUE}}
  - start: mta1
  - send: {as: m, to: victor@outside.test, via: mta1}
  - expect: {reply: {of: m, code: 250}}
"""

UNTOUCHED = """\
---
id: untouched
title: Another cell of the same server
requirements: [RL-ACK-01]
needs: [relay]
topology: relay
steps:
  - send: {as: m, to: victor@outside.test, via: mta1}
  - expect: {reply: {of: m, code: 250}}
"""


def offered(value: str, word: str) -> str:
    return OFFERED.replace("VALUE", value).replace("WORD", word)


def describe(directory: Path, name: str, **more: object) -> str:
    word = name.replace(" ", "_")
    description = {
        "name": word, "kind": "exec", "contract": 2, "claims": ["relay"], "listeners": ["frontend"],
        "argv": ["{python}", "-m", "tests.hostile.chokers", "{config}", word],
        "environment": {"PYTHONPATH": str(ROOT)}, "ready-within": 5, "stop-within": 5, "log-limit": 65536,
        "memory-limit": 2**28, **more,
    }  # fmt: skip
    (directory / f"{word}.yaml").write_text(json.dumps(description), "utf-8")  # JSON is YAML
    return f"{word}.yaml"


@pytest.mark.long
@pytest.mark.timed
@pytest.mark.integration
def test_a_server_that_fails_on_a_number_ends_its_own_cell_only(tmp_path: Path):
    text = offered(NUMBER, "digits") + UNTOUCHED
    (tmp_path / "numbers.scenario.yaml").write_text(text, "utf-8")
    words = [word for name in ABOUT_IT for word in ("--candidate", describe(tmp_path, name))]
    ran = conformance_command(
        "run", "numbers.scenario.yaml", *words, "--cells", "12", "--clock", "scaled", "--scale", "60",
        "--run-dir", "run", cwd=tmp_path, timeout=900,
    )  # fmt: skip
    said = ran.stdout + ran.stderr
    assert "INTERNALERROR" not in said
    assert "harness itself broke" not in said
    assert "\x1b[2J" not in said
    cells = {(c.header.scenario, c.header.candidate.replace("_", " ")): c for c in read_run(tmp_path / "run").cells([])}
    assert len(cells) == 3 * len(ABOUT_IT)
    ends = {key: cell.footer.outcome for key, cell in cells.items() if cell.footer is not None}
    assert set(ends) == set(cells), "every cell has its end"
    assert {ends["untouched", name] for name in ABOUT_IT} == {Outcome.PASS}
    goes_on = {name for name in ABOUT_IT if ends["offered-digits", name] is Outcome.PASS}
    assert goes_on == GO_ON, "a refusal is an answer, and so is a revision that is later than ours"
    assert ran.returncode in (1, 3)
    mine = [p for p in psutil.process_iter(["cmdline"]) if str(tmp_path) in " ".join(p.info["cmdline"] or ())]
    assert mine == []


@pytest.mark.long
@pytest.mark.timed
@pytest.mark.integration
@pytest.mark.parametrize("value", ["soon", "[1m, 2m]", "-1e308", '"1e999"', "no"])
def test_an_invalid_retry_interval_does_not_break_a_cell_of_a_server_that_is_flushed_by_it(tmp_path: Path, value: str):
    (tmp_path / "numbers.scenario.yaml").write_text(offered(value, "nonsense"), "utf-8")
    flushed = describe(tmp_path, "takes it", **{"flush-to-retry": True, "commands": {"flush": ["true"]}})
    ran = conformance_command(
        "run", "numbers.scenario.yaml", "--candidate", flushed, "--cells", "2", "--clock", "scaled", "--scale", "60",
        "--run-dir", "run", cwd=tmp_path,
    )  # fmt: skip
    ends = {c.header.scenario: c.footer.outcome for c in read_run(tmp_path / "run").cells([]) if c.footer is not None}
    assert ends == {"offered-nonsense": Outcome.PASS, "started-with-nonsense": Outcome.PASS}, ran.stdout


@pytest.mark.parametrize("clock", ["virtual", "scaled"])
def test_a_number_too_large_for_a_float_is_refused_or_a_problem_of_the_cell(tmp_path: Path, clock: str):
    (tmp_path / "numbers.scenario.yaml").write_text(offered("1m", "digits"), "utf-8")
    (scenario, _) = read_corpus([tmp_path / "numbers.scenario.yaml"], paths.fixtures())
    (cell,) = scenario.cells("smoke")
    step = cell.steps[0]
    assert isinstance(step.action, Configure)
    action = step.action.model_copy(update={"transport": {"MessageRetryInterval": 10**400}})
    huge = cell.model_copy(update={"steps": (step.model_copy(update={"action": action}), *cell.steps[1:])})
    settings = Settings(clock=clock, scale=600.0 if clock == "scaled" else 1.0)
    ran = run_without_loop(
        CellRunner(huge, Assignment(REFERENCE), settings, tmp_path / "cell", IncrementalJudge()).run(OWN_LOOP)
    )
    if clock == "scaled":
        assert ran.problem == "OverflowError: int too large to convert to float"
    else:
        assert ran.problem == "", "the server refuses it"
        assert any(getattr(event, "refused", None) for event in ran.events)
