"""Whether there is a Docker engine: asked once, of whatever DOCKER_HOST names, which must be on this machine."""

import functools
import os
import socket
from urllib.parse import urlsplit

from conformance.candidates.parts import is_loopback

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
