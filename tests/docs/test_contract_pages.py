"""The pages of the contracts are true: schemas as printed, rulings as cited, the tutorial's quotations of the example."""

import ast
import configparser
import json
import re
import smtplib
import subprocess
from pathlib import Path

import pytest
import yaml

from conformance.commands.schemas import NAMES
from tests.docs.conversing import EXAMPLES, PROGRAMS, WITHIN, Party, parties, running
from tests.docs.pages import ROOT
from tests.suite.helpers import conformance_command

EXAMPLE = ROOT / "examples" / "minimal-shadow-node"
TUTORIAL = (ROOT / "docs" / "build-a-shadow-node.md").read_text("utf-8")
CITED = re.compile(r"\brulings? ((?:\d+)(?:(?:, | and )\d+)*)", re.IGNORECASE)


@pytest.mark.parametrize("name", NAMES)
def test_the_command_prints_and_writes_the_published_schema(tmp_path: Path, name: str):
    published = (ROOT / "docs" / "schema" / f"{name}.json").read_bytes()
    printed = conformance_command("schema", name, cwd=tmp_path)
    assert printed.returncode == 0, printed.stderr
    assert json.loads(printed.stdout) == json.loads(published)
    written = conformance_command("schema", name, "--out", "out.json", cwd=tmp_path)
    assert written.returncode == 0, written.stderr
    assert (tmp_path / "out.json").read_bytes() == published


def test_rulings_are_numbered_without_gaps_and_cited_ones_exist():
    page = (ROOT / "docs" / "rulings.md").read_text("utf-8")
    numbers = [int(number) for number in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    folders = (ROOT / name for name in ("conformance", "docs", "examples", "fixtures", "scenarios", "tests"))
    places = [*ROOT.glob("*.md"), *(path for folder in folders for path in folder.rglob("*"))]
    cited = {
        int(number)
        for path in places
        if path.suffix in (".md", ".py", ".yaml")
        for found in CITED.findall(path.read_text("utf-8"))
        for number in re.findall(r"\d+", found)
    }
    assert set() < cited <= set(numbers)


def test_the_tutorial_quotes_the_description_files():
    assert {path.stem for path in EXAMPLE.glob("*.yaml")} == {"minimal", "acknowledges-first"}
    quoted = [yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```$", TUTORIAL, re.MULTILINE | re.DOTALL)]
    for part, name in zip(quoted, ("minimal", "acknowledges-first"), strict=True):
        whole = yaml.safe_load((EXAMPLE / f"{name}.yaml").read_text("utf-8"))
        assert part == {key: value for key, value in whole.items() if key != "title"}


def test_the_tutorial_names_every_module_and_existing_functions_only():
    modules = {path.name: path.read_text("utf-8") for path in EXAMPLE.glob("*.py")}
    table = TUTORIAL.partition("| file | has |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`(\w+\.py)`", table)) == set(modules)
    functions: set[tuple[str, str]] = set()
    for text in modules.values():
        for node in ast.walk(ast.parse(text)):
            owner = node.name if isinstance(node, ast.ClassDef) else ""
            below = ast.iter_child_nodes(node) if owner else [node]
            kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
            functions |= {(owner, one.name) for one in below if isinstance(one, kinds)}
    names = re.findall(r"`(?:([A-Z]\w+)\.)?(\w+)`", TUTORIAL)
    named = {(owner, name) for owner, name in names if owner or name.startswith("_")}
    assert named
    assert named - functions == set()


def test_the_example_has_these_claims_and_ci_runs_it():
    described = yaml.safe_load((EXAMPLE / "minimal.yaml").read_text("utf-8"))
    assert set(described["claims"]) == set(
        "relay dsn lmtp-delivery duplicate-detection shadow-2013 inspect".split()  # noqa: SIM905
    )
    assert described["contract"] == 2
    stages = re.findall(r"^python3 -m tox run -e (\S+)", (ROOT / ".ci" / "run").read_text("utf-8"), re.MULTILINE)
    assert {"example", "example-defects"} <= set(stages)
    environments = configparser.ConfigParser(interpolation=None)
    environments.read(ROOT / "tox.ini", "utf-8")
    for name, program in (("example", "conformance run scenarios/creation"), ("example-defects", "try_defects.py")):
        assert program in environments[f"testenv:{name}"]["commands"]
    assert "--candidate examples/minimal-shadow-node/minimal.yaml" in environments["testenv:example"]["commands"]


@pytest.mark.long
@pytest.mark.integration
def test_messages_are_not_redirected_out_of_the_boundary(tmp_path: Path):
    """A peer in the boundary gets them, so that the commands before have not failed for another reason."""
    later = Party("outside", lambda content: "451 4.3.0 later")
    with parties(far=Party("far"), near=Party("near"), outside=later) as made:
        dial = {"transport": made["far"].dial, "delivery": made["far"].dial}
        far = EXAMPLES[0]["peers"][0] | {"name": "far", "dag": "DAG9", "dial": dial}
        dial = {"transport": made["near"].dial, "delivery": made["near"].dial}
        near = EXAMPLES[0]["peers"][0] | {"name": "near", "dial": dial}
        hop = {"name": "outside", "protocol": "smtp", "dial": made["outside"].dial}
        routes = [{"domain": "outside.test", "next_hops": [hop]}]
        with running("reference", tmp_path, peers=[far, near], routes=routes, mailboxes=[]) as node:
            with smtplib.SMTP("127.0.0.1", node.given["listeners"]["frontend"]["port"], timeout=WITHIN) as client:
                for _ in range(2):
                    client.sendmail("alice@outside.test", "victor@outside.test", "Subject: held\r\n\r\ntext")
            before = node.items("delivery")
            assert len(before) == 2
            for target in ("far", "stranger"):
                words = [*PROGRAMS["reference"], "--config", str(node.path), "redirect-messages", target]
                ran = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT, timeout=WITHIN)
                assert (ran.returncode, ran.stderr.count("\n")) == (1, 1), ran.stderr
                assert target in ran.stderr
            assert [item["message_id"] for item in node.items("delivery")] == [item["message_id"] for item in before]
            assert made["far"].received == 0
            shadowed = made["near"].received
            assert node.command("redirect-messages", "near")["redirected"] == 2
            node.wait_for(lambda: made["near"].received == shadowed + 2 and not node.items("delivery"))
