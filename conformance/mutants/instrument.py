"""A source file that records which of its mutants would make a difference where it is executed.

Theory of operation
-------------------
A mutant that is not executed in a cell, or whose changed expression always has the value of the original, takes the same course
as the sound file: it need not be tried there. So each site is replaced by code that adds its number to `DIFFERS`:

- The largest expressions around a site that have no effects (names, attributes, comparisons, arithmetic, calls of `len` and the
  like) are evaluated a second time with the change, until the value or an exception differs once.
- A comparison of other operands evaluates these once, and both comparisons.
- Everything else counts as different as soon as it is executed.

Sites in the body of a class are executed when the file is imported; they are left as they are, and have `Site.in_class`.
"""

import ast
import builtins
import copy
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from conformance.mutants.operators import OPERATORS, Site, replace_node, walk_functions

T = TypeVar("T")

DIFFERS: set[int] = set()
"""The numbers of the sites that have made a difference; to be cleared before each cell."""

_PURE = (ast.Attribute, ast.BinOp, ast.BoolOp, ast.Compare, ast.Constant, ast.IfExp, ast.Name, ast.Subscript, ast.Tuple, ast.UnaryOp)  # fmt: skip
_PURE_PARTS = (ast.boolop, ast.cmpop, ast.expr_context, ast.operator, ast.unaryop, ast.Slice)
_PURE_FUNCTIONS = frozenset({"abs", "bool", "isinstance", "len", "max", "min"})
_PURE_METHODS = frozenset({"casefold", "endswith", "lower", "startswith", "strip", "time", "upper"})

_Change = tuple[int, str]
"""The number of a site, and the name of its operator."""


def instrument(source: str, file: str, numbers: Mapping[Site, int]) -> ast.Module:
    """Return the syntax tree of a source file that records differences under the numbers of its sites.

    `numbers` has all sites of the file that are not in the body of a class. The recording functions, which add to `DIFFERS`, are set
    as built-ins of this process. Raises SyntaxError.
    """
    tree = ast.parse(source)
    counts: dict[tuple[str, str], int] = {}
    changes: dict[int, list[_Change]] = {}
    for node, function, in_class in walk_functions(tree):
        for name, operator in OPERATORS.items():
            if operator(node) is not None:
                occurrence = counts[function, name] = counts.get((function, name), 0) + 1
                site = Site(
                    file=file,
                    function=function,
                    operator=name,
                    occurrence=occurrence,
                    line=getattr(node, "lineno", 0),
                    in_class=in_class,
                )
                if not in_class:
                    changes.setdefault(id(node), []).append((numbers[site], name))
    vars(builtins).update(_mutant_reached=_reached, _mutant_differs=_differs, _mutant_compared=_compared)
    _Instrumentation(changes).visit(tree)
    return ast.fix_missing_locations(tree)


class _Instrumentation(ast.NodeTransformer):
    """Replaces the nodes of a tree by ones that record; `changes` has the sites of each node, by `id(node)`."""

    def __init__(self, changes: Mapping[int, list[_Change]]) -> None:
        self._changes = changes

    def visit(self, node: ast.AST) -> Any:
        """Return what replaces a node: one node or, for a statement with sites, a list of a recording call and the statement.

        Nodes without sites stay, with what is in them replaced. A site that negates the condition of a statement is recorded where
        the condition is evaluated, without a call before the statement; a site in the pattern of a `case` before the `match`.
        Assertions, signatures and annotations are left as they are.
        """
        if isinstance(node, ast.Assert | ast.arguments | ast.pattern):
            return node
        own = self._changes.get(id(node), ())
        if isinstance(node, ast.expr):
            return self._visit_expression(node, [number for number, _ in own])
        reached = [number for number, name in own if name != "negate-condition"]
        if isinstance(node, ast.Match):
            patterns = [part for case in node.cases for part in ast.walk(case.pattern)]
            reached += [number for part in patterns for number, _ in self._changes.get(id(part), ())]
        conditions = [number for number, name in own if name == "negate-condition"]
        annotation = getattr(node, "annotation", None)
        changed = super().generic_visit(node)
        if annotation is not None:
            changed.annotation = annotation  # type: ignore[attr-defined]
        if conditions:
            changed.test = _call("reached", changed.test, conditions)  # type: ignore[attr-defined]
        if not reached:
            return changed
        return [ast.copy_location(ast.Expr(_call("reached", ast.Constant(None), reached)), node), changed]

    def _visit_expression(self, node: ast.expr, own: list[int]) -> ast.AST:
        """Return an expression that has the same value and records the sites in it (see the module's theory of operation).

        `own` are the numbers of the sites of the expression itself, without those of its parts.
        """
        if isinstance(getattr(node, "ctx", None), ast.Store | ast.Del):
            return super().generic_visit(node)
        inside = [(part, change) for part in ast.walk(node) for change in self._changes.get(id(part), ())]
        if not inside:
            return node
        if isinstance(node, ast.Constant):
            return _call("reached", node, own)
        if _is_pure(node):
            lambdas = [(number, _lambda(_changed_copy(node, part, name))) for part, (number, name) in inside]
            return _call("differs", node, [number for number, _ in lambdas], [function for _, function in lambdas])
        if isinstance(node, ast.Compare) and own and len(node.ops) == 1:
            operator = OPERATORS["change-comparison"]
            names: list[ast.expr] = [ast.Name("_left", ast.Load()), ast.Name("_right", ast.Load())]
            plain = ast.Compare(names[0], node.ops, names[1:])
            changed = operator(plain)
            assert isinstance(changed, ast.expr)
            operands = [self.visit(node.left), self.visit(node.comparators[0])]
            both = [_lambda(one, "_left", "_right") for one in (plain, changed)]
            return ast.Call(_builtin_name("compared"), [ast.Constant(own[0]), *operands, *both], [])
        visited = super().generic_visit(node)
        assert isinstance(visited, ast.expr)
        return _call("reached", visited, own) if own else visited


