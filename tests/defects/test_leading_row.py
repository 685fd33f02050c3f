"""The reports of a run begin with the row that a server breaks, not with the row that most cells blame."""

import json
from pathlib import Path

import pytest

from conformance.report.run_page import run_page
from conformance.report.run_summary import read_run_summary
from conformance.requirements.catalogue import catalogue
from tests.suite.helpers import ROOT, conformance_command

CELLS = (
    "scenarios/creation/inbound.scenario.yaml",
    "scenarios/creation/copies.scenario.yaml::submitted-mail-is-shadowed-too",
    "scenarios/enabling/switches.scenario.yaml::switched-off-and-on-again",
)


@pytest.mark.long
@pytest.mark.parametrize(
    ("defect", "row"),
    [
        ("never-shadows", "SR-CRE-01"),
        ("off-until-switched-on", "SR-ENA-01"),
        ("shadow-redundancy-needs-a-partner", "SR-CRE-03"),
        ("shadows-outside-mail-only", "SR-CRE-07"),
    ],
)
def test_terminal_run_page_and_allure_lead_with_the_row_that_the_defect_breaks(defect: str, row: str, tmp_path: Path):
    run = tmp_path / "run"
    options = ("--should", "fail", "--run-dir", str(run), "--fresh")
    ended = conformance_command("run", *CELLS, "--candidate", f"reference+{defect}", *options, cwd=ROOT)
    assert ended.returncode == 1, ended.stderr
    leading = next(line for line in ended.stdout.splitlines() if " is violated" in line)
    assert leading.startswith(f"{row} is violated")
    page = run_page(read_run_summary(run), catalogue())
    assert page[page.index('<ol class="causes">') :].startswith(f'<ol class="causes"><li>{row} is violated')
    categories = json.loads((run / "allure-results" / "categories.json").read_text("utf-8"))
    assert categories[0]["name"].startswith(f"{row} is violated")
