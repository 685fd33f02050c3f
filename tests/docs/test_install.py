"""What the README says of installing the wheel: pipx and uvx make the command work outside of the checkout.

Those that install are slow, since they fetch the dependencies anew, from wherever pipx and uv take them.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conformance import __version__
from tests.docs.pages import ROOT, commands

WHEEL = f"dist/smtp_conformance-{__version__}-py3-none-any.whl"

pytestmark = pytest.mark.integration


def run(*words: str | Path, cwd: Path, **variables: str) -> str:
    """Run a command to its end; return what it prints. uv takes the certificates of the system, as pip does."""
    known = {"UV_SYSTEM_CERTS": "true"} | os.environ
    done = subprocess.run(
        words, cwd=cwd, env=known | variables, text=True, capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with `dist/`, in which the wheel was built as the README says."""
    folder = tmp_path_factory.mktemp("built")
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", folder / "dist", ROOT, cwd=folder)
    return folder


def test_readme_and_first_ten_minutes_name_the_wheel_of_this_version():
    for page in (ROOT / "README.md", ROOT / "docs" / "first-ten-minutes.md"):
        assert set(re.findall(r"dist/\S+\.whl", page.read_text("utf-8"))) == {WHEEL}, page.name


@pytest.mark.slow
def test_pipx_installs_the_command(built: Path, tmp_path: Path):
    run(
        sys.executable, "-m", "pipx", "install", built / WHEEL, cwd=tmp_path, PIPX_HOME=str(tmp_path / "home"),
        PIPX_BIN_DIR=str(tmp_path / "bin"), PIPX_MAN_DIR=str(tmp_path / "man"),
    )  # fmt: skip
    assert run(tmp_path / "bin" / "conformance", "--version", cwd=tmp_path) == f"conformance {__version__}\n"


@pytest.mark.slow
def test_the_first_ten_minutes_begin_with_an_environment(built: Path, tmp_path: Path):
    first, *installs = [
        command.text for command in commands(ROOT / "docs" / "first-ten-minutes.md") if "~/conformance" in command.text
    ]
    commands_of_page = [first, *installs, "type -p conformance", "conformance --version"]
    said = run("bash", "-ec", "\n".join(commands_of_page), cwd=built, HOME=str(tmp_path))
    assert said.endswith(f"{tmp_path}/conformance/bin/conformance\nconformance {__version__}\n")


@pytest.mark.slow
def test_uvx_runs_the_command(built: Path, tmp_path: Path):
    uv = Path(sys.executable).with_name("uv")
    said = run(uv, "tool", "run", "--from", built / WHEEL, "conformance", "--help", cwd=tmp_path)
    assert "Usage: conformance" in said
