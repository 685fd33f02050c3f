"""The status line: its text, and that it is shown at a terminal and nowhere else."""

import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from conformance.suite.progress import Progress, ProgressState, count_begun, status_line
from conformance.verdicts import Outcome
from conformance.verdicts.outcome import OUTCOME_DISPLAY
from tests.suite.helpers import ROOT, command, conformance_command, environment

WORDS = ("run", "scenarios/creation/inbound.scenario.yaml", "-k", "waits", "--candidate", "reference",
         "--candidate", "reference+acknowledges-before-shadow", "--show-capture=no")  # fmt: skip


def test_the_status_line_has_outcomes_running_cells_and_the_count_of_waiting_ones() -> None:
    state = ProgressState(10, {Outcome.PASS: 3, Outcome.FAIL: 1}, [("a::b", 2.5), ("c", 70.0)])
    assert status_line(state, 200) == "✗ 1 ✓ 3  4 waiting  2 running: a::b 2 s, c 1 m 10 s"
    each = {outcome: number for number, outcome in enumerate(Outcome, 11)}
    all_ended = ProgressState(sum(each.values()), each, [])
    shown = status_line(all_ended, 200).removesuffix("  0 waiting  0 running").split(" ")
    assert sorted(zip(shown[::2], shown[1::2], strict=True)) == sorted(
        (OUTCOME_DISPLAY[outcome].sign, str(number)) for outcome, number in each.items()
    )


@given(st.text(), st.integers(1, 300))
def test_the_status_line_is_one_printable_line_within_the_width(name: str, width: int) -> None:
    line = status_line(ProgressState(3, {Outcome.PASS: 1}, [(name, 1.0)]), width)
    assert cell_len(line) <= width
    assert line.isprintable()


def test_the_status_line_is_cut_by_columns_of_which_a_wide_character_takes_two() -> None:
    state = ProgressState(1, {}, [("上海の名", 1.0)])
    whole = "0 waiting  1 running: 上海の名 1 s"
    assert status_line(state, 34) == whole
    assert status_line(state, 33) == "0 waiting  1 running: 上海の名 1…"
    assert status_line(state, 26) == "0 waiting  1 running: 上…"


class HookedSet(set[str]):
    """The set of `a` and `b`; its first membership test starts a thread that calls a hook, and waits at most 0.2 s for it."""

    def __init__(self, hook: Callable[[], object]) -> None:
        super().__init__("ab")
        self.thread = threading.Thread(target=hook)

    def __contains__(self, name: object) -> bool:
        if self.thread.ident is None:
            self.thread.start()
            self.thread.join(0.2)  # it ends here where nothing holds it back
        return super().__contains__(name)


@pytest.mark.parametrize("hook", ["start", "finish"])
def test_cells_that_begin_or_end_while_the_state_is_read_do_not_change_it(
    hook: str,
    capfd: pytest.CaptureFixture[str],  # a stream with a descriptor
) -> None:
    terminal = SimpleNamespace(_tw=SimpleNamespace(fullwidth=80, width_of_current_line=0))
    progress = Progress(terminal, lambda: running_cells)  # type: ignore[arg-type]
    other = progress.pytest_runtest_logstart("c") if hook == "start" else progress.pytest_runtest_logfinish("b")
    running_cells = HookedSet(lambda: list(other))
    progress._since.update({"a": 0.0, "b": 0.0})
    with closing(progress._stream):
        with progress._lock:
            state = progress._state()
        running_cells.thread.join()
    assert [name for name, _ in state.running] == ["a", "b"]
    has_run = "c" in progress._since if hook == "start" else progress._since["b"] > 0
    assert has_run, "once the state had been read"


def at_a_terminal(*words: str) -> str:
    """Run the command at a pseudo-terminal, and return its output."""
    outer, inner = pty.openpty()
    variables = {**environment(), "TERM": "xterm", "COLUMNS": "150"}
    with subprocess.Popen(command(*words), cwd=ROOT, env=variables, stdin=inner, stdout=inner, stderr=inner) as run:
        os.close(inner)
        written = b""
        while True:
            try:
                written += (piece := os.read(outer, 65536))
            except OSError:  # Linux reports EIO when the other end is closed
                break
            if not piece:
                break
    os.close(outer)
    assert run.returncode == 1, written.decode()
    return written.decode("utf-8")


