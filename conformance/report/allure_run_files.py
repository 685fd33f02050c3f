"""The files in Allure's results directory that describe the run: categories, environment and executor.

Allure shows them beside the results of cells, which `allure_content` makes. A *root cause* is a violated row (requirement)
from which other violations may follow. A *known failure* is in the candidate's baseline. The run calls this at its beginning
and its end.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from conformance.report.escaping import visible
from conformance.report.failure_text import BROKE
from conformance.report.root_causes import RootCause
from conformance.results.schema import RunHeader
from conformance.verdicts import Outcome
from conformance.verdicts.outcome import OUTCOME_DISPLAY

KNOWN_PREFIX = "XFAIL"
"""How allure-pytest begins the message of a test that is expected to fail."""
_STALE = "stale baseline"


def allure_categories(root_causes: Sequence[RootCause] = ()) -> list[dict[str, Any]]:
    """Return Allure's categories of results that did not pass; Allure assigns them by patterns of the failure message.

    First come those of each root cause: one for the violations of its row, and one for those of the rows that may follow from it,
    if any. A known failure ends as pytest's xfail, which allure-pytest records as skipped.
    """

    def containing(text: str) -> str:
        """Return a pattern for a whole message in which the pattern `text` matches somewhere."""
        return rf"[\s\S]*{text}[\s\S]*"  # Allure 2 matches as Java does, Allure 3 as JavaScript: no inline flags

    violation = re.escape(OUTCOME_DISPLAY[Outcome.FAIL].heading)
    by_cause = [
        {"name": name, "matchedStatuses": ["failed"], "messageRegex": containing(f"violates +({'|'.join(rows)}) ")}
        for cause in root_causes
        for name, rows in (
            (cause.sentence.partition(";")[0], (cause.requirement,)),
            (f"may follow from {cause.requirement}", cause.following),
        )
        if rows
    ]
    return [
        *by_cause,
        {"name": "Known failure", "matchedStatuses": ["skipped"], "messageRegex": containing(KNOWN_PREFIX)},
        {"name": "Violation", "matchedStatuses": ["failed"], "messageRegex": containing(violation + "  ")},
        {"name": "Stale baseline", "matchedStatuses": ["failed"], "messageRegex": containing(_STALE)},
        {"name": "Candidate broke", "matchedStatuses": ["broken"], "messageRegex": containing(re.escape(BROKE))},
        {
            "name": "Inconclusive",
            "matchedStatuses": ["broken"],
            "messageRegex": containing(OUTCOME_DISPLAY[Outcome.INCONCLUSIVE].heading),
        },
        {"name": "Harness error", "matchedStatuses": ["broken"]},
    ]


def write_categories(results_dir: Path, root_causes: Sequence[RootCause] = ()) -> None:
    """Write categories.json into Allure's results directory; `root_causes` are known when the run has ended."""
    (results_dir / "categories.json").write_text(json.dumps(allure_categories(root_causes), indent=2), "utf-8")


def write_run_files(results_dir: Path, header: RunHeader, environment: Mapping[str, str]) -> None:
    """Write categories.json, environment.properties and executor.json into Allure's results directory, which is created.

    The categories are those without root causes, which are not known before the run has ended.
    `environment` has the process's environment variables; only those with which GitHub Actions names its run are read.
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
        **{f"candidate.{c.name}": f"{c.kind} {c.version} {c.sha256[:12]}" for c in header.candidates},
        "suite": header.suite_sha256[:12],
        "environment": header.environment_sha256[:12],
    }
    lines = [f"{_property_name(key)}={visible(value).replace(chr(92), chr(92) * 2)}" for key, value in facts.items()]
    (results_dir / "environment.properties").write_text("\n".join(lines) + "\n", "utf-8")
    (results_dir / "executor.json").write_text(json.dumps(_executor(header, environment), indent=2), "utf-8")


def _property_name(text: str) -> str:
    """Return a text as a key of a properties file: anything but ASCII letters, digits and `._+-` is replaced by `_`."""
    return re.sub(r"[^A-Za-z0-9._+-]", "_", text)


def _executor(header: RunHeader, environment: Mapping[str, str]) -> dict[str, str]:
    """Return who ran the suite, for Allure: GitHub Actions with a link to its run, or the command line."""
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
