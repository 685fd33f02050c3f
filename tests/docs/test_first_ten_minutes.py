"""docs/first-ten-minutes.md, done literally: its files, its commands in their order, and the steps of its workflow."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.docs.pages import ROOT, commands
from tests.suite.helpers import environment

PAGE = ROOT / "docs" / "first-ten-minutes.md"
TEXT = PAGE.read_text("utf-8")
FINDS = "--run-dir reports/first", "--baseline write"
"""Parts of the commands that end with exit code 1, since they find what the relay does wrong."""

pytestmark = [pytest.mark.integration, pytest.mark.timed]


def block(language: str, beginning: str) -> str:
    """Return the text of the only code block that begins so."""
    (found,) = re.findall(rf"^```{language}\n({re.escape(beginning)}.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    return found


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of the page, with the command `conformance` of this environment."""
    known = environment()
    own = {
        f"GIT_{who}_{what}": f"a@{who}.test".lower() for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", command], cwd=folder, env=known | own | {"PATH": f"{folder.parent}/bin:{known['PATH']}"},
        capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a new repository with the files of the page, and beside it `bin/` with the command."""
    folder = tmp_path_factory.mktemp("ten-minutes")
    (folder / "bin").mkdir()
    program = folder / "bin" / "conformance"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m conformance "$@"\n', "utf-8")
    program.chmod(0o755)
    assert shell("git init mail", folder).returncode == 0
    files = {
        "relay.py": block("python", '"""A relay'), "mine.yaml": block("yaml", "name: mine\n"),
        ".github/workflows/conformance.yml": block("yaml", "name: conformance\n"),
    }  # fmt: skip
    for name, text in files.items():
        assert f"`{name}`" in TEXT
        (folder / "mail" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "mail" / name).write_text(text, "utf-8")
    return folder / "mail"


@pytest.fixture(scope="module")
def outputs(repository: Path) -> dict[int, str]:
    """Run the commands of the page but those that install, and return what they print, by line."""
    found = {}
    for command in commands(PAGE):
        if "~/conformance" in command.text:  # tests/docs/test_install.py
            continue
        ran = shell(command.text, repository)
        expected = int(any(part in command.text for part in FINDS))
        assert ran.returncode == expected, (command.text, ran.stdout, ran.stderr)
        found[command.line] = ran.stdout
    return found


@pytest.mark.long
def test_the_commands_print_what_the_page_shows(outputs: dict[int, str]):
    blocks = list(re.finditer(r"^```text\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL))
    assert blocks
    for shown in blocks:
        line = TEXT.count("\n", 0, shown.start()) + 1
        said = " ".join(outputs[max(number for number in outputs if number < line)].split())
        assert [words for words in map(str.split, shown[1].splitlines()) if " ".join(words) not in said] == [], said


def test_everything_is_committed_but_what_is_made_anew(repository: Path, outputs: dict[int, str]):
    assert shell("git status --porcelain", repository).stdout == "", "nothing is left out of the commit"
    committed = shell("git ls-tree -r --name-only HEAD", repository).stdout.split()
    assert sorted(committed) == [
        ".github/workflows/conformance.yml",
        ".gitignore",
        "known.yaml",
        "mine.yaml",
        "relay.py",
    ]
    assert (repository / "reports/first/site/index.html").is_file()


@pytest.mark.long
def test_the_workflow_is_valid_and_its_steps_with_the_harness_pass(repository: Path, outputs: dict[int, str]):
    workflow = repository / ".github/workflows/conformance.yml"
    words = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", str(workflow)]
    assert subprocess.run(words, check=False).returncode == 0
    steps = YAML(typ="safe").load(workflow.read_text("utf-8"))["jobs"]["conformance"]["steps"]
    run, pages = (step["run"] for step in steps if "conformance " in step.get("run", ""))
    for script in (run, pages):
        ran = shell(script.replace(".venv/bin/", "").replace("reports/", "reports/workflow/"), repository)
        assert ran.returncode == 0, ran.stdout + ran.stderr
    assert (repository / "reports/workflow/ci/site/index.html").is_file()
