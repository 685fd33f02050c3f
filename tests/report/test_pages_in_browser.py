"""The pages of a real run in a browser: no console messages, no requests, and keys that lead to the violation.

Screenshots of what a reader sees are kept under `reports/screenshots` (or CONFORMANCE_SCREENSHOTS), for people. A *marked*
exchange is one that shows the violation. `Reader` is a window of a browser, wide or narrow.
"""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, expect

from conformance.report.cell_page import cell_page
from conformance.report.exploration_page import exploration_page
from conformance.report.results_site.pages import write_results_site
from conformance.requirements.catalogue import catalogue
from conformance.results.atomic_write import write_atomically
from tests.report import exploration_samples as explorations
from tests.report.conftest import CLAUSE, DEFECT, PATIENCE, SHOTS, Reader
from tests.report.picture import PICTURE, take_picture
from tests.report.results_tables import standing, tables
from tests.report.samples import cell_view
from tests.suite.helpers import ROOT

pytestmark = pytest.mark.integration

PAPER = {"width": 718, "height": 1047}
"""An A4 sheet less its margins, in CSS pixels."""

KINDS = ("index.html", "statements/*.html", "cells/**/*waits*.html")
"""Pages of each kind in the site of a run; Allure's have tests of their own."""


def failing_cell(site: Path) -> Path:
    """Return the page of the cell whose violation the tests look for."""
    return next((site / "cells" / DEFECT).rglob("*waits*.html"))


def tab_to(target: Locator) -> None:
    """Press the Tab key until an element has the focus."""
    for _ in range(400):
        if target.evaluate("one => one === document.activeElement"):
            break
        target.page.keyboard.press("Tab")
    expect(target).to_be_focused()


def test_the_keyboard_leads_from_the_run_page_to_the_marked_exchange(site: Path, reader: Reader) -> None:
    reader.open(site / "index.html")
    card = reader.page.locator("article.fail", has_text="inbound-acknowledgement-waits-for-the-shadow").first
    row = catalogue().get(CLAUSE)
    assert row is not None
    expect(card).to_contain_text(row.text)
    reader.keep("run")
    group = reader.page.locator("details.group", has=card)
    if group.get_attribute("open") is None:
        tab_to(group.locator("summary").first)
        reader.page.keyboard.press("Enter")
    tab_to(card.get_by_role("link").first)
    reader.page.keyboard.press("Enter")
    reader.page.wait_for_url("**/cells/**")
    expect(reader.page.locator(".row.marked:focus .middle")).to_be_in_viewport(ratio=0.9)
    reader.keep("marked-exchange")
    reader.assert_sound()


def test_keys_lead_from_exchange_to_exchange_and_to_the_marked_ones(site: Path, reader: Reader) -> None:
    reader.open(failing_cell(site))
    marked = [one.get_attribute("id") for one in reader.page.locator(".row.marked").all()]
    assert len(marked) > 1
    seen = []
    for _ in marked:
        reader.page.keyboard.press("n")
        seen.append(reader.focused_id())
    assert seen == marked
    rows = [one.get_attribute("id") for one in reader.page.locator(".row").all()]
    last = rows.index(marked[-1])
    for key, place in (("k", last - 1), ("ArrowUp", last - 2), ("j", last - 1), ("ArrowDown", last)):
        reader.page.keyboard.press(key)
        assert reader.focused_id() == rows[place], key
    reader.keep("cell", whole=True)
    reader.assert_sound()


def test_the_marked_exchange_is_reached_with_the_tab_key_alone(site: Path, browser: Browser) -> None:
    context = browser.new_context(java_script_enabled=False)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.goto(failing_cell(site).as_uri())
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.locator(".row.marked:focus").count():
            break
    expect(page.locator(".row.marked").first).to_be_focused()
    context.close()


def test_a_screen_reader_can_read_the_marked_exchange(site: Path, reader: Reader) -> None:
    reader.open(failing_cell(site))
    first = reader.page.locator(".row.marked").first
    snapshot = first.aria_snapshot()
    spoken = re.search(r'img "marked: (#\d+ [\d.]+s mbx1 to outside: 250 2\.6\.0 [^"]+)"', snapshot)
    assert spoken, snapshot
    reader.page.get_by_text("As text").first.click()
    expect(reader.page.locator(".lines .marked").first).to_be_visible()
    expect(reader.page.locator(".lines .marked").first).to_have_text(f"✗ {spoken[1]}")
    reader.assert_sound()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_page_of_a_run_is_sound_in_both_themes(site: Path, reader: Reader, kind: str) -> None:
    kinds = {page.relative_to(site).parts[0] for page in site.rglob("*.html")} - {"allure"}
    assert kinds == {one.partition("/")[0] for one in KINDS}
    pages = sorted(site.glob(kind))
    assert pages
    for page in pages:
        reader.open(page)
        light = reader.page.evaluate("getComputedStyle(document.body).backgroundColor")
        reader.assert_sound()
        reader.page.get_by_role("button", name="Dark / light").click()
        assert reader.page.evaluate("getComputedStyle(document.body).backgroundColor") != light
        reader.assert_sound()
    reader.keep(kind.partition("/")[0].removesuffix(".html") + "-dark")


