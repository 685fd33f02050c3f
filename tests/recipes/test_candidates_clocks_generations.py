"""Whoever follows docs/contributing.md adds a kind of candidate, a clock and a generation of servers in two files each."""

import re
from pathlib import Path

import pytest

from tests.recipes.recipe import SCENARIO, Copy, code_of

pytestmark = pytest.mark.integration

SEND = "  - send: {as: m, to: bob@corp.test, via: mbx1}\n  - expect: {reply: {of: m, code: 250}}\n"

LAST = {
    "conformance/clocks.py": '    "real": ClockKind(tolerance=0.25),\n',
    "conformance/generations.py": '    "ex2016": frozenset({"shadow-2013", "safety-net"}),\n',
}
"""The entries behind which the recipes put theirs."""

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
    """Write the pieces of code of a recipe where it says, or the first few of them."""
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
        ("A kind of candidate", "nodes.kinds", "'module' is declared in conformance/candidates/kinds/, and nothing in"),
        (
            "A clock",
            "run.cell_loop",
            "'evening' is declared in conformance/clocks.py, and nothing in conformance/run/clocks/",
        ),
    ],
)
def test_a_declaration_without_its_counterpart_fails_at_import(
    copy: Copy, heading: str, imported: str, words: str
) -> None:
    follow(copy, heading, only=1)
    said = copy.python("-c", f"import conformance.{imported}")
    assert said.returncode == 1
    assert words in said.stderr
