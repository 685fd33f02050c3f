"""The halves of a concept find each other by name; one without the other is told when the package is imported."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from conformance import registry
from conformance.registry import Registry, RegistryError

DECLARING = "from halves_register import DONE\nDONE.add({name!r}, {name!r})\n"
Package = tuple[ModuleType, Registry[str]]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Package:
    """A package with a module that declares `one`, and one that declares `two`."""
    (tmp_path / "halves_register.py").write_text(
        "from conformance.registry import Registry\nDONE = Registry('check of a thing')\n"
    )
    (tmp_path / "halves").mkdir()
    (tmp_path / "halves" / "__init__.py").write_text("")
    for name in ("one", "two"):
        (tmp_path / "halves" / f"of_{name}.py").write_text(DECLARING.format(name=name))
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] in ("halves", "halves_register")]:
        monkeypatch.delitem(sys.modules, name)
    return importlib.import_module("halves"), importlib.import_module("halves_register").DONE


def test_every_module_of_the_package_is_imported(package: Package) -> None:
    halves, register = package
    registry.import_submodules(halves)
    registry.check_counterparts("thing", ["two", "one"], "here", register, "halves/")
    assert list(register) == ["one", "two"]


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        (["one", "two", "three"], "the thing 'three' is declared in here, and nothing in halves/ implements it"),
        (["one"], "halves/ implements the thing 'two', which here does not declare"),
    ],
)
def test_a_missing_counterpart_is_named(package: Package, declared: list[str], words: str) -> None:
    halves, register = package
    registry.import_submodules(halves)
    with pytest.raises(RegistryError, match=words):
        registry.check_counterparts("thing", declared, "here", register, "halves/")


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
