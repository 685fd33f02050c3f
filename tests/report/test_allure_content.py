"""What Allure gets: through allure-pytest itself, read back from the files that it wrote."""

import json
from pathlib import Path
from typing import Any

import pytest

from conformance.judge.verdicts import Outcome, Verdict
from conformance.report.allure_content import categories, steps_told, write_static
from conformance.report.failure import failure_text
from tests.report.samples import material, passed, run_header

pytest_plugins = ["pytester"]

ITEM = """
from conformance.report.allure_content import describe
from conformance.report.failure import failure_text
from tests.report.samples import material, passed

def test_violation():
    cell = material(seed={seed})
    describe(cell, clause_url="https://catalogue.test/{{}}")
    raise AssertionError(failure_text(cell))

def test_pass():
    describe(material(verdicts=(passed(),)))
"""


@pytest.fixture
def results(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the two items with a seed and return Allure's results by name."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))

    def run(seed: int = 7) -> dict[str, dict[str, Any]]:
        folder = pytester.path / f"allure-{seed}"
        pytester.makepyfile(test_item=ITEM.format(seed=seed))
        pytester.runpytest_subprocess("-p", "no:conformance", "-p", "no:cacheprovider", f"--alluredir={folder}")
        read = [json.loads(path.read_text()) | {"folder": folder} for path in folder.glob("*-result.json")]
        return {one["fullName"].rpartition("#")[2]: one for one in read}

    return run


def test_a_violation_is_told_in_the_order_in_which_it_is_read(results: Any) -> None:
    one = results()["test_violation"]
    assert one["status"] == "failed"
    assert [attached["name"] for attached in one["attachments"]] == [
        "Sentence", "Sequence diagram", "Conversation", "History", "Repeat this cell",
    ]  # fmt: skip
    for attached in one["attachments"]:
        assert (one["folder"] / attached["source"]).stat().st_size > 0
    labels = {(label["name"], label["value"]) for label in one["labels"]}
    assert ("epic", "ex2016") in labels
    assert ("severity", "critical") in labels
    assert ("parentSuite", "creation") in labels
    assert ("suite", "inbound.scenario.yaml") in labels
    assert ("subSuite", "inbound-acknowledged-after-shadow") in labels
    assert any(name == "story" and value.startswith("SR-CRE-01 ") for name, value in labels)
    assert one["links"][0]["url"] == "https://catalogue.test/SR-CRE-01"


def test_each_step_of_the_scenario_is_a_step_with_its_verdict(results: Any) -> None:
    steps = results()["test_violation"]["steps"]
    assert [step["status"] for step in steps] == ["passed", "passed", "failed", "passed", "passed", "passed", "passed"]
    assert "creation/inbound.scenario.yaml:5" in steps[2]["name"]
    assert "30 seconds before" in steps[2]["statusDetails"]["message"]


def test_a_pass_carries_no_diagram(results: Any) -> None:
    one = results()["test_pass"]
    assert one["status"] == "passed"
    assert [attached["name"] for attached in one["attachments"]] == ["Repeat this cell"]


def test_the_seed_does_not_make_another_history(results: Any) -> None:
    first, second = results(seed=7)["test_violation"], results(seed=8)["test_violation"]
    assert first["historyId"] == second["historyId"]
    seeds = [p["value"] for one in (first, second) for p in one["parameters"] if p["name"] == "seed"]
    assert seeds == ["7", "8"]


def test_a_step_that_never_ended_is_not_shown_as_passed() -> None:
    cell = material(verdicts=(passed(),))
    cut = type(cell)(header=cell.header, events=cell.events[:10], verdicts=(), source=cell.source, cut_short=True)
    assert [step.outcome for step in steps_told(cut)] == [Outcome.INCONCLUSIVE]


@pytest.mark.parametrize(
    ("outcome", "category"),
    [
        (Outcome.FAIL, "Violation"),
        (Outcome.INCONCLUSIVE, "Inconclusive"),
        (Outcome.ERROR, "Harness error"),
    ],
)
def test_the_categories_know_a_failure_text_by_how_it_begins(outcome: Outcome, category: str) -> None:
    import re

    cell = material(verdicts=(Verdict(check="c", outcome=outcome, sentence="s"),))
    status = "failed" if outcome is Outcome.FAIL else "broken"
    matching = [
        one["name"]
        for one in categories()
        if status in one["matchedStatuses"]
        and re.fullmatch(one.get("messageRegex", ".*"), failure_text(cell), re.DOTALL)
    ]
    assert matching[0] == category


def test_the_static_files_say_what_ran_where(tmp_path: Path) -> None:
    header = run_header(cells=1, candidates=("reference",))
    github = {"GITHUB_ACTIONS": "true", "GITHUB_SERVER_URL": "https://forge.test", "GITHUB_REPOSITORY": "a/b"}
    write_static(tmp_path, header, github | {"GITHUB_RUN_ID": "12", "GITHUB_RUN_NUMBER": "3"})
    assert "seed=7\n" in (tmp_path / "environment.properties").read_text()
    executor = json.loads((tmp_path / "executor.json").read_text())
    assert executor["buildUrl"] == "https://forge.test/a/b/actions/runs/12"
    assert json.loads((tmp_path / "categories.json").read_text()) == categories()
