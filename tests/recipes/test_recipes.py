"""The recipes of docs/contributing.md work as written: each is followed in a copy of the package, and touches few files.

The recipes that only say what to do, and that of a column of a published table, are not followed here.
"""

import json
import re
from pathlib import Path

import pytest

from tests.recipes.recipe import SCENARIO, Copy, code_of

pytestmark = pytest.mark.integration

SEND = "  - send: {as: m, to: bob@corp.test, via: mbx1}\n  - expect: {reply: {of: m, code: 250}}\n"

LAST = {
    "conformance/faults.py": "\nFAULTS = {\n",
    "conformance/clocks.py": '    "real": ClockKind(tolerance=0.25),\n',
    "conformance/generations.py": '    "ex2016": frozenset({"shadow-2013", "safety-net"}),\n',
}
"""File -> the text behind which a recipe inserts its code."""

MINE = """\
name: mine
kind: module
module: conformance.reference.node
claims: [relay, shadow-2013, inspect]
"""

TOPOLOGY = """
  name: two-of-2019
  servers:
    - {name: mbx1, generation: ex2019, site: here, dag: one}
    - {name: mbx2, generation: ex2019, site: here, dag: one}
  mailboxes:
    - {address: bob@corp.test, database: db1, server: mbx2}
"""


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy.make(tmp_path)


def follow(copy: Copy, heading: str, *, only: int | None = None) -> None:
    """Write the pieces of code of a recipe where it says, `only` the first few of them."""
    for file, code in code_of(heading)[:only]:
        if file in LAST:
            copy.insert(file, LAST[file], code)
        elif file == "conformance/reference/config.py":
            path = copy.root / file
            changed, count = re.subn(r"^Generation = .*\n", code, path.read_text("utf-8"), flags=re.MULTILINE)
            assert count == 1
            path.write_text(changed, "utf-8")
        else:
            copy.append(file, code)


@pytest.mark.long
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


@pytest.mark.long
def test_the_recipe_adds_a_step(copy: Copy) -> None:
    follow(copy, "A step")
    assert copy.touched == ["conformance/run/steps/napping.py", "conformance/scenarios/steps/napping.py"]
    done = copy.run(SEND + "  - nap: {of: 1m, times: 3}\n")
    assert done.returncode == 0, done.stdout + done.stderr
    began, ended = (event for event in copy.history() if event.get("verb") == "nap")
    assert (began["phase"], ended["phase"], ended["detail"]) == ("began", "ended", "3 naps")
    assert ended["t"] - began["t"] == pytest.approx(180)


@pytest.mark.long
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


@pytest.mark.long
def test_the_recipe_adds_a_defect(copy: Copy) -> None:
    follow(copy, "A defect")
    assert copy.touched == ["conformance/reference/defects/greylist.py"]
    caught = copy.python("-m", "conformance", "defects", "forgets-every-second-message", "--json")
    assert caught.returncode == 0, caught.stdout + caught.stderr
    (found,) = json.loads(caught.stdout)
    assert found["breaks"] == found["first_blame"] == "RL-ACK-01"


@pytest.mark.long
def test_the_recipe_adds_a_rule_of_the_model(copy: Copy) -> None:
    follow(copy, "A rule of the model")
    assert copy.touched == ["conformance/model/greetings.py"]
    done = copy.run(SEND)
    assert done.returncode == 0, done.stdout + done.stderr
    judged = {one["check"]: one["outcome"] for one in copy.history() if one.get("record") == "verdict"}
    assert judged["model.RL-GRT-01"] == "pass", judged
    rule = copy.root / "conformance" / "model" / "greetings.py"
    rule.write_text(rule.read_text("utf-8").replace("(220, 554)", "(221, 554)"), "utf-8")
    done = copy.run(SEND)
    assert done.returncode == 1, done.stdout + done.stderr
    (verdict,) = (one for one in copy.history() if one.get("check") == "model.RL-GRT-01")
    assert (verdict["outcome"], "greets with 220" in verdict["sentence"]) == ("fail", True), verdict


