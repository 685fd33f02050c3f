"""An exploration's directory: another call goes on with its plans, and what was found before an interruption is kept."""

import json
import shutil
from collections.abc import Iterator
from multiprocessing import active_children
from pathlib import Path
from signal import SIGINT
from typing import Any

import pytest

from conformance.candidates.assignment import Assignment
from conformance.candidates.description import REFERENCE
from conformance.commands import explore as command
from conformance.explore.campaign import Campaign, run_plans
from conformance.explore.enumeration import draw_plans
from conformance.explore.journal import Journal
from conformance.explore.random_plans import RandomPlans
from conformance.explore.states import Visited
from conformance.explore.sweep import ScenePlans
from conformance.explore.trial import Observation, PlanResult
from conformance.results.exploration import ExplorationHeader, read_exploration
from conformance.results.layout import RunDirectoryError, SchemaTooNew
from conformance.results.schema import CandidateRecord
from tests.explore.test_explore import SETTINGS, exploration


def header(**changes: Any) -> ExplorationHeader:
    values: dict[str, Any] = {
        "exploration": "found", "started": "2026-11-25T10:00:00Z", "method": "random", "seed": 1, "clock": "virtual",
        "candidate": CandidateRecord(name="reference", kind="python", sha256="a"), "environment_sha256": "b", "inputs_sha256": "c",
    }  # fmt: skip
    return ExplorationHeader(**values | changes)


def result(name: str, *states: str, outcome: str = "sound") -> PlanResult:
    observed = Observation(seen=("seen",), visited=Visited(frozenset(states), frozenset()), faults=1, fired=1)
    return PlanResult(name=name, outcome=outcome, observed=observed)  # type: ignore[arg-type]


def stored(folder: Path) -> list[str]:
    """Return the names of the plans in the journal of a directory, in its order."""
    return [json.loads(line)["name"] for line in (folder / "plans.jsonl").read_text("utf-8").splitlines()]


@pytest.mark.long
def test_another_call_runs_only_the_plans_that_are_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[int] = []

    def noting(*arguments: Any) -> Iterator[tuple[int, PlanResult]]:
        for number, found in run_plans(*arguments):
            ran.append(number)
            yield number, found

    monkeypatch.setattr(command, "run_plans", noting)
    exploration(tmp_path / "grown", capsys, plans=5)
    first, began = stored(tmp_path / "grown"), read_exploration(tmp_path / "grown").header
    assert len(first) == 5
    assert sorted(ran) == list(range(5))
    place, journal = ran.index(1), tmp_path / "grown" / "plans.jsonl"
    lines = journal.read_text("utf-8").splitlines(keepends=True)
    journal.write_text("".join(lines[:place] + lines[place + 1 :]), "utf-8")
    grown = exploration(tmp_path / "grown", capsys, plans=9)
    assert sorted(ran[5:]) == [1, 5, 6, 7, 8]
    lost = first.pop(place)
    assert stored(tmp_path / "grown")[:4] == first
    assert lost in stored(tmp_path / "grown")
    assert len(set(stored(tmp_path / "grown"))) == len(stored(tmp_path / "grown")) == 9
    assert grown == exploration(tmp_path / "whole", capsys, plans=9)
    again = read_exploration(tmp_path / "grown").header
    assert (again.started, again.seconds > began.seconds > 0) == (began.started, True)


def test_fewer_plans_are_the_first_ones_of_more() -> None:
    plans = ScenePlans([(None, number) for number in range(400)])  # type: ignore[misc]
    every = draw_plans(plans, None, 7).entries
    assert every != plans.entries
    assert {*every} == {*plans.entries}
    for number in (1, 5, 30, 200, 400, 500):
        assert draw_plans(plans, number, 7).entries == every[:number]


@pytest.mark.long
def test_other_plans_are_begun_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    used, unused = tmp_path / "used", tmp_path / "unused"
    exploration(used, capsys, plans=2)
    before = stored(used)
    exploration(used, capsys, plans=3, seed=2)
    exploration(unused, capsys, plans=3, seed=2)
    assert read_exploration(used).header.seed == 2
    assert stored(used) == stored(unused)
    assert set(before) - set(stored(used))


@pytest.mark.long
def test_ctrl_c_keeps_what_was_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: Any) -> Iterator[tuple[int, PlanResult]]:
        results = run_plans(*arguments)
        yield next(results)
        yield next(results)
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "run_plans", interrupted)
    assert exploration(tmp_path, capsys, plans=6)[1]["plans"] == 2
    kept = stored(tmp_path)
    assert read_exploration(tmp_path).summary.plans == len(kept) == 2
    monkeypatch.undo()
    assert exploration(tmp_path, capsys, plans=6)[1]["plans"] == len(stored(tmp_path)) == 6
    assert stored(tmp_path)[:2] == kept


