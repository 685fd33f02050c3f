"""YAML 1.2 as nodes: plain scalars, places of values, and that any input gives nodes or problems."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from conformance import paths
from conformance.scenarios import yaml_nodes
from conformance.scenarios.errors import Mark, ProblemReport
from conformance.scenarios.loader import read_scenarios
from conformance.scenarios.yaml_nodes import Node, compose, resolve_plain_scalar, split_documents


def node_of(text: str) -> Node:
    report = ProblemReport("x")
    (chunk,) = split_documents(text)
    node = compose(chunk, report)
    assert not report.problems
    assert node is not None
    return node


@pytest.mark.parametrize(
    ("plain", "value"),
    [
        ("yes", "yes"),
        ("No", "No"),
        ("on", "on"),
        ("off", "off"),
        ("y", "y"),
        ("true", True),
        ("FALSE", False),
        ("tRue", "tRue"),
        ("null", None),
        ("~", None),
        ("", None),
        ("12", 12),
        ("9" * 40, 10**40 - 1),
        ("-7", -7),
        ("+3", 3),
        ("010", 10),
        ("0o10", 8),
        ("0x1F", 31),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("4.4.0", "4.4.0"),
        ("2016-01-01", "2016-01-01"),
        ("-", "-"),
        ("0x", "0x"),
    ],
)
def test_plain_scalars_are_resolved_as_in_yaml_1_2(plain: str, value: object) -> None:
    resolved = resolve_plain_scalar(plain)
    assert (resolved, type(resolved)) == (value, type(value))


@pytest.mark.parametrize("plain", [
    ".inf", "-.Inf", "+.INF", ".NaN", "1e999", "-1e999", "9" * 41, "-" + "9" * 40, "1." + "0" * 39,
    "0x" + "f" * 39, "0o" + "7" * 39,
])  # fmt: skip
def test_infinite_and_oversized_numbers_are_refused(plain: str) -> None:
    with pytest.raises(ValueError, match="number"):
        resolve_plain_scalar(plain)


def test_quoted_scalars_are_text() -> None:
    assert node_of("- \"12\"\n- 'true'\n- |-\n  7\n").data() == ["12", "true", "7"]


def test_every_value_and_key_has_its_line_and_column() -> None:
    node = node_of("# a comment\n---\na: 1\nlist:\n  - {b: x}\n  - [y,\n     z]\n")
    assert node.mark == node.entries["a"].key == Mark(3, 1)
    assert node.entries["a"].node.mark == Mark(3, 4)
    assert node.entries["list"].key == Mark(4, 1)
    assert node.entries["list"].node.mark == Mark(5, 3)
    inner = node.entries["list"].node.items[0]
    assert inner.mark == Mark(5, 5)
    assert inner.entries["b"].key == Mark(5, 6)
    assert inner.entries["b"].node.mark == Mark(5, 9)
    other = node.entries["list"].node.items[1]
    assert [other.mark, *(item.mark for item in other.items)] == [Mark(6, 5), Mark(6, 6), Mark(7, 6)]


def test_documents_are_split_at_their_lines() -> None:
    text = "# head\n---\na: |\n  --- no\n  b\n--- # second\nc: 1\n---d: 2\n---\n# only a comment\n---\n"
    assert [(chunk.line, chunk.text.splitlines()[0]) for chunk in split_documents(text)] == [
        (2, "---"),
        (6, "--- # second"),
    ]


@given(st.text(alphabet=st.sampled_from("ab:-[]{}&*!|>'\"%#,? \n\t~<\\0.\x00é"), max_size=200))
def test_any_text_gives_a_node_or_a_problem(text: str) -> None:
    for chunk in split_documents(text):
        report = ProblemReport("x")
        assert (compose(chunk, report) is not None) or report.problems


def _both(text: str) -> list[object]:
    """Return what is read of a text with the quick parser's help, and without."""
    found: list[object] = []
    for plain in (yaml_nodes._SAME_IN_YAML_1_1, re.compile("(?!)")):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(yaml_nodes, "_SAME_IN_YAML_1_1", plain)
            report = ProblemReport("x")
            nodes = [compose(chunk, report) for chunk in split_documents(text)]
        found.append(None if report.problems else [node.data() for node in nodes if node is not None])
    return found


@example(">\n#")
@example("# c\n|\n#")
@given(st.text(alphabet=st.sampled_from("ab:-[]{}&*|>'\"%#, \n~<\\0.é"), max_size=60))
def test_what_the_full_parser_accepts_is_read_the_same_by_both(text: str) -> None:
    quick, slow = _both(text)
    assert quick == slow or slow is None  # the quick one takes a comment that follows `|` without a space


