"""The conformance statement of one candidate: each requirement with its verdict and evidence, as JSON, Markdown, HTML.

`site` writes them. *Evidence* of a requirement is one check of one cell that judged it. A badge is made only for a complete
run of the suite without violations and errors.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup, escape
from pydantic import BaseModel, ConfigDict

from conformance.report.escaping import code_span, escape_markdown
from conformance.report.rendering import render_page
from conformance.report.requirement_rows import RequirementRow, requirement_rows
from conformance.report.run_summary import RunSummary, cells_of_candidate
from conformance.requirements.catalogue import Catalogue
from conformance.results.schema import CandidateRecord, RunHeader
from conformance.verdicts import Outcome
from conformance.verdicts.outcome import OUTCOME_DISPLAY, OVER_CELLS


class BadgeRefused(ValueError):
    """A run does not qualify for a badge; the message gives all reasons."""


class Statement(BaseModel):
    """The results of one candidate in one run; its JSON is published.

    `shortfalls` has the reasons why the run is not a complete run of the suite; it is empty for a complete one. `cells`
    counts the candidate's cells by outcome, `groups` has the title of each group of requirements.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    candidate: CandidateRecord
    run: RunHeader
    finished: str | None
    shortfalls: tuple[str, ...]
    cells: dict[Outcome, int]
    groups: dict[str, str]
    rows: tuple[RequirementRow, ...]

    @property
    def counts(self) -> dict[Outcome, int]:
        """Outcome -> number of requirements with that verdict; every outcome has an entry."""
        counts = Counter(row.outcome for row in self.rows)
        return {outcome: counts[outcome] for outcome in OVER_CELLS}


def make_statement(run: RunSummary, candidate: str, catalogue: Catalogue) -> Statement:
    """Return the statement of a candidate of a run. Raises KeyError where the run's header does not name the candidate."""
    record = {record.name: record for record in run.header.candidates}[candidate]
    cells = cells_of_candidate(run.cells, candidate)
    counts = Counter(cell.outcome for cell in cells)
    return Statement(
        candidate=record,
        run=run.header,
        finished=run.footer.finished if run.footer is not None else None,
        shortfalls=run.shortfalls(),
        cells={outcome: counts[outcome] for outcome in OVER_CELLS},
        groups=catalogue.groups,
        rows=requirement_rows(cells, catalogue),
    )


def statement_json(statement: Statement) -> str:
    """Return the statement as JSON for programs, in ASCII: so it contains no control characters for terminals."""
    return json.dumps(statement.model_dump(mode="json", by_alias=True), indent=2, ensure_ascii=True) + "\n"


def statement_markdown(statement: Statement) -> str:
    """Return the statement as Markdown: counts, shortfalls and facts, then a table for each group of requirements with rows."""
    counts = ", ".join(f"{count} {outcome.replace('-', ' ')}" for outcome, count in statement.counts.items())
    lines = [
        f"# Conformance statement: {escape_markdown(statement.candidate.name)}",
        "",
        f"{len(statement.rows)} requirements: {counts}.",
        "",
    ]
    if statement.shortfalls:
        lines += [
            "**Not a whole run of the suite:** " + "; ".join(map(escape_markdown, statement.shortfalls)) + ".",
            "",
        ]
    lines += [f"- {label}: {code_span(text)}" for label, text in statement_facts(statement).items()]
    for group, title in statement.groups.items():
        rows = [row for row in statement.rows if row.group == group]
        if rows:
            lines += [
                "",
                f"## {group}: {escape_markdown(title)}",
                "",
                "| | requirement | verdict | evidence |",
                "|---|---|---|---|",
            ]
            lines += [_table_line(row) for row in rows]
    return "\n".join(lines) + "\n"


def statement_html(statement: Statement, *, home: str = "", pages: Mapping[str, str] | None = None) -> str:
    """Return the statement as an HTML page; `home` is the link to the run's page, or ''.

    `pages` maps the slugs of cells that have a page to the links to those pages.
    """
    grouped = {
        f"{key} · {title}": [row for row in statement.rows if row.group == key]
        for key, title in statement.groups.items()
    }
    return render_page(
        "statement.html.j2",
        script="run.js",
        statement=statement,
        home=home,
        pages=pages or {},
        facts=statement_facts(statement),
        groups={title: rows for title, rows in grouped.items() if rows},
    )


