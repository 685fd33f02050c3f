"""What Allure shows of a cell, given through allure-pytest's own API, and the static files beside the results.

All functions but `write_static` and `categories` must be called while pytest runs (or has just run) the cell's item:
they speak of the current test. Without `--alluredir` they do nothing, at the cost of nothing.
"""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any

import allure
from allure_commons import plugin_manager

from conformance.history.events import EVENT, StepEvent
from conformance.judge.verdicts import Outcome, Verdict, worst
from conformance.report.causes import Cause
from conformance.report.conversation import in_order, per_session
from conformance.report.diagram.page import cell_page
from conformance.report.failure import BROKE, HEADS, clause_of, failure_text
from conformance.report.material import GLYPHS, Material
from conformance.report.safe import markdown, visible
from conformance.requirements.catalogue import catalogue
from conformance.results.schema import RunHeader

_tell: Any = allure.dynamic  # untyped, though the package says that it is typed
_attach: Any = allure.attach
_SEVERITY = {"must": "critical", "should": "normal", "may": "minor"}
_LOG = 256 * 1024
"""Octets from the end of a node's log that are attached."""


class _StepViolates(AssertionError):
    """Makes Allure show a step as failed."""


class _StepUnjudged(Exception):
    """Makes Allure show a step as broken."""


def describe(material: Material, *, clause_url: str = "") -> None:
    """Tell Allure everything about the current cell, in the order in which it is to be read.

    `clause_url` is where the catalogue can be read, with `{}` for a requirement's id; without it there are no links
    and the clauses stand in the description only.
    """
    if not plugin_manager.hook.add_title.get_hookimpls():
        return
    _labels(material, clause_url)
    _remarks(material)
    _parameters(material)
    _steps(material)
    _attachments(material)


def _labels(material: Material, clause_url: str) -> None:
    header, rows = material.header, catalogue()
    _tell.title(visible(f"{material.name} · {header.candidate}"))
    _tell.epic(*(header.generations or ("any generation",)))
    known = [row for row in map(rows.get, header.requirements) if row is not None]
    _tell.feature(*dict.fromkeys(f"{row.group} {rows.groups[row.group]}" for row in known))
    _tell.story(*(f"{row.id} {row.text}" for row in known))
    path = PurePosixPath(header.path)
    _tell.parent_suite(visible(str(path.parent)))
    _tell.suite(visible(path.name))
    _tell.sub_suite(visible(header.scenario))
    _tell.label("candidate", visible(header.candidate))
    if known:
        _tell.severity(_SEVERITY[min((row.level for row in known), key=list(_SEVERITY).index)])
    told = [f"**{markdown(header.title)}**", "", *(f"- {markdown(clause_of(one))}" for one in header.requirements)]
    _tell.description("\n".join(told))
    if clause_url:
        for row in known:
            _tell.link(clause_url.replace("{}", row.id), name=row.clause)


def _remarks(material: Material) -> None:
    """A broken `should`: the result stays a pass, with a tag to filter by and the sentences as a text."""
    if material.remarks:
        _tell.tag("remark")
        _attach(
            "\n".join(visible(one.sentence, 600) for one in material.remarks), "Remark", allure.attachment_type.TEXT
        )


def _parameters(material: Material) -> None:
    """Axes and candidate make a result's history; what differs from run to run must not."""
    header = material.header
    _tell.parameter("candidate", visible(header.candidate))
    for axis, value in header.axes.items():
        _tell.parameter(axis, visible(value))
    _tell.parameter("clock", header.clock, excluded=True)
    _tell.parameter("seed", header.seed, excluded=True)
    if material.file is not None:
        _tell.parameter("history", str(material.file), excluded=True)


@dataclass(frozen=True, slots=True)
class StepTold:
    """One step of the scenario as Allure lists it."""

    title: str
    outcome: Outcome
    sentence: str


