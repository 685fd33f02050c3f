"""An instrumented function returns what the original does, and records the mutants that would make a difference."""

import ast

import pytest

from conformance import paths
from conformance.commands.mutants import all_sites
from conformance.mutants.instrument import DIFFERS, instrument
from conformance.mutants.operators import find_sites

FUNCTION = """
def f(a, b, effects):
    if a < b and effects.append("read") is None:
        effects.append(1)
    match a:
        case 3:
            return max(a, b + 0)
    return [n * 2 for n in range(a) if n != 1]
"""


MATCHING_LATE = """
def f(a, b, effects):
    if b:
        return b
    match a:
        case 3:
            return a
"""


WHOLE = """
def f(a, b, effects):
    return max(a, b + 1)
"""


def differing(a: int, b: int, function: str = FUNCTION) -> set[str]:
    """Call the instrumented function; return `operator:occurrence` of the mutants that make a difference."""
    sites = find_sites(function, "f.py")
    tree = instrument(function, "f.py", {site: number for number, site in enumerate(sites)})
    plain: dict[str, object] = {}
    recording: dict[str, object] = {}
    exec(compile(function, "f.py", "exec"), plain)  # noqa: S102
    exec(compile(tree, "f.py", "exec"), recording)  # noqa: S102
    DIFFERS.clear()
    results = []
    for names in (plain, recording):
        effects: list[object] = []
        results.append((names["f"](a, b, effects), effects))  # type: ignore[operator]
    assert results[0] == results[1]
    return {f"{sites[number].operator}:{sites[number].occurrence}" for number in DIFFERS}


def test_a_changed_comparison_differs_where_both_sides_are_equal():
    assert "change-comparison:1" not in differing(1, 2)
    assert "change-comparison:1" not in differing(2, 1)
    assert "change-comparison:1" in differing(2, 2)


def test_a_statement_that_is_not_executed_makes_no_difference():
    assert "remove-call:1" in differing(1, 2)
    assert "remove-call:1" not in differing(2, 1)


def test_what_follows_an_operand_that_decides_is_not_evaluated():
    assert "change-comparison:2" in differing(1, 2)
    assert "change-comparison:2" not in differing(2, 1)


def test_an_expression_without_effects_is_compared_as_a_whole():
    inner = {"change-arithmetic:1", "increase-number:1"}
    assert inner & differing(3, 1, WHOLE) == set()
    assert inner <= differing(3, 3, WHOLE)
    with_an_effect = WHOLE.replace("b + 1", "effects.append(b) or b + 1")
    assert inner <= differing(3, 1, with_an_effect), "the effect must not happen twice, so its parts are compared"


def test_the_pattern_of_a_case_differs_when_the_match_is_reached():
    assert "increase-number:2" in differing(1, 2)
    assert "increase-number:1" in differing(1, 0, MATCHING_LATE)
    assert "increase-number:1" not in differing(1, 2, MATCHING_LATE)


@pytest.mark.parametrize("operator", ["change-arithmetic:2", "change-comparison:3", "double-number:2"])
def test_a_comprehension_is_recorded(operator: str):
    assert operator in differing(4, 1)
    assert operator not in differing(0, 1)


def numbers_in(tree: ast.Module) -> set[int]:
    """Return the numbers of the sites that the recording calls of an instrumented file have."""
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.startswith("_mutant_"):
            numbers = node.args[0 if node.func.id == "_mutant_compared" else 1]
            found |= {part.value for part in ast.walk(numbers) if isinstance(part, ast.Constant)}  # type: ignore[misc]
    return found


def test_all_files_of_the_reference_that_have_mutants_can_be_instrumented():
    root, sites = paths.reference(), all_sites(paths.reference())
    numbers = {site: number for number, site in enumerate(sites)}
    files = {path.relative_to(root).as_posix() for path in root.rglob("*.py") if not path.name.startswith("__")}
    mutated = {file for file in files if not file.startswith(("defects/", "readings/"))}
    assert {site.file for site in sites} == mutated
    for file in mutated:
        tree = instrument((root / file).read_text("utf-8"), file, numbers)
        recorded = numbers_in(tree)
        assert [s.id for s in sites if s.file == file and not s.in_class and numbers[s] not in recorded] == []
        compile(tree, file, "exec")
    assert any(not site.in_class for site in sites)
