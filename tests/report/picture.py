"""Takes the README's picture of a violation from a real run: `python -m tests.report.picture` rewrites it in docs/images.

It shows a cell's page as a reader sees it: the finding with clause, step and exchange, and the diagram down to the
last marked exchange.
"""

import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.report.conftest import CHROMIUM, DEFECT, PATIENCE
from tests.suite.helpers import ROOT, conformance_command

PICTURE = ROOT / "docs" / "images" / "violation.png"
CELL = (
    "scenarios/creation/inbound.scenario.yaml::inbound-acknowledged-after-shadow::"
    f"candidate={DEFECT},messages=1,sender-offers-xshadow=no"
)
_WIDTH = 1240
_ONLY = ".card ~ .card, .card ~ h2, .card ~ pre, .hint, .past, .theme, .text {display: none !important}"
"""What is left out: further findings, the command, and what only serves to move about."""


def take_picture(browser: Browser, folder: Path, picture: Path) -> None:
    """Run the cell in `folder` and write the picture of its page."""
    run, site = folder / "run", folder / "site"
    ran = conformance_command("run", CELL, "--candidate", DEFECT, "--run-dir", str(run), cwd=ROOT)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    built = conformance_command("report", str(run), "--out", str(site), cwd=ROOT)
    assert built.returncode == 0, built.stdout + built.stderr
    context = browser.new_context(viewport={"width": _WIDTH, "height": 2400}, device_scale_factor=0.8, bypass_csp=True)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.goto(next((site / "cells").rglob("*.html")).as_uri())
    page.add_style_tag(content=_ONLY)
    box = page.locator(".row.marked").last.bounding_box()
    assert box is not None
    picture.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=picture, clip={"x": 0, "y": 0, "width": _WIDTH, "height": box["y"] + box["height"] + 36})
    context.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        take_picture(chromium, Path(scratch), PICTURE)
        chromium.close()