def _is_pure(node: ast.AST) -> bool:
    """Return whether an expression can be evaluated a second time without effects: it has only the nodes and calls of `_PURE...`."""
    if isinstance(node, ast.Call):
        function = node.func
        named = isinstance(function, ast.Name) and function.id in _PURE_FUNCTIONS
        method = isinstance(function, ast.Attribute) and function.attr in _PURE_METHODS and _is_pure(function.value)
        return (named or method) and not node.keywords and all(map(_is_pure, node.args))
    return isinstance(node, _PURE_PARTS + _PURE) and all(map(_is_pure, ast.iter_child_nodes(node)))


def _changed_copy(expression: ast.expr, part: ast.AST, operator: str) -> ast.expr:
    """Return a copy of an expression in which the operator of this name (a key of OPERATORS) has changed `part`, one of its nodes."""
    memo: dict[int, Any] = {}
    copied = copy.deepcopy(expression, memo)
    changed = replace_node(copied, memo[id(part)], OPERATORS[operator])
    assert isinstance(changed, ast.expr)
    return changed


def _builtin_name(function: str) -> ast.Name:
    """Return the expression that reads the built-in `_mutant_<function>`, which `instrument` installs."""
    return ast.Name(f"_mutant_{function}", ast.Load())


def _call(function: str, value: ast.expr, numbers: list[int], lambdas: list[ast.expr] | None = None) -> ast.expr:
    """Return the call `_mutant_<function>(value, numbers, *lambdas)`, located where `value` is."""
    call = ast.Call(
        _builtin_name(function),
        [value, ast.Tuple([ast.Constant(number) for number in numbers], ast.Load()), *(lambdas or ())],
        [],
    )
    return ast.copy_location(call, value)


def _lambda(body: ast.expr, *names: str) -> ast.expr:
    """Return the expression `lambda names: body`."""
    return ast.Lambda(ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, []), body)


def _reached(value: T, numbers: tuple[int, ...]) -> T:
    """Return `value` unchanged, and record the sites with these numbers: they make a difference wherever they are executed."""
    DIFFERS.update(numbers)
    return value


def _differs(value: T, numbers: tuple[int, ...], *changed: Callable[[], object]) -> T:
    """Return `value`; record each site whose changed expression (a function in `changed`) fails or has another value.

    `numbers` are those of the sites, in the order of `changed`.
    """
    for number, function in zip(numbers, changed, strict=True):
        if number not in DIFFERS:
            try:
                same = _is_same(value, function())
            except Exception:  # noqa: BLE001  # the changed expression fails, and the original does not
                same = False
            if not same:
                DIFFERS.add(number)
    return value


def _compared(number: int, left: object, right: object, plain: Callable[..., T], changed: Callable[..., object]) -> T:
    """Return the result of comparing `left` with `right` by `plain`; record the site `number` if `changed` fails or has another result."""
    value = plain(left, right)
    return _differs(value, (number,), lambda: changed(left, right))


def _is_same(value: object, other: object) -> bool:
    """Return whether two values are one object, or equal values of the same type among bool, int, float, str and bytes."""
    if value is other:
        return True
    return type(value) is type(other) and isinstance(value, bool | int | float | str | bytes) and value == other
