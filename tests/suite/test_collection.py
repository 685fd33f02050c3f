"""Collection of scenarios, seen from the output of an inner pytest."""

from dataclasses import dataclass
from pathlib import Path

import pytest

import conformance
from conformance import paths
from conformance.commands.run import PLUGIN
from conformance.scenarios.document import Cell
from conformance.scenarios.loader import read_corpus
from conformance.suite import collect
from tests.results.stored import plain
from tests.scenarios import documents

pytest_plugins = ["pytester"]

CELL = "creation/copies.scenario.yaml"


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the inner pytest find the package, installed or not."""
    monkeypatch.setenv("PYTHONPATH", str(Path(conformance.__file__).parents[1]))


def _arguments(pytester: pytest.Pytester, *more: str) -> list[str]:
    scenario = paths.corpus() / CELL
    return [
        *PLUGIN,
        str(scenario),
        "-p",
        "no:cacheprovider",
        "--run-dir",
        str(pytester.path / "run"),
        *more,
    ]


@pytest.mark.long
def test_node_ids_name_scenario_candidate_and_axes(pytester: pytest.Pytester) -> None:
    several = str(paths.corpus() / "timeouts" / "shadow-stalls.scenario.yaml")
    result = pytester.runpytest_subprocess(*_arguments(pytester, several, "--collect-only", "-q"))
    result.stdout.fnmatch_lines_random(
        [
            "*submitted-mail-is-shadowed-too::candidate=reference,messages=10",
            "*shadow-stalls.scenario.yaml::shadow-stalls::candidate=reference,idle-limit=2m,reject=yes,silent-from=dot",
        ]
    )


@pytest.mark.long
def test_collecting_makes_no_run_directory(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess(*_arguments(pytester, "--collect-only", "-q"))
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["*copies.scenario.yaml::*"])
    assert not (pytester.path / "run").exists()


@dataclass
class Item:
    """Stands for the item of a cell."""

    cell: Cell


def test_cells_of_500_messages_or_more_are_put_first_and_all_others_keep_their_order(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(collect, "CellItem", Item)
    folder = paths.corpus() / "variations"
    cells = [cell for scenario in read_corpus([folder], paths.fixtures()) for cell in scenario.cells()]
    items = [*map(Item, cells), "the item of another test"]
    assert not any(cell.scenario.startswith("more-than-a-thousand") for cell in cells[:2])
    collect.put_long_cells_first(items)  # type: ignore[arg-type]
    first, rest = items[:2], items[2:]
    assert [item.cell.scenario for item in first if isinstance(item, Item)] == [
        "more-than-a-thousand-messages",
        "more-than-a-thousand-messages-over-hubs",
    ]
    assert [item.cell for item in rest if isinstance(item, Item)] == [
        cell for cell in cells if not cell.scenario.startswith("more-than-a-thousand")
    ]
    assert rest[-1] == "the item of another test"
    steps = documents.SEND.replace("}", ", count: 250}") + documents.SEND.replace(
        "send: {as: m", "submit: {as: n, count: COUNT"
    )
    few, many = (
        documents.cells(tmp_path, f"{documents.HEAD}steps:\n{steps.replace('COUNT', count)}")[0]
        for count in ("249", "250")
    )
    items = [Item(few), Item(many)]
    collect.put_long_cells_first(items)  # type: ignore[arg-type]
    assert [item.cell for item in items if isinstance(item, Item)] == [many, few]


@pytest.mark.long
@pytest.mark.parametrize(
    ("file", "named", "why"),
    [
        pytest.param(
            "relay/expiry",
            "tried-again",
            "the server's own timers cannot be scaled",
            id="in hours what it does in days",
        ),
        pytest.param(
            "duplicates/tracking",
            "more-than-49-days and 25h and 50d",
            "a scaled clock cannot show it: the limit of 49 days is the server's own",
            id="a limit that the server has by itself",
        ),
    ],
)
def test_a_cell_that_a_scaled_clock_cannot_show_is_not_applicable(
    pytester: pytest.Pytester, file: str, named: str, why: str
) -> None:
    where = [str(paths.corpus() / f"{file}.scenario.yaml"), "-k", named, "-p", "no:cacheprovider", "-rs"]
    directory = ["--run-dir", str(pytester.path / "run")]
    result = pytester.runpytest_subprocess(*PLUGIN, *where, *directory, "--clock", "scaled")
    result.stdout.fnmatch_lines(["*1 not applicable*"])
    assert why in plain(next((pytester.path / "run" / "cells").glob("*.jsonl.gz"))).decode()
    usual = pytester.runpytest_subprocess(*PLUGIN, *where, *directory, "--fresh", "--clock", "virtual")
    usual.stdout.fnmatch_lines(["*1 passed*"])


def test_invalid_yaml_is_reported_with_its_place_and_without_traceback(pytester: pytest.Pytester) -> None:
    Path(pytester.path / "bad.scenario.yaml").write_text("id: bad\ntitle: [x\n---\nid: worse\ntitle: {x]\n", "utf-8")
    result = pytester.runpytest_subprocess(*PLUGIN, "bad.scenario.yaml", "--run-dir", str(pytester.path / "run"))
    result.stdout.fnmatch_lines(["*bad.scenario.yaml:3:1: not valid YAML*", "*bad.scenario.yaml:5:10: not valid YAML*"])
    for printed in (result.stdout, result.stderr):
        printed.no_fnmatch_line("*Traceback*")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert not (pytester.path / "run").exists()


@pytest.mark.long
def test_a_directory_that_holds_a_run_is_refused_unless_fresh(pytester: pytest.Pytester) -> None:
    only = ("-k", "shadow-is-on-disk")
    pytester.runpytest_subprocess(*_arguments(pytester, *only))
    before = (pytester.path / "run" / "footer.json").read_text("utf-8")
    refused = pytester.runpytest_subprocess(*_arguments(pytester, *only))
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    refused.stderr.fnmatch_lines(["*holds a run already; add --fresh*"])
    assert (pytester.path / "run" / "footer.json").read_text("utf-8") == before
    fresh = pytester.runpytest_subprocess(*_arguments(pytester, *only, "--fresh"))
    assert fresh.ret == pytest.ExitCode.OK
    assert (pytester.path / "run" / "footer.json").read_text("utf-8") != before, "it has other times"
