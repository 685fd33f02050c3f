"""Write a results site: the matrix, a page for each server and for each requirement, the feed, and badges.

`conformance site` calls `write_results_site`. A *server* is a candidate; a *row* is a requirement of the catalogue.

index.html             scores, newest versions of all servers x requirements, latest changes
servers/<server>.html  all versions of one server
rows/<requirement>.html  one requirement, all servers and versions
badges/<server>-<profile>.svg, .json
feed.xml               changed verdicts
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from conformance.report.rendering import render_page, write_style_sheet
from conformance.report.results_site.feed import atom_feed, change_text
from conformance.report.results_site.model import Results, Row, Server, read_results
from conformance.requirements.catalogue import Catalogue, Requirement

SHARED = "assets"
"""The folder of the style sheet that all pages share."""
MAX_CHANGES = 50
"""Changes that a page lists, the newest ones; the table `row_changes` has all."""
MAX_FAILURES = 3
"""Failures that a page shows of one version on one requirement; the table `failures` has all."""

Write = Callable[[Path, bytes], None]


def write_results_site(out: Path, tables: Mapping[str, list[Row]], catalogue: Catalogue, write: Write) -> Path:
    """Write the site into the directory `out`, by calling `write` for each file, and return the path of its first page.

    Only the style sheet is written directly. `tables` has the rows of an aggregation's tables by name; the pages link to
    these as files in `data/tables/`. Raises OSError.
    """
    results = read_results(tables, catalogue)
    for folder in ("servers", "rows", "badges"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    write_style_sheet(out / SHARED)
    for server in results.servers:
        write(out / "servers" / f"{server.stem}.html", _server_page(results, server).encode())
        for profile in server.profiles:
            badge = results.server_score(server, profile).badge(profile)
            write(out / "badges" / f"{server.stem}-{profile}.svg", badge.as_svg().encode())
            write(out / "badges" / f"{server.stem}-{profile}.json", badge.as_endpoint().encode())
    for requirement in results.requirements:
        write(out / "rows" / f"{requirement.id}.html", _row_page(results, requirement).encode())
    write(out / "feed.xml", atom_feed(results))
    write(out / "index.html", _first_page(results).encode())
    return out / "index.html"


def _first_page(results: Results) -> str:
    """Return the first page: scores, the matrix of servers and rows by group of the catalogue, and the newest changes.

    A group without rows that a server was judged on is left out.
    """
    groups = {
        f"{group} · {title}": [row for row in results.requirements if row.group == group]
        for group, title in results.catalogue.groups.items()
    }
    return _render(
        "results.html.j2",
        results,
        shared=SHARED,
        groups={title: rows for title, rows in groups.items() if rows},
        changes=results.changes[:MAX_CHANGES],
    )


def _server_page(results: Results, server: Server) -> str:
    """Return the page of one server, with the newest changes of its verdicts."""
    return _render(
        "results_server.html.j2",
        results,
        shared=f"../{SHARED}",
        server=server,
        changes=[change for change in results.changes if change["candidate"] == server.name][:MAX_CHANGES],
    )


def _row_page(results: Results, requirement: Requirement) -> str:
    """Return the page of one requirement, with the newest changes of its verdicts."""
    return _render(
        "results_row.html.j2",
        results,
        shared=f"../{SHARED}",
        row=requirement,
        changes=[change for change in results.changes if change["requirement"] == requirement.id][:MAX_CHANGES],
    )


def _render(template: str, results: Results, *, shared: str, **context: Any) -> str:
    """Return a page of the site, made from a template by its file name.

    The template has the variables `results`, `change_text`, `max_failures` and those of `context`. `shared` is the relative
    path of the folder with the style sheet.
    """
    return render_page(
        template,
        script="run.js",
        shared=shared,
        results=results,
        change_text=change_text,
        max_failures=MAX_FAILURES,
        **context,
    )
