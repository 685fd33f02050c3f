"""The page of an exploration: what was found first, then what the campaign was worth, then what was left out and why.

`conformance explore` writes it beside `exploration.json`, of which it shows everything. A *plan* is one cell that is run with
faults and judged by the model alone; it has a scenario file where it found something. A *finding* is a check that failed in a
plan; its plan is shown as it was run, and *reduced* to the steps that are needed.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from conformance.clocks import CLOCKS
from conformance.report.rendering import render_page
from conformance.requirements.catalogue import catalogue
from conformance.results.exploration import METHODS, ExplorationHeader, ExplorationSummary, FindingRecord

WIDTH, HEIGHT = 480, 180
"""The size of the coverage curve, in SVG units."""

OUTCOMES: Mapping[str, str] = {
    "violated": "a rule of the model was violated",
    "sound": "no rule was violated",
    "unfinished": "the plan could not be run to its end, and no rule was violated until then",
    "inapplicable": "the candidate cannot take part in the plan",
}
"""What each outcome of a plan means."""


@dataclass(frozen=True, slots=True)
class ShownPlan:
    """A plan on the page: the file with it, its size in words, and the lines of the file."""

    file: str
    size: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShownFinding:
    """A finding on the page: its record, the text of its requirement, and its plan as it was reduced and as it was run.

    `repeat` is the command that runs the reduced plan.
    """

    record: FindingRecord
    clause: str
    reduced: ShownPlan
    original: ShownPlan
    repeat: str


@dataclass(frozen=True, slots=True)
class Curve:
    """The coverage curve: points of an SVG polyline, and the numbers at the ends of its axes."""

    points: str
    plans: int
    states: int


def exploration_page(header: ExplorationHeader, summary: ExplorationSummary, files: Mapping[str, str]) -> str:
    """Return the page as HTML; `files` has the text of each scenario file that a finding names, by the path in the finding.

    Raises KeyError for a file that `files` lacks.
    """
    seen = sorted(summary.sometimes.items(), key=lambda entry: (entry[1], entry[0]))
    return render_page(
        "exploration.html.j2",
        header=header,
        summary=summary,
        method=METHODS[header.method],
        facts=_facts(header, summary.plans),
        findings=[_finding(record, header, files) for record in summary.findings],
        share=percentage(summary.faults.fired, summary.faults.drawn),
        seen=[(sentence, count, percentage(count, summary.plans)) for sentence, count in seen],
        seen_count=len(summary.sometimes) - len(summary.never_seen),
        outcomes=[
            (name, meaning, summary.outcomes[name]) for name, meaning in OUTCOMES.items() if name in summary.outcomes
        ],
        curve=coverage_curve(summary.curve),
        width=WIDTH,
        height=HEIGHT,
        pruned=sorted(summary.pruned.items(), key=lambda entry: (-entry[1], entry[0])),
    )


def percentage(part: int, whole: int) -> str:
    """Return the share of `part` in `whole` as `97.6 %`; `none` where `whole` is 0."""
    return f"{100 * part / whole:.1f} %" if whole else "none"


def coverage_curve(curve: tuple[tuple[int, int], ...]) -> Curve | None:
    """Return the curve of distinct states over plans, from (plans, states) pairs; None where no plan has shown a state.

    (0, 0) is at the lower left, the last pair at the upper right.
    """
    plans, states = curve[-1] if curve else (0, 0)
    if not (plans and states):
        return None
    points = " ".join(f"{x * WIDTH / plans:.1f},{HEIGHT - y * HEIGHT / states:.1f}" for x, y in curve)
    return Curve(points=points, plans=plans, states=states)


def _facts(header: ExplorationHeader, plans: int) -> Mapping[str, str]:
    """Return label -> text: what was explored and how, when it began, the real time that its `plans` plans took, and the command."""
    return {
        "candidate": f"{header.candidate.name} {header.candidate.version} ({header.candidate.kind})",
        "plans": METHODS[header.method],
        "scenarios": ", ".join(header.scenarios) or ("none" if header.method == "random" else "all short ones"),
        "seed": str(header.seed),
        "clock": header.clock_text,
        "began": header.started,
        "time its plans took": f"{header.seconds:.0f} s",
        "harness": header.harness,
        "repeat it": _command(header, plans),
    }


def _command(header: ExplorationHeader, plans: int) -> str:
    """Return the command, quoted for a shell, that runs the same `plans` plans again, into another directory."""
    method = ["--random"] if header.method == "random" else ["--sweep", header.method.removeprefix("sweep-")]
    words = ["conformance", "explore", *method, *header.scenarios, "--candidate", header.candidate.name]
    numbers = ["--seed", str(header.seed), "--plans", str(plans)]
    return shlex.join([*words, *_clock_words(header), *numbers, "--out", f"{header.exploration}-again"])


def _clock_words(header: ExplorationHeader) -> list[str]:
    """Return the options of `conformance explore` and `run` for the clock, and for the scale of one that has it."""
    scale = ["--scale", f"{header.scale:g}"] if CLOCKS[header.clock].scaled else []
    return ["--clock", header.clock, *scale]


def _finding(record: FindingRecord, header: ExplorationHeader, files: Mapping[str, str]) -> ShownFinding:
    """Return a finding as the page shows it, with the texts of its plans from `files` and the command that runs the reduced one.

    The clause is '' for a requirement that the catalogue lacks.
    """
    row = catalogue().get(record.requirement)
    return ShownFinding(
        record=record,
        clause=row.text if row is not None else "",
        reduced=ShownPlan(record.file, record.size.text, tuple(files[record.file].splitlines())),
        original=ShownPlan(record.original, record.original_size.text, tuple(files[record.original].splitlines())),
        repeat=shlex.join(
            [
                *("conformance", "run", f"{header.exploration}/{record.file}", "--candidate", header.candidate.name),
                *_clock_words(header),
            ]
        ),
    )
