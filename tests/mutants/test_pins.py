"""The committed pins name mutants that exist, and groups of every module."""

from dataclasses import replace
from pathlib import Path

import pytest

from conformance import paths
from conformance.commands.mutants import all_sites, judge_mutant
from conformance.mutants.operators import Site, find_sites
from conformance.mutants.pins import Pins, PinsError, read_pins, write_survivor_table
from conformance.mutants.trial import MutantResult
from conformance.requirements.catalogue import catalogue

PINS = read_pins(paths.fixtures() / "mutants")
SITES = all_sites(paths.reference())


def test_every_pinned_mutant_and_survivor_still_changes_the_line_that_was_written_down():
    assert PINS.pinned
    assert PINS.survivors
    assert PINS.lines.keys() == PINS.pinned.keys() | PINS.survivors
    assert PINS.outdated_ids(SITES) == []


def test_an_id_that_stands_for_another_line_or_for_none_is_outdated():
    sites = find_sites("def f():\n    if a:  # why\n        b()\n    if c:\n        d()\n", "x.py")
    lines = {
        "x.py:f:negate-condition:1": "if a:",
        "x.py:f:negate-condition:2": "if a:",
        "x.py:f:negate-condition:3": "if c:",
    }
    pins = Pins({}, frozenset(lines), {}, lines)
    assert pins.outdated_ids(sites) == ["x.py:f:negate-condition:2", "x.py:f:negate-condition:3"]


def test_the_table_of_survivors_is_read_as_it_was_written(tmp_path: Path):
    written = {"x.py:f:drop-not:2": 'log("%s: %d", a, b)  # "', "x.py:f:drop-not:1": "- not a"}
    write_survivor_table(tmp_path, written)
    pins = read_pins(tmp_path)
    assert (pins.survivors, dict(pins.lines)) == (frozenset(written), written)
    assert (tmp_path / "survivors.yaml").read_text("utf-8").splitlines()[1].startswith("x.py:f:drop-not:1: ")


def test_no_survivor_is_pinned_too():
    assert PINS.survivors
    assert PINS.pinned
    assert sorted(PINS.survivors & PINS.pinned.keys()) == []


def test_every_module_of_the_reference_that_has_mutants_has_groups_of_the_catalogue():
    assert "shadow/choice.py" in {site.file for site in SITES}
    assert {site.file for site in SITES if not PINS.groups_of(site)} == set()
    assert {group for groups in PINS.groups.values() for group in groups} <= set(catalogue().groups)


def test_the_longest_entry_counts():
    groups = {"queue": ("RLY",), "queue/x.py": ("BIF",), "queue/x.py:find": ("DUP",), "queue/y.py:Store": ("SFN",)}
    functions = {
        ("queue/x.py", "f"): ("BIF",), ("queue/x.py", "find"): ("DUP",), ("queue/x.py", "find_all"): ("BIF",),
        ("queue/y.py", "Store.add"): ("SFN",), ("queue/y.py", "Stores.add"): ("RLY",), ("z.py", "f"): (),
    }  # fmt: skip
    for entries in (groups, dict(reversed(groups.items()))):  # neither the first nor the last that fits
        pins = Pins({}, frozenset(), entries, {})
        sites = [Site(file, function, "drop-not", 1, 1) for file, function in functions]
        assert [pins.groups_of(site) for site in sites] == list(functions.values())


@pytest.mark.parametrize("second", ["equivalent.yaml", "no-row.yaml"])
def test_a_mutant_that_is_pinned_twice_is_refused(tmp_path: Path, second: str):
    entry = "- {mutants: {a: x = 1}, reason: it changes a log text only}\n"
    (tmp_path / "equivalent.yaml").write_text(entry, "utf-8")
    (tmp_path / "no-row.yaml").write_text(entry.replace("{a:", "{b:"), "utf-8")
    assert read_pins(tmp_path).pinned == {"a": "equivalent", "b": "no-row"}
    with (tmp_path / second).open("a", encoding="utf-8") as file:
        file.write(entry)
    with pytest.raises(PinsError, match="a is pinned twice"):
        read_pins(tmp_path)


@pytest.mark.parametrize(("outcome", "judged"), [("survived", "no-row"), ("killed", "killed"), ("broken", "no-row")])
def test_a_pin_holds_for_a_mutant_that_is_not_killed(outcome: str, judged: str):
    pins = Pins({"queue/x.py:f:drop-not:1": "no-row"}, frozenset(), {"queue": ("MNT",)}, {})
    result = MutantResult("queue/x.py:f:drop-not:1", "queue/x.py", 1, outcome, requirement="SR-MNT-01")  # type: ignore[arg-type]
    assert judge_mutant(result, pins).outcome == judged
    assert judge_mutant(result, pins).blamed_well
    unpinned = replace(result, id="queue/x.py:f:drop-not:2")
    assert judge_mutant(unpinned, pins).outcome == outcome, "the pin is of the other mutant"
