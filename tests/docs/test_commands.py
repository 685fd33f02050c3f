"""Every command in the documentation is run, page by page, as a reader would: one after the other in one folder."""

import io
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from conformance.cli import main
from conformance.spark.session import open_session
from tests.docs.pages import PAGES, ROOT, Command, commands, name_of, outside_of_blocks
from tests.suite.helpers import environment

ELSEWHERE = {
    "python3 -m pip install tox && python3 -m tox -e scenarios": (".ci/run", "python3 -m tox run -e scenarios"),
    "python3 -m pip install tox && python3 -m tox -e tests": (".ci/run", "python3 -m tox run -e tests"),
    ".ci/run": (".ci/run", "python3 -m tox run -e tests"),
    "python3 -m pip wheel --no-deps --wheel-dir dist .": ("tests/docs/test_install.py", '"wheel", "--no-deps"'),
    "pipx install dist/smtp_conformance-0.2.0-py3-none-any.whl": ("tests/docs/test_install.py", '"install"'),
}
"""Commands that cannot run inside of a test, with the file that runs them, and how that says it."""

BY_THEMSELVES = {"docs/reading-reports.md", "docs/testing-your-server.md"}
"""Pages whose commands have a test of their own, which also looks at what they leave."""

FAILS = {"reference+": 1, "acknowledges-first.yaml": 1}
"""Part of a command -> its exit code, where the page says that something is found."""

FEW = "-k inbound-acknowledged"
"""What keeps the runs of a page short, where the page does not name scenarios itself: pytest's own variable says so."""


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_stand_in_console_blocks(page: Path):
    assert outside_of_blocks(page) == []


@pytest.fixture(scope="module")
def spark() -> Iterator[None]:
    """Keep one session for all pages: a JVM takes longer to get warm than to aggregate what a page has."""
    with open_session("local[2]"):
        yield


@pytest.mark.integration
@pytest.mark.spark
@pytest.mark.parametrize(
    "page", [page for page in PAGES if commands(page) and name_of(page) not in BY_THEMSELVES], ids=name_of
)
def test_every_command_ends_with_the_expected_exit_code(page: Path, tmp_path: Path, request: pytest.FixtureRequest):
    (tmp_path / "bin").mkdir()
    door = tmp_path / "bin" / "conformance"
    door.write_text(f'#!/bin/sh\nexec {sys.executable} -m conformance "$@"\n', "utf-8")
    door.chmod(0o755)
    here = tmp_path / "here"
    here.mkdir()
    prepare(page, here)
    for command in commands(page):
        if command.text in ELSEWHERE:
            file, words = ELSEWHERE[command.text]
            assert words in (ROOT / file).read_text("utf-8")
        elif command.text.startswith("conformance aggregate "):
            request.getfixturevalue("spark")
            aggregate(command, here)
        else:
            run(command, here, door.parent)


def prepare(page: Path, here: Path) -> None:
    """Give a page's reader what it says that he has: his own scenario is the page's first example."""
    for folder in ("examples", "scenarios"):  # what stands in the project's root
        (here / folder).symlink_to(ROOT / folder)
    examples = re.findall(r"^```yaml\n(id: .*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    if examples:
        (here / "my.scenario.yaml").write_text(examples[0], "utf-8")


def run(command: Command, here: Path, door: Path) -> None:
    """Run one command as a reader would."""
    known = environment()
    own = {"PATH": f"{door}:{known['PATH']}"}
    if " -k " not in command.text and ".scenario.yaml" not in command.text:
        own["PYTEST_ADDOPTS"] = FEW
    ran = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", command.text],
        cwd=here,
        env=known | own,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=400,
        check=False,
    )
    expected = next((code for part, code in FAILS.items() if part in command.text), 0)
    hold(command, ran.returncode, expected, ran.stdout + ran.stderr)


def aggregate(command: Command, here: Path) -> None:
    """Run a command of ours in this process, whose Spark session it takes."""
    said = io.StringIO()
    with chdir(here), redirect_stdout(said), redirect_stderr(said), pytest.raises(SystemExit) as left:
        main(shlex.split(command.text)[1:])
    hold(command, left.value.code, 0, said.getvalue())


def hold(command: Command, code: object, expected: int, said: str) -> None:
    """Hold what came of a command against what the page says."""
    told = f"{command.page}:{command.line}: {command.text}\n{said}"
    assert code == expected, told
    assert "Traceback" not in said, told
