"""The JUnit file: candidate, file and line of each cell, and the properties to compare it by, also with xdist workers."""

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
def test_a_test_case_has_the_candidate_the_place_and_the_properties_to_compare_a_cell(workers: str, tmp_path: Path):
    run, file = tmp_path / "run", tmp_path / "junit.xml"
    ran = conformance_command("run", *WORDS, "-n", workers, "--run-dir", str(run), "--junitxml", str(file), cwd=ROOT)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    cases = list(ET.parse(file).iter("testcase"))
    names = {case.get("name") for case in cases}
    assert "inbound-acknowledgement-waits-for-the-shadow reference" in names
    assert len(names) == len(cases)
    for case in cases:
        properties = [(one.get("name"), one.get("value")) for one in case.iter("property")]
        values = dict(properties)
        assert case.get("classname") == "creation.inbound"
        assert case.get("file") == "scenarios/creation/inbound.scenario.yaml"
        assert int(case.get("line", 0)) > 0
        assert values["seed"] == "7"
        assert values["clock"] == "virtual"
        assert values["candidate"] in ("reference", "reference+acknowledges-before-shadow")
        assert ("requirement", "SR-CRE-01") in properties
    hashes = {hashlib.sha256(path.read_bytes()).hexdigest() for path in (run / "cells").glob("*.jsonl.gz")}
    found = {one.get("value") for case in cases for one in case.iter("property") if one.get("name") == "history-sha256"}
    assert found == hashes
    suite = {one.get("name") for one in ET.parse(file).getroot().iter("property")}
    assert {"candidate-version-reference", "violation-1"} <= suite


def test_only_files_of_the_checkout_are_the_users():
    assert is_users_file("scenarios/creation/inbound.scenario.yaml")
    assert not is_users_file(".venv/lib/python3.11/site-packages/conformance/_data/scenarios/wire/shadow.scenario.yaml")
    assert not is_users_file("../elsewhere/one.scenario.yaml")
