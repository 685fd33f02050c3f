"""The private names of asyncio that virtual time needs are checked, and only certain modules use any."""

import ast
import asyncio
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import conformance
from conformance.clocks import CLOCKS
from conformance.run.virtual import asyncio_compat
from conformance.run.virtual.errors import UnsupportedPython
from conformance.run.virtual.loop import VirtualClockEventLoop
from conformance.run.virtual.tracking_loop import TrackingEventLoop

ROOT = Path(__file__).parents[3]
PACKAGE = Path(conformance.__file__).parent

ALLOWED = {
    "run/virtual/asyncio_compat.py": "virtual time: asyncio has no public way to see what sockets have in flight, or its timers",
    "run/virtual/tracking_loop.py": "the same: what it overrides is checked by asyncio_compat.py",
    "reference/receive/fast_smtp.py": "the reference's own reading of lines, which shares no code with the harness",
}
"""The modules that may use private names of asyncio, with the reason."""

OTHERS = {
    "os._exit": "documented, and no private name",
    "file.raw._sock": "of the file that Docker's client makes of a socket",
}
"""Expressions that have a private name of asyncio by coincidence."""


def test_asyncio_of_this_python_is_compatible() -> None:
    assert asyncio_compat.incompatibilities() == [], (
        f"asyncio of Python {sys.version.split()[0]} is not the one that conformance/run/virtual was written for. "
        "Read its selector_events.py, base_events.py and unix_events.py again for every name in asyncio_compat.py and tracking_loop.py; when they still mean "
        "the same, run the slow tests of tests/run/virtual under it."
    )


OVERRIDDEN = [n for n in vars(TrackingEventLoop) if re.match("_[a-z]", n) and hasattr(asyncio.SelectorEventLoop, n)]
CALLED = ["_add_reader", "_add_writer", "_remove_writer"]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *(("SelectorEventLoop", name) for name in (*OVERRIDDEN, *CALLED)),
        *(("Server", name) for name in ("_attach", "_detach")),
    ],
)
def test_a_changed_method_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, kind: str, name: str) -> None:
    monkeypatch.setattr(getattr(asyncio, kind), name, lambda self, somehow: None)
    with pytest.raises(UnsupportedPython, match=rf"has another {kind}\.{name}: use --clock scaled"):
        VirtualClockEventLoop()


@pytest.mark.parametrize("kind", ["Handle", "TimerHandle"])
@pytest.mark.parametrize("change", ["one more", "one less"])
def test_a_changed_handle_is_refused(monkeypatch: pytest.MonkeyPatch, kind: str, change: str) -> None:
    slots = tuple(getattr(asyncio, kind).__slots__)
    changed = type(kind, (), {"__slots__": (*slots, "_colour") if change == "one more" else slots[1:]})
    monkeypatch.setattr(asyncio, kind, changed)
    with pytest.raises(UnsupportedPython, match="has another TimerHandle: use"):
        VirtualClockEventLoop()


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, names in asyncio_compat._STATE.items() for name in names]
)
def test_changed_state_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, kind: Any, name: str) -> None:
    made = kind.__init__
    names = tuple("_renamed" if one == name else one for one in made.__code__.co_names)
    renamed = FunctionType(made.__code__.replace(co_names=names), {}, closure=made.__closure__)
    monkeypatch.setattr(kind, "__init__", renamed)
    with pytest.raises(UnsupportedPython, match=rf"has another {kind.__name__}\.{name}: use"):
        VirtualClockEventLoop()


def test_all_that_has_changed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(asyncio_compat._STATE, asyncio.BaseEventLoop, ("_ready", "_soon"))
    monkeypatch.delattr(asyncio.Server, "_detach")
    assert asyncio_compat.incompatibilities() == ["Server._detach", "BaseEventLoop._soon"]
    with pytest.raises(UnsupportedPython, match=r"has another Server\._detach, BaseEventLoop\._soon: use"):
        VirtualClockEventLoop()


OTHER_ASYNCIO = """
import asyncio, sys
asyncio.SelectorEventLoop._make_ssl_transport = lambda self, somehow: None  # which nothing here calls
from conformance.cli import main
sys.argv = ["conformance", *sys.argv[1:]]
main()
"""


@pytest.mark.long
@pytest.mark.integration
@pytest.mark.parametrize(
    ("candidate", "clock", "refused"),
    [
        ("reference", [], "virtual"),
        ("reference", ["--clock", "virtual"], "virtual"),
        ("exec:reference", ["--clock", "shifted"], "shifted"),
        ("reference", ["--clock", "scaled"], ""),
    ],
)
def test_an_incompatible_asyncio_is_a_usage_error_at_the_clocks_that_jump_and_not_at_the_scaled_one(
    tmp_path: Path, candidate: str, clock: list[str], refused: str
) -> None:
    assert {name for name, kind in CLOCKS.items() if kind.jumps} == {"virtual", "shifted"}
    scenario = f"{ROOT}/scenarios/relay/relay.scenario.yaml::content-passes-unchanged::candidate=reference,message=dots,size=as-it-is"
    words = ["run", scenario, "--candidate", candidate, "--run-dir", str(tmp_path / "run"), *clock]
    done = subprocess.run(
        [sys.executable, "-c", OTHER_ASYNCIO, *words], cwd=ROOT, text=True, capture_output=True, check=False
    )
    output = done.stdout + done.stderr
    assert done.returncode == (2 if refused else 0), output
    assert "Traceback" not in output
    refusal = f"asyncio of Python 3.{sys.version_info.minor} has another SelectorEventLoop._make_ssl_transport: use --clock scaled"
    said = " ".join(output.split())
    assert (f"--clock {refused}: {refusal}" in said) if refused else (refusal not in said), output


