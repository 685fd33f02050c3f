"""The results of checks on a live peer, as `conformance probe` and `conformance listen` report them: terminal, JSON, JUnit.

No history is stored that could be judged again: the probe looks at a session while it lasts, `listen` judges at its end what
it has in memory. The outcomes are those of `conformance.verdicts` but `error`, and `warn` for a broken SHOULD.
"""

import json
import xml.etree.ElementTree as ET  # only writes
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from rich.console import Console
from rich.text import Text

from conformance.report.escaping import visible
from conformance.requirements.catalogue import catalogue
from conformance.verdicts import Outcome
from conformance.verdicts.outcome import OUTCOME_DISPLAY

_SENTENCE = 600
"""Characters of a sentence that are shown: a peer's text is part of it."""


class LiveOutcome(StrEnum):
    """The outcome of a check on a live peer.

    - `pass`: it could have failed, and did not
    - `fail`: a MUST is violated
    - `warn`: a SHOULD is not followed
    - `inconclusive`: it could not be judged, for example because the peer was silent
    - `not-applicable`: the peer does not offer what the check is about, or the user did not permit it
    """

    PASS = "pass"  # noqa: S105  # not a password
    FAIL = "fail"
    WARN = "warn"
    INCONCLUSIVE = "inconclusive"
    NOT_APPLICABLE = "not-applicable"


_SIGNS = {
    **{LiveOutcome(outcome): (display.sign, display.style) for outcome, display in OUTCOME_DISPLAY.items() if outcome != Outcome.ERROR},
    LiveOutcome.WARN: ("!", "yellow"),
}  # fmt: skip
_ORDER = (
    LiveOutcome.NOT_APPLICABLE,
    LiveOutcome.PASS,
    LiveOutcome.INCONCLUSIVE,
    LiveOutcome.WARN,
    LiveOutcome.FAIL,
)
"""The order on a terminal, where the last lines are read first."""


@dataclass(frozen=True, slots=True)
class LiveFinding:
    """What one check found.

    `check` is its name in kebab-case, `clause` the place that demands it, such as `RFC 5321 4.1.1.5`. `requirement` is a row
    of the catalogue, None where none says the same. `session` names the session that shows it, where a report has several,
    and `transcript` is what was said in it.
    """

    check: str
    clause: str
    outcome: LiveOutcome
    sentence: str
    requirement: str | None = None
    session: str | None = None
    transcript: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for a row that is not in the catalogue."""
        if self.requirement is not None and self.requirement not in catalogue().ids:
            raise ValueError(f"{self.check}: no requirement {self.requirement!r}")

    def with_transcript(self, transcript: tuple[str, ...]) -> "LiveFinding":
        """Return a copy of the finding with the lines of its session as `transcript`."""
        return replace(self, transcript=transcript)

    def as_json(self) -> dict[str, object]:
        """Return the finding as `--json` prints it; `session` and `transcript` are there only if it has a session."""
        fields: dict[str, object] = {
            "check": self.check,
            "requirement": self.requirement,
            "clause": self.clause,
            "outcome": str(self.outcome),
            "sentence": visible(self.sentence),
        }
        if self.session is None:
            return fields
        return fields | {"session": self.session, "transcript": [visible(line) for line in self.transcript]}


def exit_code(findings: Sequence[LiveFinding]) -> int:
    """Return 1 if a check failed, else 3 if one was inconclusive or none was made, else 0; a warning changes nothing."""
    outcomes = {finding.outcome for finding in findings}
    if LiveOutcome.FAIL in outcomes:
        return 1
    return 3 if LiveOutcome.INCONCLUSIVE in outcomes or not outcomes else 0


def json_text(findings: Sequence[LiveFinding]) -> str:
    """Return all findings as a JSON list."""
    return json.dumps([finding.as_json() for finding in findings], indent=2, ensure_ascii=False)


def write_junit(findings: Sequence[LiveFinding], suite: str, file: Path) -> None:
    """Write a JUnit file with a test case for each finding. Raises OSError.

    A warning is the output of a passed case, *inconclusive* an error, *not applicable* a skipped case.
    """
    counts = Counter(finding.outcome for finding in findings)
    root = ET.Element(
        "testsuite",
        name=suite,
        tests=str(len(findings)),
        failures=str(counts[LiveOutcome.FAIL]),
        errors=str(counts[LiveOutcome.INCONCLUSIVE]),
        skipped=str(counts[LiveOutcome.NOT_APPLICABLE]),
    )
    elements = {LiveOutcome.FAIL: "failure", LiveOutcome.INCONCLUSIVE: "error", LiveOutcome.NOT_APPLICABLE: "skipped"}
    for finding in findings:
        case = ET.SubElement(root, "testcase", classname=suite, name=finding.check)
        properties = ET.SubElement(case, "properties")
        own = (("clause", finding.clause), ("requirement", finding.requirement), ("session", finding.session))
        for key, value in own:
            if value is not None:
                ET.SubElement(properties, "property", name=key, value=value)
        sentence = visible(finding.sentence)
        if (element := elements.get(finding.outcome)) is not None:
            ET.SubElement(case, element, message=sentence).text = "\n".join(map(visible, finding.transcript)) or None
        else:
            ET.SubElement(case, "system-out").text = f"{finding.outcome}: {sentence}"
    tree = ET.ElementTree(root)
    ET.indent(tree)
    tree.write(file, "utf-8", xml_declaration=True)


def print_findings(findings: Sequence[LiveFinding], console: Console, *, everything: bool) -> None:
    """Print the findings, the failures last, and one line with their numbers.

    Without `everything` those that passed or do not apply are counted only.
    """
    shown = [f for f in findings if everything or f.outcome not in (LiveOutcome.PASS, LiveOutcome.NOT_APPLICABLE)]
    for finding in sorted(shown, key=lambda finding: _ORDER.index(finding.outcome)):
        print_finding(finding, console)
    counts = Counter(finding.outcome for finding in findings)
    words = [f"{counts[outcome]} {outcome}" for outcome in reversed(_ORDER) if counts[outcome]]
    console.print(Text(", ".join(words) or "no check was made", style="bold"))


def print_finding(finding: LiveFinding, console: Console) -> None:
    """Print one finding: outcome, check, clause, row, and its sentence in a line of its own."""
    sign, style = _SIGNS[finding.outcome]
    where = [finding.clause, *([finding.requirement] if finding.requirement else [])]
    session = f"{visible(finding.session)}  " if finding.session is not None else ""
    console.print(
        Text.assemble(
            (f"{sign} {finding.outcome}  ", style), session, (finding.check, "bold"), f"  {', '.join(where)}"
        ),
        Text(f"    {visible(finding.sentence, _SENTENCE)}"),
        sep="\n",
    )
