"""Whole runs with containers: the reference passes in them, and the commands of the documentation work."""

import json
import os
import re
import shlex
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from conformance import paths
from tests.docs.pages import commands
from tests.nodes import images
from tests.nodes.containers.node import candidate, of_run
from tests.suite.helpers import command, conformance_command, environment

pytestmark = [pytest.mark.docker, pytest.mark.integration, pytest.mark.slow, pytest.mark.timed]

DESCRIPTION = paths.fixtures() / "containers" / "reference" / "reference.yaml"

SELECTION = "inbound-acknowledgement-waits or (sender-lost-after-the-shadow and drop) or idle-session-is-closed"


def described(tmp_path: Path, image: str) -> None:
    """Write the shipped description of the reference, with the image of this test."""
    text = DESCRIPTION.read_text("utf-8").replace("conformance-reference", image)
    (tmp_path / "mine.yaml").write_text(text, "utf-8")


def test_the_reference_in_containers_passes(tmp_path: Path, reference: str):
    described(tmp_path, reference)
    ran = conformance_command(
        "run", str(paths.corpus() / "creation"), str(paths.corpus() / "timeouts"), "-k", SELECTION,
        "--candidate", "./mine.yaml", "--clock", "scaled", "--cells", "3", "--run-dir", "run", cwd=tmp_path,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout
    assert re.search(r"^[1-9][0-9]* pass", ran.stdout, re.MULTILINE)
    header = json.loads((tmp_path / "run" / "run.json").read_text("utf-8"))
    assert header["candidates"][0]["kind"] == "docker"
    assert header["candidates"][0]["version"].startswith("sha256:")


def test_the_container_commands_of_the_documentation_succeed(tmp_path: Path, client: Any, base: str):
    page = commands(images.ROOT / "docs" / "testing-your-server.md")
    build, *others = [command.text for command in page if "container" in command.text]
    words = [*shlex.split(build)[:-1], "--build-arg", f"BASE={base}", "--network", "none", "."]
    built = subprocess.run(
        words, cwd=images.ROOT, env={**os.environ, "DOCKER_BUILDKIT": "0"}, capture_output=True, text=True, check=False,
        timeout=240,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    (tmp_path / "fixtures").symlink_to(images.ROOT / "fixtures")
    try:
        assert [shlex.split(command)[:2] for command in others] == [
            ["conformance", "candidate"],
            ["conformance", "run"],
        ]
        for command in others:
            ran = conformance_command(*shlex.split(command)[1:], cwd=tmp_path)
            assert ran.returncode == 0, ran.stdout + ran.stderr
    finally:
        client.images.remove("conformance-reference", force=True)


def test_a_container_and_a_program_run_in_one_cell(tmp_path: Path, reference: str):
    described(tmp_path, reference)
    ran = conformance_command(
        "run", str(paths.corpus() / "creation" / "inbound.scenario.yaml"), "-k", "inbound-acknowledgement-waits",
        "--candidate", "mbx1=./mine.yaml,mbx2=exec:reference", "--run-dir", "run", cwd=tmp_path,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout
    assert "1 pass" in ran.stdout
    header = json.loads((tmp_path / "run" / "run.json").read_text("utf-8"))
    assert [one["kind"] for one in header["candidates"]] == ["mixed"], "one cell with candidates of several kinds"


def test_the_queue_of_a_failed_cell_is_kept(tmp_path: Path, reference: str):
    """With `--keep failed`, although the server may run as another user than the harness."""
    described(tmp_path, reference)
    text = (tmp_path / "mine.yaml").read_text("utf-8")
    wrong = text.replace(
        'argv: [--config, "{config}"]', 'argv: [--config, "{config}", --defect, acknowledges-before-shadow]'
    )
    assert wrong != text
    (tmp_path / "mine.yaml").write_text(wrong, "utf-8")
    ran = conformance_command(
        "run", "inbound-acknowledgement-waits-for-the-shadow", "--candidate", "./mine.yaml", "--clock", "scaled",
        "--keep", "failed", "--run-dir", "run", cwd=tmp_path,
    )  # fmt: skip
    assert ran.returncode == 1, ran.stdout + ran.stderr
    (kept,) = (tmp_path / "run" / "kept").iterdir()
    assert {node.name for node in kept.iterdir()} == {"mbx1", "mbx2"}
    assert all((node / "data/queue.db").stat().st_size for node in kept.iterdir())
    assert list((tmp_path / "run" / "cells").rglob("data")) == []


def test_no_container_outlives_a_run_that_is_killed(tmp_path: Path, client: Any, base: str):
    (tmp_path / "waits.scenario.yaml").write_text(images.WAITS, "utf-8")
    described_toy = candidate(base).model_dump(mode="json", by_alias=True, exclude_none=True)
    (tmp_path / "toy.yaml").write_text(json.dumps(described_toy), "utf-8")
    words = command("run", "waits.scenario.yaml", "--candidate", "./toy.yaml", "--run-dir", "run")
    said = tmp_path / "said.txt"
    with (
        said.open("w") as file,
        subprocess.Popen(words, cwd=tmp_path, env=environment(), stdout=file, stderr=file) as harness,
    ):
        deadline = time.monotonic() + 60
        while harness.poll() is None and len(of_run(client, tmp_path)) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(of_run(client, tmp_path)) == 2, said.read_text("utf-8")
        harness.kill()
    assert harness.returncode == -signal.SIGKILL
    deadline = time.monotonic() + 40
    while of_run(client, tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert of_run(client, tmp_path) == []
