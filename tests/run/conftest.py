"""Fixtures of the tests of `conformance.run`."""

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest


@pytest.fixture
def no_leaks() -> Iterator[None]:
    """Fail a test that leaves a file descriptor or child process behind; those that were there before it are not its own."""
    process = psutil.Process()
    children = process.children()
    descriptors = _open_descriptors()
    yield
    assert _open_descriptors() <= descriptors
    assert set(process.children()) <= set(children)


def _open_descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}
