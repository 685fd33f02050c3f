"""Builds the site of a run: its page, a page for each cell, statements, badges; and Allure's site where Node is."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from conformance.report.allure_content import LinkKind
from conformance.report.allure_pack import Resolve
from conformance.report.allure_site import RESULTS, AllureMissing, build_allure, ensure_allure_installed
from conformance.report.cell_page import cell_page
from conformance.report.cell_pages import PageSelection, all_pages_command, cell_page_path, file_stem
from conformance.report.cell_view import CellView
from conformance.report.earlier_runs import EarlierOutcome, EarlierRun, earlier_outcomes
from conformance.report.rendering import write_style_sheet
from conformance.report.run_page import run_page
from conformance.report.run_summary import RunSummary, read_run_summary
from conformance.report.statement import (
    BadgeRefused,
    make_badge,
    make_statement,
    statement_html,
    statement_json,
    statement_markdown,
)
from conformance.requirements.catalogue import catalogue
from conformance.results.atomic_write import StagedFiles
from conformance.results.layout import CELLS_FOLDER

SHARED = "assets"
"""The folder of what the pages of all cells share."""


@dataclass(slots=True)
class BuiltSite:
    """What was built, and what was left out and why."""

    page: Path
    run: RunSummary
    badges: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class AllureOptions:
    """Where the pinned Allure is: its set-up, and the cache that it may be installed in.

    With `install` it is installed when it is missing; that this fails is a note like any other. `history` is a file
    that keeps the trend over runs that are not kept; without it, the trend is that of the earlier runs.
    """

    pinned: Path
    cache: Path
    install: bool = False
    history: Path | None = None


def build_site(
    run_dir: Path,
    out: Path,
    *,
    corpus: Path | None = None,
    allure: AllureOptions | None = None,
    earlier: Sequence[EarlierRun] = (),
    paged: PageSelection | None = None,
) -> BuiltSite:
    """Write the site of a run into `out` (made when it is not there) and say what was built.

    Either all of its pages are replaced or, where that fails, none. `corpus` is where scenarios' texts are; without `allure` there is no Allure site; `earlier` are the runs that the
    trend is drawn from, the oldest first. `paged` says which cells get a page: by default those with a finding.
    Raises RunDirectoryError, SchemaTooNew; OSError when `out` cannot be written.
    """
    with StagedFiles() as files:
        return _build(run_dir, out, files, corpus, allure, earlier, paged or PageSelection())


def _build(
    run_dir: Path,
    out: Path,
    staged: StagedFiles,
    corpus: Path | None,
    allure: AllureOptions | None,
    earlier: Sequence[EarlierRun],
    wanted: PageSelection,
) -> BuiltSite:
    (out / CELLS_FOLDER).mkdir(parents=True, exist_ok=True)
    write_style_sheet(out / SHARED)
    pasts: dict[str, tuple[EarlierOutcome, ...]] = {}
    pages: dict[str, str] = {}
    files: dict[str, Path] = {}

    def each(material: CellView, slug: str) -> None:
        past = pasts[slug] = earlier_outcomes(earlier, slug, material.header)
        files.update(_files(material, slug))
        if not wanted.includes(material, past):
            return
        place = pages[slug] = f"{CELLS_FOLDER}/{cell_page_path(material.header, _below(pages))}"
        (out / place).parent.mkdir(parents=True, exist_ok=True)
        up = "../" * place.count("/")
        kept = "" if material.kept_directory is None else _address(material.kept_directory, (out / place).parent) + "/"
        page = cell_page(material, home=f"{up}index.html", kept=kept, past=past, shared=f"{up}{SHARED}")
        staged.write_text(out / place, page)

    run = read_run_summary(run_dir, corpus=corpus, on_cell=each)
    built = BuiltSite(out / "index.html", run)
    links = {
        name: _statement(run, name, out, pages, built, staged) for name in [one.name for one in run.header.candidates]
    }
    site = ""
    if allure is not None:
        site = _allure_site(run_dir, out, allure, earlier, _addresses(out / "allure", pages, files), built)
    others = all_pages_command(run_dir, out) if len(pages) < len(run.cells) else ""
    page = run_page(
        run, catalogue(), pages=pages, others=others, statements=links, allure=site, earlier=earlier, pasts=pasts
    )
    staged.write_text(built.page, page)
    return built


def _below(pages: Mapping[str, str]) -> set[str]:
    return {place.removeprefix(f"{CELLS_FOLDER}/") for place in pages.values()}


def _files(material: CellView, slug: str) -> dict[str, Path]:
    """Return the files of a cell that Allure's results link to, by the links' addresses."""
    logs = {LinkKind.LOG.to(f"{slug}/{node}"): path for node, path in material.logs.items()}
    kept = {LinkKind.KEPT.to(slug): material.kept_directory} if material.kept_directory is not None else {}
    return logs | kept | ({LinkKind.HISTORY.to(slug): material.file} if material.file is not None else {})


def _address(path: Path, page: Path) -> str:
    """Return the relative link to a file of the run directory from a page in the folder `page`."""
    return quote(os.path.relpath(path, page))


def _addresses(site: Path, pages: Mapping[str, str], files: Mapping[str, Path]) -> Resolve:
    """Return what gives for a link of Allure's results the address that leads there from Allure's site."""
    known = {LinkKind.PAGE.to(slug): f"../{place}" for slug, place in pages.items()}
    known |= {address: _address(path, site) for address, path in files.items()}

    def resolve(address: str) -> str | None:
        kind, _, rest = address.partition(":")
        if kind == LinkKind.STATEMENT:
            candidate, _, row = rest.partition("#")
            return f"../statements/{candidate}.html#{row}"
        return known.get(address) if kind in set(LinkKind) else address

    return resolve


def _statement(
    run: RunSummary, candidate: str, out: Path, pages: Mapping[str, str], built: BuiltSite, staged: StagedFiles
) -> str:
    made = make_statement(run, candidate, catalogue())
    folder = out / "statements"
    folder.mkdir(exist_ok=True)
    stem = file_stem(candidate)
    staged.write_text(folder / f"{stem}.json", statement_json(made))
    staged.write_text(folder / f"{stem}.md", statement_markdown(made))
    staged.write_text(folder / f"{stem}.html", statement_html(made, home="../index.html", pages=_from_below(pages)))
    badge_file, endpoint = folder / f"{stem}.svg", folder / f"{stem}.badge.json"
    for file in (badge_file, endpoint):
        staged.remove(file)  # one of an earlier build must not outlive a refusal
    try:
        drawn = make_badge(made)
        staged.write_text(badge_file, drawn.as_svg())
        staged.write_text(endpoint, drawn.as_endpoint())
        built.badges.append(badge_file)
    except BadgeRefused as error:
        built.notes.append(f"{candidate}: {error}")
    return f"statements/{stem}.html"


def _from_below(pages: Mapping[str, str]) -> dict[str, str]:
    return {slug: f"../{place}" for slug, place in pages.items()}


def _allure_site(
    run_dir: Path, out: Path, allure: AllureOptions, earlier: Sequence[EarlierRun], resolve: Resolve, built: BuiltSite
) -> str:
    """Build Allure's site and return its link; '' with a note when it cannot be had."""
    try:
        if allure.install and (run_dir / RESULTS).is_dir():
            ensure_allure_installed(allure.pinned, allure.cache)
        build_allure(
            run_dir,
            out / "allure",
            pinned=allure.pinned,
            cache=allure.cache,
            candidates=built.run.candidates,
            resolve=resolve,
            earlier=[past.path for past in earlier],
            kept=allure.history,
            note=built.notes.append,
        )
    except AllureMissing as error:
        built.notes.append(f"no Allure site: {error} (the other pages have all that it would show)")
        return ""
    return "allure/index.html"