def statement_facts(statement: Statement) -> Mapping[str, str]:
    """Return label -> text of what identifies a statement: candidate, run, versions, hashes, clock, grid, seed, cells."""
    candidate, run = statement.candidate, statement.run
    return {
        "candidate": f"{candidate.name} {candidate.version} ({candidate.kind})",
        "candidate SHA-256": candidate.sha256,
        "claims": ", ".join(candidate.claims) or "none",
        "run": f"{run.run}, {run.started} to {statement.finished or 'no end'}",
        "harness": f"{run.harness}, Python {run.platform.get('python', 'unknown')}",
        "suite SHA-256": run.suite_sha256,
        "environment SHA-256": run.environment_sha256,
        "clock": run.clock + run.scale_text,
        "grid": run.grid,
        "seed": str(run.seed),
        "cells": ", ".join(f"{count} {outcome}" for outcome, count in statement.cells.items() if count) or "none",
    }


@dataclass(frozen=True, slots=True)
class Badge:
    """The texts and the colour (`#rrggbb`) of a badge."""

    text: str
    colour: str
    label: str = "mail conformance"

    def as_svg(self) -> str:
        """Return the badge as an SVG image."""
        return _badge_svg(self.label, self.text, self.colour)

    def as_endpoint(self) -> str:
        """Return the badge as JSON in the endpoint schema (version 1) of shields.io, which draws it."""
        document = {
            "schemaVersion": 1,
            "label": self.label,
            "message": self.text,
            "color": self.colour.removeprefix("#"),
        }
        return json.dumps(document) + "\n"


def make_badge(statement: Statement) -> Badge:
    """Return the badge: how many of the applicable requirements passed and are inconclusive, as `90 of 100 shown, 10 open`.

    Raises BadgeRefused for a run that was filtered, interrupted, damaged or incomplete, and for one with a violation,
    an error, or no requirement that passed.
    """
    counts = statement.counts
    reasons = list(statement.shortfalls)
    if violated := counts[Outcome.FAIL]:
        reasons.append(f"{violated} requirements are violated")
    reasons += [
        f"{statement.cells[outcome]} cells ended as {outcome}"
        for outcome in (Outcome.FAIL, Outcome.ERROR)
        if statement.cells[outcome]
    ]
    if not counts[Outcome.PASS]:
        reasons.append("nothing passed")
    if reasons:
        raise BadgeRefused("no badge: " + "; ".join(reasons))
    text = f"{counts[Outcome.PASS]} of {len(statement.rows) - counts[Outcome.NOT_APPLICABLE]} shown"
    if inconclusive := counts[Outcome.INCONCLUSIVE]:
        text += f", {inconclusive} open"
    return Badge(text, "#735500" if inconclusive else "#0a6449")


def _badge_svg(label: str, text: str, colour: str) -> str:
    """Return an SVG image: the label on grey, and to its right the text on a colour."""
    left, right = len(label) * 6.6 + 14, len(text) * 6.6 + 14
    width, title = left + right, escape(f"{label}: {text}")
    return str(
        Markup(  # noqa: S704  # both texts are escaped
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="22" role="img" aria-label="{title}">'
            f'<title>{title}</title><rect width="{width:g}" height="22" rx="4" fill="#3a404b"/>'
            f'<path d="M{left:g} 0h{right - 4:g}a4 4 0 0 1 4 4v14a4 4 0 0 1-4 4h-{right - 4:g}z" fill="{colour}"/>'
            '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">'
            f'<text x="{left / 2:g}" y="15">{escape(label)}</text>'
            f'<text x="{left + right / 2:g}" y="15">{escape(text)}</text></g></svg>\n'
        )
    )


def _table_line(row: RequirementRow) -> str:
    """Return a requirement as a line of a Markdown table, with its first three pieces of evidence.

    For a pass it also says how many more checks judged the requirement.
    """
    evidence = "; ".join(
        f"{escape_markdown(piece.cell, 120)} {escape_markdown(piece.check)} ({escape_markdown(piece.place)})"
        + (f" events {', '.join(map(str, piece.events[:6]))}" if piece.events else "")
        + (f"; message {escape_markdown(piece.message)}" if piece.message else "")
        + (f"; {escape_markdown(piece.exchange, 400)}" if piece.exchange else "")
        for piece in row.evidence[:3]
    )
    more = f" (and {row.judged - 3} more)" if row.outcome is Outcome.PASS and row.judged > 3 else ""
    reason = f": {escape_markdown(row.reason, 300)}" if row.reason else ""
    verdict = f"{OUTCOME_DISPLAY[row.outcome].sign} {row.outcome.replace('-', ' ')}{reason}"
    clause = f"{escape_markdown(row.text)} ({row.level}; {escape_markdown('; '.join(row.source))})"
    return f"| {row.id} | {clause} | {verdict} | {evidence}{more} |"
