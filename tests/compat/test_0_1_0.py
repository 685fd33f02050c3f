"""Version 0.1.0: its run directory, baseline, description, scenarios, cell ids and documented commands still work.

The files in `0.1.0/` are as that version wrote them; only the paths of the machine were replaced. `run/` was made by:

    conformance run scenarios/relay/relay.scenario.yaml my.scenario.yaml --cells 6
        -k "(content-passes-unchanged and (plain or dots) and as-it-is) or mine-is"
        --candidate ./mine.yaml --candidate exec:reference --baseline (known.yaml without its last entry)
"""

import json
import shlex
import shutil
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from conformance import paths
from conformance.commands.judge import judge_stored_cell
from conformance.report.run_summary import read_run_summary
from conformance.results.reader import StoredCell, read_run
from conformance.scenarios.document import Cell
from conformance.scenarios.loader import read_corpus, read_scenarios
from conformance.verdicts import Outcome, worst_in_cell
from tests.suite.helpers import ROOT, conformance_command

KEPT = Path(__file__).parent / "0.1.0"
OUTCOMES = {Outcome.PASS: 9, Outcome.FAIL: 5, Outcome.NOT_APPLICABLE: 4}
FEW = "-k 'inbound-acknowledged'"
"""Keeps commands short that run the whole corpus: pytest's own variable says so."""


def numbered_commands() -> Iterator[tuple[int, str]]:
    """Yield the documented commands with their exit codes."""
    for line in (KEPT / "commands.txt").read_text("utf-8").splitlines():
        code, _, command = line.partition(" ")
        yield int(code), command


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """Return a copy of the run directory."""
    return shutil.copytree(KEPT / "run", tmp_path / "run")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a user's folder: description, baseline, scenarios of their own and the corpus."""
    folder = tmp_path_factory.mktemp("user")
    for name in ("mine.yaml", "known.yaml", "my.scenario.yaml"):
        shutil.copy(KEPT / name, folder)
    (folder / "scenarios").symlink_to(ROOT / "scenarios")
    return folder


def test_the_stored_run_directory_is_read_completely(run_dir: Path):
    run = read_run(run_dir)
    cells = list(run.cells())
    assert Counter(cell.footer.outcome for cell in cells if cell.footer) == OUTCOMES
    assert [str(damage) for cell in cells for damage in cell.damage] == []
    assert all(cell.events for cell in cells if cell.footer and cell.footer.outcome is not Outcome.NOT_APPLICABLE)
    lines = [line for path in (run_dir / "cells").glob("*.jsonl") for line in path.read_text("utf-8").splitlines()]
    records = Counter(json.loads(line)["record"] for line in lines)
    assert records["event"] == sum(len(cell.events) for cell in cells)
    assert records["verdict"] == sum(len(cell.verdicts) for cell in cells)
    summary = read_run_summary(run_dir, corpus=paths.corpus())
    assert sum(bool(cell.known) for cell in summary.cells) == 4
    assert summary.shortfalls() == ("only a part of the suite was asked for",)


def test_stored_histories_get_the_outcomes_they_had(run_dir: Path):
    known = {
        cell.id: cell
        for file in (KEPT / "my.scenario.yaml", paths.corpus() / "relay" / "relay.scenario.yaml")
        for scenario in read_scenarios(file, paths.fixtures())
        for cell in scenario.cells()
    }
    stored = {cell.path.stem: cell for cell in read_run(run_dir).cells()}
    assert len(stored) == sum(OUTCOMES.values())
    was = {name: cell.footer.outcome for name, cell in stored.items() if cell.footer}
    assert {name: _judged(known, cell) for name, cell in stored.items()} == was


def _judged(cells: dict[str, Cell], stored: StoredCell) -> Outcome:
    axes = ",".join(f"{name}={value}" for name, value in stored.header.axes.items())
    return worst_in_cell(one.outcome for one in judge_stored_cell(cells[f"{stored.header.scenario}[{axes}]"], stored))


