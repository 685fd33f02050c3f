"""Assignments in which a program plays one server, and the reference the others."""

import json
import re
import shutil
from pathlib import Path

import pytest

from conformance.results.reader import read_run
from conformance.verdicts import Outcome
from tests.results.stored import plain
from tests.suite.helpers import conformance_command

pytestmark = pytest.mark.integration

EXAMPLE = Path(__file__).parents[2] / "examples" / "minimal-shadow-node" / "minimal.yaml"

OTHER = """
name: other
kind: exec
claims: [relay, shadow-2010]
generations: [ex2010]
argv: ["{python}", -m, conformance.reference, --config, "{config}"]
"""


@pytest.mark.long
@pytest.mark.skipif(shutil.which("cc") is None, reason="the shifted clock needs a C compiler")
def test_cells_with_a_program_and_the_reference_pass_under_the_shifted_clock(tmp_path: Path):
    (tmp_path / "other.yaml").write_text(OTHER, "utf-8")
    ran = conformance_command(
        *("run", "-k", "no-xshadow-for-a-2010-hub or mail-to-a-2010-hub-is-shadowed"),
        *("--candidate", "hub1=other.yaml", "--clock", "shifted", "--run-dir", "run"),
        cwd=tmp_path,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.fullmatch(r"=+ [1-9]\d* passed(, \d+ deselected)? in .*", ran.stdout.splitlines()[-1])
    files = (tmp_path / "run" / "cells").glob("*.jsonl.gz")
    headers = [json.loads(plain(file).splitlines()[0]) for file in files]
    assert {(header["candidate"], header["clock"]) for header in headers} == {("hub1:other", "shifted")}
    assert all({"relay", "shadow-2010", "shadow-2013"} <= set(header["claims"]) for header in headers)


@pytest.mark.long
@pytest.mark.skipif(shutil.which("cc") is None, reason="the shifted clock needs a C compiler")
def test_the_example_interoperates_with_the_reference_as_a_2010_hub(tmp_path: Path):
    """SR-IOP-01 and SR-IOP-02: the example is the servers of 2016, and the reference the hub of 2010."""
    assignment = f"mbx1={EXAMPLE},mbx2={EXAMPLE},hub1=exec:reference"
    ran = conformance_command(
        *("run", "-k", "no-xshadow-for-a-2010-hub or mail-to-a-2010-hub-is-shadowed"),
        *("--candidate", assignment, "--clock", "shifted", "--run-dir", "run"),
        cwd=tmp_path,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.fullmatch(r"=+ [1-9]\d* passed(, \d+ deselected)? in .*", ran.stdout.splitlines()[-1])
    judged = {
        row
        for cell in read_run(tmp_path / "run").cells()
        for verdict in cell.verdicts
        for row in verdict.requirements
        if verdict.outcome is Outcome.PASS
    }
    assert judged >= {"SR-IOP-01", "SR-IOP-02"}


def test_a_server_assigned_to_an_in_process_candidate_is_refused_under_the_shifted_clock(tmp_path: Path):
    (tmp_path / "other.yaml").write_text(OTHER, "utf-8")
    words = ("--candidate", "hub1=other.yaml,mbx1=reference", "--clock", "shifted", "--run-dir", "run")
    ran = conformance_command("run", "-k", "no-xshadow-for-a-2010-hub", *words, cwd=tmp_path)
    assert ran.returncode == 2
    assert "--clock shifted: reference is no program on this machine" in ran.stderr
    assert not (tmp_path / "run").exists()
