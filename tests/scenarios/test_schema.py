"""The JSON Schemas that editors use: every file of the corpus matches them, and unknown keys and values do not."""

import os
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from conformance import paths
from conformance.commands.schemas import scenario_schema_with_names
from conformance.scenarios.errors import ProblemReport
from conformance.scenarios.fixtures import fixture_names, load_topology
from conformance.scenarios.loader import scenario_files
from conformance.scenarios.schema import scenario_schema, topology_schema
from conformance.scenarios.yaml_nodes import compose, split_documents
from tests.scenarios.documents import HEAD, SEND

ROOT = Path(__file__).parents[2]
TOPOLOGIES = paths.fixtures() / "topologies"


def documents(path: Path) -> list[Any]:
    return [data(chunk.text) for chunk in split_documents(path.read_text("utf-8"))]


def data(text: str) -> Any:
    node = compose(next(split_documents(text)), ProblemReport("x"))
    assert node is not None
    return node.data()


@pytest.fixture(scope="module")
def scenario() -> Draft202012Validator:
    schema = scenario_schema()
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


SCENARIO_FILES = scenario_files([ROOT / "scenarios", ROOT / "fixtures", ROOT / "benchmarks"])
"""All of the checkout, whose relative paths editors follow, but one of an earlier version, in tests/compat."""


@pytest.mark.parametrize("path", SCENARIO_FILES, ids=lambda path: path.name)
def test_every_scenario_file_of_this_version_matches_the_schema_and_names_it(
    path: Path, scenario: Draft202012Validator
) -> None:
    found = documents(path)
    assert found
    for document in found:
        assert [error.message for error in scenario.iter_errors(document)] == []
    first = path.read_text("utf-8").partition("\n")[0]
    assert (
        first == f"# yaml-language-server: $schema={os.path.relpath(ROOT / 'docs/schema/scenario.json', path.parent)}"
    )


@pytest.mark.parametrize("name", fixture_names(TOPOLOGIES))
def test_every_topology_matches_the_schema_and_loads(name: str) -> None:
    path = TOPOLOGIES / f"{name}.yaml"
    (document,) = documents(path)
    schema = Draft202012Validator(topology_schema())
    assert [error.message for error in schema.iter_errors(document)] == []
    assert not schema.is_valid(document | {"servres": []}), "the schema knows the keys"
    assert load_topology(path).name == name


@pytest.mark.parametrize(
    "step",
    [
        "advance: 2m",
        "kill: mbx1",
        "kill: {node: [mbx1, mbx2]}",
        "expect: {mailbox: {of: m, who: a@b.test, copies: 2}}",
        "expect: {mailbox: {of: m, who: a@b.test, copies: {min: 2}}}",
        "send: {as: m, to: a@b.test, via: '${x}', count: '${n}', pipelining: yes}",
        "parallel: [{advance: 1s}]",
        "repeat: {times: 2, steps: [{advance: 1s}]}",
    ],
)
def test_the_schema_accepts_valid_steps(step: str, scenario: Draft202012Validator) -> None:
    assert scenario.is_valid(data(HEAD + f"steps: [{{{step}}}]"))


@pytest.mark.parametrize(
    ("step", "mended"),
    [
        ("advance: 2 minutes", "advance: 2m"),
        ("send: {as: m, to: a@b.test}", "send: {as: m, to: a@b.test, via: mbx1}"),
        ("send: {as: m, to: a@b.test, via: mbx1, cuont: 2}", "send: {as: m, to: a@b.test, via: mbx1, count: 2}"),
        (
            "send: {as: m, to: a@b.test, via: mbx1, pipelining: maybe}",
            "send: {as: m, to: a@b.test, via: mbx1, pipelining: no}",
        ),
        ("sned: {as: m, to: a@b.test, via: mbx1}", "send: {as: m, to: a@b.test, via: mbx1}"),
        ("advance: 1s, kill: mbx1", "kill: mbx1"),
        ("expect: {reply: {of: m}, shadow: {of: m}}", "expect: {reply: {of: m}}"),
        ("expect: {replied: {of: m}}", "expect: {reply: {of: m}}"),
        ("parallel: []", "parallel: [{advance: 1s}]"),
        ("label: x", "label: x, advance: 1s"),
        ("lable: x, advance: 1s", "label: x, advance: 1s"),
        ("repeat: {times: 2, stpes: [], steps: [{advance: 1s}]}", "repeat: {times: 2, steps: [{advance: 1s}]}"),
    ],
)
def test_the_schema_refuses_invalid_steps(step: str, mended: str, scenario: Draft202012Validator) -> None:
    assert not scenario.is_valid(data(HEAD + f"steps: [{{{step}}}]"))
    assert scenario.is_valid(data(HEAD + f"steps: [{{{mended}}}]")), "nothing else was wrong with it"


def test_the_schema_refuses_unknown_top_level_keys_and_needs(scenario: Draft202012Validator) -> None:
    assert scenario.is_valid(data(HEAD + "steps:\n" + SEND))
    assert scenario.is_valid(data(HEAD + "tags: []\nneeds: [shadow-2013]\nsteps:\n" + SEND))
    assert not scenario.is_valid(data(HEAD + "tgas: []\nsteps:\n" + SEND))
    assert not scenario.is_valid(data(HEAD + "needs: [shadow-2031]\nsteps:\n" + SEND))


@pytest.fixture(scope="module")
def named() -> Draft202012Validator:
    schema = scenario_schema_with_names()
    Draft202012Validator.check_schema(schema)
    assert "$id" not in schema
    return Draft202012Validator(schema)


@pytest.mark.parametrize("path", SCENARIO_FILES, ids=lambda path: path.name)
def test_every_scenario_file_of_this_version_matches_the_schema_with_names(
    path: Path, named: Draft202012Validator
) -> None:
    found = documents(path)
    assert found
    for document in found:
        assert [error.message for error in named.iter_errors(document)] == []


@pytest.mark.parametrize(
    ("key", "right", "wrong"),
    [
        ("topology", "two-servers-one-dag", "two-servers-one-dog"),
        ("requirements", ["SR-CRE-01"], ["SR-CRE-99"]),
        (
            "steps",
            [{"send": {"as": "m", "to": "a@b.test", "via": "mbx1", "message": "dots"}}],
            [{"send": {"as": "m", "to": "a@b.test", "via": "mbx1", "message": "dogs"}}],
        ),
    ],
)
def test_the_schema_with_names_refuses_unknown_ones(
    key: str, right: Any, wrong: Any, scenario: Draft202012Validator, named: Draft202012Validator
) -> None:
    known = {
        "id": "x",
        "title": "Mail is kept",
        "requirements": ["SR-CRE-01"],
        "topology": "relay",
        "steps": [{"advance": "1m"}],
    }
    assert list(named.iter_errors(known | {key: right})) == []
    assert list(named.iter_errors(known | {key: wrong})) != []
    assert list(scenario.iter_errors(known | {key: wrong})) == [], "the published schema allows any name"


def test_the_schema_with_names_allows_an_axis_for_a_name(named: Draft202012Validator) -> None:
    axes = {
        "axes": {"a": ["x", "y"]},
        "topology": "${a}",
        "steps": [{"send": {"as": "m", "to": "a@b.test", "via": "mbx1", "message": "${a}"}}],
    }
    assert list(named.iter_errors({"id": "x", "title": "Mail is kept", "requirements": ["SR-CRE-01"], **axes})) == []
