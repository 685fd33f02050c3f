"""The mutants of a source file: where each operator applies, and the syntax tree that it leaves.

Theory of operation
-------------------
A *site* is one place of the syntax tree to which one operator applies. Its id is stable while other functions change: the
file, the function, the operator, and the number of the site among those of this operator in this function. The operators
are the usual ones of mutation testing: conditions, comparisons, arithmetic, constants and statements. Assertions, docstrings,
annotations, default values of function signatures and what is logged are left alone.

An operator is a function that returns the node to put in place of a given one, None where it does not apply. To mutate a tree, it is
walked in the order in which the sites were found, and the node of the wanted site is replaced. `trial` and `differences` use this.
The operators themselves, at the end, never change the node that they are given; OPERATORS has their names.
"""

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

Operator = Callable[[ast.AST], ast.AST | None]
"""Return what takes the place of a node, None where the operator does not apply."""

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}


@dataclass(frozen=True, slots=True)
class Site:
    """One mutant: `file` (a path below the package of the reference), the function's qualified name, the operator, and the line number.

    `occurrence` is its number, from 1, among the sites of this operator in this function.
    """

    file: str
    function: str
    operator: str
    occurrence: int
    line: int
    in_class: bool = False
    """Whether it is in the body of a class, and so executed when the file is imported."""
    text: str = field(default="", compare=False)
    """The line of the source file, without its indentation and comment."""

    @property
    def id(self) -> str:
        """The stable name of the mutant."""
        return f"{self.file}:{self.function}:{self.operator}:{self.occurrence}"


def find_sites(source: str, file: str) -> list[Site]:
    """Return the sites of a source file, in the order in which its tree is walked. Raises SyntaxError.

    `source` is the text of the file, `file` the path that its sites get.
    """
    counts: dict[tuple[str, str], int] = {}
    lines = source.splitlines()
    sites = []
    for node, function, in_class in walk_functions(ast.parse(source)):
        for name, operator in OPERATORS.items():
            if operator(node) is not None:
                number = counts[function, name] = counts.get((function, name), 0) + 1
                line = getattr(node, "lineno", 0)
                sites.append(
                    Site(
                        file=file,
                        function=function,
                        operator=name,
                        occurrence=number,
                        line=line,
                        in_class=in_class,
                        text=lines[line - 1].partition("  # ")[0].strip(),
                    )
                )
    return sites


def mutate(source: str, site: Site) -> ast.Module:
    """Return the syntax tree of a source file with one site changed.

    Raises LookupError if the file has no such site, or SyntaxError.
    """
    tree = ast.parse(source)
    operator, number = OPERATORS[site.operator], 0
    for node, function, _ in walk_functions(tree):
        if function == site.function and operator(node) is not None:
            number += 1
            if number == site.occurrence:
                replace_node(tree, node, operator)
                return ast.fix_missing_locations(tree)
    raise LookupError(f"no such mutant: {site.id}")


def replace_node(tree: ast.AST, node: ast.AST, operator: Operator) -> ast.AST:
    """Return the tree with one of its nodes changed by an operator; the tree itself is changed unless it is that node."""
    changed = _Replacement(node, operator).visit(tree)
    assert isinstance(changed, ast.AST)
    return changed


class _Replacement(ast.NodeTransformer):
    """Replaces one node of a tree by what an operator makes of it."""

    def __init__(self, node: ast.AST, operator: Operator) -> None:
        """Replace `node`, compared by identity, by what `operator` makes of it."""
        self._node = node
        self._operator = operator

    def visit(self, node: ast.AST) -> ast.AST:
        """Return what the operator makes of the one node; of any other node, itself with that node replaced below it."""
        if node is not self._node:
            return super().generic_visit(node)
        replacement = self._operator(node)
        assert replacement is not None
        return ast.copy_location(replacement, node)


