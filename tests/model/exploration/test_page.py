"""docs/failure-analysis.md says what the search finds, and each of its rows has a scenario that shows it on the reference."""

import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from conformance.history.events import Attempt, Delivered, MessageMade
from conformance.model.exploration import __main__ as command
from conformance.model.exploration.__main__ import app
from conformance.model.exploration.causes import Way
from conformance.model.exploration.failures import FAILURES, Failure, essential_causes
from conformance.model.exploration.page import (
    GENERATIONS,
    OUTCOMES,
    Analysis,
    Undescribed,
    analyse,
    analyse_all,
    failure_of,
    render_page,
    scope_line,
)
from conformance.model.exploration.scope import SCOPES, Scope
from conformance.model.exploration.search import Size
from conformance.results.reader import read_run
from conformance.verdicts import Outcome
from tests.suite.helpers import conformance_command

PAGE = Path(__file__).parents[3] / "docs" / "failure-analysis.md"
SHOWN_BY_ITS_EXPECTATION = "not-resubmitted-after-the-hold-time"
"""The harness has no mailbox that forgets: the new active copy lacks the message, and the old one still has it."""
FAST = [s for s in SCOPES if s.name in ("two-disks", "refused-shadow", "failover", "edge-and-hub")]


@pytest.mark.parametrize("scope", FAST, ids=lambda s: f"{s.name}-{s.messages[0]}{'-mandatory' * s.mandatory}")
def test_the_page_has_what_is_found_in_a_small_scope(scope: Scope):
    text = PAGE.read_text("utf-8")
    analysis = analyse(scope)
    assert scope_line(analysis) in text.splitlines()
    assert analysis.ways
    for way in analysis.ways:
        shown = text_about(text, failure_of(scope, way)).splitlines()
        assert f"- {'; '.join(sorted(essential_causes(way.causes)))}" in shown


def text_about(page: str, failure: Failure) -> str:
    """Return the part of the page about a failure: in the section of its generation and outcome, from its title to the next."""
    section = page.partition(f"\n## {GENERATIONS[failure.generation]}\n")[2].partition("\n## ")[0]
    failures = section.partition(f"\n### {OUTCOMES[failure.outcome]}\n")[2].partition("\n### ")[0]
    return failures.partition(f"\n**{failure.title}.** ")[2].partition("\n**")[0]


@pytest.mark.parametrize(
    "way",
    [
        Way("lost", frozenset({"an earthquake"}), ("the earth shakes",)),
        Way("lost", frozenset({"lost reply to the sender"}), ("a reply is lost",)),
        Way("duplicated", frozenset({"lost reply of a next hop"}), ("a reply is lost",)),
    ],
    ids=["for-nothing", "for-another-outcome", "for-another-generation"],
)
def test_a_way_without_a_description_is_an_error(way: Way):
    problem = re.escape(f"ex2013: {way.outcome} by {sorted(way.causes)}: {way.steps[0]}")
    with pytest.raises(Undescribed, match=f"^{problem}$"):
        render_page([Analysis(SCOPES[0], Size(1, 1), (way,))])


def analyses_with(ways: Iterable[tuple[Failure, frozenset[str]]]) -> list[Analysis]:
    """Return an analysis for each generation in which these ways, and no others, were found."""
    found = list(ways)
    return [
        Analysis(scope, Size(1, 1), tuple(Way(f.outcome, way, ("a",)) for f, way in found if f.generation == name))
        for name, scope in {scope.generation: scope for scope in SCOPES}.items()
    ]


def test_a_description_of_nothing_that_is_found_is_an_error():
    described = [(failure, causes) for failure in FAILURES for causes in failure.ways]
    assert render_page(analyses_with(described)).startswith("# Failure analysis\n")
    for failure, causes in described:
        problem = re.escape(f"{failure.title}: not found: {[sorted(causes)]}")
        with pytest.raises(Undescribed, match=f"^{problem}$"):
            render_page(analyses_with(each for each in described if each != (failure, causes)))


