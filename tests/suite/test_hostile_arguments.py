"""The command line: invalid values are usage errors, and an exception in the harness is one line and exit code 3."""

from pathlib import Path

import pytest

from conformance import cli
from tests.suite.helpers import conformance_command


@pytest.mark.integration
@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--clock", "scaled", "--scale", "nan"), "--scale: a number above 0"),
        (("--clock", "scaled", "--scale", "inf"), "--scale: a number above 0"),
        (("--clock", "scaled", "--scale", "0"), "--scale: a number above 0"),
        (("--cell-timeout", "nan"), "--cell-timeout: a number of seconds above 0"),
        (("--cell-timeout", "1e300"), "--cell-timeout: a number of seconds above 0"),
        (("--cell-timeout", "0"), "--cell-timeout: a number of seconds above 0"),
        (("--cells", "0"), "--cells: at least 1"),
        (("--seed", "9" * 30), "--seed: a whole number of 64 bits"),
        (("--seed", str(2**63)), "--seed: a whole number of 64 bits"),
        ((f"--seed={-(2**63) - 1}",), "--seed: a whole number of 64 bits"),
        (("--candidate", "../../etc/passwd"), "no such candidate"),
    ],
)
def test_an_invalid_value_of_an_option_is_a_usage_error(tmp_path: Path, words: tuple[str, ...], error: str):
    ran = conformance_command("run", "scenarios/nowhere", *words, "--run-dir", str(tmp_path / "run"), cwd=tmp_path)
    assert ran.returncode == 2
    assert error in ran.stdout + ran.stderr
    assert "nowhere" not in ran.stdout + ran.stderr, "the missing folder is no reason: the option is refused before"
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (KeyError("no\x1b[2J such thing"), "the harness itself broke: KeyError: 'no\\x1b[2J such thing' ("),
        (MemoryError(), "the machine ran out of something: no memory is left (MemoryError)"),
        (RecursionError("too deep"), "the harness itself broke: RecursionError: too deep ("),
        (IsADirectoryError(21, "Is a directory", "run.json"), "the harness itself broke: IsADirectoryError: "),
    ],
)
def test_an_exception_in_the_harness_is_one_line_and_exit_code_3(
    error: Exception, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def broken(args: list[str]) -> None:
        raise error

    monkeypatch.setattr(cli, "app", broken)
    with pytest.raises(SystemExit) as ended:
        cli.main(["doctor"])
    assert ended.value.code == 3
    out, printed = capsys.readouterr()
    assert out == ""
    assert printed.startswith(line)
    assert printed.count("\n") == 1
