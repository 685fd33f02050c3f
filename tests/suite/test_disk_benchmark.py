"""Two checkouts are measured side by side: each with its own code, wherever the benchmark is started."""

import sys
from pathlib import Path

import pytest

import conformance
from benchmarks.disk import checkout_of


def test_an_environment_has_its_own_checkout_and_not_the_folder_it_is_asked_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "conformance").mkdir()
    (tmp_path / "conformance" / "__init__.py").touch()
    monkeypatch.chdir(tmp_path)
    assert checkout_of(Path(sys.executable)) == Path(conformance.__file__).parent.parent