def screen(written: str) -> list[str]:
    """Return the lines that a terminal shows after this output; of escapes, only cursor moves, colours and erased lines count."""
    lines, row, column = [""], 0, 0
    for token in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", written):
        move = re.fullmatch(r"\x1b\[(\d*)([ABCKm])", token)
        if token == "\r":
            column = 0
        elif token == "\n":
            row += 1
        elif move is None:
            lines[row] = lines[row].ljust(column)[:column] + token + lines[row][column + len(token) :]
            column += len(token)
        else:
            count = int(move[1] or 1)
            match move[2]:
                case "A":
                    row -= count
                case "B":
                    row += count
                case "C":
                    column += count
                case "K":
                    lines[row] = ""
        lines += [""] * (row + 1 - len(lines))
    return lines


def test_cells_that_are_to_be_run_again_have_begun_and_wait(tmp_path: Path) -> None:
    assert count_begun(tmp_path, 0) == "0 of ? cells begun"
    for path in ("cells/a.jsonl", "cells/b.jsonl.gz", "late/b.jsonl.gz", "late/c.jsonl"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).touch()
    assert count_begun(tmp_path, 5) == "3 of 5 cells begun, 1 of them waits to be run again alone"
    (tmp_path / "late/d.jsonl.gz").touch()
    assert count_begun(tmp_path, 5) == "4 of 5 cells begun, 2 of them wait to be run again alone"


LOGGED = """
import sys
import conformance.suite.progress
from conformance.cli import main
conformance.suite.progress.LOG_INTERVAL = 0.01
main(sys.argv[1:])
"""


@pytest.mark.long
@pytest.mark.integration
@pytest.mark.parametrize("more", [[], ["-q"], ["-n", "2"]], ids=["one process", "quiet", "workers"])
def test_a_log_gets_progress_lines_without_escapes(tmp_path: Path, more: list[str]) -> None:
    words = [sys.executable, "-c", LOGGED, *WORDS, *more, "--run-dir", str(tmp_path / "run")]
    ran = subprocess.run(words, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=240, check=False)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    lines = re.findall(
        r"^\[\d+ s\] (\d) of (\d|\?) cells begun; reported: .*\d waiting  .*\d running.*$", ran.stdout, re.MULTILINE
    )
    assert len(lines) >= 3, ran.stdout
    assert lines[-1][1] == "2"
    assert "\x1b" not in ran.stdout + ran.stderr


@pytest.mark.long
@pytest.mark.integration
@pytest.mark.parametrize("more", [[], ["-v"], ["-n", "2"]])
def test_a_terminal_shows_the_status_line_and_is_left_without_it(tmp_path: Path, more: list[str]) -> None:
    written = at_a_terminal(*WORDS, "--run-dir", str(tmp_path / "run"), *more)
    assert re.search(r"(1|0) waiting  [12] running: inbound-acknowledgement-waits", written)
    shown = screen(written)
    assert [line for line in shown if "running:" in line] == []
    if "-v" in more:
        assert sum("PASSED" in line for line in shown) == 1
    assert any(line.startswith("✗ inbound-acknowledgement-waits-for-the-shadow") for line in shown)


@pytest.mark.integration
def test_output_to_a_pipe_has_no_status_line_and_no_escapes(tmp_path: Path) -> None:
    ran = conformance_command(
        *WORDS, "--run-dir", str(tmp_path / "run"), cwd=ROOT, TERM="xterm", NO_COLOR="", FORCE_COLOR="", PY_COLORS=""
    )  # colours are neither forbidden nor asked for
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "waiting" not in ran.stdout + ran.stderr
    assert "\x1b" not in ran.stdout + ran.stderr


@pytest.mark.integration
@pytest.mark.parametrize(("limit", "expected"), [(1, ["writing the tables of 2 cells"]), (2, [])])
def test_a_run_of_many_cells_says_that_it_writes_its_tables(limit: int, expected: list[str], tmp_path: Path) -> None:
    patched = f"from conformance import cli, plugin; plugin.MANY_CELLS = {limit}; cli.main({[*WORDS, '--run-dir', str(tmp_path)]})"
    ran = subprocess.run(
        [sys.executable, "-c", patched], cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1, ran.stdout
    assert [line for line in ran.stdout.splitlines() if "the tables" in line] == expected
