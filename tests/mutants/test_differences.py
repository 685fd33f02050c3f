"""Which cells a mutant is tried in: found by running the sound reference once, and kept until something changes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.mutants.differences import Differences, merge_differences, read_differences, write_differences
from conformance.mutants.operators import Site

RUN = """
import json
from conformance import paths
from conformance.candidates.description import REFERENCE
from conformance.commands.mutants import all_sites
from conformance.mutants.differences import find_differences, merge_differences
from conformance.scenarios.loader import read_corpus
corpus = read_corpus([paths.corpus() / "relay" / "relay.scenario.yaml"], paths.fixtures())
cells = [cell for scenario in corpus for cell in scenario.cells("smoke")][:2]
sites = all_sites(paths.reference())
found = merge_differences(sites, find_differences(sites, cells, paths.reference(), 1, 2))
print(json.dumps([found.cells, list(found.costs)]))
"""


@pytest.mark.long
def test_mutants_that_make_a_difference_are_found_by_running_the_cells():
    done = subprocess.run([sys.executable, "-c", RUN], capture_output=True, timeout=120, check=True, text=True)
    cells, costs = json.loads(done.stdout)
    assert sorted(costs) == [0, 1]
    assert cells["receive/acceptance.py:Acceptance.accept:return-nothing:3"] == [0, 1]
    assert "hub2010/manager.py:HubManager.declare_failed:remove-call:1" not in cells


def site(name: str, *, file: str = "f.py", in_class: bool = False) -> Site:
    return Site(file, name, "remove-call", 1, 1, in_class)


def test_the_body_of_a_class_has_the_cells_of_its_file():
    f, g, of_class = site("f"), site("g"), site("C", in_class=True)
    elsewhere, alone = site("f", file="other.py"), site("C", file="alone.py", in_class=True)
    parts = [
        Differences({f.id: [2]}, {2: 0.1}),
        Differences({g.id: [1]}, {1: 0.2}),
        Differences({elsewhere.id: [3]}, {3: 0.3}),
        Differences(),
    ]
    merged = merge_differences([f, g, of_class, elsewhere, alone], parts)
    assert merged.costs == {2: 0.1, 1: 0.2, 3: 0.3}
    assert merged.cells == {f.id: [2], g.id: [1], elsewhere.id: [3], of_class.id: [1, 2], alone.id: []}


def test_differences_are_kept_until_their_key_changes(tmp_path: Path):
    kept = Differences({"a": [1]}, {1: 0.5})
    write_differences(tmp_path / "cells", "key", kept)
    assert read_differences(tmp_path / "cells", "key") == kept
    assert read_differences(tmp_path / "cells", "another") is None
    assert read_differences(tmp_path / "nothing", "key") is None
