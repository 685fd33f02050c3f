"""docs/testing-your-server.md: every command in it is run, in its order, and what it shows of their output is there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.candidates.description import Candidate, read_description
from conformance.candidates.kinds.remote import FIRST_NEXT_HOP
from conformance.nodes.places import PortLeases
from tests.docs.pages import ROOT, commands
from tests.nodes.test_remote_node import PROXY
from tests.suite.helpers import environment

PAGE = ROOT / "docs" / "testing-your-server.md"
TEXT = PAGE.read_text("utf-8")
COMMANDS = [command for command in commands(PAGE) if "container" not in command.text]
"""The others are run with an engine: tests/nodes/containers/test_docker_runs.py."""

VIOLATED = ("reports/first ", "reports/remote ")
"""Runs that find what the example server does wrong, and are held against no baseline."""

pytestmark = [pytest.mark.integration, pytest.mark.timed]


def normalized_lines(block: str) -> list[str]:
    """Return the lines of a block, with single spaces between their words."""
    return [" ".join(line.split()) for line in block.splitlines() if line.strip()]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """Run all commands of the page in a new folder, with a server where the page says that one runs; by line."""
    folder = tmp_path_factory.mktemp("testing")
    (folder / "bin").mkdir()
    command_file = folder / "bin" / "conformance"
    command_file.write_text(f'#!/bin/sh\nexec {sys.executable} -m conformance "$@"\n', "utf-8")
    command_file.chmod(0o755)
    known = environment()
    leases = PortLeases()
    port = leases.lease()
    server = subprocess.Popen([sys.executable, "-c", PROXY, str(port), str(FIRST_NEXT_HOP)])
    found: dict[int, str] = {}
    try:
        for command in COMMANDS:
            ran = subprocess.run(
                ["bash", "-e", "-o", "pipefail", "-c", command.text.replace(":2525", f":{port}")],
                cwd=folder, env={**known, "PATH": f"{command_file.parent}:{known['PATH']}", "PYTEST_ADDOPTS": "--cells 4"},
                capture_output=True, text=True, timeout=400, check=False,
            )  # fmt: skip
            expected = int(any(f"{part}" in f"{command.text} " for part in VIOLATED) and " run " in command.text)
            assert ran.returncode == expected, (command, ran.stdout, ran.stderr)
            found[command.line] = ran.stdout
    finally:
        server.kill()
        server.wait()
        leases.release()
    assert (folder / "reports/ci-junit.xml").is_file()
    assert (folder / "reports/first/site/index.html").is_file()
    return found


@pytest.mark.long
def test_every_line_of_output_on_the_page_is_printed_by_the_command_before_it(outputs: dict[int, str]):
    blocks = list(re.finditer(r"^```text\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL))
    assert blocks
    for block in blocks:
        line = TEXT.count("\n", 0, block.start()) + 1
        before = max(number for number in outputs if number < line)
        said = " ".join(outputs[before].split())
        assert [words for words in normalized_lines(block[1]) if words not in said] == [], outputs[before]


def test_the_descriptions_on_the_page_are_valid(tmp_path: Path):
    described = [
        text for text in re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL) if "kind:" in text
    ]
    assert described
    for text in described:
        (tmp_path / "mine.yaml").write_text(text, "utf-8")
        assert isinstance(read_description(tmp_path / "mine.yaml"), Candidate)


def test_the_page_names_the_port_of_the_first_next_hop():
    assert f"port {FIRST_NEXT_HOP}" in TEXT
