"""Containers without an engine: the message of the cell, and what the image of the reference is made of."""

import asyncio
import json
import tomllib
from pathlib import Path

import docker
import pytest
import requests

from conformance.candidates.description import REFERENCE, read_description
from conformance.nodes.contract import NodeError
from conformance.nodes.engine import Engine
from tests.nodes.images import REFERENCE as PLACE
from tests.nodes.images import ROOT, WAITS
from tests.results.stored import plain
from tests.suite.helpers import conformance_command


@pytest.mark.parametrize("error", [docker.errors.DockerException, requests.ConnectionError])
def test_an_engine_that_is_gone_when_it_is_needed_is_an_error_of_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
):
    def refuse(**settings: object) -> None:
        raise error("connection refused")

    monkeypatch.setattr(docker, "from_env", refuse)  # the SDK leaves a socket open when its first request fails
    with pytest.raises(NodeError, match="mta1: connect: the Docker engine: connection refused"):
        asyncio.run(Engine.connect("mta1", tmp_path))
    engine = Engine("mta1", tmp_path, client=None)
    with pytest.raises(NodeError, match="mta1: kill: the Docker engine: connection refused"):
        asyncio.run(engine.call("kill", refuse))


@pytest.mark.integration
def test_without_an_engine_a_cell_is_not_applicable_and_names_the_socket(tmp_path: Path):
    (tmp_path / "waits.scenario.yaml").write_text(WAITS, "utf-8")
    gone = f"unix://{tmp_path}/gone.sock"
    ran = conformance_command(
        "run",
        "waits.scenario.yaml",
        "--candidate",
        "docker:any",
        "--run-dir",
        "run",
        "-rs",
        cwd=tmp_path,
        DOCKER_HOST=gone,
    )
    assert ran.returncode == 0, ran.stdout
    (cell,) = (tmp_path / "run" / "cells").glob("*.jsonl.gz")
    last = json.loads(plain(cell).splitlines()[-1])
    assert last["outcome"] == "not-applicable"
    assert f"cannot be run: any: no Docker engine answers at {gone}" in plain(cell).decode()


def test_the_shipped_image_needs_no_more_than_the_project_and_claims_what_the_reference_claims():
    required = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    assert set() < set((PLACE / "requirements.txt").read_text("utf-8").split()) <= set(required)
    runs = [
        line.removeprefix("RUN ") for line in (PLACE / "Dockerfile").read_text("utf-8").splitlines() if "RUN" in line
    ]
    install, check = (json.loads(run) for run in runs)
    assert install[:4] == ["python3", "-m", "pip", "install"]
    assert [word for word in install[4:] if word[:2] != "--"] == ["-r", "/app/requirements.txt"]
    assert check == ["python3", "-c", "import conformance.reference.main"], "it installs nothing more"
    described = read_description(PLACE / "reference.yaml")
    assert (described.identity, described.claims) == (REFERENCE.identity, REFERENCE.claims)
    assert set(described.commands) == set(REFERENCE.commands)
