"""The pages of a real run in a browser: no console messages, no requests, and keys that lead to the violation.

Screenshots of what a reader sees are kept under `reports/screenshots` (or CONFORMANCE_SCREENSHOTS), for people.
"""

import json
import os
import re
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from playwright.sync_api import Browser, Page, expect

from conformance.report.cell_page import cell_page
from conformance.report.exploration_page import exploration_page
from conformance.report.results_site.pages import write_results_site
from conformance.requirements.catalogue import catalogue
from conformance.results.atomic_write import write_atomically
from tests.report import exploration_samples as explorations
from tests.report.conftest import DEFECT, PATIENCE
from tests.report.picture import PICTURE, take_picture
from tests.report.results_tables import standing, tables
from tests.report.samples import cell_view, unpack_site
from tests.suite.helpers import ROOT, conformance_command

pytestmark = pytest.mark.integration

SHOTS = Path(os.environ.get("CONFORMANCE_SCREENSHOTS") or ROOT / "reports" / "screenshots")
WIDTHS = {1280: 900, 390: 844}
PAPER = {"width": 718, "height": 1047}
"""An A4 sheet less its margins, in CSS pixels."""
CLAUSE = "SR-CRE-01"


@dataclass
class Reader:
    """A window, with the console messages of its pages and the URLs that they requested."""

    page: Page
    width: int
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def open(self, file: Path, anchor: str = "") -> None:
        self.page.goto(file.as_uri() + anchor)
        self.page.wait_for_load_state("networkidle")

    def keep(self, name: str, *, whole: bool = False) -> None:
        """Save a screenshot of the visible part, or of the whole page."""
        SHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SHOTS / f"{name}-{self.width}.png", full_page=whole)

    def focused_id(self) -> str:
        """Return the id of the element that has the focus."""
        return str(self.page.evaluate("document.activeElement.id"))

    def assert_sound(self) -> None:
        """Assert that there is no console message, no request beyond local files, and nothing wider than the window."""
        assert self.messages == []
        assert [url for url in self.requests if not url.startswith(("file:", "data:", "blob:"))] == []
        assert self.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


@pytest.fixture(params=WIDTHS)
def reader(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Reader]:
    """Return a window 1280 or 390 CSS pixels wide."""
    width: int = request.param
    context = browser.new_context(viewport={"width": width, "height": WIDTHS[width]}, offline=True)
    context.set_default_timeout(PATIENCE)
    made = Reader(context.new_page(), width)
    made.page.on("console", lambda message: made.messages.append(message.text))
    made.page.on("pageerror", lambda error: made.messages.append(str(error)))
    made.page.on("request", lambda asked: made.requests.append(asked.url))
    yield made
    print(f"messages: {made.messages}; last requests: {made.requests[-9:]}")  # pytest shows it of a test that failed
    context.close()


def failing_cell(site: Path) -> Path:
    """Return the page of the cell whose violation the tests look for."""
    return next((site / "cells" / DEFECT).rglob("*waits*.html"))


def test_the_keyboard_leads_from_the_run_page_to_the_marked_exchange(site: Path, reader: Reader) -> None:
    reader.open(site / "index.html")
    card = reader.page.locator("article.fail", has_text="inbound-acknowledgement-waits-for-the-shadow").first
    row = catalogue().get(CLAUSE)
    assert row is not None
    expect(card).to_contain_text(row.text)
    reader.keep("run")
    group = reader.page.locator("details.group", has=card)
    if group.get_attribute("open") is None:
        group.locator("summary").focus()
        reader.page.keyboard.press("Enter")
    card.get_by_role("link").first.focus()
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
    reader.page.keyboard.press("k")
    before = reader.focused_id()
    reader.page.keyboard.press("ArrowDown")
    assert (before != marked[-1], reader.focused_id()) == (True, marked[-1])
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
    assert 'img "marked: #' in snapshot, snapshot
    assert "outside" in snapshot
    reader.page.get_by_text("As text").first.click()
    expect(reader.page.locator(".lines .marked").first).to_be_visible()
    reader.assert_sound()


@pytest.mark.parametrize("kind", ["index.html", "statements/*.html", "cells/**/*waits*.html"])
def test_every_kind_of_page_is_sound_in_both_themes(site: Path, reader: Reader, kind: str) -> None:
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


