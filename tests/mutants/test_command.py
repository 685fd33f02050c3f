"""`conformance mutants`: names of mutants that do not exist."""

from typing import Any

import pytest

from conformance import paths
from conformance.commands import mutants as command


def test_an_unknown_mutant_is_named_also_beside_a_known_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*_: Any) -> None:
        raise AssertionError("nothing is run")

    monkeypatch.setattr(command, "read_corpus", lambda *_: [])
    monkeypatch.setattr(command, "_find_differences", run)
    known = command.all_sites(paths.reference())[0]
    options: dict[str, Any] = {
        "sample": None,
        "seed": 1,
        "jobs": 1,
        "as_json": False,
        "store": None,
        "write_survivors": False,
    }
    assert command.print_mutants([known.id, "x.py:f:drop-not:1", known.file], **options) == 2
    assert capsys.readouterr().err.startswith("no mutant 'x.py:f:drop-not:1'; ")
    with pytest.raises(AssertionError, match="nothing is run"):  # the known ones alone would be run
        command.print_mutants([known.id, known.file], **options)
