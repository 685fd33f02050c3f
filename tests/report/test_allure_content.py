"""The content of Allure's results: written through allure-pytest, and read from its files."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from conformance.history.events import Connected
from conformance.report.allure_content import allure_steps
from conformance.report.allure_run_files import allure_categories, write_run_files
from conformance.report.diagram.excerpt import MAX_EXCERPT_ROWS, ROWS_AROUND, excerpt_rows, excerpt_svg
from conformance.report.diagram.rows import diagram_rows, party_columns
from conformance.report.failure_text import failure_message
from conformance.requirements.catalogue import clause
from conformance.verdicts import Outcome, Verdict
from tests.report.samples import SOURCE, cell_view, passed, run_header

pytest_plugins = ["pytester"]

HOOK = """
import pytest
from conformance.report.allure_content import describe_cell

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "call":
        describe_cell(*item.function.args, **item.function.named)
    return report
"""
ITEM = """
import pytest
from conformance.report.failure_text import failure_text
from tests.report.samples import cell_view, passed

def test_violation():
    raise AssertionError(failure_text(test_violation.args[0]))

def test_pass():
    pass

def test_stale():
    raise AssertionError("whatever")

def test_known():
    pytest.xfail("since then")

several = {{"generations": ("ex2013", "ex2016"), "requirements": ("SR-CRE-01", "SR-MNT-04")}}
test_violation.args, test_violation.named = (cell_view(seed={seed}, messages=3, **several),), {{}}
test_pass.args, test_pass.named = (cell_view(verdicts=(passed(),)),), {{}}
test_stale.args, test_stale.named = (cell_view(verdicts=(passed(),)),), {{"remark": "stale baseline: did not fail"}}
test_known.args, test_known.named = (type(cell_view())(**(vars(cell_view()) | {{"known": "since then"}})),), {{}}
"""


@pytest.fixture
def results(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the items with a seed and return Allure's results by name."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))

    def run(seed: int = 7) -> dict[str, dict[str, Any]]:
        folder = pytester.path / f"allure-{seed}"
        pytester.makeconftest(HOOK)
        pytester.makepyfile(test_item=ITEM.format(seed=seed))
        pytester.runpytest_subprocess("-p", "no:conformance", "-p", "no:cacheprovider", f"--alluredir={folder}")
        read = [json.loads(path.read_text()) | {"folder": folder} for path in folder.glob("*-result.json")]
        return {one["fullName"].rpartition("#")[2]: one for one in read}

    return run


def labels_of(result: dict[str, Any]) -> dict[str, list[str]]:
    """Return the values of each label."""
    found: dict[str, list[str]] = {}
    for label in result["labels"]:
        found.setdefault(label["name"], []).append(label["value"])
    return found


def test_a_violation_has_clause_exchange_repeat_command_and_diagram(results: Any) -> None:
    one = results()["test_violation"]
    assert one["status"] == "failed"
    message, description = one["statusDetails"]["message"], one["description"]
    assert "30 seconds before its shadow was stored" in message
    assert clause("SR-CRE-01") in message
    assert "trace" not in one["statusDetails"], "the whole text once, not twice"
    exchange = [line for line in description.splitlines() if line.startswith("    ") and " #" in line]
    assert any(line.startswith("    > #") for line in exchange)
    assert 3 < len(exchange) <= 20
    assert "    conformance run 'scenarios/creation/inbound.scenario.yaml::" in description
    assert [(attached["name"], attached["type"]) for attached in one["attachments"]] == [
        ("Sequence diagram", "image/svg+xml")
    ]
    assert (one["folder"] / one["attachments"][0]["source"]).read_text().startswith("<svg ")


def test_a_cell_has_one_value_of_each_hierarchy_label_and_its_requirements_are_tags_and_links(results: Any) -> None:
    """The cell has servers of two generations, and requirements of two groups."""
    one = results()["test_violation"]
    labels = labels_of(one)
    assert labels["epic"] == ["ex2013, ex2016"]
    assert labels["feature"] == ["CRE Creating the shadow copy"]
    assert labels["story"] == ["inbound-acknowledged-after-shadow"]
    assert (labels["parentSuite"], labels["suite"]) == (["creation"], ["inbound.scenario.yaml"])
    assert labels["subSuite"] == ["inbound-acknowledged-after-shadow"]
    assert labels["tag"] == ["SR-CRE-01", "SR-MNT-04"]
    assert labels["severity"] == ["critical"]
    links = {link["name"]: link["url"] for link in one["links"]}
    for requirement in labels["tag"]:
        assert links[requirement] == f"statement:reference+acknowledges-before-shadow#{requirement}"
    assert links["Page of this cell"].startswith("cell-page:inbound-acknowledged-after-shadow")
    assert links["History"].startswith("cell-history:")


def test_each_step_of_the_scenario_is_a_step_with_its_verdict(results: Any) -> None:
    steps = results()["test_violation"]["steps"]
    assert [step["status"] for step in steps] == ["passed", "passed", "failed", "passed", "passed", "passed", "passed"]
    verbs = ("send", "reply", "shadow", "kill", "advance", "mailbox")
    for number, (verb, step) in enumerate(zip(verbs, steps[:6], strict=True), 1):
        assert (
            f"{number} {verb}  creation/inbound.scenario.yaml:{number + 2}  {SOURCE[number + 1].strip()}"
            in step["name"]
        )
    assert steps[2]["statusDetails"]["message"].startswith("Violation: Message m#1 was acknowledged")
    assert "trace" not in steps[2]["statusDetails"]
    assert steps[-1]["name"] == "✓ 1 more: invariant.nothing-lost"


def test_a_pass_has_steps_and_links_and_no_attachments_or_details(results: Any) -> None:
    one = results()["test_pass"]
    assert one["status"] == "passed"
    assert one["steps"]
    assert one["links"]
    assert "attachments" not in one
    assert "statusDetails" not in one


def test_the_text_of_a_baseline_is_in_the_message(results: Any) -> None:
    found = results()
    assert found["test_stale"]["statusDetails"]["message"] == "stale baseline: did not fail"
    known = found["test_known"]
    assert (known["status"], known["statusDetails"]["message"].startswith("XFAIL since then")) == ("skipped", True)
    assert "VIOLATION" in known["statusDetails"]["message"]


@pytest.mark.long
def test_runs_with_different_seeds_have_the_same_history_id(results: Any) -> None:
    found = results(seed=7)
    first, second = found["test_violation"], results(seed=8)["test_violation"]
    assert first["historyId"] == second["historyId"] != found["test_pass"]["historyId"]
    seeds = [p["value"] for one in (first, second) for p in one["parameters"] if p["name"] == "seed"]
    assert seeds == ["7", "8"]


def test_a_step_that_never_ended_is_not_shown_as_passed() -> None:
    cell = cell_view(verdicts=(passed(),))
    cut = type(cell)(header=cell.header, events=cell.events[:10], verdicts=(), source=cell.source, cut_short=True)
    assert [step.outcome for step in allure_steps(cut)] == [Outcome.INCONCLUSIVE]
    assert allure_steps(cell)[0].outcome is Outcome.PASS, "the same step where it ended"


def test_the_excerpt_of_a_long_diagram_is_small_and_has_the_marked_rows() -> None:
    cell = cell_view(messages=700)
    rows = diagram_rows(cell)
    marked = [row for row in rows if row.marked]
    assert len(marked) == 2
    kept = excerpt_rows(rows, cell.verdicts[0].evidence)
    assert [row for row in kept if row.marked] == marked
    assert len([row for row in kept if row.kind != "gap"]) <= min(MAX_EXCERPT_ROWS, len(marked) * (2 * ROWS_AROUND + 1))
    gone = sum(int(row.text.split()[1]) for row in kept if row.text.endswith("rows …"))
    assert gone + len([row for row in kept if not row.text.endswith("rows …")]) == len(rows)
    picture = excerpt_svg(cell)
    assert len(picture) < 20_000
    ElementTree.fromstring(picture)
    assert picture.count('class="row') == len(kept)


def test_an_excerpt_that_begins_within_its_sessions_has_the_columns_of_their_parties() -> None:
    _, stored = cell_view().verdicts[0].evidence
    later = cell_view().verdicts[0].model_copy(update={"evidence": (stored + 2,)})  # the reply to the next command
    cell = cell_view(verdicts=(later,))
    excerpt = excerpt_rows(diagram_rows(cell), later.evidence)
    assert not any(isinstance(cell.event_by_number[number], Connected) for row in excerpt for number in row.numbers)
    names = party_columns(cell.events, cell.server_names)
    assert names == ("outside", "mbx1", "mbx2", "mbx2-store")
    texts = re.findall(r">([^<]*)</text>", excerpt_svg(cell))
    assert [text for text in texts if text in names] == ["outside", "mbx1", "mbx2"], "and no other party"


@pytest.mark.parametrize(
    ("outcome", "category"),
    [
        (Outcome.FAIL, "Violation"),
        (Outcome.INCONCLUSIVE, "Inconclusive"),
        (Outcome.ERROR, "Harness error"),
    ],
)
def test_the_first_matching_category_is_that_of_the_outcome(outcome: Outcome, category: str) -> None:
    cell = cell_view(verdicts=(Verdict(check="c", outcome=outcome, sentence="s"),))
    message = failure_message(cell)
    assert "\n" in message
    status = "failed" if outcome is Outcome.FAIL else "broken"
    matching = [
        one["name"]
        for one in allure_categories()
        if status in one["matchedStatuses"]
        and re.fullmatch(one.get("messageRegex", r"[\s\S]*"), message)  # as in Allure, without flags
    ]
    assert matching[0] == category


def test_the_run_files_have_seed_build_address_and_categories(tmp_path: Path) -> None:
    header = run_header(cells=1, candidates=("reference",))
    github = {"GITHUB_ACTIONS": "true", "GITHUB_SERVER_URL": "https://forge.test", "GITHUB_REPOSITORY": "a/b"}
    write_run_files(tmp_path, header, github | {"GITHUB_RUN_ID": "12", "GITHUB_RUN_NUMBER": "3"})
    assert "seed=7\n" in (tmp_path / "environment.properties").read_text()
    executor = json.loads((tmp_path / "executor.json").read_text())
    assert executor["buildUrl"] == "https://forge.test/a/b/actions/runs/12"
    assert json.loads((tmp_path / "categories.json").read_text()) == allure_categories()
