"""The largest page of a cell opens within a second of CPU time, and a shared style sheet changes nothing."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from conformance.report.cell_page import MAX_PAGE_OCTETS, cell_page
from conformance.report.rendering import write_style_sheet
from tests.report.conftest import PATIENCE
from tests.report.samples import cell_view

pytestmark = pytest.mark.integration

DRAWN = "new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn)))"


def test_the_page_of_twenty_thousand_events_opens_within_a_second_of_cpu_time(tmp_path: Path, browser: Browser) -> None:
    cell = cell_view(messages=700)
    assert len(cell.events) >= 20_000
    page = tmp_path / "cell.html"
    page.write_text(cell_page(cell), "utf-8")
    assert page.stat().st_size <= MAX_PAGE_OCTETS
    with browser.new_context(viewport={"width": 1920, "height": 1080}) as context:
        context.set_default_timeout(PATIENCE)
        opened = context.new_page()
        counters = context.new_cdp_session(opened)
        counters.send("Performance.enable", {"timeDomain": "threadTicks"})
        opened.goto(page.as_uri(), wait_until="load")
        opened.evaluate(DRAWN)
        metrics = {metric["name"]: metric["value"] for metric in counters.send("Performance.getMetrics")["metrics"]}
    assert 0 < metrics["TaskDuration"] < 1


STYLES = """() => [...document.querySelectorAll("body, body *")].map((one) => {
    const style = getComputedStyle(one);
    return one.tagName + " " + [...style].sort().map((name) => name + ": " + style.getPropertyValue(name)).join("; ");
})"""
"""The computed style of every element, in the order of the page."""


def test_a_page_with_the_shared_style_sheet_looks_like_one_with_its_own(tmp_path: Path, browser: Browser) -> None:
    write_style_sheet(tmp_path / "assets")
    (tmp_path / "cells").mkdir()
    shared, alone = tmp_path / "cells" / "shared.html", tmp_path / "cells" / "alone.html"
    shared.write_text(cell_page(cell_view(), shared="../assets"), "utf-8")
    alone.write_text(cell_page(cell_view()), "utf-8")
    styled = [
        ("<style" in one.read_text("utf-8"), "../assets/style-" in one.read_text("utf-8")) for one in (shared, alone)
    ]
    assert styled == [(False, True), (True, False)]
    looks = []
    with browser.new_context() as context:
        context.set_default_timeout(PATIENCE)
        for page in (shared, alone):
            opened = context.new_page()
            opened.goto(page.as_uri(), wait_until="load")
            opened.evaluate(DRAWN)
            looks.append(opened.evaluate(STYLES))
    assert len(looks[0]) > 100
    assert all(look.count(": ") > 100 for look in looks[0])
    assert looks[0] == looks[1]