@pytest.mark.long
def test_the_recipe_adds_a_kind_of_candidate(copy: Copy) -> None:
    follow(copy, "A kind of candidate")
    assert copy.touched == ["conformance/candidates/kinds/module.py", "conformance/nodes/module_node.py"]
    (copy.root / "mine.yaml").write_text(MINE, "utf-8")
    (copy.root / "tried.scenario.yaml").write_text(SCENARIO + SEND, "utf-8")
    run = ("-m", "conformance", "run", "tried.scenario.yaml", "--run-dir", "run", "--fresh", "--candidate")
    done = copy.python(*run, "mine.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    (header, *_) = copy.history()
    assert (header["candidate"], header["clock"]) == ("mine", "virtual")
    assert "module: has a function" in copy.python("-m", "conformance", "schema", "candidate").stdout
    assert "mine is no program on this machine" in copy.python(*run, "mine.yaml", "--clock", "shifted").stderr
    (copy.root / "mine.yaml").write_text(MINE.replace("kind: module", "kind: modul"), "utf-8")
    assert "did you mean 'module'" in copy.python(*run, "mine.yaml").stderr
    (copy.root / "mine.yaml").write_text(
        "\n".join(line for line in MINE.splitlines() if line[:7] != "module:"), "utf-8"
    )
    assert "the kind module needs 'module'" in copy.python(*run, "mine.yaml").stderr


@pytest.mark.long
def test_a_command_that_the_new_kind_lacks_makes_a_cell_not_applicable(copy: Copy) -> None:
    follow(copy, "A kind of candidate")
    (copy.root / "mine.yaml").write_text(MINE, "utf-8")
    (copy.root / "tried.scenario.yaml").write_text(SCENARIO + SEND + "  - pause: mbx1\n", "utf-8")
    done = copy.python(
        *("-m", "conformance", "run", "tried.scenario.yaml", "--run-dir", "run", "--candidate", "mine.yaml", "-rs")
    )
    assert "1 not applicable" in done.stdout, done.stdout + done.stderr
    (verdict,) = (record for record in copy.history() if record.get("check") == "harness.capabilities")
    assert verdict["sentence"].endswith("its description has no command 'pause', which the step 'pause' needs")


@pytest.mark.long
def test_the_recipe_adds_a_clock(copy: Copy) -> None:
    follow(copy, "A clock")
    assert copy.touched == ["conformance/clocks.py", "conformance/run/clocks/evening.py"]
    done = copy.run(SEND, "--clock", "evening")
    assert done.returncode == 0, done.stdout + done.stderr
    assert copy.history()[0]["clock"] == "evening"
    said = copy.run(SEND, "--clock", "evening", "--scale", "2")
    assert "--scale: a number above 0, with --clock scaled" in said.stderr
    said = copy.python(
        "-m", "conformance", "run", "tried.scenario.yaml", "--clock", "evening", "--candidate", "exec:reference"
    )
    assert "has a day of its own" in said.stderr + said.stdout
    usage = " ".join(copy.python("-m", "conformance", "run", "--help").stdout.split())
    assert "evening (virtual time, later in the day)" in usage
    now = (
        "from conformance.run.cell_loop import run_with_clock\nasync def main(clock): return clock.name, clock.now()\n"
    )
    assert copy.python("-c", now + "print(run_with_clock(main, 'evening'))").stdout == "('evening', 1893520800.0)\n"


@pytest.mark.long
def test_the_recipe_adds_a_generation_of_servers(copy: Copy) -> None:
    follow(copy, "A generation of servers")
    assert copy.touched == ["conformance/generations.py", "conformance/reference/config.py"]
    text = SCENARIO.replace(" two-servers-one-dag\n", TOPOLOGY).replace("needs: [relay]", "needs: [shadow-2013]")
    (copy.root / "tried.scenario.yaml").write_text(text + SEND, "utf-8")
    done = copy.python("-m", "conformance", "run", "tried.scenario.yaml", "--run-dir", "run")
    assert done.returncode == 0, done.stdout + done.stderr
    header, *events = copy.history()
    assert header["generations"] == ["ex2019"]
    judged = {one["check"]: one["outcome"] for one in events if one.get("record") == "verdict"}
    assert judged["invariant.two-copies-at-acknowledgement"] == "pass", judged
    for schema in ("topology", "candidate", "node"):
        assert '"ex2019"' in copy.python("-m", "conformance", "schema", schema).stdout


@pytest.mark.parametrize(
    ("heading", "imported", "words"),
    [
        ("An expectation", "judge.expectations", "'greeted' is declared in conformance/scenarios/expectations.py, and nothing"),
        ("A step", "run.steps", "'nap' is declared in conformance/scenarios/steps/, and nothing in conformance/run/steps/"),
        ("A kind of fault", "wire.faults", "'whisper' is declared in conformance/faults.py, and nothing in conformance/wire/"),
        ("A kind of candidate", "nodes.kinds", "'module' is declared in conformance/candidates/kinds/, and nothing in"),
        ("A clock", "run.cell_loop", "'evening' is declared in conformance/clocks.py, and nothing in conformance/run/clocks/"),
    ],
)  # fmt: skip
def test_a_declaration_without_its_counterpart_fails_at_import(
    copy: Copy, heading: str, imported: str, words: str
) -> None:
    follow(copy, heading, only=1)
    said = copy.python("-c", f"import conformance.{imported}")
    assert said.returncode == 1
    assert words in said.stderr


@pytest.mark.long
def test_the_recipe_adds_a_transport_parameter(copy: Copy) -> None:
    for (file, code), last in zip(code_of("A transport parameter"), LAST_PARAMETER, strict=True):
        copy.insert(file, last, code)
    assert copy.touched == [
        "conformance/model/configuration.py", "conformance/parameters.py", "conformance/reference/config.py"
    ]  # fmt: skip
    set_to = "  - configure: {{node: mbx1, transport: {{ShadowHeartbeatJitter: {}}}}}\n"
    done = copy.run(set_to.format("30s") + SEND)
    assert done.returncode == 0, done.stdout + done.stderr
    assert copy.history()[0]["parameters"]["mbx1"]["ShadowHeartbeatJitter"] == 7
    refused = copy.run(set_to.format("2m") + "  - expect: {refused: {node: mbx1, names: [ShadowHeartbeatJitter]}}\n")
    assert refused.returncode == 0, refused.stdout + refused.stderr
    assert "ShadowHeartbeatJitter" in copy.python("-m", "conformance", "schema", "scenario").stdout


LAST_PARAMETER = (
    "    MaxMessageSize: Annotated[int, _OCTETS] = Field(36700160, ge=1024)\n",
    "    MaxMessageSize: int = Field(36700160, ge=1024)\n",
    '    "MaxMessageSize": _Number(1024, whole=True),\n',
)
