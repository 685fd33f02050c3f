"""The GitHub action, the GitLab template and the project's own workflows: valid by their schemas; action and template are run."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.ci.runner import executed_commands
from tests.suite.helpers import ROOT, environment

pytestmark = [pytest.mark.integration, pytest.mark.long]

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
def test_a_ci_file_is_valid_by_its_schema(file: str):
    words = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", SCHEMAS[file], str(ROOT / file)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_no_input_is_written_into_a_script():
    """Inputs reach a script through its environment alone, since the shell would run what stands in the script."""
    jobs = [document("action.yml")["runs"]]
    workflows = [f".github/workflows/{path.name}" for path in (ROOT / ".github" / "workflows").glob("*.yml")]
    assert {"action.yml", *workflows} <= SCHEMAS.keys()
    jobs += [job for file in workflows for job in document(file)["jobs"].values()]
    scripts = [step["run"] for job in jobs for step in job["steps"] if "run" in step]
    assert scripts
    assert [script for script in scripts if "${{" in script] == []


@dataclass
class Job:
    """A job that runs steps of the action one after another as GitHub does; `code` is the first exit code that is not 0."""

    place: Path
    inputs: dict[str, str]
    outputs: dict[str, str] = field(default_factory=dict)
    printed: dict[str, str] = field(default_factory=dict)
    code: int = 0

    def value(self, expression: str) -> str:
        """Return the value of `inputs.x`, `github.action_path`, `steps.run.outputs.exit-code`, a text, or `a || b`."""
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

    def is_true(self, condition: str) -> bool:
        """Whether a step's condition holds: `always()` and comparisons with `!=`, joined by `&&`."""
        terms = [term.strip() for term in condition.split("&&")]
        always = "always()" in terms
        pairs = [re.fullmatch(r"(\S+) != (\S+)", term) for term in terms if term != "always()"]
        assert all(pairs), condition
        return (always or self.code == 0) and all(self.value(pair[1]) != self.value(pair[2]) for pair in pairs if pair)

    def run_step(self, step: dict[str, Any], **variables: str) -> None:
        """Run one step in a shell with the options of GitHub's `bash`, and with more environment variables."""
        known = {
            name: re.sub(r"\$\{\{(.*?)\}\}", lambda found: self.value(found[1]), text)
            for name, text in step.get("env", {}).items()
        }
        (self.place / "output").touch()
        plain = {name: text for name, text in environment().items() if name not in ("PYTHONPATH", "GITHUB_ACTIONS")}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.place, env={**plain, **known, **variables, "GITHUB_OUTPUT": str(self.place / "output")},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        self.printed[step["name"]] = done.stdout
        self.code = self.code or done.returncode
        self.outputs |= dict(line.split("=", 1) for line in (self.place / "output").read_text().splitlines())


def inputs(**given: str) -> dict[str, str]:
    """Return the inputs with their defaults, and this Python."""
    declared = {
        name: str(declaration.get("default", "")) for name, declaration in document("action.yml")["inputs"].items()
    }
    return {**declared, "python": sys.executable, **given}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a user's checkout, into which the action has installed the harness."""
    folder = tmp_path_factory.mktemp("checkout")
    job = Job(folder, inputs(candidate="reference"))
    job.run_step(document("action.yml")["runs"]["steps"][0])
    assert job.code == 0, job.printed
    return folder


def run_action(place: Path, **given: str) -> Job:
    """Run the steps after the installation, and return the job."""
    (place / "output").unlink(missing_ok=True)
    job = Job(place, inputs(**given))
    for step in document("action.yml")["runs"]["steps"][1:]:
        if "run" in step and job.is_true(step.get("if", "inputs.candidate != ''")):
            job.run_step(step)
    return job


def test_a_job_with_a_conforming_server_succeeds_and_leaves_pages_and_junit(place: Path):
    job = run_action(place, candidate="reference", scenarios=f"{RUNS} {CELL}", options="--should fail -n 2", out="good")
    assert job.code == 0, job.printed
    assert job.outputs == {"exit-code": "0"}
    assert (place / "good/site/index.html").exists()
    cases = list(ET.parse(place / "good/junit.xml").iter("testcase"))
    assert {(case.get("name"), case.get("classname"), case.get("file")) for case in cases} == {
        (f"{RUNS} reference", "creation.inbound", None),
        (f"{CELL} reference", "creation.copies", None),
    }
    assert "Compare with the earlier run" not in job.printed


