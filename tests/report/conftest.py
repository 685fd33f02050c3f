"""A real run with violations, its site, and a browser to open the pages, with what a reader of a page can do and see."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from conformance import paths
from conformance.report.allure_site import AllureMissing, ensure_allure_installed
from tests.suite.helpers import ROOT, conformance_command

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")

PATIENCE = 180_000
"""Milliseconds that a page may take for anything: it only bounds a test that has failed already."""

DEFECT = "reference+acknowledges-before-shadow"
"""Answers 250 first and makes the shadow after: breaks `CLAUSE`."""

CLAUSE = "SR-CRE-01"
"""The requirement whose violation the tests look for."""

SHOTS = Path(os.environ.get("CONFORMANCE_SCREENSHOTS") or ROOT / "reports" / "screenshots")
"""The folder of the screenshots that tests keep for people."""

WIDTHS = {1280: 900, 390: 844}
"""Widths of a reader's window and the height of each, in CSS pixels."""


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


def unavailable(requirement: str) -> None:
    """Skip a test for which this machine lacks a program; in CI fail it, since a skip would not be noticed there."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI must have it: {requirement}")
    pytest.skip(requirement)


@pytest.fixture(scope="session")
def allure() -> Path | None:
    """Install the pinned Allure where it is not yet; None when this machine cannot."""
    try:
        return ensure_allure_installed(paths.allure(), paths.cache())
    except AllureMissing as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        return None


@pytest.fixture(scope="session")
def real_run(tmp_path_factory: pytest.TempPathFactory, allure: Path | None) -> Path:
    """Run a scenario twice, the reference with a defect and without; return the later of the two run directories."""
    folder = tmp_path_factory.mktemp("runs")
    words = ["scenarios/creation/inbound.scenario.yaml", "-k", "waits or acknowledged-after"]
    for name in ("first", "second"):
        ran = conformance_command(
            "run", *words, "--candidate", DEFECT, "--candidate", "reference", "--run-dir", str(folder / name),
            "--junitxml", str(folder / name / "junit.xml"), cwd=ROOT,
        )  # fmt: skip
        assert ran.returncode == 1, ran.stdout + ran.stderr
        (folder / name / "terminal.txt").write_text(ran.stdout, "utf-8")
        built = conformance_command("report", str(folder / name), "--out", str(folder / name / "site"), cwd=ROOT)
        assert built.returncode == 0, built.stdout + built.stderr
    return folder / "second"


@pytest.fixture(scope="session")
def site(real_run: Path) -> Path:
    """Return the folder of the real run's site."""
    return real_run / "site"


@pytest.fixture(scope="session")
def allure_page(site: Path, allure: Path | None) -> Path:
    """Return the page of the real run's Allure site."""
    if allure is None:
        unavailable("no Allure: it needs Node 20 or later, and npm")
    return site / "allure" / "index.html"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Yield the system's Chromium; skip the tests where it is not installed."""
    if CHROMIUM is None:
        unavailable("no Chromium: apt-get install chromium")
    with sync_playwright() as play:
        expect.set_options(timeout=PATIENCE)
        started = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


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