# the use of private names


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def set_in(node: ast.AST) -> set[str]:
    """Return the private names that a class or module defines: methods, what is set on `self`, slots."""
    found: set[str] = set()
    for one in ast.walk(node):
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(one.name)
        elif isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store) and _is_own(one.value):
            found.add(one.attr)
        elif isinstance(one, ast.AnnAssign | ast.Assign):
            targets = one.targets if isinstance(one, ast.Assign) else [one.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
            if one.value is not None and "__slots__" in {getattr(target, "id", "") for target in targets}:
                words = (word.value for word in ast.walk(one.value) if isinstance(word, ast.Constant))
                found |= {word for word in words if isinstance(word, str)}
    return set(filter(private, found))


def _is_own(value: ast.expr) -> bool:
    is_super = isinstance(value, ast.Call) and getattr(value.func, "id", "") == "super"
    return is_super or (isinstance(value, ast.Name) and value.id in ("self", "cls"))


def of_asyncio() -> dict[tuple[str, str], set[str]]:
    """Return the private names of each class of asyncio."""
    return {
        (f"asyncio.{path.stem}", one.name): set_in(one)
        for path in Path(asyncio.__file__).parent.glob("*.py")
        for one in ast.parse(path.read_text("utf-8")).body
        if isinstance(one, ast.ClassDef)
    }


NAMES = of_asyncio()
ALL = set[str]().union(*NAMES.values())


def inherited(module: object, name: str) -> set[str]:
    """Return the private names that a class has of asyncio."""
    kind = getattr(module, name, None)
    bases = kind.__mro__ if inspect.isclass(kind) else ()
    return set[str]().union(*(NAMES.get((base.__module__, base.__name__), set()) for base in bases))


def used_by(source: str, module: object) -> Iterator[str]:
    """Yield the private names of asyncio that a module overrides, sets or asks for."""
    tree = ast.parse(source)
    classes = [one for one in tree.body if isinstance(one, ast.ClassDef)]
    theirs = {one.name: inherited(module, one.name) for one in classes}
    friends = set[str]().union(*(set_in(one) - theirs[one.name] for one in classes))
    for one in classes:
        yield from (f"{one.name}.{name}" for name in set_in(one) & theirs[one.name])
        own = (node for node in ast.walk(one) if isinstance(node, ast.Attribute) and _is_own(node.value))
        yield from (f"{one.name}.{node.attr}" for node in own if node.attr in theirs[one.name])
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in ALL - friends and not _is_own(node.value):
            yield ast.unparse(node)


BASES = ("asyncio", "aiosmtp", "run.virtual", "run.shifted", "EventLoop")
"""Words, one of which is in each module outside of the reference with a class that inherits from asyncio."""


def found_in_package() -> dict[str, set[str]]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        relative = path.relative_to(PACKAGE)
        text = path.read_text("utf-8")
        if relative.parts[0] != "reference" and not any(word in text for word in BASES):
            module = None
        else:
            dotted = ".".join(("conformance", *relative.with_suffix("").parts)).removesuffix(".__init__")
            module = None if dotted.endswith("__main__") else importlib.import_module(dotted)
        if names := set(used_by(text, module)) - OTHERS.keys():
            found[relative.as_posix()] = names
    return found


def test_only_the_allowed_modules_use_private_names_of_asyncio() -> None:
    found = found_in_package()
    assert {path: sorted(names) for path, names in found.items() if path not in ALLOWED} == {}
    assert found.keys() == ALLOWED.keys(), "one of the modules needs none any more: take it out of ALLOWED"


MADE = """
import asyncio

class Mine(asyncio.SelectorEventLoop):
    def _run_once(self): ...
    def look(self): return self._ready
    def stop_now(self): self._stopping = True
    def own(self): self._mine = 1; return self._mine

class Friend:
    def __init__(self): self._loop = None
    def see(self, other): return other._loop

def look(loop): return loop._selector
"""


def test_private_names_are_found_where_they_are_overridden_read_and_set_and_own_ones_are_not() -> None:
    space = type(sys)("made")
    exec(MADE, space.__dict__)
    assert set(used_by(MADE, space)) == {"Mine._run_once", "Mine._ready", "Mine._stopping", "loop._selector"}
