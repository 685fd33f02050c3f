"""The private names of asyncio that virtual time stands on, and the one place that knows them."""

import asyncio
import sys
from pathlib import Path

import pytest

from conformance.run.virtual import familiar
from conformance.run.virtual.errors import UnsupportedPython
from conformance.run.virtual.loop import VirtualClockEventLoop


def test_this_python_is_one_that_was_tested() -> None:
    assert familiar.unfamiliar() == [], (
        f"asyncio of Python {sys.version.split()[0]} is not the one that conformance/run/virtual was written for. "
        "Read its selector_events.py, base_events.py and unix_events.py again for every name in familiar.py; when they still mean "
        "the same, run the slow tests of tests/virtual under it, and add the version to familiar.TESTED."
    )


def test_an_unknown_python_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(familiar, "TESTED", ((3, 4),))
    with pytest.raises(
        UnsupportedPython, match=rf"never tested with Python 3\.{sys.version_info.minor}: use --clock real"
    ):
        VirtualClockEventLoop()


def test_a_changed_method_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio.SelectorEventLoop, "_start_serving", lambda self, somehow: None)
    with pytest.raises(UnsupportedPython, match=r"SelectorEventLoop\._start_serving"):
        VirtualClockEventLoop()


def test_a_changed_handle_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Handle(asyncio.Handle):
        __slots__ = ("_colour",)

    monkeypatch.setattr(asyncio, "Handle", Handle)
    with pytest.raises(UnsupportedPython, match="TimerHandle"):
        VirtualClockEventLoop()


def test_only_the_seams_use_private_names() -> None:
    used = ("._scheduled", "._selector", "._transports", "_SelectorSocketTransport", "_accept_connection")
    package = Path(familiar.__file__).parent
    for module in (*package.glob("*.py"), package.parent / "clock.py"):
        if module.name not in ("seams.py", "familiar.py", "handles.py"):
            assert not [name for name in used if name in module.read_text(encoding="utf-8")], module