@pytest.mark.long
def test_a_process_that_runs_plans_leaves_ctrl_c_to_its_parent() -> None:
    plans = RandomPlans(1, 4, Assignment(REFERENCE), SETTINGS)
    results = run_plans(plans, Assignment(REFERENCE), SETTINGS, 1)
    for _ in range(len(plans)):
        next(results)
    (child,) = active_children()
    lines = Path(f"/proc/{child.pid}/status").read_text("utf-8").splitlines()
    ignored = next(int(line.split()[1], 16) for line in lines if line.startswith("SigIgn"))
    results.close()  # type: ignore[attr-defined]
    assert ignored >> (SIGINT - 1) & 1


def test_a_line_that_was_cut_off_is_dropped_and_a_damaged_one_is_refused(tmp_path: Path) -> None:
    with Journal.open(tmp_path, header()) as journal:
        journal.add(result("one", "a"))
        journal.add(result("two", "b"))
    plans = tmp_path / "plans.jsonl"
    plans.write_bytes(plans.read_bytes()[:-9])
    with Journal.open(tmp_path, header()) as journal:
        assert journal.results == {"one": result("one", "a")}
        journal.add(result("two", "b"))
    assert [*Journal.open(tmp_path, header()).results] == ["one", "two"]
    plans.write_text("[]\n" + plans.read_text("utf-8"), "utf-8")
    with pytest.raises(RunDirectoryError, match=r"plans.jsonl:1 is damaged"):
        Journal.open(tmp_path, header())


def test_an_exploration_goes_on_only_where_nothing_differs_but_name_times_and_costly_cells(tmp_path: Path) -> None:
    with Journal.open(tmp_path, header()) as journal:
        journal.add(result("one"))
        journal.end_call(1.5)
    own: dict[str, Any] = {
        "exploration": "moved",
        "started": "2026-11-26T10:00:00Z",
        "seconds": 9.0,
        "too_costly": ("a",),
    }
    later = Journal.open(tmp_path, header(**own))
    assert (later.replaced, [*later.results], later.header.started) == (False, ["one"], "2026-11-25T10:00:00Z")
    assert later.header.seconds == 1.5
    changes: dict[str, Any] = {
        "harness": "0.0.1", "candidate": CandidateRecord(name="reference", kind="python", sha256="z"), "method": "sweep-1",
        "scenarios": ("one",), "seed": 2, "clock": "real", "scale": 2.0, "environment_sha256": "d", "inputs_sha256": "d",
    }  # fmt: skip
    assert changes.keys() == ExplorationHeader.model_fields.keys() - {"schema_number", *own}
    for name, value in changes.items():
        folder = shutil.copytree(tmp_path, tmp_path.with_name(f"with another {name}"))
        other = Journal.open(folder, header(**{name: value}))
        assert (other.replaced, other.results, other.header.seconds) == (True, {}, 0), name


def test_files_of_a_later_version_or_without_sense_are_refused(tmp_path: Path) -> None:
    Journal.open(tmp_path, header())
    (tmp_path / "exploration.json").write_text("{}", "utf-8")
    with pytest.raises(RunDirectoryError, match=r"exploration.json: \w+: Field required"):
        read_exploration(tmp_path)
    (tmp_path / "header.json").write_text('{"schema": 2, "unknown": 1}', "utf-8")
    with pytest.raises(SchemaTooNew, match="schema 2"):
        read_exploration(tmp_path)
    with pytest.raises(SchemaTooNew, match="schema 2"):
        Journal.open(tmp_path, header())
    (tmp_path / "header.json").write_text('{"schema": 1, "unknown": 1}', "utf-8")
    with pytest.raises(RunDirectoryError, match=r"header.json: \w+: Field required"):
        read_exploration(tmp_path)
    with pytest.raises(RunDirectoryError, match=r"header.json: \w+: Field required"):
        Journal.open(tmp_path, header())
    (tmp_path / "header.json").unlink()
    with pytest.raises(RunDirectoryError, match="header.json cannot be read"):
        read_exploration(tmp_path)


def test_the_curve_counts_distinct_states_in_the_order_of_plans() -> None:
    campaign = Campaign()
    for number, states in ((2, "abc"), (0, "a"), (1, "ab")):
        campaign.add(number, result(str(number), *states))
    assert campaign.curve == ((0, 0), (1, 1), (2, 2), (3, 3))
    assert campaign.progress == "3 states, 0 findings"
    for number in range(3, 1000):
        campaign.add(number, result(str(number), str(number)))
    assert (len(campaign.curve), campaign.curve[-1]) == (100, (1000, 1000))
    assert Campaign().curve == ((0, 0),)