def steps_told(material: Material) -> tuple[StepTold, ...]:
    """Return the scenario's steps in the order in which they began, once each, then the invariants.

    A step has the verdict of its expectation; one without is passed when it ended, an error when it failed, and
    inconclusive when the cell ended in it.
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
    checks = [(check, list(own)) for check, own in groupby(rest, key=lambda v: v.check)]
    return (*steps, *(StepTold(check, *_found(own)) for check, own in checks))


def _step(path: str, events: list[StepEvent], verdicts: list[Verdict], material: Material) -> StepTold:
    first, header = events[0], material.header
    line = material.source_line(first.line)
    title = visible(f"{path} {first.verb}  {header.path}:{first.line}" + (f"  {line.strip()}" if line else ""), 300)
    if verdicts:
        return StepTold(title, *_found(verdicts))
    if failed := [event for event in events if event.phase == "failed"]:
        return StepTold(title, Outcome.ERROR, visible(failed[0].detail, 600))
    ended = events[-1].phase == "ended"
    return StepTold(title, Outcome.PASS if ended else Outcome.INCONCLUSIVE, "" if ended else "the cell ended in it")


def _found(verdicts: list[Verdict]) -> tuple[Outcome, str]:
    outcome = worst(verdict.outcome for verdict in verdicts)
    deciding = sorted((v for v in verdicts if v.outcome is outcome), key=lambda v: not v.remark)
    return outcome, visible(deciding[0].sentence, 600)


def _steps(material: Material) -> None:
    for told in steps_told(material):
        remark = f"  remark: {told.sentence}" if told.outcome is Outcome.PASS and told.sentence else ""
        with suppress(_StepViolates, _StepUnjudged), allure.step(f"{GLYPHS[told.outcome]} {told.title}{remark}"):
            if told.outcome is Outcome.FAIL:
                raise _StepViolates(told.sentence)
            if told.outcome in (Outcome.ERROR, Outcome.INCONCLUSIVE):
                raise _StepUnjudged(told.sentence)


def _attachments(material: Material) -> None:
    """A passed cell gets the command only: thousands of diagrams and histories of what went well help nobody, and make
    Allure's one page too large to open. They are in the run's directory, and our own pages draw them.
    """
    kinds = allure.attachment_type
    if material.findings or material.cut_short:
        _attach(failure_text(material), "Sentence", kinds.TEXT)
        _attach(cell_page(material), "Sequence diagram", kinds.HTML)
        told = in_order(material.events, material.sessions, material.offending)
        sessions = per_session(material.events, material.sessions, material.offending)
        _attach(f"{told}\n\n\n{sessions}", "Conversation", kinds.TEXT)
        _attach(history_json(material), "History", kinds.JSON)
        for name, path in material.logs.items():
            _attach(_tail(path), f"Log of {visible(name)}", kinds.TEXT)
    _attach(material.header.repeat, "Repeat this cell", kinds.TEXT)


def history_json(material: Material) -> bytes:
    """Return header, events and verdicts of a cell as one JSON document, in ASCII."""
    document = {
        "cell": material.header.model_dump(mode="json", by_alias=True),
        "events": [EVENT.dump_python(event, mode="json") for event in material.events],
        "verdicts": [verdict.model_dump(mode="json") for verdict in material.verdicts],
    }
    return json.dumps(document, ensure_ascii=True, separators=(",", ":")).encode()


def _tail(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(file.seek(0, 2) - _LOG, 0))
        text = file.read().decode("utf-8", "backslashreplace")
    return "\n".join(visible(line) for line in text.splitlines())


def categories(found: Sequence[Cause] = ()) -> list[dict[str, Any]]:
    """Return Allure's categories: what a red or yellow result is, told apart by how the failure text begins.

    Before them, for each cause of violations, one for its own and one for those that may follow from it. What is known to fail ends as pytest's xfail, which allure-pytest records as skipped, with the baseline's comment.
    """

    def beginning(text: str) -> str:
        return rf"[\s\S]*{text}[\s\S]*"  # Allure 2 matches as Java does, Allure 3 as JavaScript: no inline flags

    violation = re.escape(HEADS[Outcome.FAIL])
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
        {"name": "Known failure", "matchedStatuses": ["skipped"], "messageRegex": beginning("XFAIL")},
        {"name": "Violation", "matchedStatuses": ["failed"], "messageRegex": beginning(violation + "  ")},
        {"name": "Candidate broke", "matchedStatuses": ["broken"], "messageRegex": beginning(re.escape(BROKE))},
        {
            "name": "Inconclusive",
            "matchedStatuses": ["broken"],
            "messageRegex": beginning(HEADS[Outcome.INCONCLUSIVE]),
        },
        {"name": "Harness error", "matchedStatuses": ["broken"]},
    ]


def write_categories(results_dir: Path, found: Sequence[Cause] = ()) -> None:
    """Write categories.json into Allure's results directory; `found` are the causes of a run that has ended."""
    (results_dir / "categories.json").write_text(json.dumps(categories(found), indent=2), "utf-8")


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
