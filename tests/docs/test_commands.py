"""The commands of the documentation are run, page by page, in one folder, and end with the exit codes of the table here.

Pages and commands that need more (a network, hours, two terminals) are run by tests and stages of their own: `ELSEWHERE` and
`BY_THEMSELVES` name them.
"""

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
from tests.docs.pages import PAGES, ROOT, Command, commands, commands_outside_of_blocks, name_of
from tests.suite.helpers import environment

ELSEWHERE = {
    "python3 -m venv .venv && .venv/bin/pip install tox && .venv/bin/tox -e scenarios": (
        ".ci/run",
        "python3 -m tox run -e scenarios",
    ),
    ".venv/bin/tox -e tests": (".ci/run", "python3 -m tox run -e tests"),
    "python3 -m tox -e mutants -- --sample 60 --seed 7": (".ci/run", "-e mutants -- --sample 6"),
    "python3 -m venv .venv && .venv/bin/pip install tox && .venv/bin/tox -e tests": (
        ".ci/run",
        "python3 -m tox run -e tests",
    ),
    "conformance explore recipients-are-judged-one-by-one transient-failures-are-outlived --candidate postfix --for 10m --out found": (
        "tests/explore/test_real_time.py",
        'duration="10m"',
    ),
    ".venv/bin/pip wheel --no-deps --wheel-dir dist .": ("tests/docs/test_install.py", '"wheel", "--no-deps"'),
    "pipx install dist/smtp_conformance-0.2.0-py3-none-any.whl": ("tests/docs/test_install.py", '"install"'),
    "docker build -f Containerfile -t smtp-conformance .": ("tests/nodes/containers/test_image.py", '"README.md"'),
    'docker run --rm --network none --user "$(id -u):$(id -g)" -v "$PWD:/work" smtp-conformance run -k inbound-acknowledged --candidate reference': (
        "tests/nodes/containers/test_image.py",
        "run_words",
    ),
}
"""Commands that cannot run inside of a test, with the file that runs them, and how that says it."""

SHOWN = {
    "docs/build-a-shadow-node.md": [
        "conformance schema node --out examples/minimal-shadow-node/node.schema.json",
        "conformance run scenarios --candidate examples/minimal-shadow-node/minimal.yaml --clock shifted -n 2",
    ],
}
"""Page -> its commands that no test runs: one writes into the project, one runs all scenarios."""

BY_THEMSELVES = {
    "docs/first-ten-minutes.md",
    "docs/listening.md",
    "docs/probing.md",
    "docs/reading-reports.md",
    "docs/spark-cluster.md",
    "docs/testing-your-server.md",
}
"""Pages whose commands have a test of their own, which also looks at what they leave."""

TIMED = {"docs/build-a-shadow-node.md", "docs/power-cuts.md"}
"""Pages with commands that run cells under a scaled clock."""

FAILS = {"reference+": 1, "acknowledges-first.yaml": 1}
"""Part of a command -> its exit code, where the page says that something is found."""

FEW = "-k inbound-acknowledged"
"""What keeps the runs of a page short, where the page does not name scenarios itself: pytest's own variable says so."""


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_of_the_project_and_its_tools_stand_in_console_blocks(page: Path):
    assert commands_outside_of_blocks(page) == SHOWN.get(name_of(page), [])


def test_a_command_outside_of_a_console_block_is_found(tmp_path: Path):
    page = tmp_path / "page.md"
    outside = "    pytest tests\n\tpython -m pip list\n\nconformance run is a command\n$ tox -e x\n$ docker ps -a\n\n"
    fenced = "```text\nconformance run\n  $ npm test\npython3 -m venv x\npython = 3\n```\n\n"
    page.write_text(f"{outside}{fenced}```console\n$ docker ps\n```\n", "utf-8")
    assert commands_outside_of_blocks(page) == [
        "pytest tests", "python -m pip list", "tox -e x", "docker ps -a",
        "conformance run", "npm test", "python3 -m venv x",
    ]  # fmt: skip


def test_every_command_that_is_run_elsewhere_stands_on_a_page_and_in_the_file_that_runs_it():
    assert set(ELSEWHERE) <= {command.text for page in PAGES for command in commands(page)}
    assert [file for file, words in ELSEWHERE.values() if words not in (ROOT / file).read_text("utf-8")] == []
    assert set(map(name_of, PAGES)) >= BY_THEMSELVES


@pytest.fixture(scope="module")
def spark() -> Iterator[None]:
    """Keep one session for all pages: starting a JVM takes longer than aggregating the runs of a page."""
    with open_session("local[2]"):
        yield


@pytest.mark.long
@pytest.mark.integration
@pytest.mark.spark
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.timed if name_of(page) in TIMED else (), id=name_of(page))
        for page in PAGES
        if commands(page) and name_of(page) not in BY_THEMSELVES
    ],
)
def test_each_command_that_is_run_here_ends_with_the_expected_exit_code(
    page: Path, tmp_path: Path, request: pytest.FixtureRequest
):
    (tmp_path / "bin").mkdir()
    command_file = tmp_path / "bin" / "conformance"
    command_file.write_text(f'#!/bin/sh\nexec {sys.executable} -m conformance "$@"\n', "utf-8")
    command_file.chmod(0o755)
    here = tmp_path / "here"
    here.mkdir()
    prepare(page, here)
    for command in commands(page):
        if command.text in ELSEWHERE:
            file, words = ELSEWHERE[command.text]
            assert words in (ROOT / file).read_text("utf-8")
        elif command.text.startswith(("conformance aggregate ", "conformance site ")):
            request.getfixturevalue("spark")
            aggregate(command, here)
        else:
            run(command, here, command_file.parent)


def prepare(page: Path, here: Path) -> None:
    """Make the files that a page presupposes; `my.scenario.yaml` is the page's first example."""
    for folder in ("examples", "scenarios"):  # what stands in the project's root
        (here / folder).symlink_to(ROOT / folder)
    examples = re.findall(r"^```yaml\n(id: .*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    if examples:
        (here / "my.scenario.yaml").write_text(examples[0], "utf-8")


def run(command: Command, here: Path, command_file: Path) -> None:
    """Run one command in a shell, with few cells where it names none."""
    known = environment()
    own = {"PATH": f"{command_file}:{known['PATH']}"}
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
    check_result(command, ran.returncode, expected, ran.stdout + ran.stderr)


def aggregate(command: Command, here: Path) -> None:
    """Run a command that uses Spark in this process, so that it uses the session that exists."""
    said = io.StringIO()
    with chdir(here), redirect_stdout(said), redirect_stderr(said), pytest.raises(SystemExit) as left:
        main(shlex.split(command.text)[1:])
    check_result(command, left.value.code, 0, said.getvalue())


def check_result(command: Command, code: object, expected: int, said: str) -> None:
    """Check exit code and output of a command: the expected code, and no traceback."""
    context = f"{command.page}:{command.line}: {command.text}\n{said}"
    assert code == expected, context
    assert "Traceback" not in said, context
