"""The pages of a run with scripts in all its texts, in a real browser; `pages_try` tries more of them."""

import shutil
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from tests.hostile.pages_try import CHROMIUM, try_one

pytestmark = pytest.mark.integration


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: apt-get install chromium")
def test_no_script_of_a_poisoned_run_is_executed(tmp_path: Path):
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        pages, wrong = try_one(0, tmp_path, browser)
        browser.close()
    assert wrong == []
    assert pages >= 6
    shutil.rmtree(tmp_path / "site")
