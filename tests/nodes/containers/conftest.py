"""Fixtures: an engine, images, and a check that no container or network of a test is left."""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from conformance.candidates.availability import engine_missing
from tests.nodes import images
from tests.nodes.containers.node import of_run


@pytest.fixture(scope="package")
def client() -> Iterator[Any]:
    """Return the SDK's client; without an engine the tests are skipped, but in CI they fail."""
    if missing := engine_missing():
        if os.environ.get("CI") == "true":
            pytest.fail(f"{missing}; .ci/engine COMMAND starts one for as long as the command runs")
        pytest.skip(missing)
    client = docker.from_env()
    yield client
    client.close()


@pytest.fixture(scope="package")
def base(client: Any) -> Iterator[str]:
    """Return an image with this machine's own Python."""
    tag = f"conformance-base-{uuid.uuid4().hex[:8]}"
    images.import_base(client, tag)
    yield tag
    client.images.remove(tag, force=True)


@pytest.fixture(scope="package")
def reference(client: Any, base: str) -> Iterator[str]:
    """Return an image of the reference, built with its Dockerfile."""
    tag = base.replace("base", "reference")
    images.build_reference(client, tag, base)
    yield tag
    client.images.remove(tag, force=True)


@pytest.fixture(autouse=True)
def nothing_left_behind(client: Any, tmp_path: Path) -> Iterator[None]:
    """Fail a test that leaves a container or a network."""
    yield
    assert of_run(client, tmp_path) == []
