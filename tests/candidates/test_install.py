"""`conformance candidate install` and `doctor`: what is missing has a command that brings it."""

from pathlib import Path

import pytest

from conformance import paths
from conformance.candidates.availability import INSTALLED_VARIABLE
from conformance.candidates.lookup import installable_candidates
from conformance.commands.candidate import install
from conformance.commands.doctor import optional_programs, print_programs

SERVERS = {
    "postfix", "exim", "sendmail", "opensmtpd", "haraka", "nullmailer", "dma", "msmtp", "nodemailer", "slimta"
}  # fmt: skip


def test_an_installed_server_is_left_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    (tmp_path / "postfix").mkdir()
    monkeypatch.setenv(INSTALLED_VARIABLE, str(tmp_path))
    assert install(["postfix"]) == 0
    assert f"postfix: is there already, in {tmp_path}/postfix" in capfd.readouterr().out


def test_a_server_without_a_description_is_refused(capsys: pytest.CaptureFixture[str]):
    assert install(["postfx"]) == 2
    assert "no server 'postfx' (did you mean 'postfix'?)" in capsys.readouterr().err


def test_the_script_can_install_every_server_that_a_shipped_description_needs():
    assert {one.name for one in installable_candidates(paths.fixtures() / "candidates")} == SERVERS
    script = (paths.fixtures() / "candidates/install").read_text("utf-8")
    assert all(f"install_{name}()" in script for name in SERVERS)


def test_the_doctor_says_how_to_install_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv(INSTALLED_VARIABLE, str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    found = {one.needed_for.removeprefix("--candidate "): one for one in optional_programs()}
    missing = [found[name] for name in SERVERS if found[name].found is None]
    assert missing, "nothing of it is on this path"
    assert all(
        f"conformance candidate install {name}" in found[name].how_to_install
        for name in SERVERS
        if not found[name].found
    )
    assert all(one.how_to_install for one in found.values() if one.found is None)
    print_programs()
    assert "smtp-conformance[" in capsys.readouterr().out, "no markup of the table's"
