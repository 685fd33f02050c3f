"""The registry: declarations and their counterparts find each other by name; a missing or duplicate one is an error."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from conformance import registry
from conformance.registry import Registry, RegistryError

REGISTERING = "from counterparts_registry import REGISTRY\nREGISTRY.add({name!r}, {name!r})\n"
Package = tuple[ModuleType, Registry[str]]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Package:
    """Return a package of two modules that register `one` and `two`, and its registry."""
    (tmp_path / "counterparts_registry.py").write_text(
        "from conformance.registry import Registry\nREGISTRY = Registry('check of a thing')\n"
    )
    (tmp_path / "counterparts").mkdir()
    (tmp_path / "counterparts" / "__init__.py").write_text("")
    for name in ("one", "two"):
        (tmp_path / "counterparts" / f"of_{name}.py").write_text(REGISTERING.format(name=name))
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] in ("counterparts", "counterparts_registry")]:
        monkeypatch.delitem(sys.modules, name)
    return importlib.import_module("counterparts"), importlib.import_module("counterparts_registry").REGISTRY


def test_every_module_and_subpackage_of_the_package_is_imported(package: Package) -> None:
    modules, register = package
    subpackage = Path(modules.__path__[0]) / "three"
    subpackage.mkdir()
    (subpackage / "__init__.py").write_text(REGISTERING.format(name="three"))
    importlib.invalidate_caches()
    assert list(register) == []
    registry.import_submodules(modules)
    registry.check_counterparts("thing", ["two", "three", "one"], "here", register, "counterparts/")
    assert list(register) == ["one", "two", "three"]


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        (["one", "two", "three"], "the thing 'three' is declared in here, and nothing in counterparts/ implements it"),
        (["one"], "counterparts/ implements the thing 'two', which here does not declare"),
    ],
)
def test_a_missing_counterpart_is_named(package: Package, declared: list[str], words: str) -> None:
    modules, register = package
    registry.import_submodules(modules)
    with pytest.raises(RegistryError, match=words):
        registry.check_counterparts("thing", declared, "here", register, "counterparts/")


def test_a_duplicate_or_missing_name_is_refused() -> None:
    register: Registry[str] = Registry("check of a thing")
    register.add("one", "first")
    with pytest.raises(RegistryError, match="the check of a thing 'one' is declared twice: 'first' and 'second'"):
        register.add("one", "second")
    with pytest.raises(RegistryError, match="'first' is not declared as check of a thing"):
        Registry("check of a thing").name_of("first")
    with pytest.raises(RegistryError, match="'third' is declared as check of a thing and has no name"):
        register.add("", "third")
    assert register == {"one": "first"}
