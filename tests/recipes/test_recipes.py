"""Whoever follows docs/contributing.md adds an expectation, a step and a kind of fault in two files each."""

import json
import re
from pathlib import Path

import pytest

from tests.recipes.recipe import Copy, code_of

pytestmark = pytest.mark.integration

SEND = "  - send: {as: m, to: bob@corp.test, via: mbx1}\n  - expect: {reply: {of: m, code: 250}}\n"


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy.make(tmp_path)


def follow(copy: Copy, heading: str, *, only: int | None = None) -> None:
    """Write the pieces of code of a recipe where it says, or the first few of them."""
    for file, code in code_of(heading)[:only]:
        if file == "conformance/faults.py":
            copy.insert(file, "\nFAULTS = {\n", code)
        else:
            copy.append(file, code)


def test_the_recipe_adds_an_expectation(copy: Copy) -> None:
    follow(copy, "An expectation")
    assert copy.touched == ["conformance/judge/expectations/greetings.py", "conformance/scenarios/expectations.py"]
    right = copy.run(SEND + "  - expect: {greeted: {by: mbx1, to: outside}}\n")
    assert right.returncode == 0, right.stdout + right.stderr
    wrong = copy.run(SEND + "  - expect: {greeted: {by: mbx1, to: outside, code: 250}}\n")
    assert wrong.returncode == 1
    assert re.search(r"expected mbx1 greets outside with 250; seen: 220 in session s\d", wrong.stdout)
    misspelt = copy.run(SEND + "  - expect: {greetd: {by: mbx1}}\n  - expect: {greeted: {by: mbx9, to: outside}}\n")
    assert "unknown expectation 'greetd' (did you mean 'greeted'?)" in misspelt.stdout
    assert "no server 'mbx9'" in misspelt.stdout
    assert "GreetedExpected" in copy.python("-m", "conformance", "schema", "scenario").stdout


def test_the_recipe_adds_a_step(copy: Copy) -> None:
    follow(copy, "A step")
    assert copy.touched == ["conformance/run/steps/napping.py", "conformance/scenarios/steps/napping.py"]
    done = copy.run(SEND + "  - nap: {of: 1m, times: 3}\n")
    assert done.returncode == 0, done.stdout + done.stderr
    began, ended = (event for event in copy.history() if event.get("verb") == "nap")
    assert (began["phase"], ended["phase"], ended["detail"]) == ("began", "ended", "3 naps")
    assert ended["t"] - began["t"] >= 180


def test_the_recipe_adds_a_kind_of_fault(copy: Copy) -> None:
    follow(copy, "A kind of fault")
    assert copy.touched == ["conformance/faults.py", "conformance/wire/faults/whispering.py"]
    armed = "  - fault: {as: quiet, from: outside, to: mbx1, does: whisper, at: RCPT}\n"
    done = copy.run(armed + SEND)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rcpt to:<bob@corp.test>" in {event.get("line") for event in copy.history()}
    assert "makes no sense at dot" in copy.run(armed.replace("RCPT", "dot") + SEND).stdout
    spark = copy.python("-c", "from conformance.spark.message_views import TAMPERED; print(TAMPERED)").stdout
    assert "'whisper'" in spark
    cells = copy.python("-m", "conformance", "list", "scenarios", "--grid", "full").stdout
    assert "mail-before-whisper" in cells


def test_the_recipe_adds_a_defect(copy: Copy) -> None:
    follow(copy, "A defect")
    assert copy.touched == ["conformance/reference/defects/greylist.py"]
    caught = copy.python("-m", "conformance", "defects", "forgets-every-second-message", "--json")
    assert caught.returncode == 0, caught.stdout + caught.stderr
    (found,) = json.loads(caught.stdout)
    assert found["breaks"] == found["first_blame"] == "RL-ACK-01"


@pytest.mark.parametrize(
    ("heading", "imported", "words"),
    [
        ("An expectation", "judge.expectations", "'greeted' is declared in conformance/scenarios/expectations.py, and nothing"),
        ("A step", "run.steps", "'nap' is declared in conformance/scenarios/steps/, and nothing in conformance/run/steps/"),
        ("A kind of fault", "wire.faults", "'whisper' is declared in conformance/faults.py, and nothing in conformance/wire/"),
    ],
)  # fmt: skip
def test_a_declaration_without_its_counterpart_fails_at_import(
    copy: Copy, heading: str, imported: str, words: str
) -> None:
    follow(copy, heading, only=1)
    said = copy.python("-c", f"import conformance.{imported}")
    assert said.returncode == 1
    assert words in said.stderr


def test_the_recipe_adds_a_transport_parameter(copy: Copy) -> None:
    for (file, code), last in zip(code_of("A transport parameter"), LAST_PARAMETER, strict=True):
        copy.insert(file, last, code)
    assert copy.touched == ["conformance/parameters.py", "conformance/reference/config.py"]
    set_to = "  - configure: {{node: mbx1, transport: {{ShadowHeartbeatJitter: {}}}}}\n"
    done = copy.run(set_to.format("30s") + SEND)
    assert done.returncode == 0, done.stdout + done.stderr
    assert copy.history()[0]["parameters"]["mbx1"]["ShadowHeartbeatJitter"] == 7
    refused = copy.run(set_to.format("2m") + "  - expect: {refused: {node: mbx1, names: [ShadowHeartbeatJitter]}}\n")
    assert refused.returncode == 0, refused.stdout + refused.stderr
    assert "ShadowHeartbeatJitter" in copy.python("-m", "conformance", "schema", "scenario").stdout


LAST_PARAMETER = (
    "    MaxMessageSize: Annotated[int, _OCTETS] = Field(36700160, ge=1024)\n",
    "    MaxMessageSize: int = Field(36700160, ge=1024, le=2**31 - 1)\n",
)
