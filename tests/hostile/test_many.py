"""A small run of many_try: files, memory and processes do not grow with the cells, and growth would be detected."""

from pathlib import Path

import pytest

from tests.hostile.many_try import OF_A_CELL, ROOM, Look, growth, try_many


@pytest.mark.long
@pytest.mark.integration
@pytest.mark.parametrize(("cells", "at_once"), [(150, 1), (24, 8)])
def test_files_memory_and_processes_do_not_grow_with_the_cells(tmp_path: Path, cells: int, at_once: int):
    figures, wrong = try_many(cells, at_once, tmp_path)
    assert wrong == []
    assert figures["cells"] == cells
    assert int(str(figures["most processes"])) >= (at_once > 1) * at_once, "they ran beside each other"


@pytest.mark.parametrize("name", ["files", "octets", "processes"])
def test_growth_with_each_cell_is_found(name: str):
    each = {"files": 1, "octets": 3 * OF_A_CELL + ROOM // 100, "processes": 1}
    looks = [
        Look(**{"cells": n, "files": 20, "octets": 10**8, "processes": 0, name: n * each[name]}) for n in range(301)
    ]
    assert [one.partition(":")[0] for one in growth(looks, 300, 1)] == [name]
    assert growth([Look(n, 20, 10**8, 0) for n in range(301)], 300, 1) == []


@pytest.mark.parametrize("seen", [(0, 0), (1, 150), (150, 151), (299, 299)], ids=str)
def test_a_run_without_measurements_in_its_second_or_last_third_proves_nothing(seen: tuple[int, int]):
    assert "nothing is shown" in growth([Look(n, 20, 10**8, 0) for n in seen] * 25, 300, 1)[0]
    assert growth([Look(n, 20, 10**8, 0) for n in (150, 299)] * 25, 300, 1) == []
