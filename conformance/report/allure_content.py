"""What Allure shows of a cell, given through allure-pytest's own API, and the static files beside the results.

All functions but `write_static` and `categories` must be called while pytest runs (or has just run) the cell's item:
they speak of the current test. Without `--alluredir` they do nothing, at the cost of nothing.

A result is small, since a run may have thousands: whole histories and nodes' logs are linked. Links have addresses of
our own (`Link`), which `conformance report` replaces when it builds the site and knows where everything is.
"""

import json
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any

import allure
from allure_commons import plugin_manager
from allure_commons.model2 import StatusDetails

from conformance.history.events import StepEvent
from conformance.report.cell_pages import file_stem
from conformance.report.cell_view import CellView
from conformance.report.diagram.excerpt import excerpt_svg
from conformance.report.escaping import escape_markdown, visible
from conformance.report.failure_text import BROKE, clause_of, exchange_lines, failure_message
from conformance.report.root_causes import RootCause
from conformance.requirements.catalogue import catalogue
from conformance.results.layout import slug
from conformance.results.schema import RunHeader
from conformance.verdicts import Outcome, Verdict, worst_in_cell
from conformance.verdicts.outcome import OK_OUTCOMES, OUTCOME_DISPLAY, OVER_CELLS

_tell: Any = allure.dynamic  # untyped, though the package says that it is typed
_attach: Any = allure.attach
_SEVERITY = {"must": "critical", "should": "normal", "may": "minor"}
_EXCHANGE = 20
"""Lines of the offending exchange."""
_WIDTH = 180
"""Characters of such a line."""
_KNOWN = "XFAIL"
"""How allure-pytest begins what it says of a test that is known to fail."""
_STALE = "stale baseline"


class LinkKind(StrEnum):
    """What a link of a result leads to: its address is this, a colon, and what is named here."""

    PAGE = "cell-page"
    """The cell's page: the name of the cell's file."""
    HISTORY = "cell-history"
    """The cell's history: the name of the cell's file."""
    LOG = "cell-log"
    """A node's log: the name of the cell's file, a slash, the node."""
    KEPT = "cell-kept"
    """The directories of a cell's nodes that are kept: the name of the cell's file."""
    STATEMENT = "statement"
    """A row of the conformance statement: the candidate's file, a number sign, the requirement."""

    def to(self, rest: str) -> str:
        """Return the address of such a link."""
        return f"{self}:{rest}"


class Violation(AssertionError):
    """Makes Allure show a step as failed."""

    __module__ = "builtins"  # Allure shows an error's module where it has another


class NotJudged(Exception):
    """Makes Allure show a step as broken."""

    __module__ = "builtins"


def describe_cell(material: CellView, *, remark: str = "") -> None:
    """Tell Allure everything about the current cell, in the order in which it is to be read.

    `remark` comes before the failure's text: what the baseline makes of the cell, where it is not a known failure.
    """
    if not plugin_manager.hook.add_title.get_hookimpls():
        return
    _labels(material)
    _links(material)
    _remarks(material)
    _parameters(material)
    _description(material)
    _steps(material)
    _message(material, remark)
    if (material.findings or material.cut_short) and (picture := excerpt_svg(material)):
        _attach(picture, "Sequence diagram", allure.attachment_type.SVG)


def _labels(material: CellView) -> None:
    """One place in Allure's tree for each cell: generation, group, scenario. Rows are tags."""
    header, rows = material.header, catalogue()
    _tell.title(visible(f"{material.name} · {header.candidate}"))
    known = [row for row in map(rows.get, header.requirements) if row is not None]
    _tell.epic(", ".join(header.generations) or "any generation")
    _tell.feature(f"{known[0].group} {rows.groups[known[0].group]}" if known else "no requirement")
    _tell.story(visible(header.scenario))
    path = PurePosixPath(header.path)
    _tell.parent_suite(visible(str(path.parent)))
    _tell.suite(visible(path.name))
    _tell.sub_suite(visible(header.scenario))
    _tell.tag(*(row.id for row in known))
    _tell.label("candidate", visible(header.candidate))
    if blamed := next((verdict.requirements[0] for verdict in material.findings if verdict.requirements), None):
        _tell.label("requirement", visible(clause_of(blamed), 160))
    if known:
        _tell.severity(_SEVERITY[min((row.level for row in known), key=list(_SEVERITY).index)])


def _links(material: CellView) -> None:
    own = slug(material.header.nodeid)
    _tell.link(LinkKind.PAGE.to(own), link_type="page", name="Page of this cell")
    _tell.link(LinkKind.HISTORY.to(own), link_type="history", name="History")
    if material.findings or material.cut_short:
        for name in material.logs:
            _tell.link(LinkKind.LOG.to(f"{own}/{name}"), link_type="log", name=f"Log of {visible(name)}")
    if material.kept_directory is not None:
        _tell.link(LinkKind.KEPT.to(own), link_type="kept", name="Kept directories of the nodes")
    candidate = file_stem(material.header.candidate)
    for row in filter(None, map(catalogue().get, material.header.requirements)):
        _tell.link(LinkKind.STATEMENT.to(f"{candidate}#{row.id}"), link_type="requirement", name=row.id)


