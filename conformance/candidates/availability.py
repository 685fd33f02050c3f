"""Whether a candidate can be run on this machine, and from where: what was installed for it, or the system's own. For
containers: whether there is a Docker engine, asked once, of whatever DOCKER_HOST names, which must be on this
machine.
"""

import functools
import os
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from conformance.candidates.fields import CommonFields, is_loopback

USUAL = "unix:///var/run/docker.sock"
_PATIENCE = 5
"""Seconds in which an engine has to answer."""


def engine_address() -> str:
    """Return where the engine is looked for."""
    return os.environ.get("DOCKER_HOST") or USUAL


def engine_missing() -> str:
    """Return why no container can be run, or nothing when an engine answers."""
    return _missing(engine_address())


@functools.cache
def _missing(address: str) -> str:
    if not _is_here(address):
        return f"the Docker engine at {address} is on another machine: its containers could not reach the harness"
    if not _listens(address):
        return f"no Docker engine answers at {address}"
    import docker  # takes a third of a second, and most runs need none of it
    import requests

    try:
        client = docker.from_env(timeout=_PATIENCE, environment={**os.environ, "DOCKER_HOST": address})
        try:
            client.ping()
        finally:
            client.close()
    except (docker.errors.DockerException, requests.RequestException):
        return f"no Docker engine answers at {address}"
    return ""


def _listens(address: str) -> bool:
    """Whether anybody listens on a socket with a path; of other addresses the SDK has to find out.

    Its connection to a socket that is not there would be left to the garbage.
    """
    parts = urlsplit(address)
    if parts.scheme != "unix":
        return True
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(parts.path)
        except OSError:
            return False
    return True


def _is_here(address: str) -> bool:
    parts = urlsplit(address)
    return parts.scheme in ("unix", "npipe") or is_loopback(parts.hostname or "")


INSTALLED_VARIABLE = "CONFORMANCE_CANDIDATES"
"""Names the directory that `conformance candidate install` made, where that is not the usual one."""


@dataclass(frozen=True, slots=True)
class Availability:
    """Where a candidate's programs are; `missing` says why it cannot be run, and is empty when it can."""

    missing: str = ""
    installed: Path | None = None
    private_root: Path | None = None


def installed_candidates() -> Path:
    """Return where `conformance candidate install` puts servers, unless told otherwise."""
    told = os.environ.get(INSTALLED_VARIABLE)
    cache = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(told) if told else Path(cache) / "smtp-conformance" / "candidates"


def installed_availability(candidate: CommonFields) -> Availability:
    """Look for the candidate's programs: in its private root, else on the system."""
    place = installed_candidates() / candidate.installed if candidate.installed else None
    if place is not None and place.is_dir():
        if not candidate.private_root:
            return _with_programs(candidate, Availability(installed=place))
        if os.geteuid() == 0:
            return Availability(installed=place, private_root=place)
        found = _with_programs(candidate, Availability(installed=place))
        return Availability(missing="needs root, to run in a private root") if found.missing else found
    found = _with_programs(candidate, Availability())
    if found.missing and candidate.installed:
        return Availability(missing=f"{found.missing}; conformance candidate install {candidate.installed}")
    return found


def _with_programs(candidate: CommonFields, found: Availability) -> Availability:
    """Return what was found, or what is missing of the programs where it was looked for."""
    for program in candidate.programs:
        path = program.replace("{installed}", str(found.installed or ""))
        if ("{installed}" in program and found.installed is None) or shutil.which(path) is None:
            return Availability(missing=f"{program} is not installed")
    return found
