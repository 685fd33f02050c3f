"""Allure's results are in the run directory, however many processes ran the cells."""

import json
from collections import Counter
from pathlib import Path

import pytest

from conformance.results.reader import read_run
from tests.suite.helpers import ROOT, conformance_command

pytestmark = pytest.mark.integration

SCENARIO = "scenarios/relay/replies.scenario.yaml"


@pytest.mark.long
@pytest.mark.parametrize("more", [[], ["-n", "2"], ["-n", "2", "--dist", "worksteal"]], ids=" ".join)
def test_every_cell_has_a_result_in_the_run_directory(tmp_path: Path, more: list[str]):
    ran = conformance_command("run", SCENARIO, "--run-dir", str(tmp_path / "run"), *more, cwd=ROOT)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    results = [json.loads(path.read_text("utf-8")) for path in (tmp_path / "run/allure-results").glob("*-result.json")]
    cells = list((tmp_path / "run/cells").glob("*.jsonl*"))
    assert len(results) == len(cells) > 1
    named = {"::".join([one["titlePath"][-1], one["fullName"].partition("#")[2]]) for one in results}
    assert named == {cell.header.nodeid.partition("::")[2] for cell in read_run(tmp_path / "run").cells()}
    assert Counter(one["status"] for one in results) == {"passed": len(cells)}
    assert len({one["historyId"] for one in results}) == len(cells), "each cell has a history of its own"


@pytest.mark.long
def test_workers_write_where_the_command_line_says(tmp_path: Path):
    words = ["--run-dir", str(tmp_path / "run"), "--alluredir", "mine", "-n", "2"]
    ran = conformance_command("run", str(ROOT / SCENARIO), *words, cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    cells = list((tmp_path / "run/cells").glob("*.jsonl*"))
    assert len(list((tmp_path / "mine").glob("*-result.json"))) == len(cells) > 1
    assert not (tmp_path / "run/allure-results").exists()
