"""A broken `should` is reported everywhere, and fails a run only with `--should fail`."""

import configparser
import json
import xml.etree.ElementTree as ET
from html import escape
from pathlib import Path

import pytest

from conformance.report.failure_text import clause_of
from tests.suite.helpers import ROOT, conformance_command

pytestmark = pytest.mark.integration

SCENARIO = str(ROOT / "scenarios/wire/shadow-verbs.scenario.yaml")
BROKEN = [SCENARIO, "-k", "an-answer-that-was-lost and reset", "--candidate", "reference+forgets-discards-when-told"]
SENTENCE = "SR-WIR-05: expected "


@pytest.mark.long
def test_a_broken_should_is_a_remark_in_the_terminal_junit_allure_and_the_pages(tmp_path: Path) -> None:
    ran = conformance_command("run", *BROKEN, "--run-dir", "run", "--junitxml", "junit.xml", cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"remark: {SENTENCE}" in ran.stdout
    assert "1 cell has a remark" in ran.stdout
    clause = clause_of("SR-WIR-05")
    assert clause in " ".join(ran.stdout.split()), "what the row asks for"

    properties = ET.parse(tmp_path / "junit.xml").iter("property")
    assert any(one.get("name") == "remark" and (one.get("value") or "").startswith(SENTENCE) for one in properties)

    (result,) = [json.loads(path.read_text()) for path in (tmp_path / "run/allure-results").glob("*-result.json")]
    assert result["status"] == "passed"
    assert {"name": "tag", "value": "remark"} in result["labels"]
    assert "Remark" in [one["name"] for one in result["attachments"]]

    written = conformance_command("report", "run", "--out", "site", cwd=tmp_path)
    assert written.returncode == 0, written.stderr
    index = (tmp_path / "site/index.html").read_text("utf-8")
    assert SENTENCE in index
    assert f'<p class="quiet">{escape(clause)}</p>' in index
    (page,) = (tmp_path / "site/cells").rglob("*.html")
    assert f"Remark: {SENTENCE}" in page.read_text("utf-8")

    judged = conformance_command("judge", "run", cwd=tmp_path)
    assert judged.returncode == 0, judged.stdout
    assert "0 differ from what is recorded" in judged.stdout


@pytest.mark.long
def test_a_broken_should_is_a_violation_with_should_fail(tmp_path: Path):
    ran = conformance_command("run", *BROKEN, "--should", "fail", "--run-dir", "run", cwd=tmp_path)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "VIOLATION" in ran.stdout
    assert "--should fail" in ran.stdout, "the command that repeats the cell judges as this run did"
    judged = conformance_command("judge", "run", cwd=tmp_path)
    assert judged.returncode == 1
    assert "0 differ from what is recorded" in judged.stdout


def test_the_environments_scenarios_servers_and_servers_full_run_with_should_fail() -> None:
    parsed = configparser.ConfigParser(interpolation=None)
    parsed.read(ROOT / "tox.ini", encoding="utf-8")
    for environment in ("scenarios", "servers", "servers-full"):
        lines = parsed[f"testenv:{environment}"]["commands"].replace("\\\n", " ").splitlines()
        runs = [line for line in lines if line.startswith("conformance run")]
        assert runs, environment
        assert all("--should fail" in line for line in runs), environment
