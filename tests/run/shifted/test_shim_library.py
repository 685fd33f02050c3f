"""The shim is compiled on the machine that needs it, once; an error says why it cannot be."""

import ctypes
import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from conformance.run.shifted.shim_library import SOURCES, CannotShift, build_shim
from tests.run.shifted.shifted_process import MARKS

pytestmark = MARKS


def test_the_shim_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, compiler = tmp_path / "log", tmp_path / "bin" / "cc"
    compiler.parent.mkdir()
    compiler.write_text(f'#!/bin/sh\necho "$*" >> {log}\nexec {shutil.which("cc")} "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", str(compiler.parent), prepend=os.pathsep)
    built = [build_shim(tmp_path / "shim") for _ in range(3)]
    assert built == [built[0]] * 3
    assert [*(tmp_path / "shim").iterdir()] == [built[0]]
    assert len([line for line in log.read_text().splitlines() if line != "--version"]) == 1


def test_threads_that_compile_the_shim_at_once_leave_one_library(tmp_path: Path) -> None:
    built: list[Path] = []
    together = threading.Barrier(3)

    def build() -> None:
        together.wait()
        built.append(build_shim(tmp_path))

    threads = [threading.Thread(target=build) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (library,) = tmp_path.iterdir()
    assert built == [library] * 3
    ctypes.CDLL(str(library))


def test_the_shim_compiles_without_a_warning(tmp_path: Path) -> None:
    strict = ["-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    subprocess.run(
        ["cc", *strict, "-o", tmp_path / "shim.so", *(source for source in SOURCES if source.suffix == ".c")],
        check=True,
    )


def test_a_missing_compiler_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotShift, match=r"needs a C compiler \(cc\), and this machine has none"):
        build_shim(tmp_path)


def test_an_error_of_the_compiler_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho 'shim.c:1: no such architecture' >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotShift, match="refused the shim: shim.c:1: no such architecture"):
        build_shim(tmp_path)
