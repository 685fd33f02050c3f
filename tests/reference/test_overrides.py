"""Every method of a defect or reading overrides one of the reference, or something calls it: after a renaming it would do nothing."""

import ast
import importlib
import inspect
import pkgutil
from types import ModuleType

import pytest

from conformance.reference import defects, readings

CALLED_FROM_OUTSIDE = {
    "apply": "of Defect and Reading: their catalogues call it",
    "_drop_invalid_fields": "pydantic calls it",
    "_leave_out_ignored": "pydantic calls it",
    "_leave_out_what_is_wrong": "pydantic calls it",
    "_set_other_defaults": "pydantic calls it",
    "_with_parameters": "pydantic calls it",
    "__getattr__": "the language calls it",
    "config": "other components read it from the host",
    "transport": "other components read it from the host",
    "drop_when_idle": "another component of the same reading calls it",
}
"""The methods that override nothing and that no method of their class calls, with the reason."""


def modules() -> list[ModuleType]:
    return [
        importlib.import_module(f"{package.__name__}.{found.name}")
        for package in (defects, readings)
        for found in pkgutil.iter_modules(package.__path__)
    ]


def orphans(module: ModuleType) -> list[str]:
    """Return the methods of classes in a module that override nothing and that no method here calls on itself."""
    tree = ast.parse(inspect.getsource(module))
    called = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    }
    return [
        f"{node.name}.{method.name}"
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        for method in node.body
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
        and method.name not in called
        and not any(method.name in vars(base) for base in getattr(module, node.name).__mro__[1:])
        and method.name not in CALLED_FROM_OUTSIDE
    ]


@pytest.mark.parametrize("module", modules(), ids=lambda module: module.__name__.removeprefix("conformance.reference."))
def test_every_method_overrides_one_or_is_called_in_its_module_or_is_listed_with_its_caller(module: ModuleType):
    assert orphans(module) == []


def test_a_method_with_an_outdated_name_is_found(monkeypatch: pytest.MonkeyPatch):
    module = importlib.import_module("conformance.reference.defects.choice")
    source = inspect.getsource(module).replace("def may_use_shadow_verbs(", "def may_keep_shadow(")
    monkeypatch.setattr(inspect, "getsource", lambda module: source)
    assert orphans(module) == ["OffersToAnybody.may_keep_shadow"]
