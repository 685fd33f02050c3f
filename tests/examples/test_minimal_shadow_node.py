"""examples/minimal-shadow-node: it shares nothing with the harness, and the harness finds what is wrong with it."""

import ast
import importlib.util
import re
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from conformance.candidates.description import read_description
from conformance.candidates.placeholders import unknown_placeholders
from conformance.requirements.catalogue import catalogue
from tests.docs.pages import ROOT
from tests.suite.helpers import conformance_command

EXAMPLE = ROOT / "examples" / "minimal-shadow-node"
MODULES = sorted(EXAMPLE.glob("*.py"))


def defects() -> ModuleType:
    spec = importlib.util.spec_from_file_location("example_defects", EXAMPLE / "defects.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_it_imports_the_standard_library_and_itself_only(path: Path):
    own = {module.stem for module in MODULES}
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for name in names:
            top = name.partition(".")[0]
            assert top in own or top in __import__("sys").stdlib_module_names, f"{path.name} imports {name}"


@pytest.mark.parametrize("path", sorted(EXAMPLE.glob("*.yaml")), ids=lambda path: path.stem)
def test_its_descriptions_are_right(path: Path):
    assert list(unknown_placeholders(read_description(path))) == []


def test_it_has_thirty_mistakes_each_of_a_row_and_each_in_the_code():
    known = set(catalogue().ids)
    table = defects().DEFECTS
    assert len(table) == 30
    assert {row for row, _ in table.values()} <= known
    used = {name for path in MODULES for name in re.findall(r'broken\("([a-z0-9-]+)"\)', path.read_text("utf-8"))}
    assert used == set(table)


@pytest.mark.integration
@pytest.mark.skipif(shutil.which("cc") is None, reason="--clock shifted needs a C compiler")
@pytest.mark.parametrize(("description", "code"), [("minimal", 0), ("acknowledges-first", 1)])
def test_a_mistake_is_found_and_blamed_on_its_row(tmp_path: Path, description: str, code: int):
    words = ("run", "-k", "inbound-acknowledgement-waits", "--clock", "shifted", "--run-dir", str(tmp_path / "run"))
    ran = conformance_command(*words, "--candidate", str(EXAMPLE / f"{description}.yaml"), cwd=ROOT)
    assert ran.returncode == code, ran.stdout + ran.stderr
    assert ("violates  SR-CRE-01" in ran.stdout) is (code == 1)