def walk_functions(tree: ast.AST, function: str = "") -> Iterator[tuple[ast.AST, str, bool]]:
    """Yield the nodes inside functions and class bodies that may be mutated, each before the nodes in it.

    Each comes with the qualified name of its function or class, and whether it is in the body of a class and in no method.
    `function` is the qualified name of what `tree` is, "" for a whole file. Code of the file outside of functions and classes is
    left out.
    """
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                name = f"{function}.{node.name}".lstrip(".")
                for statement in node.body:
                    if not _is_docstring(statement):
                        yield from _walk_statement(statement, name, in_class=False)
            case ast.ClassDef():
                yield from walk_functions(node, f"{function}.{node.name}".lstrip("."))
            case _ if function and isinstance(node, ast.stmt) and not _is_docstring(node):
                yield from _walk_statement(node, function, in_class=True)
            case _:
                pass


def _walk_statement(statement: ast.AST, function: str, *, in_class: bool) -> Iterator[tuple[ast.AST, str, bool]]:
    """Yield a statement or part of one, and all nodes in it that may be mutated, as `walk_functions` does.

    Yields nothing for assertions, imports and logging. Annotations, keyword arguments of `zip` and the signatures of nested
    functions are left out.
    """
    if isinstance(statement, ast.Assert | ast.Import | ast.ImportFrom) or _is_logging(statement):
        return
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from walk_functions(ast.Module([statement], []), function)
        return
    yield statement, function, in_class
    skipped = {id(statement.annotation)} if isinstance(statement, ast.AnnAssign) else set()
    if isinstance(statement, ast.Call) and isinstance(statement.func, ast.Name) and statement.func.id == "zip":
        skipped |= {id(keyword) for keyword in statement.keywords}  # `strict` asserts that the lengths are equal
    for child in ast.iter_child_nodes(statement):
        if id(child) not in skipped:
            yield from _walk_statement(child, function, in_class=in_class)


def _is_logging(node: ast.AST) -> bool:
    """Return whether a statement only writes to the log, which nothing judges, such as `host.log.info(...)`.

    True also for an `if` without `else` whose condition has no call, if all statements below it are such statements.
    """
    match node:
        case ast.Expr(ast.Call(ast.Attribute(ast.Attribute(attr="log") | ast.Name("log" | "logger")))):
            return True
        case ast.If(orelse=[]):
            has_call = any(isinstance(part, ast.Call) for part in ast.walk(node.test))
            return not has_call and all(map(_is_logging, node.body))
        case _:
            return False


