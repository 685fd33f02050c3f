"""Each operator of mutation testing changes what it says, and nothing else; ids are stable."""

import ast

import pytest

from conformance import paths
from conformance.commands.mutants import all_sites
from conformance.mutants.operators import OPERATORS, find_sites, mutate

EXAMPLES = {
    "negate-condition": ("if a:\n    b()", "if not a:\n    b()"),
    "change-comparison": ("return a < b", "return a <= b"),
    "exchange-and-or": ("return a and b", "return a or b"),
    "drop-first-operand": ("return a and b", "return b"),
    "drop-last-operand": ("return a and b", "return a"),
    "change-arithmetic": ("return a + b", "return a - b"),
    "increase-number": ("a = 3", "a = 4"),
    "double-number": ("a = 3", "a = 6"),
    "negate-constant": ("a = True", "a = False"),
    "drop-not": ("return not a", "return a"),
    "remove-call": ("await a(b)", "pass"),
    "remove-assignment": ("a.b = c", "pass"),
    "return-nothing": ("return a", "return"),
    "exchange-break-continue": ("while a:\n    break", "while a:\n    continue"),
}


def in_function(body: str) -> str:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return f"async def f(a: int = 1) -> bool:\n    'A docstring.'\n    assert not a < 1 and a + 1 == True\n{lines}\n"


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_changes_its_example(name: str):
    before, after = map(in_function, EXAMPLES[name])
    (site,) = [site for site in find_sites(before, "f.py") if site.operator == name]
    assert ast.unparse(mutate(before, site)) == ast.unparse(ast.parse(after))


def test_assertions_literals_that_stand_alone_and_signatures_are_left_alone():
    nested = "def inner(a: int | str = 1 + 1, *, b: bool = not True) -> int | None:\n    'Another.'\n    assert a < 1"
    assert find_sites(in_function("pass"), "f.py") == []
    assert find_sites(in_function(nested), "f.py") == []
    assert find_sites(nested, "f.py") == []
    assert find_sites(in_function(nested.replace("assert a < 1", "return a < 1")), "f.py"), (
        "what is no assertion is changed"
    )
    for literal in ("'Another.'", "2", "True", "..."):
        assert find_sites(in_function(literal), "f.py") == []
        assert find_sites(f"class C:\n    {literal}\n", "f.py") == []
    assert find_sites(in_function("a = 2"), "f.py"), "a literal that is used is changed"
    assert find_sites("class C:\n    a = 2\n", "f.py")
    of_signature = ["1 + 1", "not True", "a | b"]
    assert [find_sites(in_function(f"c = {part}"), "f.py") != [] for part in of_signature] == [True] * 3
    assert find_sites(in_function("c: a | b = d"), "f.py") == [], "nor is another annotation"


def test_the_strict_of_zip_is_left_alone_as_an_assertion():
    assert find_sites(in_function("a = zip(b, c, strict=True)"), "f.py") == []
    assert find_sites(in_function("a = f(b, c, strict=True)"), "f.py"), "another function's argument is changed"


def test_what_is_logged_is_left_alone():
    assert find_sites(in_function("self.host.log.info('%d', 1 + 2)"), "f.py") == []
    assert find_sites(in_function("logger.info('%d', 1 + 2)"), "f.py") == []
    assert find_sites(in_function("if not a:\n    host.log.info('%d', 1 + 2)"), "f.py") == []
    assert find_sites(in_function("self.host.queue.info('%d', 1 + 2)"), "f.py"), "another call is changed"
    assert find_sites(in_function("if a():\n    host.log.info('')"), "f.py"), "a condition with a call is changed"
    assert find_sites(in_function("if a:\n    host.log.info('')\nelse:\n    b()"), "f.py"), "there is another branch"


@pytest.mark.parametrize("literal", ["()", "[]", "{}", "None", "''"])
def test_the_return_of_an_empty_literal_is_left_alone(literal: str):
    assert find_sites(in_function(f"return {literal}"), "f.py") == []
    assert find_sites(in_function(f"return {literal}, a"), "f.py")


def test_an_id_does_not_change_with_other_functions():
    function = in_function("return a < b")
    (site,) = [one for one in find_sites(function, "f.py") if one.operator == "change-comparison"]
    moved = find_sites(f"def g():\n    return 1 < 2\n\n\n{function}", "f.py")
    assert site.id == "f.py:f:change-comparison:1"
    assert site.id in {one.id for one in moved}


def test_a_site_that_is_gone_is_an_error():
    (site,) = [one for one in find_sites(in_function("return a < b"), "f.py") if one.operator == "change-comparison"]
    with pytest.raises(LookupError, match="no such mutant: f.py:f:change-comparison:1"):
        mutate(in_function("return a"), site)


def test_the_reference_has_a_mutant_of_every_operator_with_an_id_of_its_own():
    sites = all_sites(paths.reference())
    assert len({site.id for site in sites}) == len(sites)
    assert {site.operator for site in sites} == set(OPERATORS)
