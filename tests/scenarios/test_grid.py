"""Fault grids: their points, that every fault is valid on a link, and that pairwise grids have every pair."""

from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.scenarios.document import Cell, FaultGrid
from conformance.scenarios.errors import Mark
from conformance.scenarios.fault_grid import GridFault, GridSize, faults_of, places_of, points_with_faults
from conformance.scenarios.matrix import Point
from conformance.scenarios.name_checks import PLACES
from conformance.scenarios.steps.breaking import Fault
from conformance.scenarios.yaml_nodes import Node
from conformance.wire.fault_plan import check_fault
from tests.scenarios.documents import HEAD, SEND, cells, problems

GRID = FaultGrid.model_validate({"from": "mbx1", "to": "mbx2", "listener": "transport"})
FAULTS = "faults: {from: outside, to: mbx1, listener: frontend}\n"
TEXT = HEAD + FAULTS + "axes: {n: [1, 2]}\nsteps:\n" + SEND.replace("mbx1}", "mbx1, count: '${n}'}")


def armed(cell: Cell) -> Fault | None:
    """Return the fault that a cell arms first, if it does."""
    action = cell.steps[0].action
    return action if isinstance(action, Fault) else None


@pytest.mark.parametrize(
    "places", [(), ("request-shadow", "XQDISCARD"), ("LHLO", "RSET", "dot"), tuple(sorted(PLACES))]
)
def test_every_fault_of_a_grid_is_valid_on_a_link(places: tuple[str, ...]) -> None:
    grid = GRID.model_copy(update={"places": places})
    assert not places or set(places_of(grid)) == set(places)
    faults = faults_of(grid)
    assert faults
    assert len({fault.name for fault in faults}) == len(faults)
    assert {fault.place for fault in faults} == set(places_of(grid)), "each place has one"
    for fault in faults:
        action = fault.step(grid, 1).action
        check_fault(action)
        assert not action.may_not_fire


def test_smoke_has_every_cell_without_a_fault_and_the_selected_points_once(tmp_path: Path) -> None:
    found = cells(tmp_path, TEXT)
    assert [cell.id for cell in found] == [
        "a-scenario[fault=none,n=1]",
        "a-scenario[fault=none,n=2]",
        "a-scenario[fault=connect-before-refuse,n=1]",
        "a-scenario[fault=greeting-after-stall,n=1]",
        "a-scenario[fault=mail-after-replace,n=1]",
        "a-scenario[fault=body-before-cut,n=1]",
        "a-scenario[fault=dot-before-reset,n=1]",
        "a-scenario[fault=dot-after-drop,n=1]",
        "a-scenario[fault=dot-after-stall,n=1]",
        "a-scenario[fault=dot-after-replace,n=1]",
    ]
    assert [armed(cell) is None for cell in found] == [cell.axes["fault"] == "none" for cell in found]
    last = found[-1].steps[0]
    assert (last.path, last.line, last.verb) == ("0", 5, "fault")
    assert last.action == Fault.model_validate(
        {
            "as": "grid",
            "from": "outside",
            "to": "mbx1",
            "listener": "frontend",
            "does": "replace",
            "at": "dot",
            "when": "after",
            "reply": "451 4.3.0 try later",
        }
    )


def test_smoke_and_pairwise_are_smaller_parts_of_full(tmp_path: Path) -> None:
    smoke, pairwise, full = (
        {cell.id for cell in cells(tmp_path, TEXT, size)} for size in ("smoke", "pairwise", "full")
    )
    assert smoke < full
    assert pairwise < full
    assert len(smoke) < len(pairwise) < len(full) == 2 * (1 + len(faults_of(GRID)))


def test_named_places_replace_the_default_ones(tmp_path: Path) -> None:
    text = TEXT.replace("frontend}", "frontend, places: [RSET, dot]}")
    assert [cell.axes["fault"] for cell in cells(tmp_path, text)] == [
        "none",
        "none",
        "dot-before-drop",
        "rset-before-drop",
    ]
    assert {cell.axes["fault"].split("-")[0] for cell in cells(tmp_path, text, "full")} == {"none", "rset", "dot"}


def test_a_mailbox_store_is_greeted_with_lhlo() -> None:
    store = FaultGrid.model_validate({"from": "mbx1", "to": "mbx1-store"})
    names = {fault.name for fault in faults_of(store)}
    assert {"lhlo-before-drop", "lhlo-after-stall"} <= names
    assert [name for name in names if name.startswith("ehlo-")] == []
    assert "ehlo-before-drop" in {fault.name for fault in faults_of(GRID)}


def test_steps_may_depend_on_the_fault(tmp_path: Path) -> None:
    text = TEXT + "  - expect: {reply: {of: m, code: 250}}\n    when: {fault: [none, dot-after-delay]}\n"
    expecting = {cell.axes["fault"] for cell in cells(tmp_path, text, "full") if cell.steps[-1].verb == "expect"}
    assert expecting == {"none", "dot-after-delay"}


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("from: outside", "from: outsid", "5:16: no party 'outsid' (did you mean 'outside'?)"),
        ("to: mbx1,", "to: mbx9,", "5:29: no party 'mbx9' (did you mean 'mbx2'?)"),
        ("frontend}", "front}", "5:45: expected 'delivery', 'frontend', 'lmtp', 'smtp' or 'transport', not 'front'"),
        ("frontend}", "frontend, places: [MIAL]}", "5:64: no place 'MIAL' (did you mean 'MAIL'?)"),
        ("steps:", "tags: []\nsteps:", ""),
        ("{n: [1, 2]}", "{n: [1, 2], fault: [a]}", "5:1: a fault grid makes the axis 'fault' itself"),
        (
            "{n: [1, 2]}",
            f"{{n: {list(range(1, 100))}}}",
            "5:1: 7920 cells in the full grid; a scenario has at most 5000",
        ),
        (
            "steps:",
            "steps:\n  - advance: 1s\n    when: {fault: dot-after-dorp}",
            "9:19: no value of the axis 'fault': 'dot-after-dorp' (did you mean 'dot-after-drop'?)",
        ),
    ],
)
def test_problems_of_a_grid_are_reported_with_their_place(tmp_path: Path, old: str, new: str, problem: str) -> None:
    found = "\n".join(map(str, problems(tmp_path, TEXT.replace(old, new))))
    assert problem in found
    assert bool(problem) == bool(found)


def test_a_grid_of_which_every_point_is_excluded_is_a_problem(tmp_path: Path) -> None:
    found = problems(tmp_path, TEXT.replace("steps:", "exclude: [{n: [1, 2]}]\nsteps:"))
    assert ["every cell is excluded" in str(problem) for problem in found] == [True]


def values(point: Point, fault: GridFault) -> tuple[object, ...]:
    return (fault.place, fault.position, fault.kind, *(node.value for node in point.values()))


@given(
    axes=st.lists(st.integers(1, 4), max_size=3),
    without=st.frozensets(st.integers(0, 63), max_size=20),
)
def test_the_pairwise_grid_has_every_pair_of_the_full_grid(axes: list[int], without: frozenset[int]) -> None:
    points: list[Point] = [{}]
    for number, size in enumerate(axes):
        points = [{**point, f"a{number}": Node(Mark(1, 1), value)} for point in points for value in range(size)]
    points = [point for n, point in enumerate(points) if n not in without] or points[:1]

    def pairs(size: GridSize) -> set[tuple[object, object]]:
        rows = [values(point, fault) for point, fault in points_with_faults(GRID, points, size) if fault]
        return {pair for row in rows for pair in combinations(enumerate(row), 2)}

    assert pairs("pairwise") == pairs("full")
