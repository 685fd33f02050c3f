"""Numbers beyond the limits are refused with their place; the largest allowed ones are read in seconds."""

import time
from pathlib import Path

import pytest

from conformance import paths
from conformance.scenarios.loader import read_scenarios

HEAD = "id: x\ntitle: a title of enough words\nrequirements: [RL-ACK-01]\ntopology: relay\n"


def problems_of_steps(folder: Path, *steps: str) -> list[str]:
    """Return what is wrong with a scenario of these steps."""
    path = folder / "x.scenario.yaml"
    path.write_text(HEAD + "steps:\n" + "".join(f"  - {step}\n" for step in steps), "utf-8")
    return [
        str(one).removeprefix(f"{path}:")
        for scenario in read_scenarios(path, paths.fixtures())
        for one in scenario.problems
    ]


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        (("send: {as: m, to: bob@outside.test, via: mta1, size: 999999MB}",), "6:58: '999999MB' is too large"),
        (("send: {as: m, to: bob@outside.test, via: mta1, size: 1025MB}",), "6:58: '1025MB' is too large"),
        (
            ("send: {as: m, to: bob@outside.test, via: mta1, whole: 1125899906842624}",),
            "6:59: 1125899906842624 is too large",
        ),
        (("send: {as: m, to: bob@outside.test, via: mta1, whole: 1073741825}",), "6:59: 1073741825 is too large"),
        (
            ("send: {as: m, to: bob@outside.test, via: mta1, size: 1MB, count: 1025}",),
            "6:11: `count` messages of this size are more than 1024 MB together",
        ),
        (
            ("send: {as: m, to: bob@outside.test, via: mta1, count: 1000000}",),
            "6:59: expected a number of at most 10000, not 1000000",
        ),
        (
            ("send: {as: m, to: bob@outside.test, via: mta1, count: 10001}",),
            "6:59: expected a number of at most 10000, not 10001",
        ),
        (("advance: 3651d",), "6:14: '3651d' is too long"),
        (
            ("send: {as: m, to: bob@outside.test, via: mta1}", "expect: {delivered: {of: m, copies: 999999999999}}"),
            "7:41: expected a number of at most 1000000, not 999999999999",
        ),
        (
            ("send: {as: m, to: bob@outside.test, via: mta1}", "expect: {delivered: {of: m, copies: {max: 1000001}}}"),
            "7:47: expected a number of at most 1000000, not 1000001",
        ),
        (
            ("send: {as: m, to: bob@outside.test, via: mta1}", "expect: {delivered: {of: m, copies: {min: 10000000}}}"),
            "7:47: expected a number of at most 1000000, not 10000000",
        ),
        (
            ("send: {as: m, to: bob@outside.test, via: mta1}", f"resend: {{of: 'm#{'9' * 5000}'}}"),
            "7:18: no message 'm#99999",
        ),
        (
            ('send: {as: m, to: bob@outside.test, via: mta1, envid: "\\ud800"}',),
            "6:59: '\\ud800' has half of a surrogate pair",
        ),
        (
            ('send: {as: m, to: bob@outside.test, via: mta1, "\\ud800": 1}',),
            "6:52: '\\ud800' has half of a surrogate pair",
        ),
    ],
)
def test_a_value_beyond_the_limits_is_refused_once_with_its_place(tmp_path: Path, steps: tuple[str, ...], said: str):
    (problem,) = problems_of_steps(tmp_path, *steps)
    assert problem.startswith(said)
    assert len(problem) <= 320


@pytest.mark.parametrize("limit", ["size: 1024MB", "whole: 1073741824", "size: 1MB, count: 1024", "count: 10000"])
def test_the_largest_allowed_numbers_are_accepted(tmp_path: Path, limit: str) -> None:
    send = f"send: {{as: m, to: bob@outside.test, via: mta1, {limit}}}"
    delivered = "expect: {delivered: {of: m, copies: {min: 1, max: 1000000}}}"
    assert problems_of_steps(tmp_path, send, "advance: 3650d", delivered) == []


def test_a_legal_matrix_of_five_thousand_cells_is_read_in_less_than_a_minute(tmp_path: Path):
    path = tmp_path / "x.scenario.yaml"
    path.write_text(
        f"{HEAD}axes:\n  a: [{','.join(map(str, range(1, 101)))}]\n  b: [{','.join(f'{n}m' for n in range(1, 51))}]\nsteps:\n"
        '  - send: {as: m, to: bob@outside.test, via: mta1, count: "${a}"}\n  - advance: "${b}"\n'
        "  - expect: {reply: {of: m, code: 250}}\n" + "  - advance: 1m\n" * 50,
        "utf-8",
    )
    began = time.process_time()
    (scenario,) = read_scenarios(path, paths.fixtures())
    assert scenario.problems == ()
    assert len(scenario.cells()) == 5000
    assert time.process_time() - began < 60  # it took minutes once; on an idle machine it takes a few seconds
