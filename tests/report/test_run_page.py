"""The page of a run: groups of failures, summaries of candidates, the filter, and the height with many failures."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from conformance.report.cell_page import cell_page
from conformance.report.event_text import listed_message_ids, without_message_ids
from conformance.report.run_page import candidate_summaries, group_failures, run_page
from conformance.report.run_summary import CellSummary, RunSummary, summarize_cell
from conformance.requirements.catalogue import catalogue
from conformance.verdicts import Outcome, Verdict
from tests.report.conftest import PATIENCE
from tests.report.samples import cell_view, judged, passed, run_header

SCREEN = 1080
ROWS = [row.id for row in catalogue().requirements if row.retired is None]


def cells(count: int, **changes: Any) -> list[CellSummary]:
    """Return cells of 60 scenarios in 12 folders, of which every second fails, 30 requirements blamed in turn."""
    found = []
    for number in range(count):
        row = ROWS[(number // 2) % 30]
        fail = Verdict(
            check="expect.x",
            outcome=Outcome.FAIL,
            requirements=(row,),
            sentence=f"{row}: expected a copy; seen: m#{number} (<m-{number}.long-name@harness.test>): none "
            + "x " * 40,
        )
        one = cell_view(
            scenario=f"scenario-{number % 60}",
            path=f"folder-{number % 12}/file.scenario.yaml",
            axes={"number": str(number)},
            verdicts=(fail,) if number % 2 else (passed(),),
            candidate="one",
            **changes,
        )
        found.append(summarize_cell(one, f"cell-{number}"))
    return found


def page_of(own: list[CellSummary], claims: tuple[str, ...] = ("relay", "shadow-2013")) -> str:
    names = tuple(dict.fromkeys(cell.header.candidate for cell in own))
    header = run_header(cells=len(own), candidates=names)
    candidates = tuple(one.model_copy(update={"claims": claims}) for one in header.candidates)
    summary = RunSummary(header.model_copy(update={"candidates": candidates}), None, tuple(own))
    return run_page(summary, catalogue(), pages={cell.slug: f"cells/{cell.slug}.html" for cell in own})


def test_failures_are_grouped_by_the_first_requirement() -> None:
    groups = group_failures(cells(600))
    assert len(groups) == 30
    assert sum(len(group.cells) for group in groups) == 300
    assert groups[0].title.startswith(f"{ROWS[0]} (")
    for group in groups:
        assert {cell.verdicts[0].requirements[0] for cell in group.cells} == {group.title.partition(" ")[0]}
    both = [
        summarize_cell(judged(Outcome.FAIL, *rows, axes={"n": rows[0]}), rows[0])
        for rows in (("RL-ACK-01", "RL-ACK-02"), ("RL-ACK-02", "RL-ACK-01"))
    ]
    found = {group.title.partition(" ")[0]: [cell.slug for cell in group.cells] for group in group_failures(both)}
    assert found == {"RL-ACK-01": ["RL-ACK-01"], "RL-ACK-02": ["RL-ACK-02"]}


def test_cells_of_a_candidate_that_cannot_start_are_one_card() -> None:
    broken = [
        summarize_cell(judged(Outcome.ERROR, candidate="dead", axes={"n": str(number)}), f"e-{number}")
        for number in range(50)
    ]
    broken = [
        replace(one, sentence=f"node mbx1 would not start: no such file /tmp/x-{number}/server, port {9000 + number}")
        for number, one in enumerate(broken)
    ]
    (group,) = group_failures(broken)
    assert (len(group.cells), group.identical) == (50, True)
    assert page_of(broken).count('<article class="card') == 1
    other = judged(Outcome.ERROR, candidate="also-dead")
    of_both = [*broken, replace(summarize_cell(other, "other"), sentence=broken[0].sentence)]
    assert [len(found.cells) for found in group_failures(of_both)] == [50, 1], "each candidate has a card of its own"
    assert page_of(of_both).count('<article class="card') == 2
    broken[-1] = replace(broken[-1], sentence="node mbx1 exited")
    assert page_of(broken).count('<article class="card') == 2, "that is something else"


def test_a_summary_begins_with_the_group_in_which_the_candidate_fails_most() -> None:
    own = cells(600)
    summary = RunSummary(run_header(cells=600, candidates=("one",)), None, tuple(own))
    (made,) = candidate_summaries(summary, catalogue())
    assert (made.counts[Outcome.FAIL], made.counts[Outcome.PASS]) == (300, 300)
    rows = [catalogue()[one.verdicts[0].requirements[0]] for one in own if one.outcome is Outcome.FAIL]
    failed = Counter(row.group for row in rows)
    assert made.worst
    assert [count for _, count, _ in made.worst] == sorted(failed.values(), reverse=True)[: len(made.worst)]
    assert all(failed[group] == count <= judged_cells for group, count, judged_cells in made.worst)
    assert len(failed) > 1


def test_the_table_of_requirements_on_the_page_of_a_relay_has_only_those_of_relays() -> None:
    page = page_of(cells(2), claims=("relay",))
    shown = set(re.findall(r'class="mono id">([^<]+)</th>', page))
    assert shown == {row.id for row in catalogue().requirements if row.profile == "relay" and row.retired is None}
    assert "SR-CRE-01</th>" in page_of(cells(2))


def test_the_filter_s_box_for_not_applicable_is_unchecked_at_first_only_when_most_cells_are() -> None:
    many = [summarize_cell(judged(Outcome.NOT_APPLICABLE, axes={"n": str(n)}), f"n-{n}") for n in range(3)]
    assert 'value="not-applicable"> ' in page_of([*many, *cells(2)])
    assert 'value="not-applicable" checked> ' in page_of([*many, *cells(3)])


def test_a_headline_names_a_message_by_its_label() -> None:
    said = "seen: m#1 (<m-1.x@harness.test>): 2 (b@x.test, c@x.test); m#2 (<m-2.x@harness.test>)"
    assert without_message_ids(said) == "seen: m#1: 2 (b@x.test, c@x.test); m#2"
    assert listed_message_ids(said) == "<m-1.x@harness.test>, <m-2.x@harness.test>"
    page = page_of(cells(2))
    (headline,) = re.findall(r"<article.*?<h3>(.*?)</h3>", page, re.DOTALL)
    assert "seen: m#1: none" in headline
    assert "harness.test" not in headline
    assert "Message-ID &lt;m-1.long-name@harness.test&gt;" in page


@pytest.mark.long
@pytest.mark.integration
def test_600_cells_with_300_failures_are_at_most_20_screens_filtered_by_address_and_sortable(
    browser: Browser, tmp_path: Path
) -> None:
    file = tmp_path / "run.html"
    file.write_text(page_of(cells(600)), "utf-8")
    page = browser.new_page(viewport={"width": 1920, "height": SCREEN})
    page.set_default_timeout(PATIENCE)
    page.goto(file.as_uri())
    assert page.evaluate("document.documentElement.scrollHeight") <= 20 * SCREEN
    assert page.locator("#candidates").bounding_box()["y"] < SCREEN
    page.get_by_role("searchbox").fill("scenario-7")
    page.get_by_role("checkbox", name="pass", exact=False).first.uncheck()
    shown = page.locator("#shown").inner_text()
    assert 0 < int(shown.split()[0]) < 100
    again = browser.new_page(viewport={"width": 1920, "height": SCREEN})
    again.set_default_timeout(PATIENCE)
    again.goto(str(page.evaluate("location.href")))
    expect(again.locator("#shown")).to_have_text(shown)
    expect(again.get_by_role("searchbox")).to_have_value("scenario-7")
    table = again.locator("table.sortable").nth(1)
    again.get_by_role("searchbox").fill("")
    again.get_by_role("checkbox", name="pass", exact=False).first.check()
    again.locator("details.matrix summary").first.click()
    names = table.locator("tbody tr th .mono")
    table.get_by_role("button", name="Scenario").click()
    ascending = names.all_inner_texts()
    assert ascending == sorted(ascending)
    table.get_by_role("button", name="Scenario").click()
    assert names.all_inner_texts() == ascending[::-1] != ascending
    assert table.locator("tbody th").first.evaluate("one => getComputedStyle(one).position") == "sticky"
    page.close()
    again.close()


def test_a_cell_with_a_damaged_topology_has_a_page():
    damaged = cell_view(topology={"servers": [{"name": "mbx1"}, {"nam": "mbx2"}, "mbx3"]})
    assert damaged.server_names == ("mbx1",)
    assert "Message m#1 was acknowledged" in cell_page(damaged)