def test_a_job_with_a_violation_fails_and_is_compared_with_the_earlier_run(place: Path):
    """The earlier run has one cell more, so that the comparison tells which of the two is the earlier one."""
    run_action(place, candidate=WRONG, scenarios=f"{RUNS} {CELL}", out="before")
    job = run_action(place, candidate=WRONG, scenarios=RUNS, out="bad", before="before/run")
    assert job.code == 1
    assert job.outputs == {"exit-code": "1"}
    assert (place / "bad/site/index.html").exists()
    compared = job.printed["Compare with the earlier run"].splitlines()
    assert "unchanged: 1" in compared
    assert "not in the later run, which was asked for a part of the suite: 1" in compared
    missing = run_action(place, candidate=WRONG, scenarios=RUNS, out="bad", before="nowhere/run")
    assert "There is no run in" in missing.printed["Compare with the earlier run"]


def test_github_executes_no_command_of_a_server(place: Path):
    """The server dies with a last line that is a workflow command; each step that prints it stops commands first."""
    (place / "evil.py").write_text(
        "print('::set-env name=PATH::/evil ##[add-mask]x', flush=True)\nraise SystemExit(7)\n", "utf-8"
    )
    described = "name: evil\nkind: exec\nclaims: [relay]\nlisteners: [frontend]\nargv: ['{python}', evil.py]\n"
    (place / "evil.yaml").write_text(described, "utf-8")
    cell = "content-passes-unchanged[message=plain]"
    job = Job(place, inputs(candidate="evil.yaml", scenarios=f"--only {cell}", out="evil", before="evil/run"))
    for step in document("action.yml")["runs"]["steps"][1:]:
        if "run" in step:
            job.run_step(step, GITHUB_ACTIONS="true")
    printed = (place / "evil.py").read_text("utf-8").replace("print('", "").replace(" ##", "\n##")
    assert list(executed_commands(printed)) == ["set-env", "add-mask"], "without stop-commands both are executed"
    with_text = [name for name, text in job.printed.items() if "##[add-mask]" in text]
    assert {"Check the description", "Run"} <= set(with_text), job.printed
    # whether or not they print a text of this server here
    for name in ("Check the description", "Build the pages", "Compare with the earlier run"):
        assert job.printed[name].startswith("::stop-commands::"), name
    executed = {name: set(executed_commands(text)) for name, text in job.printed.items()}
    assert [name for name, names in executed.items() if names and name != "Run"] == []
    assert executed["Run"] <= {"error", "warning", "notice"}


def test_a_job_whose_failures_are_in_the_baseline_succeeds(place: Path):
    run_action(place, candidate=WRONG, scenarios=RUNS, out="draft", options="--baseline write")
    (draft,) = (place / "draft/run/baselines").glob("*.yaml")
    (place / "known.yaml").write_text(draft.read_text("utf-8").replace("say why", "it is made so"), "utf-8")
    job = run_action(place, candidate=WRONG, scenarios=RUNS, out="known", baseline="known.yaml")
    assert job.code == 0, job.printed
    assert job.outputs == {"exit-code": "0"}


def test_a_job_with_an_invalid_description_fails_before_the_run(place: Path):
    (place / "wrong.yaml").write_text("name: wrong\nkind: exec\n", "utf-8")
    job = run_action(place, candidate="wrong.yaml", out="none")
    assert job.code, job.printed
    assert job.outputs == {}
    assert not (place / "none").exists()


def test_the_scripts_of_the_gitlab_template_leave_run_pages_and_junit(place: Path, tmp_path: Path):
    job = document("examples/ci/gitlab-ci.yml")["conformance"]
    installs = document("action.yml")["runs"]["steps"][0]["run"].replace('"$PYTHON"', "python3")
    assert job["before_script"] == installs.splitlines(), "as `place` was made"
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
    for name in ("run/run.json", "site/index.html", "junit.xml"):
        assert (tmp_path / "conformance-results" / name).exists()
