"""The catalogue of requirements: its rows, the text of a clause, and which scenarios and defects cover a row."""

import re
from typing import Any

import pytest

from conformance.generations import GENERATIONS
from conformance.requirements.catalogue import Catalogue, catalogue, clause
from conformance.requirements.coverage import coverage, uncovered


def row(**changes: object) -> dict[str, object]:
    usual = {
        "id": "SR-CRE-01",
        "level": "must",
        "generations": ["ex2016"],
        "seen_on": "wire",
        "source": ["EX2016 creation"],
        "text": "It is so.",
    }
    return usual | changes


def made(*rows: dict[str, object]) -> Catalogue:
    return Catalogue.model_validate(
        {"sources": {"EX2016": "A document"}, "groups": {"CRE": "Creating", "RLY": "Relaying"}, "requirements": rows}
    )


def test_ids_are_numbered_from_1_without_gaps_and_every_group_has_rows() -> None:
    """So a row that no longer applies has to be retired and cannot be deleted."""
    numbers: dict[str, list[int]] = {}
    for requirement in catalogue().requirements:
        family, _, number = requirement.id.rpartition("-")
        numbers.setdefault(family, []).append(int(number))
    assert {family: list(range(1, len(found) + 1)) for family, found in numbers.items()} == numbers
    assert {requirement.group for requirement in catalogue().requirements} == set(catalogue().groups)


def test_a_clause_has_level_source_and_text() -> None:
    assert clause("SR-CRE-01") == (
        "SR-CRE-01 (must, EX2016 creation): A message received from outside the boundary is acknowledged to its sender "
        "only after a shadow server has acknowledged its copy."
    )
    assert clause("SR-WIR-03").startswith("SR-WIR-03 (must, wire-profile.md): ")


def test_an_unknown_id_has_no_row_and_no_clause() -> None:
    assert catalogue().get("SR-CRE-99") is None
    assert catalogue().get("SR-CRE-01") is catalogue()["SR-CRE-01"]
    for lookup in (clause, catalogue().__getitem__):
        with pytest.raises(KeyError, match="SR-CRE-99"):
            lookup("SR-CRE-99")


def test_a_row_binds_servers_of_its_generations_and_a_row_of_any_generation_binds_all() -> None:
    assert catalogue()["SR-CRE-01"].binds({"ex2010", "ex2013"})
    assert not catalogue()["SR-CRE-01"].binds({"ex2010"})
    assert catalogue()["RL-ACK-01"].generations == ("any",)
    assert all(catalogue()["RL-ACK-01"].binds({generation}) for generation in GENERATIONS)


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([row(), row()], "two requirements are called SR-CRE-01"),
        ([row(id="SR-XXX-01")], "no group 'XXX'"),
        ([row(source=["EX1999 creation"])], "no source 'EX1999 creation'"),
        ([row(level="perhaps")], r"^requirements\.0\.level$"),
        ([row(more=1)], r"^requirements\.0\.more$"),
        ([row(id="CRE-1")], r"^requirements\.0\.id$"),
    ],
)
def test_a_damaged_catalogue_is_refused(rows: list[dict[str, object]], problem: str) -> None:
    made(row())
    with pytest.raises(ValueError, match=re.compile(problem, re.MULTILINE)):
        made(*rows)


def test_coverage_lists_scenarios_defects_and_gaps_of_each_row_in_force() -> None:
    rows = made(
        row(),
        row(id="SR-CRE-02"),
        row(id="SR-CRE-03", seen_on="admin"),
        row(id="SR-CRE-04", retired="it was the same as another"),
        row(id="RL-ACK-01", profile="relay", level="may"),
    )
    found = coverage(
        rows,
        {"b": ["SR-CRE-01", "SR-CRE-01"], "a": ["SR-CRE-01", "SR-CRE-03"]},
        {"early": ["SR-CRE-02"]},
        {"model.x": ["SR-CRE-02"]},
        {},
        {"SR-CRE-03": "unseen"},
    )
    assert [(one.requirement.id, one.scenarios, one.defects, one.gaps) for one in found] == [
        ("SR-CRE-01", ("a", "b"), (), ("defect",)),
        ("SR-CRE-02", (), ("early",), ("scenario",)),
        ("SR-CRE-03", ("a",), (), ()),
        ("RL-ACK-01", (), (), ("scenario",)),
    ]
    assert [one.requirement.id for one in uncovered(found)] == ["SR-CRE-02", "RL-ACK-01"]
    assert [(one.rules, one.unjudged) for one in found[1:3]] == [(("model.x",), ""), ((), "unseen")]


@pytest.mark.parametrize("given", ["scenarios", "defects", "rules", "queries", "unjudged"])
def test_coverage_of_an_unknown_row_is_an_error(given: str) -> None:
    names: dict[str, Any] = {"scenarios": {}, "defects": {}, "rules": {}, "queries": {}, "unjudged": {}}
    names[given] = {"SR-CRE-1": "unseen"} if given == "unjudged" else {"a": ["SR-CRE-1"]}
    with pytest.raises(KeyError, match="SR-CRE-1"):
        coverage(made(row()), **names)