@pytest.mark.slow
def test_the_page_is_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    analyses = {analysis.scope: analysis for analysis in analyse_all()}
    monkeypatch.setattr(command, "analyse", analyses.__getitem__)  # each scope is explored once
    checked = CliRunner().invoke(app, ["--check", str(PAGE)])
    assert checked.exit_code == 0, checked.output
    outdated = tmp_path / "page.md"
    outdated.write_text(PAGE.read_text("utf-8") + "\nmore\n", "utf-8")
    refused = CliRunner().invoke(app, ["--check", str(outdated)])
    assert refused.exit_code == 1
    assert f"{outdated} is out of date" in refused.output


@pytest.mark.long
def test_the_scopes_of_one_name_are_printed_with_all_their_ways_and_no_others():
    printed = CliRunner().invoke(app, ["--scope", "edge-and-hub"])
    assert printed.exit_code == 0
    assert "  lost: MaxAcknowledgementDelay passes; new database of the primary server" in printed.output
    expected = []
    for analysis in (analyse(scope) for scope in SCOPES if scope.name == "edge-and-hub"):
        expected.append(scope_line(analysis))
        for way in analysis.ways:
            expected.append(f"  {way.outcome}: {'; '.join(sorted(way.causes))}")
            expected += [f"    {step}" for step in way.steps]
    assert printed.output.splitlines() == expected


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--scope", "four-servers"], "--scope four-servers: one of cut-off, "),
        (["--scope", "hubs", "--check", sys.executable], "--write and --check need every scope: leave out --scope\n"),
        (["--scope", "hubs", "--write", "page.md"], "--write and --check need every scope: leave out --scope\n"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_explored(
    words: list[str], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "analyse", lambda scope: pytest.fail(f"{scope.name} was explored"))
    refused = CliRunner().invoke(app, words)
    assert refused.exit_code == 2
    assert refused.output.startswith(problem)
    assert refused.output.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@pytest.mark.integration
def test_each_failure_is_shown_by_its_scenario_on_the_reference(tmp_path: Path):
    files = {failure.scenario.partition("::")[0] for failure in FAILURES}
    chosen = [word for f in FAILURES for word in ("--only", f.scenario.partition("::")[2])]
    corpus = PAGE.parents[1] / "scenarios"
    ran = conformance_command(
        "run", *(str(corpus / file) for file in sorted(files)), *chosen, "--candidate", "reference",
        "--run-dir", str(tmp_path / "run"), cwd=tmp_path,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    shown = {}
    for cell in read_run(tmp_path / "run").cells():
        axes = ",".join(f"{name}={value}" for name, value in sorted(cell.header.axes.items()))
        shown[cell.header.scenario, axes] = outcomes_of_messages(cell.events)
        assert cell.footer is not None
        assert cell.footer.outcome is Outcome.PASS, cell.slug
    missing = [cell_key(f) for f in FAILURES if f.outcome not in shown[cell_key(f)]]
    assert {scenario for scenario, _ in missing} <= {SHOWN_BY_ITS_EXPECTATION}


def cell_key(failure: Failure) -> tuple[str, str]:
    """Return the id and the axes of the cell that shows a failure."""
    cell = re.fullmatch(r"([^[]+)(?:\[(.*)\])?", failure.scenario.partition("::")[2])
    assert cell
    return cell[1], cell[2] or ""


def outcomes_of_messages(events: object) -> set[str]:
    """Return `lost` and `duplicated` where an acknowledged message of the scenario is that."""
    found, made, acknowledged = set(), {}, set()
    arrived: Counter[tuple[str, str]] = Counter()
    for event in events:  # type: ignore[attr-defined]
        if isinstance(event, MessageMade):
            made[event.message_id] = event
        elif isinstance(event, Attempt) and event.code == 250:
            acknowledged.add(event.message)
        elif isinstance(event, Delivered):
            arrived[event.digest.message_id or "", event.recipient] += 1
    for message_id, message in made.items():
        copies = [arrived[message_id, recipient] for recipient in message.recipients]
        if message.message in acknowledged and not all(copies):
            found.add("lost")
        if max(copies) > 1:
            found.add("duplicated")
    return found
