"""Builds the site of a run: its page, a page for each cell, statements, badges; and Allure's site where Node is."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from conformance.report.allure_site import RESULTS, AllureMissing, build_allure, install
from conformance.report.book import Book, read_book
from conformance.report.diagram.page import cell_page
from conformance.report.material import Material
from conformance.report.run_page.page import run_page
from conformance.report.statement import BadgeRefused, as_html, as_json, as_markdown, badge, statement
from conformance.report.trend import Earlier, Past, earlier_outcomes
from conformance.requirements.catalogue import catalogue
from conformance.results.layout import CELLS


@dataclass(slots=True)
class Built:
    """What was built, and what was left out and why."""

    page: Path
    book: Book
    badges: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Allure:
    """Where the pinned Allure is: its set-up, and the cache that it may be installed in.

    With `install` it is installed when it is missing; that this fails is a note like any other.
    """

    pinned: Path
    cache: Path
    install: bool = False


def build(
    run_dir: Path,
    out: Path,
    *,
    corpus: Path | None = None,
    allure: Allure | None = None,
    earlier: Sequence[Past] = (),
) -> Built:
    """Write the site of a run into `out` (made when it is not there) and say what was built.

    `corpus` is where scenarios' texts are; without `allure` there is no Allure site; `earlier` are the runs that the
    trend is drawn from, the oldest first. Raises RunDirectoryError, SchemaTooNew; OSError when `out` cannot be written.
    """
    (out / CELLS).mkdir(parents=True, exist_ok=True)

    pasts: dict[str, tuple[Earlier, ...]] = {}

    def each(material: Material, slug: str) -> None:
        past = pasts[slug] = earlier_outcomes(earlier, slug, material.header)
        (out / CELLS / f"{slug}.html").write_text(cell_page(material, home="../index.html", past=past), "utf-8")

    book = read_book(run_dir, corpus=corpus, each=each)
    built = Built(out / "index.html", book)
    links = {name: _statement(book, name, out, built) for name in [one.name for one in book.header.candidates]}
    site = _allure_site(run_dir, out, allure, earlier, built) if allure is not None else ""
    page = run_page(book, catalogue(), cells=f"{CELLS}/", statements=links, allure=site, earlier=earlier, pasts=pasts)
    built.page.write_text(page, "utf-8")
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


def _allure_site(run_dir: Path, out: Path, allure: Allure, earlier: Sequence[Past], built: Built) -> str:
    """Build Allure's site and return its link; '' with a note when it cannot be had."""
    try:
        if allure.install and (run_dir / RESULTS).is_dir():
            install(allure.pinned, allure.cache)
        build_allure(
            run_dir,
            out / "allure",
            pinned=allure.pinned,
            cache=allure.cache,
            candidates=built.book.candidates,
            earlier=[past.path for past in earlier],
        )
    except AllureMissing as error:
        built.notes.append(f"no Allure site: {error} (the other pages have all that it would show)")
        return ""
    return "allure/index.html"
