"""An engine, the images that tests start containers of, and that nothing of a test is left there."""

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
    """Return the SDK's client; without an engine there is nothing to test, but in CI there has to be one."""
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
    """Hold that no container and no network of a test outlives it."""
    yield
    assert of_run(client, tmp_path) == []
