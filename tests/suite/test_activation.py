"""An installed harness does not affect the pytest of other projects until their ini file activates it."""

import ast
import json
import re
import shutil
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from conformance import activation, fixtures, paths

pytest_plugins = ["pytester"]

SCENARIO = paths.corpus() / "relay" / "relay.scenario.yaml"
PROBE = """
import json, sys
def pytest_sessionfinish(session):
    loaded = [name for name in sys.modules if name.partition(".")[0] in {"conformance", "pydantic", "ruamel", "aiosmtpd"}]
    ini = session.config.getini("conformance")
    with open("loaded.json", "w") as file:
        file.write(json.dumps({"ini": ini, "loaded": sorted(loaded)}))
def pytest_addoption(parser):
    parser.addoption("--seed"), parser.addoption("--baseline"), parser.addoption("--candidate")
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """Return a project without the ini key, with a test and a file that has the suffix of scenarios."""
    shutil.copy(SCENARIO, pytester.path / "theirs.scenario.yaml")
    pytester.makepyfile(test_theirs="def test_one(): pass")
    return pytester


@pytest.mark.parametrize("more", [(), ("-p", "conformance")], ids=["installed", "named"])
def test_the_installed_package_adds_an_ini_key_and_nothing_else(
    project: pytest.Pytester, more: tuple[str, ...]
) -> None:
    project.makeconftest(PROBE)
    ran = project.runpytest_subprocess("--strict-config", "-W", "error", "--seed", "theirs", *more)
    ran.assert_outcomes(passed=1)
    found = json.loads((project.path / "loaded.json").read_text())
    assert found == {"ini": False, "loaded": ["conformance", "conformance.activation"]}
    parser = Mock()
    activation.pytest_addoption(parser)
    assert [name for name, *_ in parser.mock_calls] == ["addini"]
    hooks = {name for name in vars(activation) if name.startswith("pytest_")}
    assert hooks == {"pytest_addoption", "pytest_load_initial_conftests"}
    listed = project.runpytest_subprocess("--fixtures", "-v", "--strict-config", *more).stdout.str()
    assert " fixtures defined from " in listed
    assert " fixtures defined from conformance" not in listed
    with_it, without = (project.runpytest_subprocess("--markers", *words) for words in (more, ("-p", "no:conformance")))
    assert with_it.outlines == without.outlines != []
    assert {path.name for path in project.path.iterdir()}.isdisjoint({"reports", "run"})


@pytest.mark.long
def test_the_ini_key_activates_the_plugin(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nconformance = true\n")
    ran = project.runpytest_subprocess("--strict-config", "--collect-only", "-q", "--candidate", "reference")
    ran.stdout.fnmatch_lines(["theirs.scenario.yaml::no-smuggling::candidate=reference,message=smuggling-lf-dot-lf"])


@pytest.mark.long
def test_the_ini_key_activates_the_plugin_in_the_workers_of_xdist(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nconformance = true\n")
    ran = project.runpytest_subprocess("-n", "2", "-k", "no-smuggling", "--run-dir", str(project.path / "run"))
    assert ran.ret == 0
    outcomes = ran.parseoutcomes()
    assert set(outcomes) == {"passed"}
    assert outcomes["passed"] > 1


def test_the_activation_module_imports_only_pytest() -> None:
    source = Path(sys.modules["conformance"].__file__ or "").with_name("activation.py").read_text("utf-8")
    imports = [ast.unparse(one) for one in ast.walk(ast.parse(source)) if isinstance(one, ast.Import | ast.ImportFrom)]
    assert imports == ["from __future__ import annotations", "import pytest"]


FIXTURES = """
def test_a_scenario_of_our_own(run_scenario):
    results = run_scenario("theirs.scenario.yaml", seed=2)
    assert len(results) > 1
    assert {str(one.outcome) for one in results} == {"pass"}
    assert all(one.file.is_file() for one in results)
"""


def test_the_fixtures_alone_add_fixtures_and_nothing_else(project: pytest.Pytester) -> None:
    project.makeconftest(f'pytest_plugins = ["conformance.fixtures"]\n{PROBE}')
    ran = project.runpytest_subprocess("--strict-config", "-W", "error", "--seed", "theirs")
    ran.assert_outcomes(passed=1)
    found = json.loads((project.path / "loaded.json").read_text())
    assert found["loaded"] == ["conformance", "conformance.activation", "conformance.fixtures"]
    assert [name for name in vars(fixtures) if name.startswith("pytest_")] == [], "it has no hooks"
    names = {"lmtp_sink", "mail_bench", "mail_node", "run_scenario", "smtp_link", "smtp_sink"}
    listed = project.runpytest_subprocess("--fixtures", "-v").stdout.str()  # -v: private names too
    sections = [section for section in listed.split(" fixtures defined from ") if section.startswith("conformance")]
    assert [section.partition(" ")[0] for section in sections] == ["conformance.fixtures"]
    assert sorted(re.findall(r"^(\w+)(?: \[[^\]]+\])? -- ", sections[0], re.MULTILINE)) == sorted(names)


@pytest.mark.long
def test_the_fixture_runs_a_scenario(project: pytest.Pytester) -> None:
    project.makeconftest('pytest_plugins = ["conformance.fixtures"]')
    project.makepyfile(test_ours=FIXTURES)
    ran = project.runpytest_subprocess("--strict-config", "test_ours.py")
    ran.assert_outcomes(passed=1)
