"""Builds the site of a run: its page, a page for each cell, statements, badges; and Allure's site where Node is."""

import hashlib
import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from conformance.report.book import Book, read_book
from conformance.report.diagram.page import cell_page
from conformance.report.material import Material
from conformance.report.run_page.page import run_page
from conformance.report.safe import visible
from conformance.report.statement import BadgeRefused, as_html, as_json, as_markdown, badge, statement
from conformance.requirements.catalogue import catalogue
from conformance.results.layout import CELLS

ALLURE_RESULTS = "allure-results"
"""Where a run directory has Allure's results."""

_ALLURE_SECONDS = 600
_ANALYTICS = re.compile(
    r"<script\b[^>]*\bsrc=[\"'][^\"'>]*(?:googletagmanager|google-analytics)[^>]*>\s*</script>"
    r"|<script>\s*window\.dataLayer\b(?:(?!</script>).)*</script>",
    re.DOTALL | re.IGNORECASE,
)


@dataclass(slots=True)
class Built:
    """What was built, and what was left out and why."""

    page: Path
    book: Book
    badges: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def build(run_dir: Path, out: Path, *, corpus: Path | None = None, allure: Path | None = None) -> Built:
    """Write the site of a run into `out` (made when it is not there) and say what was built.

    `corpus` is where scenarios' texts are; `allure` the folder with the pinned Allure (`package.json`), None for no
    Allure site. Raises RunDirectoryError, SchemaTooNew; OSError when `out` cannot be written.
    """
    (out / CELLS).mkdir(parents=True, exist_ok=True)

    def each(material: Material, slug: str) -> None:
        (out / CELLS / f"{slug}.html").write_text(cell_page(material, home="../index.html"), "utf-8")

    book = read_book(run_dir, corpus=corpus, each=each)
    built = Built(out / "index.html", book)
    links = {name: _statement(book, name, out, built) for name in [one.name for one in book.header.candidates]}
    site = _allure_site(run_dir, out, allure, built) if allure is not None else ""
    built.page.write_text(run_page(book, catalogue(), cells=f"{CELLS}/", statements=links, allure=site), "utf-8")
    return built


def _statement(book: Book, candidate: str, out: Path, built: Built) -> str:
    made = statement(book, candidate, catalogue())
    folder = out / "statements"
    folder.mkdir(exist_ok=True)
    stem = file_stem(candidate)
    (folder / f"{stem}.json").write_text(as_json(made), "utf-8")
    (folder / f"{stem}.md").write_text(as_markdown(made), "utf-8")
    (folder / f"{stem}.html").write_text(as_html(made, home="../index.html", cells=f"../{CELLS}/"), "utf-8")
    badge_file = folder / f"{stem}.svg"
    badge_file.unlink(missing_ok=True)  # one of an earlier build must not outlive a refusal
    try:
        badge_file.write_text(badge(made), "utf-8")
        built.badges.append(badge_file)
    except BadgeRefused as error:
        built.notes.append(f"{candidate}: {error}")
    return f"statements/{stem}.html"


def file_stem(name: str) -> str:
    """Return a file's name for a candidate's: the name itself where it can be one, else with a hash, so that no two
    share one.
    """
    plain = re.sub(r"[^A-Za-z0-9._+-]+", "-", name).strip(".-")[:80]
    return plain if plain == name else f"{plain or 'candidate'}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _allure_site(run_dir: Path, out: Path, pinned: Path, built: Built) -> str:
    """Build Allure's site and return its link; '' with a note when it cannot be had."""
    results = run_dir / ALLURE_RESULTS
    if not results.is_dir():
        built.notes.append(f"no Allure site: the run has no {ALLURE_RESULTS}")
        return ""
    if shutil.which("node") is None:
        built.notes.append("no Allure site: Node is not there (this page has all that it would show but the trends)")
        return ""
    program = pinned / "node_modules" / ".bin" / "allure"
    if not program.exists():
        built.notes.append(f"no Allure site: `npm ci --prefix {pinned} --ignore-scripts` installs the pinned Allure")
        return ""
    target = out / "allure"
    command = [str(program), "generate", str(results.resolve()), "--output", str(target.resolve())]
    ran = subprocess.run(  # noqa: S603  # our own pinned program, no shell
        [*command, "--config", str((pinned / "allurerc.mjs").resolve())],
        cwd=pinned,
        env=os.environ
        | {
            "ALLURE_NO_ANALYTICS": "true",
            "CONFORMANCE_RESULTS": str(results.resolve()),
            "CONFORMANCE_CANDIDATES": json.dumps(built.book.candidates),
        },
        capture_output=True,
        text=True,
        timeout=_ALLURE_SECONDS,
        check=False,
    )
    if ran.returncode != 0 or not (target / "index.html").is_file():
        told = visible((ran.stderr or ran.stdout).strip()[-300:])
        built.notes.append(f"no Allure site: allure left with {ran.returncode}: {told}")
        return ""
    for page in target.rglob("*.html"):
        page.write_text(without_analytics(page.read_text("utf-8")), "utf-8")
    return "allure/index.html"


def without_analytics(page: str) -> str:
    """Return a page of Allure's without the script that reports its readers to an analytics service."""
    return _ANALYTICS.sub("", page)
