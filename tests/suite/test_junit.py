"""The JUnit file: whose cell a test case is, where it stands, and what it takes to compare it, also with workers of xdist."""

import hashlib
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from conformance.report.terminal import is_users_file
from tests.suite.helpers import ROOT, conformance_command

pytestmark = pytest.mark.integration

WORDS = (
    "scenarios/creation/inbound.scenario.yaml", "-k", "waits", "--candidate", "reference",
    "--candidate", "reference+acknowledges-before-shadow", "--seed", "7",
)  # fmt: skip


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_test_case_says_whose_cell_it_is_and_how_it_is_compared(workers: str, tmp_path: Path):
    run, file = tmp_path / "run", tmp_path / "junit.xml"
    ran = conformance_command("run", *WORDS, "-n", workers, "--run-dir", str(run), "--junitxml", str(file), cwd=ROOT)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    cases = list(ET.parse(file).iter("testcase"))
    names = {case.get("name") for case in cases}
    assert "inbound-acknowledgement-waits-for-the-shadow reference" in names
    assert len(names) == len(cases)
    for case in cases:
        said = [(one.get("name"), one.get("value")) for one in case.iter("property")]
        kept = dict(said)
        assert case.get("classname") == "creation.inbound"
        assert case.get("file") == "scenarios/creation/inbound.scenario.yaml"
        assert int(case.get("line", 0)) > 0
        assert kept["seed"] == "7"
        assert kept["clock"] == "virtual"
        assert kept["candidate"] in ("reference", "reference+acknowledges-before-shadow")
        assert ("requirement", "SR-CRE-01") in said
    hashes = {hashlib.sha256(path.read_bytes()).hexdigest() for path in (run / "cells").glob("*.jsonl.gz")}
    found = {one.get("value") for case in cases for one in case.iter("property") if one.get("name") == "history-sha256"}
    assert found == hashes
    suite = {one.get("name") for one in ET.parse(file).getroot().iter("property")}
    assert {"candidate-version-reference", "violation-1"} <= suite


def test_a_file_of_the_installed_package_is_none_of_the_users():
    assert is_users_file("scenarios/creation/inbound.scenario.yaml")
    assert not is_users_file(".venv/lib/python3.11/site-packages/conformance/_data/scenarios/wire/shadow.scenario.yaml")
    assert not is_users_file("../elsewhere/one.scenario.yaml")
