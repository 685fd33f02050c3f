"""The pages in a real browser: style and script pass the policy, keys move, nothing is wider than a telephone."""

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from conformance.report.diagram.page import cell_page
from conformance.report.site import build
from tests.report.samples import material, write_run

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: apt-get install chromium"),
]

FRAME = """<!doctype html><iframe id="page" src="{page}" width="{width}" height="900"></iframe><pre id="told"></pre>
<script>
addEventListener("load", () => {{
  const view = document.getElementById("page").contentWindow, page = view.document, found = {{}};
  const press = (key) => (page.activeElement || page.body).dispatchEvent(
    new view.KeyboardEvent("keydown", {{ key, bubbles: true, cancelable: true }}));
  {script}
  document.getElementById("told").textContent = JSON.stringify(found);
}});
</script>"""


def ask(tmp_path: Path, page: Path, script: str, width: int = 1280) -> dict[str, Any]:
    """Open `page` in a frame of that width (CSS pixels), run `script`, and return what it put into `found`."""
    frame = tmp_path / "frame.html"
    frame.write_text(FRAME.format(page=page.as_uri(), width=width, script=script))
    ran = subprocess.run(
        [
            str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files",
            f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=10000", "--dump-dom", frame.as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    told = re.search(r'<pre id="told">(.+?)</pre>', ran.stdout, re.DOTALL)
    assert told is not None, ran.stderr[-2000:]
    return dict(json.loads(unescape(told[1])))


@pytest.fixture
def cell(tmp_path: Path) -> Path:
    page = tmp_path / "cell.html"
    page.write_text(cell_page(material(messages=30)), "utf-8")
    return page


def test_the_keys_move_from_exchange_to_exchange_and_to_the_marked_ones(cell: Path, tmp_path: Path) -> None:
    marked = [str(number) for number in sorted(material(messages=30).verdicts[0].evidence)]
    found = ask(
        tmp_path,
        cell,
        """
        const here = () => page.activeElement.id;
        press("n"); found.first = here();
        press("n"); found.second = here();
        press("k"); found.before = page.activeElement.classList.contains("row") && here() !== found.second;
        press("j"); found.back = here();
        found.open = page.activeElement.closest("details").open;
        """,
    )
    assert [found["first"], found["second"]] == [f"e{number}" for number in marked]
    assert found["before"]
    assert found["back"] == found["second"]
    assert found["open"]


def test_style_and_script_pass_the_policy_and_the_theme_can_be_changed(cell: Path, tmp_path: Path) -> None:
    found = ask(
        tmp_path,
        cell,
        """
        const ground = () => view.getComputedStyle(page.body).backgroundColor;
        const button = page.getElementById("theme");
        found.shown = !button.hidden; found.one = ground(); button.click(); found.other = ground();
        """,
    )
    assert found["shown"]
    assert found["one"] != found["other"]
    assert "rgba(0, 0, 0, 0)" not in (found["one"], found["other"])


@pytest.mark.parametrize("width", [390, 1280])
def test_no_page_is_wider_than_its_window_and_filters_work(tmp_path: Path, width: int) -> None:
    run = write_run(tmp_path / "r1", (material(), material(verdicts=(), axes={"a-long-axis-name": "x" * 60})))
    build(run, tmp_path / "site")
    for page in sorted((tmp_path / "site").rglob("*.html")):
        found = ask(tmp_path, page, "found.over = page.documentElement.scrollWidth - view.innerWidth;", width)
        assert found["over"] <= 0, page.name
    found = ask(
        tmp_path,
        tmp_path / "site" / "index.html",
        """
        const search = page.querySelector("#filter input[type=search]");
        const shown = () => [...page.querySelectorAll("[data-words]")].filter((row) => !row.hidden).length;
        found.all = shown();
        search.value = "SR-BND-01"; search.dispatchEvent(new view.Event("input", {bubbles: true})); found.few = shown();
        """,
        width,
    )
    assert 0 < found["few"] < found["all"]
