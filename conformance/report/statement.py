"""The conformance statement of one candidate: every requirement with its verdict and the evidence, as JSON, Markdown
and HTML; and the badge, which only a whole run without a violation can have.
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
    """The run has no right to a badge; the text says why."""


class Statement(BaseModel):
    """What a run has shown of one candidate. `shortfalls` says why it is not the whole suite; empty when it is."""

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
        """How many requirements have which verdict; every outcome has an entry."""
        counts = Counter(row.outcome for row in self.rows)
        return {outcome: counts[outcome] for outcome in OVER_CELLS}


def make_statement(run: RunSummary, candidate: str, catalogue: Catalogue) -> Statement:
    """Return the statement of a candidate of the run. Raises KeyError when the run's header names no such one."""
    record = {one.name: one for one in run.header.candidates}[candidate]
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


def statement_json(made: Statement) -> str:
    """Return the statement as JSON, for programs; in ASCII, so that a terminal that shows it obeys nothing in it."""
    return json.dumps(made.model_dump(mode="json", by_alias=True), indent=2, ensure_ascii=True) + "\n"


def statement_markdown(made: Statement) -> str:
    """Return the statement as Markdown."""
    counts = ", ".join(f"{count} {outcome.replace('-', ' ')}" for outcome, count in made.counts.items())
    lines = [
        f"# Conformance statement: {escape_markdown(made.candidate.name)}",
        "",
        f"{len(made.rows)} requirements: {counts}.",
        "",
    ]
    if made.shortfalls:
        lines += ["**Not a whole run of the suite:** " + "; ".join(map(escape_markdown, made.shortfalls)) + ".", ""]
    lines += [f"- {label}: {code_span(text)}" for label, text in statement_facts(made).items()]
    for group, title in made.groups.items():
        rows = [row for row in made.rows if row.group == group]
        if rows:
            lines += [
                "",
                f"## {group}: {escape_markdown(title)}",
                "",
                "| | requirement | verdict | evidence |",
                "|---|---|---|---|",
            ]
            lines += [_line(row) for row in rows]
    return "\n".join(lines) + "\n"


def statement_html(made: Statement, *, home: str = "", pages: Mapping[str, str] | None = None) -> str:
    """Return the statement as a page; `home` leads to the run's page, `pages` has the link to each cell's page by the
    name of its file, for those that have one.
    """
    grouped = {f"{key} · {title}": [row for row in made.rows if row.group == key] for key, title in made.groups.items()}
    return render_page(
        "statement.html.j2",
        script="run.js",
        made=made,
        home=home,
        pages=pages or {},
        identity=statement_facts(made),
        groups={title: rows for title, rows in grouped.items() if rows},
    )


def statement_facts(made: Statement) -> Mapping[str, str]:
    """Return who was judged with what, when: all that tells this statement from another."""
    candidate, run = made.candidate, made.run
    return {
        "candidate": f"{candidate.name} {candidate.version} ({candidate.kind})",
        "candidate SHA-256": candidate.sha256,
        "claims": ", ".join(candidate.claims) or "none",
        "run": f"{run.run}, {run.started} to {made.finished or 'no end'}",
        "harness": f"{run.harness}, Python {run.platform.get('python', 'unknown')}",
        "suite SHA-256": run.suite_sha256,
        "environment SHA-256": run.environment_sha256,
        "clock": run.clock + run.scale_text,
        "grid": run.grid,
        "seed": str(run.seed),
        "cells": ", ".join(f"{count} {outcome}" for outcome, count in made.cells.items() if count) or "none",
    }


@dataclass(frozen=True, slots=True)
class Badge:
    """What a badge says. `colour` is one of CSS, with a `#`."""

    text: str
    colour: str
    label: str = "mail conformance"

    def as_svg(self) -> str:
        """Return the badge as a picture."""
        return _badge_svg(self.label, self.text, self.colour)

    def as_endpoint(self) -> str:
        """Return the badge as JSON that shields.io and its like draw (their endpoint schema, version 1)."""
        said = {"schemaVersion": 1, "label": self.label, "message": self.text, "color": self.colour.removeprefix("#")}
        return json.dumps(said) + "\n"


def make_badge(made: Statement) -> Badge:
    """Return the badge: how many requirements passed, how many are open.

    Raises BadgeRefused for a run that was filtered, interrupted, damaged or incomplete, and for one with a violation,
    an error or nothing passed.
    """
    counts = made.counts
    refused = list(made.shortfalls)
    if violated := counts[Outcome.FAIL]:
        refused.append(f"{violated} requirements are violated")
    refused += [
        f"{made.cells[outcome]} cells ended as {outcome}"
        for outcome in (Outcome.FAIL, Outcome.ERROR)
        if made.cells[outcome]
    ]
    if not counts[Outcome.PASS]:
        refused.append("nothing passed")
    if refused:
        raise BadgeRefused("no badge: " + "; ".join(refused))
    text = f"{counts[Outcome.PASS]} of {len(made.rows) - counts[Outcome.NOT_APPLICABLE]} shown"
    if open_ones := counts[Outcome.INCONCLUSIVE]:
        text += f", {open_ones} open"
    return Badge(text, "#735500" if open_ones else "#0a6449")


def _badge_svg(label: str, text: str, colour: str) -> str:
    left, right = len(label) * 6.6 + 14, len(text) * 6.6 + 14
    whole, words = left + right, escape(f"{label}: {text}")
    return str(
        Markup(  # noqa: S704  # the only texts in it are escaped
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole:g}" height="22" role="img" aria-label="{words}">'
            f'<title>{words}</title><rect width="{whole:g}" height="22" rx="4" fill="#3a404b"/>'
            f'<path d="M{left:g} 0h{right - 4:g}a4 4 0 0 1 4 4v14a4 4 0 0 1-4 4h-{right - 4:g}z" fill="{colour}"/>'
            '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">'
            f'<text x="{left / 2:g}" y="15">{escape(label)}</text>'
            f'<text x="{left + right / 2:g}" y="15">{escape(text)}</text></g></svg>\n'
        )
    )


def _line(row: RequirementRow) -> str:
    evidence = "; ".join(
        f"{escape_markdown(one.cell, 120)} {escape_markdown(one.check)} ({escape_markdown(one.place)})"
        + (f" events {', '.join(map(str, one.events[:6]))}" if one.events else "")
        + (f"; message {escape_markdown(one.message)}" if one.message else "")
        + (f"; {escape_markdown(one.exchange, 400)}" if one.exchange else "")
        for one in row.evidence[:3]
    )
    more = f" (and {row.judged - 3} more)" if row.outcome is Outcome.PASS and row.judged > 3 else ""
    reason = f": {escape_markdown(row.reason, 300)}" if row.reason else ""
    verdict = f"{OUTCOME_DISPLAY[row.outcome].sign} {row.outcome.replace('-', ' ')}{reason}"
    clause = f"{escape_markdown(row.text)} ({row.level}; {escape_markdown('; '.join(row.source))})"
    return f"| {row.id} | {clause} | {verdict} | {evidence}{more} |"
