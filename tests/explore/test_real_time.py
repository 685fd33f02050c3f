"""Exploration of a program, which takes the time that passes."""

import json
from pathlib import Path

import pytest

from conformance.clocks import CLOCKS, ClockName
from conformance.commands.explore import explore


@pytest.mark.long
@pytest.mark.timed
def test_a_program_is_explored_in_the_time_that_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = explore(
        ["each-message-once"],
        candidate="exec:reference",
        scale=120,
        plans=2,
        duration="10m",
        seed=3,
        jobs=2,
        out=tmp_path,
        as_json=True,
    )
    found = json.loads(capsys.readouterr().out)
    assert code == 0, found["findings"]
    assert found["outcomes"] == {"sound": 2}
    header = json.loads((tmp_path / "header.json").read_bytes())
    assert (header["clock"], header["scale"]) == ("scaled", 120)
    assert (
        found["pruned"][
            "a server that stays away for hours takes minutes where time passes by itself; it comes back soon instead"
        ]
        > 0
    )


def test_a_program_without_named_scenarios_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = explore([], candidate="exec:reference", plans=2, duration=None, seed=1, jobs=1, out=tmp_path, as_json=True)
    assert code == 2
    assert "takes the time that passes: name the scenarios" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_scale_needs_a_clock_that_has_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clocks: list[ClockName | None] = [None, *(name for name, kind in CLOCKS.items() if not kind.scaled)]
    assert set(CLOCKS) - {*clocks} == {"scaled"}
    for clock in clocks:
        code = explore(
            ["each-message-once"],
            candidate="exec:reference" if clock == "shifted" else "reference",
            clock=clock,
            scale=60,
            plans=2,
            duration=None,
            seed=1,
            jobs=1,
            out=tmp_path,
            as_json=True,
        )
        assert code == 2
        assert "--scale: a number above 0, with --clock scaled" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    # with the clock that has one the scale is no problem: what is refused is the name
    unknown = explore(
        ["no-such-scenario"],
        candidate="reference",
        clock="scaled",
        scale=60,
        plans=2,
        duration=None,
        seed=1,
        jobs=1,
        out=tmp_path,
        as_json=True,
    )
    said = capsys.readouterr().err
    assert (unknown, "--scale" in said, "no-such-scenario" in said) == (2, False, True)
