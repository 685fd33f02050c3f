"""The pages of a run with scripts in all its texts, in a real browser; `pages_try` tries more of them."""

import shutil
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from tests.hostile.pages_try import CHROMIUM, POISON, try_one

pytestmark = pytest.mark.integration


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: apt-get install chromium")
def test_no_script_of_a_poisoned_run_is_executed(tmp_path: Path):
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        pages, wrong = try_one(
            5, tmp_path, browser
        )  # the share of poisoned texts is that of its seed: here all of them
        bare = browser.new_page()  # where nothing escapes it, the poison runs
        bare.set_content(POISON[0])
        assert bare.evaluate("window.alarm") == 1
        browser.close()
    assert wrong == []
    assert pages >= 6
    shutil.rmtree(tmp_path / "site")
