"""examples/minimal-shadow-node: it imports nothing of the harness, and the harness catches its defects."""

import ast
import io
import json
import math
import re
import shutil
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

from conformance.candidates.description import read_description
from conformance.candidates.placeholders import unknown_placeholders
from conformance.requirements.catalogue import catalogue
from tests.docs.pages import ROOT
from tests.suite.helpers import conformance_command

EXAMPLE = ROOT / "examples" / "minimal-shadow-node"
MODULES = sorted(EXAMPLE.glob("*.py"))


SWITCHED = """
import json, sys
import client, config, delivery, primary, session, shadow, store
from defects import DEFECTS, switch_on

places = [client.Client, config.Config, delivery, primary.Primary, session.Session, shadow.Shadow, store.Store]
pieces = [dict(vars(place)) for place in places]
changed = {}
for name in DEFECTS:
    switch_on(name)
    changed[name] = {
        key: callable(before[key])
        for place, before in zip(places, pieces) for key in before if vars(place)[key] is not before[key]
    }
    for place, before in zip(places, pieces):
        for key in changed[name]:
            if key in before:
                setattr(place, key, before[key])
print(json.dumps({name: [row, [key for key, is_function in changed[name].items() if is_function]] for name, (row, _, _) in DEFECTS.items()}))
"""


def imported_modules(text: str) -> set[str]:
    """Return the modules, without their submodules, that a module imports anywhere; "" stands for a relative import."""
    nodes = list(ast.walk(ast.parse(text)))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_the_example_imports_only_the_standard_library_and_its_own_modules(path: Path):
    own = {module.stem for module in MODULES}
    assert imported_modules(path.read_text("utf-8")) - own - sys.stdlib_module_names == set()


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_its_modules_are_short_and_only_node_imports_the_defects(path: Path):
    text = path.read_text("utf-8")
    assert text.count("\n") <= 300
    assert ("defects" in imported_modules(text)) is (path.stem == "node"), "a defect replaces a function from outside"


def code_lines(text: str) -> set[int]:
    """Return the numbers of the lines that have code: neither blank, nor a comment, nor part of a docstring."""
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    tokens = [one for one in tokenize.generate_tokens(io.StringIO(text).readline) if one.type not in skipped]
    lines = {line for one in tokens for line in range(one.start[0], one.end[0] + 1)}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def test_lines_of_code_are_counted_without_blank_ones_comments_and_docstrings():
    text = '"""Module."""\n\nA = """one\ntwo"""  # said\n# alone\ndef f():\n    """Doc\n    string."""\n    return A\n'
    assert code_lines(text) == {3, 4, 6, 9}


def test_it_has_at_most_the_lines_of_code_that_the_tutorial_states():
    (most,) = re.findall(r"at most (\d+) lines of code", (ROOT / "docs/build-a-shadow-node.md").read_text("utf-8"))
    counted = {path.stem: len(code_lines(path.read_text("utf-8"))) for path in MODULES if path.stem != "defects"}
    assert min(counted.values()) > 20
    assert sum(counted.values()) <= int(most), counted


@pytest.mark.parametrize("path", sorted(EXAMPLE.glob("*.yaml")), ids=lambda path: path.stem)
def test_its_descriptions_have_no_unknown_placeholder(path: Path):
    described = read_description(path)
    assert list(unknown_placeholders(described)) == []
    assert described.files == {}, "a file could have placeholders too"


def test_each_of_its_thirty_defects_names_a_row_and_replaces_a_function():
    ran = subprocess.run([sys.executable, "-c", SWITCHED], cwd=EXAMPLE, capture_output=True, text=True, check=True)
    table = json.loads(ran.stdout)
    assert "has thirty deliberate mistakes" in (ROOT / "docs/build-a-shadow-node.md").read_text("utf-8")
    assert len(table) == 30
    assert {row for row, _ in table.values()} <= set(catalogue().ids)
    assert [name for name, (_, functions) in table.items() if not functions] == []


def test_its_schema_is_the_published_one():
    own = (EXAMPLE / "node.schema.json").read_text("utf-8")
    assert own == (ROOT / "docs/schema/node.json").read_text("utf-8"), (
        "write it again: conformance schema node --out examples/minimal-shadow-node/node.schema.json"
    )


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"bogus": 1}, "bogus: unknown parameter"),
        ({"peers": [{"name": "x", "bogus": 1}]}, "peers[0].bogus: unknown parameter"),
        ({"peers": [{"name": "x"}]}, "peers[0].generation: missing"),
        ({"transport": {"ShadowRedundancyEnabled": 1}}, "transport.ShadowRedundancyEnabled: 1 "),
        ({"transport": {"MaxMessageSize": 1023}}, "transport.MaxMessageSize: 1023 "),
        ({"transport": {"MaxRetriesForLocalSiteShadow": True}}, "transport.MaxRetriesForLocalSiteShadow: True "),
        ({"transport": {"MaxRetriesForLocalSiteShadow": 256}}, "transport.MaxRetriesForLocalSiteShadow: 256 "),
        ({"transport": {"MaxMessageSize": 1024.5}}, "transport.MaxMessageSize: 1024.5 "),
        ({"transport": {"MessageRetryInterval": 0}}, "transport.MessageRetryInterval: 0 "),
        (
            {"transport": {"ShadowMessagePreferenceSetting": "LocalOnly"}},
            "ShadowMessagePreferenceSetting LocalOnly needs MaxRetriesForRemoteSiteShadow 0",
        ),
        (
            {"listeners": {"frontend": {"host": "127.0.0.1", "port": 1, "connection_timeout": 300}}},
            "listeners.frontend: connection_timeout must be above connection_inactivity_timeout",
        ),
        ({"generation": "ex2007"}, "generation: 'ex2007' "),
        ({"routes": {}}, "routes: {} "),
        ({"scale": 0}, "scale: 0 "),
        ({"scale": math.inf}, "scale: inf "),
        ({"contract": 1}, "contract: 1 "),
        ({"role": None}, "role: None "),
    ],
)
def test_an_invalid_configuration_is_refused_with_the_name_of_the_key(
    tmp_path: Path, changes: dict[str, object], named: str
):
    page = (ROOT / "docs" / "node-contract.md").read_text("utf-8")
    document = json.loads(re.findall(r"^```json\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[0])
    path = tmp_path / "node.json"
    path.write_text(json.dumps(document | {"data_dir": str(tmp_path)} | changes), "utf-8")
    words = [sys.executable, str(EXAMPLE / "node.py"), "--config", str(path)]
    ran = subprocess.run(words, capture_output=True, text=True, check=False, timeout=30)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1), ran.stderr
    assert named in ran.stderr


@pytest.mark.long
@pytest.mark.integration
@pytest.mark.skipif(shutil.which("cc") is None, reason="--clock shifted needs a C compiler")
@pytest.mark.parametrize(("description", "code"), [("minimal", 0), ("acknowledges-first", 1)])
def test_a_defect_is_caught_and_blamed_on_its_row(tmp_path: Path, description: str, code: int):
    words = ("run", "-k", "inbound-acknowledgement-waits", "--clock", "shifted", "--run-dir", str(tmp_path / "run"))
    ran = conformance_command(*words, "--candidate", str(EXAMPLE / f"{description}.yaml"), cwd=ROOT)
    assert ran.returncode == code, ran.stdout + ran.stderr
    assert f"1 {'fail' if code else 'pass'}" in ran.stdout
    assert ("violates  SR-CRE-01" in ran.stdout) is (code == 1)