def _remarks(material: CellView) -> None:
    """A broken `should`: the result stays a pass, with a tag to filter by and the sentences as a text."""
    if material.remarks:
        _tell.tag("remark")
        _attach(
            "\n".join(visible(one.sentence, 600) for one in material.remarks), "Remark", allure.attachment_type.TEXT
        )


def _parameters(material: CellView) -> None:
    """Axes and candidate make a result's history; what differs from run to run must not."""
    header = material.header
    _tell.parameter("candidate", visible(header.candidate))
    for axis, value in header.axes.items():
        _tell.parameter(axis, visible(value))
    _tell.parameter("clock", header.clock, excluded=True)
    _tell.parameter("seed", header.seed, excluded=True)


def _description(material: CellView) -> None:
    """The title, the rows with their text, the offending exchange, and the command that repeats the cell."""
    header = material.header
    parts = [
        f"**{escape_markdown(header.title)}**",
        "\n".join(f"- {escape_markdown(clause_of(one))}" for one in header.requirements),
    ]
    if lines := exchange_lines(material, _EXCHANGE):
        shown = [line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…" for line in lines]
        parts += ["The exchange (`>` marks what the verdict rests on):", _code(shown)]
    if header.repeat:
        parts += ["Repeat this cell:", _code([visible(header.repeat)])]
    _tell.description("\n\n".join(filter(None, parts)))


def _code(lines: list[str]) -> str:
    """Return a block of code in Markdown: indented, so that nothing in it can end it."""
    return "\n".join(f"    {line}" for line in lines)


def _message(material: CellView, remark: str) -> None:
    """Replace what allure-pytest says of a failure: it has all of its text, twice, behind the name of a class."""
    from allure_pytest.listener import AllureListener  # it is pytest that has to load the package first

    listeners = (one for one in plugin_manager.get_plugins() if isinstance(one, AllureListener))
    result = next(listeners).allure_logger.get_test(None)
    if result.statusDetails is not None:
        known = f"{_KNOWN} {visible(material.known, 1000)}" if material.known else ""
        parts = (known, visible(remark, 1000), failure_message(material))
        result.statusDetails = StatusDetails(message="\n\n".join(filter(None, parts)))


@dataclass(frozen=True, slots=True)
class AllureStep:
    """One step of the scenario as Allure lists it."""

    title: str
    outcome: Outcome
    sentence: str


def allure_steps(material: CellView) -> tuple[AllureStep, ...]:
    """Return the scenario's steps in the order in which they began, once each, then the invariants.

    A step has the verdict of its expectation; one without is passed when it ended, an error when it failed, and
    inconclusive when the cell ended in it. Invariants that passed, and those that are not applicable, are one step.
    """
    phases: dict[str, list[StepEvent]] = {}
    for event in material.events:
        if isinstance(event, StepEvent):
            phases.setdefault(event.path, []).append(event)
    judged: dict[str | None, list[Verdict]] = {}
    for verdict in material.verdicts:
        judged.setdefault(verdict.step, []).append(verdict)
    steps = [_step(path, events, judged.get(path, []), material) for path, events in phases.items()]
    rest = sorted((v for step, own in judged.items() if step not in phases for v in own), key=lambda v: v.check)
    checks = {check: worst_in_cell(one.outcome for one in own) for check, own in groupby(rest, key=lambda v: v.check)}
    remarked = {one.check for one in rest if one.outcome is Outcome.PASS and one.sentence}
    loud = [check for check, outcome in checks.items() if outcome not in OK_OUTCOMES or check in remarked]
    folded = [
        (kind, [name for name, one in checks.items() if one is kind and name not in loud])
        for kind in OVER_CELLS
        if kind in OK_OUTCOMES
    ]
    return (
        *steps,
        *(AllureStep(check, *_found([one for one in rest if one.check == check])) for check in loud),
        *(AllureStep(f"{len(names)} more: {', '.join(names)}", outcome, "") for outcome, names in folded if names),
    )


def _step(path: str, events: list[StepEvent], verdicts: list[Verdict], material: CellView) -> AllureStep:
    first, header = events[0], material.header
    line = material.source_line(first.line)
    title = visible(f"{path} {first.verb}  {header.path}:{first.line}" + (f"  {line.strip()}" if line else ""), 300)
    if verdicts:
        return AllureStep(title, *_found(verdicts))
    if failed := [event for event in events if event.phase == "failed"]:
        return AllureStep(title, Outcome.ERROR, visible(failed[0].detail, 600))
    ended = events[-1].phase == "ended"
    return AllureStep(title, Outcome.PASS if ended else Outcome.INCONCLUSIVE, "" if ended else "the cell ended in it")


def _found(verdicts: list[Verdict]) -> tuple[Outcome, str]:
    outcome = worst_in_cell(verdict.outcome for verdict in verdicts)
    deciding = sorted((v for v in verdicts if v.outcome is outcome), key=lambda v: not v.remark)
    return outcome, visible(deciding[0].sentence, 600)


def _steps(material: CellView) -> None:
    hook = plugin_manager.hook
    for told in allure_steps(material):
        remark = f"  remark: {told.sentence}" if told.outcome is Outcome.PASS and told.sentence else ""
        name, error = str(uuid.uuid4()), _error(told)
        hook.start_step(uuid=name, title=f"{OUTCOME_DISPLAY[told.outcome].sign} {told.title}{remark}", params={})
        hook.stop_step(uuid=name, exc_type=error and type(error), exc_val=error, exc_tb=None)


def _error(told: AllureStep) -> Exception | None:
    if told.outcome is Outcome.FAIL:
        return Violation(told.sentence)
    return NotJudged(told.sentence) if told.outcome in (Outcome.ERROR, Outcome.INCONCLUSIVE) else None


def allure_categories(found: Sequence[RootCause] = ()) -> list[dict[str, Any]]:
    """Return Allure's categories: what a red or yellow result is, told apart by how the failure text begins.

    Before them, for each cause of violations, one for its own and one for those that may follow from it. What is known to fail ends as pytest's xfail, which allure-pytest records as skipped, with the baseline's comment.
    """

    def beginning(text: str) -> str:
        return rf"[\s\S]*{text}[\s\S]*"  # Allure 2 matches as Java does, Allure 3 as JavaScript: no inline flags

    violation = re.escape(OUTCOME_DISPLAY[Outcome.FAIL].heading)
    by_cause = [
        {"name": name, "matchedStatuses": ["failed"], "messageRegex": beginning(f"violates +({'|'.join(rows)}) ")}
        for cause in found
        for name, rows in (
            (cause.sentence.partition(";")[0], (cause.requirement,)),
            (f"may follow from {cause.requirement}", cause.following),
        )
        if rows
    ]
    return [
        *by_cause,
        {"name": "Known failure", "matchedStatuses": ["skipped"], "messageRegex": beginning(_KNOWN)},
        {"name": "Violation", "matchedStatuses": ["failed"], "messageRegex": beginning(violation + "  ")},
        {"name": "Stale baseline", "matchedStatuses": ["failed"], "messageRegex": beginning(_STALE)},
        {"name": "Candidate broke", "matchedStatuses": ["broken"], "messageRegex": beginning(re.escape(BROKE))},
        {
            "name": "Inconclusive",
            "matchedStatuses": ["broken"],
            "messageRegex": beginning(OUTCOME_DISPLAY[Outcome.INCONCLUSIVE].heading),
        },
        {"name": "Harness error", "matchedStatuses": ["broken"]},
    ]


def write_categories(results_dir: Path, found: Sequence[RootCause] = ()) -> None:
    """Write categories.json into Allure's results directory; `found` are the causes of a run that has ended."""
    (results_dir / "categories.json").write_text(json.dumps(allure_categories(found), indent=2), "utf-8")


def write_static(results_dir: Path, header: RunHeader, environment: Mapping[str, str]) -> None:
    """Write categories.json, environment.properties and executor.json into Allure's results directory.

    `environment` is that of the process (`os.environ`): only what GitHub Actions sets to name its run is read.
    """
    results_dir.mkdir(parents=True, exist_ok=True)
    write_categories(results_dir)
    facts = {
        "run": header.run,
        "started": header.started,
        "harness": header.harness,
        "python": header.platform.get("python", "unknown"),
        "system": " ".join(header.platform.get(key, "") for key in ("system", "release", "machine")).strip(),
        "clock": header.clock,
        "scale": f"{header.scale:g}",
        "grid": header.grid,
        "seed": str(header.seed),
        **{f"candidate.{one.name}": f"{one.kind} {one.version} {one.sha256[:12]}" for one in header.candidates},
        "suite": header.suite_sha256[:12],
        "environment": header.environment_sha256[:12],
    }
    lines = [f"{_key(key)}={visible(value).replace(chr(92), chr(92) * 2)}" for key, value in facts.items()]
    (results_dir / "environment.properties").write_text("\n".join(lines) + "\n", "utf-8")
    (results_dir / "executor.json").write_text(json.dumps(_executor(header, environment), indent=2), "utf-8")


def _key(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._+-]", "_", text)


def _executor(header: RunHeader, environment: Mapping[str, str]) -> dict[str, str]:
    if environment.get("GITHUB_ACTIONS") != "true":
        return {"name": "command line", "type": "local", "buildName": header.run}
    server, repository = environment.get("GITHUB_SERVER_URL", ""), environment.get("GITHUB_REPOSITORY", "")
    return {
        "name": "GitHub Actions",
        "type": "github",
        "buildName": header.run,
        "buildOrder": environment.get("GITHUB_RUN_NUMBER", "0"),
        "buildUrl": f"{server}/{repository}/actions/runs/{environment.get('GITHUB_RUN_ID', '')}",
    }
