"""Hashes of the environment, of the suite and of the package, which tell whether any of them changed between two runs.

A run's header has the first two, and for each candidate a hash that `conformance.candidates` computes. The hash of the package
(`inputs_sha256`) is for what is kept between calls: explorations, mutants and the matrix of defects.
"""

import hashlib
import json
import platform
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from conformance import __version__, paths

_DEPENDENCIES = ("aiosmtpd", "pydantic", "pytest", "pytest-xdist", "ruamel.yaml")
"""The packages that can change how a cell runs; reporting libraries cannot."""


def harness_version() -> str:
    """Return the version of this package."""
    return __version__


def platform_facts() -> dict[str, str]:
    """Return the host's operating system, machine, kernel release and Python; the host's name is left out on purpose."""
    return {
        "system": platform.system(),
        "machine": platform.machine(),
        "release": platform.release(),
        "python": platform.python_version(),
        "implementation": sys.implementation.name,
    }


def dependency_versions() -> dict[str, str]:
    """Return the versions of the packages that can change how a cell runs; `absent` for one that is not installed."""
    return {name: _version(name) for name in _DEPENDENCIES}


def _version(name: str) -> str:
    """Return the version of an installed package, or `absent`."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"


def environment_sha256() -> str:
    """Return the hash of the harness's version, `platform_facts` and `dependency_versions`."""
    return sha256_of_json(
        {"harness": harness_version(), "platform": platform_facts(), "dependencies": dependency_versions()}
    )


_NO_INPUTS = frozenset(
    {"cli", "commands", "detection", "export", "listen", "mutants", "probe", "report", "smuggling", "spark"}
)
"""Parts of the package on which neither the history of a cell nor a verdict about it depends."""

_INPUT_SUFFIXES = frozenset({".py", ".yaml", ".c", ".h"})
"""Kinds of files that are inputs: code, scenarios, fixtures, the catalogue of requirements, and libraries that nodes preload."""


def inputs_sha256() -> str:
    """Return the hash of the contents of the files on which the history of a cell, or a verdict about it, can depend.

    These are the files of the package without `_NO_INPUTS`, of the scenarios and of the fixtures that have one of
    `_INPUT_SUFFIXES`. All of them are read.
    """
    digest = hashlib.sha256()
    for folder in (paths.reference().parent, paths.corpus(), paths.fixtures()):
        for path in sorted(folder.rglob("*")):
            if path.suffix in _INPUT_SUFFIXES and path.relative_to(folder).parts[0] not in _NO_INPUTS:
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def suite_sha256(scenario_hashes: Iterable[str]) -> str:
    """Return the hash of a suite from the hashes of its cells' scenarios (`scenario_sha256`).

    Order and repetition do not matter.
    """
    return sha256_of_json(sorted(set(scenario_hashes)))


def sha256_of_json(value: Any) -> str:
    """Return the SHA-256, in hex, of a value as JSON, independent of the order of keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
