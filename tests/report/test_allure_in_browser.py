"""The Allure site of a real run in a browser: its texts, its links to the pages of the run, and the trend of earlier runs.

Allure is a program that makes a site of test results. It draws the page from data that it loads. Screenshots are kept
under `reports/screenshots` (or CONFORMANCE_SCREENSHOTS), for people. `Reader` is a window of a browser, wide or narrow.
"""

import json
import re
import shutil
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from playwright.sync_api import Browser, expect

from conformance.requirements.catalogue import catalogue
from tests.report.conftest import CLAUSE, DEFECT, PATIENCE, Reader
from tests.report.samples import unpack_site
from tests.suite.helpers import conformance_command

pytestmark = pytest.mark.integration


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
    command = rf"conformance run \S*waits-for-the-shadow\S* --candidate {re.escape(DEFECT)} --clock \S+ --seed \d+"
    expect(description.get_by_text(re.compile(command)).first).to_be_visible()
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


def test_allure_links_to_the_page_with_the_marked_exchange_and_to_the_row_of_the_statement(
    allure_page: Path, reader: Reader
) -> None:
    page = reader.page
    reader.open(allure_page)
    page.get_by_text("waits-for-the-shadow ·").first.click()
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="Page of this cell").click()
    expect(opened.value).to_have_url(re.compile("acknowledges-before-shadow/.*waits-for-the-shadow"))
    expect(opened.value.locator(".row.marked").first).to_be_visible()
    with page.context.expect_page() as opened:
        page.get_by_role("link", name=CLAUSE, exact=True).click()
    expect(opened.value).to_have_url(re.compile("acknowledges-before-shadow"))
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
    assert links
    targets = {url: (allure_page.parent / unquote(url.partition("#")[0]), url.partition("#")[2]) for url in links}
    assert [url for url, (file, _) in targets.items() if not file.is_file()] == []
    anchored = {url: f'id="{anchor}"' in file.read_text("utf-8") for url, (file, anchor) in targets.items() if anchor}
    assert set(anchored.values()) == {True}, anchored


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


def test_allure_keeps_the_trend_of_runs_in_other_directories_in_a_history_file(
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