def test_the_pages_of_a_results_site_are_sound_and_show_what_is_asked_for(tmp_path: Path, reader: Reader) -> None:
    rows = tables()
    rows["standings"].append(standing("postfix", "3.7", "SR-BND-01", "not-applicable"))
    write_results_site(tmp_path, rows, catalogue(), write_atomically)
    for kind in ("servers/*.html", "rows/*.html", "index.html"):
        pages = sorted(tmp_path.glob(kind))
        assert pages
        for page in pages:
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
    expect(reader.page.get_by_role("img", name="60 plans showed 491 distinct states")).to_be_visible()
    reader.keep("exploration", whole=True)
    reader.page.get_by_role("button", name="Dark / light").click()
    assert reader.page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    reader.keep("exploration-dark", whole=True)
    reader.page.emulate_media(media="print")
    reader.page.set_viewport_size(PAPER)
    reader.assert_sound()


@pytest.mark.parametrize("kind", ["index.html", "statements/*.html", "cells/**/*waits*.html"])
def test_every_kind_of_page_fits_on_paper(site: Path, browser: Browser, kind: str) -> None:
    page = browser.new_page(viewport=PAPER)
    page.set_default_timeout(PATIENCE)
    page.emulate_media(media="print")
    files = sorted(site.glob(kind))
    assert files
    for file in files:
        page.goto(file.as_uri())
        expect(page.locator("#theme")).to_be_hidden()
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, file.name
        assert all(box["width"] <= PAPER["width"] for d in page.locator(".diagram").all() if (box := d.bounding_box()))
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
    expect(reader.page.locator(".row.marked").first).to_be_visible()
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
    assert [text for text in texts if "sr-bnd-01" not in text.lower()] == []
    reader.assert_sound()


def test_keys_work_on_a_page_of_twenty_thousand_events(tmp_path: Path, reader: Reader) -> None:
    cell = cell_view(messages=700)
    assert len(cell.events) >= 20_000
    page = tmp_path / "cell.html"
    page.write_text(cell_page(cell), "utf-8")
    reader.open(page)
    marked = [f"e{number}" for number in sorted(cell.verdicts[0].evidence)]
    reader.page.keyboard.press("n")
    assert reader.focused_id() in marked
    expect(reader.page.locator(".row.marked").first).to_be_in_viewport()
    reader.page.keyboard.press("j")
    assert reader.focused_id() not in ("", *marked[:1])
    reader.keep("twenty-thousand-events")
    reader.assert_sound()


def test_allure_shows_clause_repeat_command_and_diagram_of_a_violation(allure_page: Path, reader: Reader) -> None:
    page = reader.page
    reader.open(allure_page)
    expect(page.get_by_text("CRE Creating the shadow copy").first).to_be_visible()
    reader.keep("allure")
    page.get_by_text("waits-for-the-shadow ·").first.click()
    row = catalogue().get(CLAUSE)
    assert row is not None
    expect(page.get_by_text("VIOLATION").first).to_be_visible()
    expect(page.get_by_text(row.text).first).to_be_visible()
    reader.keep("allure-cell")
    description = page.frame_locator("iframe").first
    expect(description.get_by_text("Repeat this cell")).to_be_visible()
    expect(description.get_by_text("conformance run ").first).to_be_visible()
    expect(description.get_by_text("> #").first).to_be_visible()
    page.get_by_test_id("test-result-attachment-header").filter(has_text="Sequence diagram").get_by_role(
        "button"
    ).first.click()
    picture = page.get_by_test_id("image-attachment-content").locator("img")
    expect(picture).to_be_visible()
    assert int(picture.evaluate("one => one.naturalWidth")) > 600
    picture.scroll_into_view_if_needed()
    reader.keep("allure-diagram")
    reader.assert_sound()


def test_allure_links_to_the_marked_exchange_and_to_the_statement(allure_page: Path, reader: Reader) -> None:
    page = reader.page
    reader.open(allure_page)
    page.get_by_text("waits-for-the-shadow ·").first.click()
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="Page of this cell").click()
    expect(opened.value.locator(".row.marked").first).to_be_visible()
    with page.context.expect_page() as opened:
        page.get_by_role("link", name=CLAUSE, exact=True).click()
    expect(opened.value.locator(f"tr#{CLAUSE}")).to_be_in_viewport()
    reader.assert_sound()