def test_the_pages_of_a_results_site_are_sound_and_show_rows_that_do_not_apply_on_request(
    tmp_path: Path, reader: Reader
) -> None:
    rows = tables()
    rows["standings"].append(standing("postfix", "3.7", "SR-BND-01", "not-applicable"))
    write_results_site(tmp_path, rows, catalogue(), write_atomically)
    kinds = [sorted(tmp_path.glob(kind)) for kind in ("servers/*.html", "rows/*.html", "index.html")]
    assert all(kinds)
    assert sorted(page for pages in kinds for page in pages) == sorted(tmp_path.rglob("*.html"))
    for page in (page for pages in kinds for page in pages):
        reader.open(page)
        reader.assert_sound()
    expect(reader.page.locator("tr[data-words^=RL-ACK-02]")).to_be_visible()
    expect(reader.page.locator("tr[data-words^=SR-BND-01]")).to_be_hidden()
    reader.page.get_by_label("not applicable").check()
    expect(reader.page.locator("tr[data-words^=SR-BND-01]")).to_be_visible()
    reader.keep("results-site", whole=True)
    reader.page.locator("tr[data-words^=RL-ACK-02] td a").last.click()
    assert reader.page.url.endswith("rows/RL-ACK-02.html#postfix")


def test_the_page_of_an_exploration_is_sound_and_shows_both_plans_of_a_finding(tmp_path: Path, reader: Reader) -> None:
    page = tmp_path / "index.html"
    page.write_text(
        exploration_page(explorations.header(), explorations.summary(explorations.finding()), explorations.FILES),
        "utf-8",
    )
    reader.open(page)
    light = reader.page.evaluate("getComputedStyle(document.body).backgroundColor")
    card = reader.page.locator("article.fail")
    expect(card.get_by_label("lost-1.scenario.yaml", exact=True)).to_be_visible()
    original = card.get_by_label("original/lost-1-original.scenario.yaml")
    expect(original).to_be_hidden()
    card.locator("summary").press("Enter")
    expect(original).to_be_visible()
    expect(original).to_contain_text("lost-1-original")
    reader.assert_sound()
    expect(reader.page.get_by_role("img", name="60 plans showed 491 distinct states")).to_be_visible()
    reader.keep("exploration", whole=True)
    reader.page.get_by_role("button", name="Dark / light").click()
    assert reader.page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    reader.keep("exploration-dark", whole=True)
    reader.assert_sound()
    reader.page.emulate_media(media="print")
    reader.page.set_viewport_size(PAPER)
    reader.assert_sound()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_page_of_a_run_fits_on_paper(site: Path, browser: Browser, kind: str) -> None:
    page = browser.new_page(viewport=PAPER)
    page.set_default_timeout(PATIENCE)
    page.emulate_media(media="print")
    files = sorted(site.glob(kind))
    assert files
    for file in files:
        page.goto(file.as_uri())
        expect(page.locator("#theme")).to_be_hidden()
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, file.name
        widths = [box["width"] for d in page.locator(".diagram").all() if (box := d.bounding_box())]
        assert bool(widths) == kind.startswith("cells/"), file.name
        assert max(widths, default=0) <= PAPER["width"], file.name
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.pdf(path=SHOTS / f"{kind.partition('/')[0].removesuffix('.html')}.pdf", format="A4")
    page.close()


def test_the_statement_leads_to_the_evidence(site: Path, reader: Reader) -> None:
    reader.open(site / "statements" / f"{DEFECT}.html", f"#{CLAUSE}")
    row = reader.page.locator(f"tr#{CLAUSE}")
    expect(row).to_contain_text("fail")
    expect(row).to_contain_text("Message-ID m-1.")
    expect(row).to_contain_text("event #")
    reader.keep("statement")
    row.get_by_role("link").first.click()
    expect(reader.page.locator(".row.marked:focus .middle")).to_be_in_viewport(ratio=0.9)
    reader.assert_sound()


def test_the_run_page_shows_the_earlier_run(site: Path, reader: Reader) -> None:
    reader.open(site / "index.html", "#trend")
    expect(reader.page.locator("#trend + .trend tbody tr")).to_have_count(2)
    expect(reader.page.locator(".past").first).to_contain_text("first")
    reader.keep("trend")
    reader.assert_sound()


def test_the_filter_shows_only_the_rows_that_contain_the_text(site: Path, reader: Reader) -> None:
    reader.open(site / "index.html")
    rows = reader.page.locator("[data-words]")
    shown, everything = rows.filter(visible=True), rows.count()  # a word opens the folds in which rows have it
    reader.page.get_by_role("searchbox").fill("SR-BND-01")
    texts = shown.evaluate_all("rows => rows.map((row) => row.dataset.words)")
    assert 0 < len(texts) < everything
    matching = rows.evaluate_all(
        "rows => rows.map((row) => row.dataset.words).filter((words) => words.toLowerCase().includes('sr-bnd-01'))"
    )
    assert texts == matching
    reader.assert_sound()


def test_keys_work_on_a_page_of_twenty_thousand_events(tmp_path: Path, reader: Reader) -> None:
    cell = cell_view(messages=700)
    assert len(cell.events) >= 20_000
    page = tmp_path / "cell.html"
    page.write_text(cell_page(cell), "utf-8")
    reader.open(page)
    marked = [f"e{number}" for number in sorted(cell.verdicts[0].evidence)]
    rows = reader.page.locator(".row").evaluate_all("rows => rows.map((row) => row.id)")
    place = rows.index(marked[0])
    reader.page.keyboard.press("n")
    assert reader.focused_id() == marked[0]
    expect(reader.page.locator(".row.marked").first).to_be_in_viewport()
    for key, step in (("j", 1), ("k", 0), ("k", -1)):
        reader.page.keyboard.press(key)
        assert reader.focused_id() == rows[place + step], key
    reader.keep("twenty-thousand-events")
    reader.assert_sound()


def test_the_picture_of_the_readme_can_be_taken_again(tmp_path: Path, browser: Browser) -> None:
    take_picture(browser, tmp_path, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert str(PICTURE.relative_to(ROOT)) in (ROOT / "README.md").read_text("utf-8")
    assert PICTURE.is_file()
