"""Hashes that tell what changed between two runs: the environment's, the suite's; the candidate brings its own."""

import hashlib
import json
import platform
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from conformance import __version__

_DEPENDENCIES = ("aiosmtpd", "aiosmtplib", "pydantic", "pytest", "pytest-xdist", "ruamel.yaml")
"""What can change how a cell runs. Reporting libraries are none of it: a new jinja2 makes no server fail."""


def harness_version() -> str:
    """Return the version of this package."""
    return __version__


def platform_facts() -> dict[str, str]:
    """Return what the host is, without its name: system, machine, release, Python and its implementation."""
    return {
        "system": platform.system(),
        "machine": platform.machine(),
        "release": platform.release(),
        "python": platform.python_version(),
        "implementation": sys.implementation.name,
    }


def dependency_versions() -> dict[str, str]:
    """Return the versions of the packages that can change how a cell runs; `absent` where one is not installed."""
    return {name: _version(name) for name in _DEPENDENCIES}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"


def environment_sha256() -> str:
    """Return the hash of harness, Python, platform and dependencies: what else may have changed between two runs."""
    return sha256_of_json(
        {"harness": harness_version(), "platform": platform_facts(), "dependencies": dependency_versions()}
    )


def suite_sha256(cells: Iterable[str]) -> str:
    """Return the hash of a suite from the hashes of its cells' scenarios; order and repetition do not matter."""
    return sha256_of_json(sorted(set(cells)))


def sha256_of_json(value: Any) -> str:
    """Return the SHA-256, in hex, of a JSON value, independent of the order of its keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