def test_every_stored_cell_id_still_exists():
    cells = {cell.id for scenario in read_corpus([paths.corpus()], paths.fixtures()) for cell in scenario.cells()}
    stored = set((KEPT / "cells.txt").read_text("utf-8").splitlines())
    assert stored
    assert stored - cells == set()


@pytest.mark.long
@pytest.mark.integration
def test_the_stored_run_is_reported_compared_and_judged(run_dir: Path, tmp_path: Path):
    reported = conformance_command("report", "run", "--out", "site", cwd=tmp_path)
    assert reported.returncode == 0, reported.stderr
    assert (tmp_path / "site" / "index.html").is_file()
    assert len(list((tmp_path / "site" / "cells").rglob("*.html"))) == OUTCOMES[Outcome.FAIL]
    compared = conformance_command("diff", "run", "run", cwd=tmp_path)
    assert compared.returncode == 0, compared.stderr
    assert compared.stdout.splitlines()[-1] == f"unchanged: {sum(OUTCOMES.values())}"
    judged = conformance_command(
        "judge", "run", "--scenarios", str(KEPT / "my.scenario.yaml"), "--scenarios", str(paths.corpus()), cwd=tmp_path
    )
    assert judged.returncode == 1, judged.stdout + judged.stderr
    assert f"{sum(OUTCOMES.values())} cells judged again" in judged.stdout


@pytest.mark.long
@pytest.mark.integration
@pytest.mark.timed
def test_the_stored_repeat_command_runs_the_same_cell_again(run_dir: Path, folder: Path):
    stored = next(c for c in read_run(run_dir).cells() if "fault=none" in c.path.name and c.header.candidate == "mine")
    again = conformance_command(
        *shlex.split(stored.header.repeat)[1:], "--run-dir", "reports/repeated", "--fresh", cwd=folder
    )
    assert again.returncode == 1, again.stdout + again.stderr
    (cell,) = read_run(folder / "reports/repeated").cells()
    assert cell.header.nodeid == stored.header.nodeid
    assert _failed(cell) == _failed(stored)


def _failed(cell: StoredCell) -> set[str]:
    """Return the checks that failed; which row they blame may move, and a baseline that names the old row still holds."""
    return {one.check for one in cell.verdicts if one.outcome is Outcome.FAIL}


@pytest.mark.long
@pytest.mark.integration
@pytest.mark.spark
@pytest.mark.timed
def test_every_documented_command_has_its_former_exit_code(folder: Path):
    documented = list(numbered_commands())
    assert {code for code, _ in documented} == {0, 1}
    for code, command in documented:
        if command.startswith("conformance aggregate ") and find_spec("pyspark") is None:
            continue  # of an extra that is not installed
        short = "--cells 4" if " -k " in command else FEW
        ran = conformance_command(*shlex.split(command)[1:], cwd=folder, timeout=400, PYTEST_ADDOPTS=short)
        assert ran.returncode == code, (command, ran.stdout, ran.stderr)
        assert "Traceback" not in ran.stdout + ran.stderr, command


@pytest.mark.long
@pytest.mark.integration
@pytest.mark.spark
@pytest.mark.parametrize("tables", [True, False], ids=["from its tables", "from its lines"])
def test_the_stored_run_is_aggregated(run_dir: Path, tmp_path: Path, tables: bool):
    pytest.importorskip("pyspark")
    from conformance.spark.ingest import read_headers

    if not tables:
        shutil.rmtree(run_dir / "parquet")
    (found,) = read_headers([run_dir]).runs.values()
    assert found.parquet is tables
    ran = conformance_command("aggregate", "run", "--out", "site", cwd=tmp_path, timeout=400)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert (tmp_path / "site" / "index.html").is_file()
    matrix = json.loads((tmp_path / "site" / "tables" / "matrix.json").read_bytes())
    counted = {name: sum(row[name] for row in matrix) for name in ("passed", "failed", "not_applicable")}
    assert tuple(counted.values()) == tuple(OUTCOMES.values())
