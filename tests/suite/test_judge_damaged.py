"""`judge` on damaged histories: the damage is reported, and a check that needs a missing event does not fail."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conformance.commands.judge import judge_run
from tests.results.stored import plain
from tests.suite.helpers import conformance_command

pytestmark = pytest.mark.integration

Lines = list[dict[str, Any]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a run of one cell in which a message is shadowed, and queues are inspected."""
    folder = tmp_path_factory.mktemp("judged")
    scenario = folder / "looked.scenario.yaml"
    scenario.write_text(
        "id: looked\ntitle: A message is shadowed and looked at\nrequirements: [SR-CRE-01]\nneeds: [shadow-2013, inspect]\n"
        "topology: two-servers-one-dag\nsteps:\n  - send: {as: m, to: bob@corp.test, via: mbx1}\n  - inspect: mbx2\n"
        "  - expect: {reply: {of: m, code: 250}}\n  - expect: {shadow: {of: m, on: mbx2}}\n"
        "  - expect: {queue: {on: mbx2, kind: shadow, items: {min: 0}}}\n",
        "utf-8",
    )
    ran = conformance_command("run", scenario.name, "--run-dir", "run", "-q", cwd=folder)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return folder / "run"


def damaged(run: Path, tmp_path: Path, change: Callable[[Lines], Lines]) -> Path:
    """Return a copy of the run in which the lines of its cell are changed."""
    copy = tmp_path / "run"
    (copy / "cells").mkdir(parents=True)
    for name in ("run.json", "footer.json"):
        (copy / name).write_bytes((run / name).read_bytes())
    (cell,) = (run / "cells").glob("*.jsonl.gz")
    lines = change([json.loads(line) for line in plain(cell).splitlines()])
    (copy / "cells" / cell.name).write_bytes(gzip.compress(b"".join(json.dumps(one).encode() + b"\n" for one in lines)))
    return copy


def first(lines: Lines, **wanted: str) -> int:
    """Return the index of the first line with these values."""
    return next(n for n, line in enumerate(lines) if wanted.items() <= line.items())


def without(**wanted: str) -> Callable[[Lines], Lines]:
    """Return a change that deletes the first such line and renumbers the events, so that no event seems to be missing."""

    def change(lines: Lines) -> Lines:
        del lines[first(lines, **wanted)]
        for n, line in enumerate(one for one in lines if one["record"] == "event"):
            line["n"] = n
        return lines

    return change


def replaced(key: str, value: object, **wanted: str) -> Callable[[Lines], Lines]:
    """Return a change that sets a value in the first such line."""

    def change(lines: Lines) -> Lines:
        lines[first(lines, **wanted)][key] = value
        return lines

    return change


CASES: dict[str, tuple[Callable[[Lines], Lines], str, dict[str, str] | int]] = {
    "no-connection": (without(kind="connected"), "was never opened", {"kind": "reply"}),
    "no-message": (without(kind="message"), "was never made", {"kind": "attempt"}),
    "another-server": (
        replaced("server", "mbx9", kind="connected"),
        "the topology has no server 'mbx9'",
        {"server": "mbx9"},
    ),
    "another-node": (replaced("node", "mbx9", kind="node"), "the topology has no server 'mbx9'", {"node": "mbx9"}),
    "another-session": (replaced("session", "s99", kind="attempt"), "was never opened", {"session": "s99"}),
    "twice-opened": (
        replaced("session", "s1", kind="connected", client="mbx1"),
        "was opened before",
        {"kind": "connected", "client": "mbx1"},
    ),
    "no-queues": (
        replaced("state", {}, kind="inspected"),
        "what mbx2 printed: queues: Field required",
        {"kind": "inspected"},
    ),
    "queues-of-numbers": (
        replaced("state", {"queues": [1]}, kind="inspected"),
        "what mbx2 printed: queues.0: ",
        {"kind": "inspected"},
    ),
    "missing-line": (
        lambda lines: [*lines[:4], *lines[5:]],
        "event 3 is missing: the next one that is there is event 4",
        3,
    ),
    "twice": (lambda lines: [*lines[:5], *lines[4:]], "event 4 is missing: the next one that is there is event 3", 4),
}

"""The change, the problem, and the first event that shows it: its fields, or its number."""


@pytest.mark.parametrize("name", CASES)
def test_a_damaged_history_is_judged_up_to_the_damage(
    run: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
):
    change, problem, damage = CASES[name]
    copy = damaged(run, tmp_path, change)
    assert judge_run(copy, [run.parent]) == 3
    printed = capsys.readouterr().out
    if isinstance(damage, dict):
        lines = [json.loads(line) for line in plain(next((copy / "cells").glob("*.jsonl.gz"))).splitlines()]
        damage = lines[first(lines, **damage)]["n"]
    assert f": judged as far as event {damage}: " in printed
    assert problem in printed
    assert "-> fail" not in printed


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("topology", {"servers": 5}),
        ("topology", {"name": "x", "servers": [{"name": "mbx1"}]}),
        ("own_timers", {"source": 1}),
        ("own_timers", {}),
    ],
)
def test_a_header_that_cannot_be_used_is_reported(
    run: Path, tmp_path: Path, key: str, value: object, capsys: pytest.CaptureFixture[str]
):
    assert judge_run(damaged(run, tmp_path, replaced(key, value, record="cell")), [run.parent]) == 3
    assert "the cell's header cannot be used: " in capsys.readouterr().out


def test_an_undamaged_history_is_judged_as_it_was(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert judge_run(damaged(run, tmp_path, lambda lines: lines), [run.parent]) == 0
    assert capsys.readouterr().out == "1 cells judged again; 0 differ from what is recorded\n"


@pytest.mark.parametrize(
    ("missing", "is_violation"),
    [pytest.param("drained", True, id="before the damage"), pytest.param("message", False, id="after the damage")],
)
def test_a_violation_is_one_before_the_damage_and_none_after_it(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], missing: str, is_violation: bool
):
    def change(lines: Lines) -> Lines:
        for line in lines:
            if line.get("kind") == "attempt":
                line["code"] = 554
        del lines[first(lines, kind=missing)]
        return lines

    copy = damaged(run, tmp_path, change)
    assert judge_run(copy, [run.parent]) == (1 if is_violation else 3)
    printed = capsys.readouterr().out
    assert ("expect.reply 3: pass -> fail" in printed) is is_violation
    assert ("-> fail" in printed) is is_violation
    assert ": judged as far as event " in printed, "the damage is noticed"


@pytest.mark.parametrize("command", ["judge", "report", "diff"])
def test_judge_report_and_diff_name_a_run_json_that_is_not_a_regular_file(run: Path, tmp_path: Path, command: str):
    copy = damaged(run, tmp_path, lambda lines: lines)
    (copy / "run.json").unlink()
    (copy / "run.json").mkdir()
    words = {"judge": ("run",), "report": ("run", "--out", "site"), "diff": ("run", "run")}[command]
    ran = conformance_command(command, *words, cwd=tmp_path)
    assert ran.returncode == 2
    assert ran.stderr.strip() == "run/run.json: it cannot be read: not a regular file"
