"""The command line: numbers that no run takes are usage errors, and whatever breaks in the harness is a sentence and a 3."""

from pathlib import Path

import pytest

from conformance import cli
from tests.suite.helpers import conformance_command


@pytest.mark.integration
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--clock", "scaled", "--scale", "nan"), "--scale: a number above 0"),
        (("--clock", "scaled", "--scale", "inf"), "--scale: a number above 0"),
        (("--cell-timeout", "nan"), "--cell-timeout: a number of seconds above 0"),
        (("--cell-timeout", "1e300"), "--cell-timeout: a number of seconds above 0"),
        (("--seed", "9" * 30), "--seed: a whole number of 64 bits"),
        (("--candidate", "../../etc/passwd"), "no such candidate"),
    ],
)
def test_numbers_that_no_run_takes_are_usage_errors(tmp_path: Path, words: tuple[str, ...], said: str):
    ran = conformance_command("run", "scenarios/nowhere", *words, "--run-dir", str(tmp_path / "run"), cwd=tmp_path)
    assert ran.returncode == 2
    assert said in ran.stdout + ran.stderr


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyError("no\x1b[2J such thing"), "the harness itself broke: KeyError: 'no\\x1b[2J such thing' ("),
        (MemoryError(), "the machine ran out of something: no memory is left (MemoryError)"),
        (RecursionError("too deep"), "the harness itself broke: RecursionError: too deep ("),
        (IsADirectoryError(21, "Is a directory", "run.json"), "the harness itself broke: IsADirectoryError: "),
    ],
)
def test_whatever_breaks_is_a_sentence_and_a_3(
    error: Exception, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def broken(args: list[str]) -> None:
        raise error

    monkeypatch.setattr(cli, "app", broken)
    with pytest.raises(SystemExit) as ended:
        cli.main(["doctor"])
    assert ended.value.code == 3
    told = capsys.readouterr().err
    assert told.startswith(said)
    assert told.count("\n") == 1
