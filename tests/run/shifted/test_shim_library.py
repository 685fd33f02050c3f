"""The shim is compiled on the machine that needs it, once; where that cannot be, it is said why."""

import subprocess
import threading
from pathlib import Path

import pytest

from conformance.run.shifted.shim_library import SOURCES, CannotShift, build_shim
from tests.run.shifted.shifted_process import MARKS

pytestmark = MARKS


def test_it_is_compiled_once(tmp_path: Path) -> None:
    made = {build_shim(tmp_path) for _ in range(3)}
    assert [path.name for path in tmp_path.iterdir()] == [path.name for path in made]
    threads = [threading.Thread(target=build_shim, args=(tmp_path / "other",)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list((tmp_path / "other").iterdir())) == 1


def test_the_shim_compiles_without_a_warning(tmp_path: Path) -> None:
    strict = ["-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    subprocess.run(
        ["cc", *strict, "-o", tmp_path / "shim.so", *(source for source in SOURCES if source.suffix == ".c")],
        check=True,
    )


def test_without_a_compiler_it_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotShift, match=r"needs a C compiler \(cc\), and this machine has none"):
        build_shim(tmp_path)


def test_a_compiler_that_refuses_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho 'shim.c:1: no such architecture' >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotShift, match="refused the shim: shim.c:1: no such architecture"):
        build_shim(tmp_path)
