"""The JUnit file: candidate, file and line of each cell, and the properties to compare it by, also with xdist workers."""

import hashlib
import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from conformance.report.terminal import is_users_file
from tests.results.stored import plain
from tests.suite.helpers import ROOT, conformance_command

pytestmark = pytest.mark.integration

WORDS = (
    "scenarios/creation/inbound.scenario.yaml", "-k", "waits", "--candidate", "reference",
    "--candidate", "reference+acknowledges-before-shadow", "--seed", "7",
)  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_test_case_has_the_candidate_the_place_and_the_properties_to_compare_a_cell(workers: str, tmp_path: Path):
    run, file = tmp_path / "run", tmp_path / "junit.xml"
    ran = conformance_command("run", *WORDS, "-n", workers, "--run-dir", str(run), "--junitxml", str(file), cwd=ROOT)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    cases = list(ET.parse(file).iter("testcase"))
    names = {case.get("name") for case in cases}
    assert "inbound-acknowledgement-waits-for-the-shadow reference" in names
    assert len(names) == len(cases)
    headers = {path: json.loads(plain(path).splitlines()[0]) for path in (run / "cells").glob("*.jsonl.gz")}
    hashes = {headers[path]["candidate"]: hashlib.sha256(path.read_bytes()).hexdigest() for path in headers}
    descriptions = {header["candidate"]: header["candidate_sha256"] for header in headers.values()}
    assert len(set(descriptions.values())) == 2
    assert set(hashes) == {"reference", "reference+acknowledges-before-shadow"}
    scenario = (ROOT / "scenarios/creation/inbound.scenario.yaml").read_text("utf-8").splitlines()
    for case in cases:
        properties = [(one.get("name"), one.get("value")) for one in case.iter("property")]
        values = dict(properties)
        assert case.get("classname") == "creation.inbound"
        assert case.get("file") == "scenarios/creation/inbound.scenario.yaml"
        assert scenario[int(case.get("line", 0)) - 1] == "id: inbound-acknowledgement-waits-for-the-shadow"
        assert values["seed"] == "7"
        assert values["clock"] == "virtual"
        assert case.get("name") == f"inbound-acknowledgement-waits-for-the-shadow {values['candidate']}"
        assert values["history-sha256"] == hashes.pop(values["candidate"])
        assert values["candidate-sha256"] == descriptions[values["candidate"]]
        assert ("requirement", "SR-CRE-01") in properties
    assert hashes == {}
    suite = {one.get("name") for one in ET.parse(file).getroot().iter("property")}
    assert {"candidate-version-reference", "violation-1"} <= suite


def test_only_files_of_the_checkout_are_the_users():
    assert is_users_file("scenarios/creation/inbound.scenario.yaml")
    assert not is_users_file(".venv/lib/python3.11/site-packages/conformance/_data/scenarios/wire/shadow.scenario.yaml")
    assert not is_users_file("../elsewhere/one.scenario.yaml")
    assert not is_users_file("/elsewhere/one.scenario.yaml")
