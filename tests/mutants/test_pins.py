"""The committed pins name mutants that exist, and groups of every module."""

from pathlib import Path

import pytest

from conformance import paths
from conformance.commands.mutants import all_sites, judge_mutant
from conformance.mutants.operators import Site
from conformance.mutants.pins import Pins, PinsError, read_pins
from conformance.mutants.trial import MutantResult
from conformance.requirements.catalogue import catalogue

PINS = read_pins(paths.fixtures() / "mutants")
SITES = all_sites(paths.reference())


def test_every_pinned_mutant_exists():
    known = {site.id for site in SITES}
    assert PINS.pinned
    assert sorted({*PINS.pinned, *PINS.survivors} - known) == []


def test_a_survivor_is_not_pinned_too():
    assert sorted(PINS.survivors & PINS.pinned.keys()) == []


def test_every_module_of_the_reference_has_groups_of_the_catalogue():
    assert {site.file for site in SITES if not PINS.groups_of(site)} == set()
    assert {group for groups in PINS.groups.values() for group in groups} <= set(catalogue().groups)


def test_the_longest_entry_counts():
    groups = {"queue": ("RLY",), "queue/x.py": ("BIF",), "queue/x.py:find": ("DUP",), "queue/y.py:Store": ("SFN",)}
    pins = Pins({}, frozenset(), groups)
    found = [
        pins.groups_of(Site(file, function, "drop-not", 1, 1))
        for file, function in [
            ("queue/x.py", "f"), ("queue/x.py", "find"), ("queue/x.py", "find_all"), ("queue/y.py", "Store.add"),
            ("queue/y.py", "Stores.add"), ("z.py", "f"),
        ]
    ]  # fmt: skip
    assert found == [("BIF",), ("DUP",), ("BIF",), ("SFN",), ("RLY",), ()]


def test_a_mutant_is_pinned_once(tmp_path: Path):
    entry = "- {ids: [a], reason: it changes a log text only}\n"
    (tmp_path / "equivalent.yaml").write_text(entry, "utf-8")
    (tmp_path / "no-row.yaml").write_text(entry, "utf-8")
    with pytest.raises(PinsError, match="pinned twice"):
        read_pins(tmp_path)


@pytest.mark.parametrize(("outcome", "judged"), [("survived", "no-row"), ("killed", "killed"), ("broken", "no-row")])
def test_a_pin_holds_for_a_mutant_that_is_not_killed(outcome: str, judged: str):
    pins = Pins({"queue/x.py:f:drop-not:1": "no-row"}, frozenset(), {"queue": ("MNT",)})
    result = MutantResult("queue/x.py:f:drop-not:1", "queue/x.py", 1, outcome, requirement="SR-MNT-01")  # type: ignore[arg-type]
    assert judge_mutant(result, pins).outcome == judged
    assert judge_mutant(result, pins).blamed_well