def test_each_cell_is_once_in_allures_tree_and_its_links_resolve(real_run: Path, allure_page: Path) -> None:
    files = unpack_site(allure_page.parent)
    assert not list(allure_page.parent.rglob("*.json.js"))
    results = [json.loads(str(files[key])) for key in files if key.startswith("data/test-results/")]
    assert len(results) == len(list((real_run / "allure-results").glob("*-result.json"))) > 1
    tree = json.loads(str(files["widgets/tree.json"]))
    places = [leaf for group in tree["groupsById"].values() for leaf in group.get("leaves", ())]
    assert sorted(places) == sorted(one["id"] for one in results)
    links = [link["url"] for one in results for link in one["links"]]
    assert [url for url in links if not (allure_page.parent / unquote(url.partition("#")[0])).is_file()] == []


def test_allure_shows_data_that_arrive_after_its_program_began(allure_page: Path, browser: Browser) -> None:
    site = allure_page.parent
    drawn = threading.Event()

    class Slow(SimpleHTTPRequestHandler):
        """Sends the data only when the program has begun without them."""

        def __init__(self, *given: Any) -> None:
            super().__init__(*given, directory=str(site))

        def do_GET(self) -> None:
            if self.path.startswith("/data/"):
                drawn.wait()
            super().do_GET()

        def log_message(self, *_: object) -> None:
            """Say nothing of each request."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Slow) as server, browser.new_context() as context:
        threading.Thread(target=server.serve_forever).start()
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        try:
            with page.expect_request("**/data/*.js"):
                page.goto(f"http://127.0.0.1:{server.server_port}/", wait_until="commit")
            drawn.set()
            page.wait_for_load_state()
            page.get_by_text("waits-for-the-shadow ·").first.click()
            link = page.get_by_role("link", name="Page of this cell")
            expect(link).to_have_attribute("href", re.compile(rf"^http://127.0.0.1:{server.server_port}/"))
        finally:
            drawn.set()
            server.shutdown()


def test_allure_keeps_the_trend_of_earlier_runs(real_run: Path, allure_page: Path, reader: Reader) -> None:
    assert (real_run / "allure-history.jsonl").read_text("utf-8").count("\n") == 1
    assert_history(reader, allure_page, 1)
    reader.keep("allure-history")
    reader.assert_sound()


def test_allure_keeps_the_trend_of_deleted_runs_in_a_history_file(
    real_run: Path, allure_page: Path, reader: Reader
) -> None:
    """Two CI jobs share one history file; each has a run directory of its own without another beside it."""
    del allure_page  # without an Allure there is nothing to be seen
    work = real_run.parents[1] / f"ci-{reader.width}"
    for number in (1, 2):
        run = work / f"job-{number}" / "run"
        shutil.copytree(real_run, run, ignore=shutil.ignore_patterns("allure-history.jsonl", "site"))
        words = ["report", str(run), "--out", str(run / "site"), "--history", str(work / "cache/history.jsonl")]
        for _ in range(number):  # a site that is built again is no further run
            built = conformance_command(*words, cwd=work)
            assert built.returncode == 0, built.stdout + built.stderr
        assert (work / "cache/history.jsonl").read_text("utf-8").count("\n") == number
    assert_history(reader, run / "site/allure/index.html", 1)
    reader.assert_sound()


def assert_history(reader: Reader, page: Path, runs: int) -> None:
    """Assert that a result's tab of earlier runs shows this number of them."""
    reader.open(page)
    reader.page.get_by_text("waits-for-the-shadow ·").first.click()
    reader.page.get_by_test_id("test-result-tab-history").click()
    counter = reader.page.get_by_test_id("test-result-tab-history").get_by_test_id("counter")
    expect(counter).to_have_text(str(runs))


def test_the_picture_of_the_readme_can_be_taken_again(tmp_path: Path, browser: Browser) -> None:
    take_picture(browser, tmp_path, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert str(PICTURE.relative_to(ROOT)) in (ROOT / "README.md").read_text("utf-8")
    assert PICTURE.is_file()
