"""The action for GitHub, the template for GitLab and our own workflows: valid by their schemas, and every step does what it says."""

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from conformance.report.statement import Badge
from tests.suite.helpers import ROOT, environment

pytestmark = pytest.mark.integration

SCHEMAS = {
    "action.yml": "vendor.github-actions",
    ".github/workflows/ci.yml": "vendor.github-workflows",
    ".github/workflows/nightly.yml": "vendor.github-workflows",
    "examples/ci/gitlab-ci.yml": "vendor.gitlab-ci",
}
CELL = "shadow-is-on-disk-when-acknowledged"
WRONG = "reference+acknowledges-before-shadow"
RUNS = "inbound-acknowledgement-waits-for-the-shadow"


def document(file: str) -> Any:
    return YAML(typ="safe").load((ROOT / file).read_text("utf-8"))


@pytest.mark.parametrize("file", SCHEMAS)
def test_it_is_valid_by_its_schema(file: str):
    words = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", SCHEMAS[file], str(ROOT / file)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_no_input_is_written_into_a_script():
    """What a caller gives reaches a script through its environment alone: in a script it would be run."""
    for step in document("action.yml")["runs"]["steps"]:
        assert "${{" not in step.get("run", "")


@dataclass
class Job:
    """The steps of the action, done one after another as GitHub does them."""

    place: Path
    inputs: dict[str, str]
    outputs: dict[str, str] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)
    code: int = 0

    def value(self, expression: str) -> str:
        """Return what `inputs.x`, `github.action_path`, `steps.run.outputs.exit-code`, a text or `a || b` stands for."""
        for word in (part.strip() for part in expression.split("||")):
            known = {
                **{f"inputs.{name}": text for name, text in self.inputs.items()},
                "github.action_path": str(ROOT),
                "steps.run.outputs.exit-code": self.outputs.get("exit-code", ""),
            }
            text = word.strip("'") if word.startswith("'") else known[word]
            if text:
                return text
        return ""

    def wanted(self, condition: str) -> bool:
        """Whether a step is done: `always()`, comparisons, and nothing else, joined by `&&`."""
        terms = [term.strip() for term in condition.split("&&")]
        always = "always()" in terms
        pairs = [re.fullmatch(r"(\S+) != (\S+)", term) for term in terms if term != "always()"]
        assert all(pairs), condition
        return (always or self.code == 0) and all(self.value(pair[1]) != self.value(pair[2]) for pair in pairs if pair)

    def do(self, step: dict[str, Any]) -> None:
        """Do one step in a shell as GitHub's `bash`."""
        known = {
            name: re.sub(r"\$\{\{(.*?)\}\}", lambda found: self.value(found[1]), text)
            for name, text in step.get("env", {}).items()
        }
        (self.place / "output").touch()
        plain = {name: text for name, text in environment().items() if name not in ("PYTHONPATH", "GITHUB_ACTIONS")}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.place, env={**plain, **known, "GITHUB_OUTPUT": str(self.place / "output")},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        self.said[step["name"]] = done.stdout
        self.code = self.code or done.returncode
        self.outputs |= dict(line.split("=", 1) for line in (self.place / "output").read_text().splitlines())

    def all(self) -> None:
        """Do all steps but the uploading of results."""
        for step in document("action.yml")["runs"]["steps"]:
            if "run" in step and self.wanted(step.get("if", "inputs.candidate != ''")):
                self.do(step)


def inputs(**given: str) -> dict[str, str]:
    """Return the inputs with their defaults, and this Python."""
    declared = {name: str(one.get("default", "")) for name, one in document("action.yml")["inputs"].items()}
    return {**declared, "python": sys.executable, **given}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout of somebody else; the harness is installed in it once."""
    here = tmp_path_factory.mktemp("theirs")
    job = Job(here, inputs(candidate="reference"))
    job.do(document("action.yml")["runs"]["steps"][0])
    assert job.code == 0, job.said
    return here


def done(place: Path, **given: str) -> Job:
    """Do the steps after the installation."""
    (place / "output").unlink(missing_ok=True)
    job = Job(place, inputs(**given))
    for step in document("action.yml")["runs"]["steps"][1:]:
        if "run" in step and job.wanted(step.get("if", "inputs.candidate != ''")):
            job.do(step)
    return job


def test_a_server_that_conforms_ends_well_with_pages_and_junit(place: Path):
    job = done(place, candidate="reference", scenarios=f"{RUNS} {CELL}", options="--should fail -n 2", out="good")
    assert job.code == 0, job.said
    assert job.outputs == {"exit-code": "0"}
    assert (place / "good/site/index.html").exists()
    cases = list(ET.parse(place / "good/junit.xml").iter("testcase"))
    assert {(case.get("name"), case.get("classname"), case.get("file")) for case in cases} == {
        (f"{RUNS} reference", "creation.inbound", None),
        (f"{CELL} reference", "creation.copies", None),
    }
    assert "Compare with the earlier run" not in job.said


def test_a_server_that_does_not_conform_ends_badly_and_is_compared(place: Path):
    done(place, candidate=WRONG, scenarios=RUNS, out="before")
    job = done(place, candidate=WRONG, scenarios=RUNS, out="bad", before="before/run")
    assert job.code == 1
    assert job.outputs == {"exit-code": "1"}
    assert (place / "bad/site/index.html").exists()
    assert "unchanged" in job.said["Compare with the earlier run"]
    missing = done(place, candidate=WRONG, scenarios=RUNS, out="bad", before="nowhere/run")
    assert "There is no run in" in missing.said["Compare with the earlier run"]


def test_what_a_baseline_knows_is_expected(place: Path):
    done(place, candidate=WRONG, scenarios=RUNS, out="draft", options="--baseline write")
    (draft,) = (place / "draft/run/baselines").glob("*.yaml")
    (place / "known.yaml").write_text(draft.read_text("utf-8").replace("say why", "it is made so"), "utf-8")
    job = done(place, candidate=WRONG, scenarios=RUNS, out="known", baseline="known.yaml")
    assert job.code == 0, job.said
    assert job.outputs == {"exit-code": "0"}


def test_a_description_that_is_wrong_ends_the_job_before_the_run(place: Path):
    (place / "wrong.yaml").write_text("name: wrong\nkind: exec\n", "utf-8")
    job = done(place, candidate="wrong.yaml", out="none")
    assert job.code, job.said
    assert job.outputs == {}
    assert not (place / "none").exists()


def test_the_steps_of_the_template_for_gitlab_do_what_they_say(place: Path, tmp_path: Path):
    job = document("examples/ci/gitlab-ci.yml")["conformance"]
    (tmp_path / ".conformance-venv").symlink_to(place / ".conformance-venv")
    own = {**job["variables"], "CANDIDATE": "reference", "OPTIONS": f"{RUNS} --should fail"}
    plain = {name: text for name, text in environment().items() if name != "PYTHONPATH"}
    for line in [*job["script"], *job["after_script"]]:
        ran = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", line],
            cwd=tmp_path,
            env={**plain, **own},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
    for kept in ("run/run.json", "site/index.html", "junit.xml"):
        assert (tmp_path / "conformance-results" / kept).exists()


def test_the_badge_is_there_for_shields_too(tmp_path: Path):
    said = json.loads(Badge("112 of 112 shown", "#0a6449").as_endpoint())
    assert said == {"schemaVersion": 1, "label": "mail conformance", "message": "112 of 112 shown", "color": "0a6449"}
