"""Hostile programs in containers: each ends its own cell only, as it does when it is a process of this machine."""

import json
from pathlib import Path

import pytest

from conformance.results.reader import read_run
from conformance.verdicts import Outcome
from tests.hostile import programs
from tests.nodes.test_hostile import STOPPED
from tests.suite.helpers import conformance_command

pytestmark = [pytest.mark.docker, pytest.mark.integration, pytest.mark.slow, pytest.mark.timed]

TRIED = (
    "does nothing", "hops from process to process", "ignores every signal", "is a fork bomb", "eats memory",
    "fills its disk", "floods its log for ever", "writes what a terminal obeys", "makes its log a link",
    "makes its document a pipe", "makes its data a link", "makes a loop of links", "makes a socket and a pipe",
    "makes files that nobody may read", "closes all its files", "leaves with 137", "becomes somebody else",
    "mounts over its data",
)  # fmt: skip
"""The programs that apply to containers, which have no guard and can write only below `data`."""


def describe(directory: Path, name: str, image: str) -> str:
    word = name.replace(" ", "_")
    description = {
        "name": word, "kind": "docker", "claims": ["relay"], "listeners": ["frontend"],
        "container": {"image": image, "memory": "96m", "pids": 48},
        "files": {"programs.py": Path(programs.__file__).read_text("utf-8")},
        "argv": ["{python}", "/node/programs.py", "{config}", word], "exit-codes": [0, 143],
        "ready-within": 20, "stop-within": 5, "log-limit": 65536, "directory-limit": 2**23,
    }  # fmt: skip
    (directory / f"{word}.yaml").write_text(json.dumps(description), "utf-8")  # JSON is YAML
    return f"{word}.yaml"


def test_hostile_programs_in_containers_harm_neither_the_run_nor_a_program_that_does_nothing(tmp_path: Path, base: str):
    (tmp_path / "stopped.scenario.yaml").write_text(STOPPED, "utf-8")
    words = [word for name in TRIED for word in ("--candidate", describe(tmp_path, name, base))]
    ran = conformance_command(
        "run", "stopped.scenario.yaml", *words, "--cells", "4", "--clock", "scaled", "--scale", "60",
        "--run-dir", "run", cwd=tmp_path, timeout=900,
    )  # fmt: skip
    said = ran.stdout + ran.stderr
    assert "INTERNALERROR" not in said
    assert "Traceback" not in ran.stderr
    assert "\x1b" not in ran.stdout
    cells = {cell.header.candidate.replace("_", " "): cell for cell in read_run(tmp_path / "run").cells([])}
    assert set(cells) == set(TRIED), "every program has a cell"
    outcomes = {name: cell.footer.outcome for name, cell in cells.items() if cell.footer is not None}
    assert set(outcomes) == set(TRIED), "and every cell its end"
    assert outcomes["does nothing"] is Outcome.PASS, ran.stdout[-3000:]
    sentences = {name: " ".join(verdict.sentence for verdict in cell.verdicts) for name, cell in cells.items()}
    assert "harness itself broke" not in " ".join(sentences.values())
    assert "its directory grew beyond" in sentences["fills its disk"]