@pytest.mark.parametrize("path", sorted(paths.corpus().rglob("*.scenario.yaml")), ids=lambda path: path.stem)
def test_both_parsers_read_the_corpus_the_same(path: Path) -> None:
    found: list[list[Node | None]] = []
    used: list[set[bool]] = []

    def noting(*, typ: str, pure: bool = False) -> Any:
        used[-1].add(pure)
        return YAML(typ=typ, pure=pure)

    for plain in (yaml_nodes._SAME_IN_YAML_1_1, re.compile("(?!)")):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(yaml_nodes, "_SAME_IN_YAML_1_1", plain)
            patched.setattr(yaml_nodes, "YAML", noting)
            used.append(set())
            found.append([compose(chunk, ProblemReport("x")) for chunk in split_documents(path.read_text("utf-8"))])
    assert found[0] == found[1]  # with all lines and columns
    assert all(found[0])
    assert False in used[0], "the quick parser reads most documents of each file"
    assert used[1] == {True}


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 10**6),
    st.sampled_from(["m", "mbx1", "two-servers-one-dag", "${x}", "m#7", "a-scenario", "SR-CRE-01", "2m", "a title"]),
)
KEYS = st.sampled_from(["id", "steps", "axes", "send", "expect", "of", "x", "to", "when", "parallel", "servers", "as"])
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=8,
)
VALID = {
    "id": "a-scenario",
    "title": "A scenario to be mutated",
    "requirements": ["SR-CRE-01"],
    "needs": ["shadow-2013"],
    "topology": {
        "name": "own",
        "servers": [{"name": "mbx1", "site": "A", "transport": {"B": "2m"}}],
        "mailboxes": [{"address": "bob@corp.test", "database": "DB1", "server": "mbx1"}],
    },
    "axes": {"x": [1, 2], "y": ["a", "b"]},
    "exclude": [{"x": 1, "y": "b"}],
    "configure": {"A": "${x}"},
    "waive": {"one-final-reply": "for the sake of it"},
    "drain": "1h",
    "steps": [
        {
            "send": {
                "as": "m",
                "count": "${x}",
                "to": ["bob@corp.test"],
                "via": "mbx1",
                "retry": {"every": 1, "times": 2},
            }
        },
        {"expect": {"reply": {"of": "m#1", "code": 250}}, "when": {"y": ["a"]}},
        {"parallel": [{"kill": {"node": "mbx1", "at": {"after": "dot"}}}, {"advance": "1m"}]},
        {"repeat": {"times": 2, "steps": [{"advance": "1s"}]}, "label": "again"},
        {"talk": {"as": "t", "to": "mbx1", "lines": [{"say": "NOOP", "code": 250}]}},
        {"expect": {"mailbox": {"of": "m", "who": "bob@corp.test", "copies": {"min": 1}, "since": "again"}}},
    ],
}


def mutated(tree: Any, pick: Callable[[st.SearchStrategy[Any]], Any]) -> Any:
    """Return a tree with one randomly picked value replaced."""
    keys = list(tree) if isinstance(tree, dict) else list(range(len(tree))) if isinstance(tree, list) else []
    if not keys or pick(st.integers(0, 4)) == 0:
        return pick(TREES)
    copy, key = tree.copy(), pick(st.sampled_from(keys))
    copy[key] = mutated(copy[key], pick)
    return copy


def test_the_unmutated_document_is_valid(tmp_path: Path) -> None:
    file = tmp_path / "x.scenario.yaml"
    file.write_text(json.dumps(VALID), "utf-8")
    (scenario,) = read_scenarios(file, paths.fixtures())
    assert len(scenario.cells()) == 3


@given(data=st.data())
def test_a_mutated_document_gives_cells_or_problems(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Two values of a valid document are replaced at random."""
    tree = mutated(mutated(VALID, data.draw), data.draw)
    file = tmp_path_factory.getbasetemp() / "any.scenario.yaml"
    file.write_text(json.dumps(tree), "utf-8")
    scenarios = read_scenarios(file, paths.fixtures())
    assert scenarios
    for scenario in scenarios:
        assert scenario.problems or scenario.cells()
        assert all(problem.line >= 1 and problem.column >= 1 for problem in scenario.problems)


@given(octets=st.binary(max_size=300))
def test_random_octets_give_problems_only(octets: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.getbasetemp() / "octets.scenario.yaml"
    file.write_bytes(octets)
    scenarios = read_scenarios(file, paths.fixtures())
    assert scenarios
    assert all(scenario.problems for scenario in scenarios)