def _is_docstring(node: ast.AST) -> bool:
    """Return whether a statement consists of a literal: a docstring, also one of an attribute, or a number or `...`."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _negate_condition(node: ast.AST) -> ast.AST | None:
    """Return an `if`, a `while` or a conditional expression with `not` before its condition; None for any other node."""
    if not isinstance(node, ast.If | ast.While | ast.IfExp):
        return None
    changed = copy.copy(node)
    changed.test = ast.UnaryOp(ast.Not(), node.test)
    return changed


def _change_comparison(node: ast.AST) -> ast.AST | None:
    """Return a comparison with the opposite or neighbouring first operator, such as <= for <; None for any other node."""
    if not isinstance(node, ast.Compare) or type(node.ops[0]) not in _COMPARISONS:
        return None
    return ast.Compare(node.left, [_COMPARISONS[type(node.ops[0])](), *node.ops[1:]], node.comparators)


def _exchange_and_or(node: ast.AST) -> ast.AST | None:
    """Return an `or` for an `and`, and the other way round; None for any other node."""
    if not isinstance(node, ast.BoolOp):
        return None
    return ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)


def _drop_first_operand(node: ast.AST) -> ast.AST | None:
    """Return an `and` or `or` without its first operand, of two operands only the other one; None for any other node."""
    if not isinstance(node, ast.BoolOp):
        return None
    rest = node.values[1:]
    return rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)


def _drop_last_operand(node: ast.AST) -> ast.AST | None:
    """Return an `and` or `or` without its last operand, of two operands only the other one; None for any other node."""
    if not isinstance(node, ast.BoolOp):
        return None
    rest = node.values[:-1]
    return rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)


def _change_arithmetic(node: ast.AST) -> ast.AST | None:
    """Return an operation with another operator, such as - for +.

    None for operators that are not in `_ARITHMETIC`, such as `**`, if the left operand is a literal, and for any other node.
    """
    if (
        not isinstance(node, ast.BinOp)
        or type(node.op) not in _ARITHMETIC
        or isinstance(node.left, ast.Constant | ast.JoinedStr)
    ):
        return None
    return ast.BinOp(node.left, _ARITHMETIC[type(node.op)](), node.right)


def _increase_number(node: ast.AST) -> ast.AST | None:
    """Return a number plus one; None for any other node, also for True and False."""
    if not isinstance(node, ast.Constant) or not isinstance(node.value, int | float) or isinstance(node.value, bool):
        return None
    return ast.Constant(node.value + 1)


def _double_number(node: ast.AST) -> ast.AST | None:
    """Return twice a number that is greater than one; None for any other node."""
    if not isinstance(node, ast.Constant) or not isinstance(node.value, int | float) or isinstance(node.value, bool):
        return None
    return ast.Constant(node.value * 2) if node.value > 1 else None


def _negate_constant(node: ast.AST) -> ast.AST | None:
    """Return False for True, and the other way round; None for any other node."""
    return ast.Constant(not node.value) if isinstance(node, ast.Constant) and isinstance(node.value, bool) else None


def _drop_not(node: ast.AST) -> ast.AST | None:
    """Return the operand of a `not`; None for any other node."""
    return node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) else None


def _remove_call(node: ast.AST) -> ast.AST | None:
    """Return `pass` for a statement that is only a call, awaited or not; None for any other node."""
    if not isinstance(node, ast.Expr):
        return None
    value = node.value.value if isinstance(node.value, ast.Await) else node.value
    return ast.Pass() if isinstance(value, ast.Call) else None


def _remove_assignment(node: ast.AST) -> ast.AST | None:
    """Return `pass` for `del`, for `+=` and the like, and for an assignment to attributes or items only; None for any other node."""
    if isinstance(node, ast.Delete | ast.AugAssign):
        return ast.Pass()
    targets = node.targets if isinstance(node, ast.Assign) else ()
    return ast.Pass() if targets and all(isinstance(t, ast.Attribute | ast.Subscript) for t in targets) else None


def _return_nothing(node: ast.AST) -> ast.AST | None:
    """Return a bare `return` for one with a value that is not a literal; None for any other node. `()`, `[]` and `{}` are literals here."""
    match node:
        case ast.Return(None | ast.Constant() | ast.Tuple([]) | ast.List([]) | ast.Dict([])):
            return None
        case ast.Return():
            return ast.Return(None)
        case _:
            return None


def _exchange_break_continue(node: ast.AST) -> ast.AST | None:
    """Return `continue` for `break`, and the other way round; None for any other node."""
    return ast.Continue() if isinstance(node, ast.Break) else ast.Break() if isinstance(node, ast.Continue) else None


OPERATORS: dict[str, Operator] = {
    "negate-condition": _negate_condition,
    "change-comparison": _change_comparison,
    "exchange-and-or": _exchange_and_or,
    "drop-first-operand": _drop_first_operand,
    "drop-last-operand": _drop_last_operand,
    "change-arithmetic": _change_arithmetic,
    "increase-number": _increase_number,
    "double-number": _double_number,
    "negate-constant": _negate_constant,
    "drop-not": _drop_not,
    "remove-call": _remove_call,
    "remove-assignment": _remove_assignment,
    "return-nothing": _return_nothing,
    "exchange-break-continue": _exchange_break_continue,
}
"""The operators by their names."""
