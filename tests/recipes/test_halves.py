"""The halves of a concept find each other by name; one without the other is told when the package is imported."""

import sys
from pathlib import Path

import pytest

from conformance.registry import Register, complete

DECLARING = "from halves_registers import DONE\nDONE.add({name!r}, {name!r})\n"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Register[str]]:
    """A package with a module that declares `one`, and one that declares `two`."""
    (tmp_path / "halves_registers.py").write_text(
        "from conformance.registry import Register\nDONE = Register('check of a thing')\n"
    )
    (tmp_path / "halves").mkdir()
    (tmp_path / "halves" / "__init__.py").write_text("")
    for name in ("one", "two"):
        (tmp_path / "halves" / f"of_{name}.py").write_text(DECLARING.format(name=name))
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] in ("halves", "halves_registers")]:
        monkeypatch.delitem(sys.modules, name)
    from halves_registers import DONE  # type: ignore[import-not-found]

    return "halves", DONE


def test_every_module_of_the_package_is_found(package: tuple[str, Register[str]]) -> None:
    name, register = package
    complete(register, name, ["two", "one"])
    assert list(register) == ["one", "two"]


def test_a_missing_half_is_named(package: tuple[str, Register[str]]) -> None:
    name, register = package
    with pytest.raises(TypeError, match="check of a thing is missing in halves: `four`, `three`"):
        complete(register, name, ["one", "two", "three", "four"])


def test_a_superfluous_half_is_named(package: tuple[str, Register[str]]) -> None:
    name, register = package
    with pytest.raises(TypeError, match="check of a thing of nothing that is declared, in halves: `two`"):
        complete(register, name, ["one"])


def test_nothing_is_declared_twice_or_without_a_name() -> None:
    register: Register[str] = Register("check of a thing")
    register.add("one", "first")
    with pytest.raises(TypeError, match="check of a thing `one` is declared twice: 'first' and 'second'"):
        register.add("one", "second")
    with pytest.raises(TypeError, match="'third' is declared as check of a thing and has no name"):
        register.add("", "third")
    assert register == {"one": "first"}
