"""The site of a run: its page, pages of cells, statements, badges, and Allure's site where Node and Allure are installed.

`conformance report` calls `build_site`. All pages are written to temporary files first (*staged*) and replaced together at the
end (`StagedFiles`), so that a failure leaves the earlier site as it was. Allure's site is a directory of its own and is
replaced on its own. Links in Allure's results have private addresses (`LinkKind`), which become URLs here. A *slug* names a
cell's file.
"""

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
from conformance.report.earlier_runs import EarlierOutcome, EarlierRun, read_earlier_outcomes
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
"""The folder of the style sheet that all pages of cells share."""


@dataclass(slots=True)
class BuiltSite:
    """A built site: its first page, the run, the badges' images, and notes on what could not be built, a sentence each."""

    page: Path
    run: RunSummary
    badges: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class AllureOptions:
    """How to build Allure's site: the directory of the pinned set-up, and the cache in which it may be installed.

    With `install`, a missing Allure is installed; a failure of that becomes a note. `history` is a file with the trend of
    runs whose directories may be gone; without that file, the trend is taken from the earlier runs' directories.
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
    """Write the site of a run into the directory `out`, which is created if missing; replace all of its pages or none.

    Scenarios' files are read from the directory `corpus`, if given. Without `allure` no Allure site is built; one that cannot
    be built becomes a note. `earlier` has the runs of the trend, the oldest first. `paged` selects the cells that get a page, by
    default those with a finding or a remark, flaky ones, and those that were cut short. Blocks: Allure takes seconds, its installation
    minutes. Raises RunDirectoryError, SchemaTooNew; OSError where `out` cannot be written.
    """
    with StagedFiles() as files:
        return _stage_site(run_dir, out, files, corpus, allure, earlier, paged or PageSelection())


def _stage_site(
    run_dir: Path,
    out: Path,
    staged: StagedFiles,
    corpus: Path | None,
    allure: AllureOptions | None,
    earlier: Sequence[EarlierRun],
    selection: PageSelection,
) -> BuiltSite:
    """Stage all pages, statements and badges in `staged`, and write the style sheet and Allure's site directly.

    Returns the built site; the parameters are those of `build_site`. The variable `pages` maps the slug of each cell with a page
    to the page's path below `out`, `files` the addresses of links in Allure's results to the files that they lead to. Both are
    filled while the run is read, cell by cell.
    """
    (out / CELLS_FOLDER).mkdir(parents=True, exist_ok=True)
    write_style_sheet(out / SHARED)
    earlier_outcomes_by_slug: dict[str, tuple[EarlierOutcome, ...]] = {}
    pages: dict[str, str] = {}
    files: dict[str, Path] = {}

    def stage_cell(cell: CellView, slug: str) -> None:
        """Note a cell's earlier outcomes and linked files; stage its page and note the page's path if the cell is selected."""
        earlier_outcomes = earlier_outcomes_by_slug[slug] = read_earlier_outcomes(earlier, slug, cell.header)
        files.update(_linked_files(cell, slug))
        if not selection.includes(cell, earlier_outcomes):
            return
        taken = {page.removeprefix(f"{CELLS_FOLDER}/") for page in pages.values()}
        path = pages[slug] = f"{CELLS_FOLDER}/{cell_page_path(cell.header, taken)}"
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        to_root = "../" * path.count("/")
        kept = "" if cell.kept_directory is None else _relative_link(cell.kept_directory, (out / path).parent) + "/"
        page = cell_page(
            cell, home=f"{to_root}index.html", kept=kept, earlier_outcomes=earlier_outcomes, shared=f"{to_root}{SHARED}"
        )
        staged.write_text(out / path, page)

    run = read_run_summary(run_dir, corpus=corpus, on_cell=stage_cell)
    built = BuiltSite(out / "index.html", run)
    statements = {
        candidate.name: _stage_statement(run, candidate.name, out, pages, built, staged)
        for candidate in run.header.candidates
    }
    allure_link = ""
    if allure is not None:
        allure_link = _allure_site(run_dir, out, allure, earlier, _link_resolver(out / "allure", pages, files), built)
    others = all_pages_command(run_dir, out) if len(pages) < len(run.cells) else ""
    page = run_page(
        run,
        catalogue(),
        pages=pages,
        others=others,
        statements=statements,
        allure=allure_link,
        earlier=earlier,
        earlier_outcomes_by_slug=earlier_outcomes_by_slug,
    )
    staged.write_text(built.page, page)
    return built


def _linked_files(cell: CellView, slug: str) -> dict[str, Path]:
    """Return address -> path of a cell's history, its nodes' logs and its kept directories, as far as there are such files."""
    logs = {LinkKind.LOG.to(f"{slug}/{node}"): path for node, path in cell.logs.items()}
    kept = {LinkKind.KEPT.to(slug): cell.kept_directory} if cell.kept_directory is not None else {}
    return logs | kept | ({LinkKind.HISTORY.to(slug): cell.file} if cell.file is not None else {})


def _relative_link(path: Path, folder: Path) -> str:
    """Return the relative URL of a file or directory from a page in `folder`."""
    return quote(os.path.relpath(path, folder))


def _link_resolver(site: Path, pages: Mapping[str, str], files: Mapping[str, Path]) -> Resolve:
    """Return a function from an address in Allure's results (`LinkKind`) to the URL relative to Allure's site.

    The function returns None for a link to a page, history, log or copy that does not exist. It does not check links to
    statements, and returns an address that is not of a `LinkKind` unchanged. `site` is the directory of Allure's site; `pages`
    maps slugs to the paths of pages below the run's site, `files` addresses to files.
    """
    urls = {LinkKind.PAGE.to(slug): f"../{path}" for slug, path in pages.items()}
    urls |= {address: _relative_link(path, site) for address, path in files.items()}

    def resolve(address: str) -> str | None:
        """Return the URL for an address, as `_link_resolver` says."""
        kind, _, target = address.partition(":")
        if kind == LinkKind.STATEMENT:
            candidate, _, row = target.partition("#")
            return f"../statements/{candidate}.html#{row}"
        return urls.get(address) if kind in set(LinkKind) else address

    return resolve


def _stage_statement(
    run: RunSummary, candidate: str, out: Path, pages: Mapping[str, str], built: BuiltSite, staged: StagedFiles
) -> str:
    """Stage the statement and the badge of a candidate and return the link to the statement, relative to the run's page.

    `pages` maps slugs to the paths of pages below `out`. The badge is added to `built`. Where the run gets none, the reason
    becomes a note of `built`, and an earlier badge is removed.
    """
    statement = make_statement(run, candidate, catalogue())
    folder = out / "statements"
    folder.mkdir(exist_ok=True)
    stem = file_stem(candidate)
    links_to_pages = {slug: f"../{path}" for slug, path in pages.items()}
    staged.write_text(folder / f"{stem}.json", statement_json(statement))
    staged.write_text(folder / f"{stem}.md", statement_markdown(statement))
    staged.write_text(folder / f"{stem}.html", statement_html(statement, home="../index.html", pages=links_to_pages))
    badge_file, endpoint = folder / f"{stem}.svg", folder / f"{stem}.badge.json"
    for file in (badge_file, endpoint):
        staged.remove(file)  # a badge of an earlier build must not stay where this run gets none
    try:
        badge = make_badge(statement)
        staged.write_text(badge_file, badge.as_svg())
        staged.write_text(endpoint, badge.as_endpoint())
        built.badges.append(badge_file)
    except BadgeRefused as error:
        built.notes.append(f"{candidate}: {error}")
    return f"statements/{stem}.html"


def _allure_site(
    run_dir: Path, out: Path, allure: AllureOptions, earlier: Sequence[EarlierRun], resolve: Resolve, built: BuiltSite
) -> str:
    """Build Allure's site in `out`/allure without staging, and return the link to it; where that fails, note it and return ''.

    Notes go to `built`. With `allure.install` Allure is installed first, unless the run has no results for it. Blocks for seconds,
    or for minutes then. Raises OSError.
    """
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
            earlier=[run_before.path for run_before in earlier],
            history_file=allure.history,
            note=built.notes.append,
        )
    except AllureMissing as error:
        built.notes.append(f"no Allure site: {error} (the other pages show the same results)")
        return ""
    return "allure/index.html"
