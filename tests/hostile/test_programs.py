"""All hostile programs in one run: it ends in time with the documented exit code, no cell ends another, and nothing is left."""

import json
import time
from pathlib import Path

import psutil
import pytest

from conformance.nodes import cgroups
from conformance.results.reader import read_run
from conformance.untrusted import tree
from conformance.verdicts import Outcome
from tests.hostile import programs
from tests.nodes.test_hostile import STOPPED
from tests.suite.helpers import conformance_command

GOOD = "does nothing"


def describe(directory: Path, name: str) -> str:
    word = name.replace(" ", "_")
    description = {
        "name": word, "kind": "exec", "claims": ["relay"], "listeners": ["frontend"],
        "argv": ["{python}", "-S", "-E", programs.__file__, "{config}", word], "exit-codes": [0, 143],
        "ready-within": 10, "stop-within": 5, "log-limit": 65536, "directory-limit": 2**23, "process-limit": 64,
        "memory-limit": 2**27 if name == "eats memory" else 2**30,
    }  # fmt: skip
    (directory / f"{word}.yaml").write_text(json.dumps(description), "utf-8")  # JSON is YAML
    return f"{word}.yaml"


@pytest.mark.long
@pytest.mark.timed
@pytest.mark.integration
def test_hostile_programs_harm_neither_the_run_nor_each_other_nor_the_machine(tmp_path: Path):
    (tmp_path / "stopped.scenario.yaml").write_text(STOPPED, "utf-8")
    words = [word for name in programs.BEFORE for word in ("--candidate", describe(tmp_path, name))]
    began = time.monotonic()
    try:
        ran = conformance_command(
            "run", "stopped.scenario.yaml", *words, "--cells", "8", "--clock", "scaled", "--scale", "60",
            "--run-dir", "run", cwd=tmp_path, timeout=900,
        )  # fmt: skip
        assert time.monotonic() - began < 600
        assert "INTERNALERROR" not in ran.stdout
        assert "Traceback" not in ran.stderr
        assert "\x1b" not in ran.stdout
        cells = {cell.header.candidate.replace("_", " "): cell for cell in read_run(tmp_path / "run").cells([])}
        assert set(cells) == set(programs.BEFORE), "every program has a cell"
        outcomes = {name: cell.footer.outcome for name, cell in cells.items() if cell.footer is not None}
        assert set(outcomes) == set(programs.BEFORE), "and every cell its end"
        assert outcomes[GOOD] is Outcome.PASS
        assert ran.returncode == (1 if Outcome.FAIL in outcomes.values() else 3), ran.stdout[-3000:]
        sentences = " ".join(verdict.sentence for cell in cells.values() for verdict in cell.verdicts)
        assert "harness itself broke" not in sentences
        for name, said in {
            "fills its disk": "its directory grew beyond",
            "is a fork bomb": "it had more than 64 processes and threads",
            "eats memory": "it used more than 134217728 octets of memory",
            "leaves with 137": "SIGKILL",
        }.items():
            assert said in " ".join(verdict.sentence for verdict in cells[name].verdicts), name
        report = conformance_command("report", "run", "--out", "site", cwd=tmp_path)
        assert report.returncode == 0, report.stderr[-2000:]
        mine = [p for p in psutil.process_iter(["cmdline"]) if str(tmp_path) in " ".join(p.info["cmdline"] or ())]
        assert mine == []
        home = cgroups._parent()
        assert home is None or not [path for path in home.main.glob("conformance-*") if cgroups._is_orphaned(path.name)]
        assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text("utf-8")  # others mount elsewhere meanwhile
    finally:
        for folder in tmp_path.iterdir():
            tree.delete_tree(folder)  # deeper than pytest can delete
