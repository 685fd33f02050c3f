"""Whether a candidate can be run on this machine, and where its programs are.

A program whose path begins with `{installed}` is looked for in the directory that `conformance candidate install` made, any
other one on the system. Containers need a Docker engine on this machine, at the address in DOCKER_HOST or at Docker's own
socket.
"""

import functools
import os
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from conformance.candidates.fields import CommonFields
from conformance.loopback import is_loopback

DEFAULT_ENGINE_ADDRESS = "unix:///var/run/docker.sock"
_ENGINE_TIMEOUT_S = 5


def engine_address() -> str:
    """Return the address at which a Docker engine is expected: DOCKER_HOST, else Docker's own socket."""
    return os.environ.get("DOCKER_HOST") or DEFAULT_ENGINE_ADDRESS


def engine_missing() -> str:
    """Return why no container can be run, or "" when an engine answers. Each address is asked once per process; that blocks."""
    return _engine_problem(engine_address())


@functools.cache
def _engine_problem(address: str) -> str:
    """Return why the engine at an address cannot be used, or "". Only the first call for an address asks the engine, and blocks."""
    if not _is_here(address):
        return f"the Docker engine at {address} is on another machine: its containers could not reach the harness"
    if not engine_listens(address):
        return f"no Docker engine answers at {address}"
    import docker  # takes a third of a second, and most runs need none of it
    import requests

    try:
        client = docker.from_env(timeout=_ENGINE_TIMEOUT_S, environment={**os.environ, "DOCKER_HOST": address})
        try:
            client.ping()
        finally:
            client.close()
    except (docker.errors.DockerException, requests.RequestException):
        return f"no Docker engine answers at {address}"
    return ""


def engine_listens(address: str) -> bool:
    """Whether something listens on a Unix socket; True for an address of another scheme, which only a request can try.

    Docker's SDK would not close its connection to a socket without a listener.
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
    """Whether an engine's address is on this machine: a socket, a Windows pipe, or a loopback address."""
    parts = urlsplit(address)
    return parts.scheme in ("unix", "npipe") or is_loopback(parts.hostname or "")


INSTALLED_VARIABLE = "CONFORMANCE_CANDIDATES"
"""The environment variable for the directory of installed servers, where it is not the default one."""


@dataclass(frozen=True, slots=True)
class Availability:
    """Where a candidate's programs are. `missing` says why it cannot be run, and is "" when it can.

    `installed` is the directory that was installed for it, None for programs of the system. `private_root` is set when that
    directory is laid over the system's root, which takes root.
    """

    missing: str = ""
    installed: Path | None = None
    private_root: Path | None = None


def installation_root() -> Path:
    """Return the directory that `conformance candidate install` installs servers into; it need not exist.

    It is the one of CONFORMANCE_CANDIDATES, else in the user's cache.
    """
    configured = os.environ.get(INSTALLED_VARIABLE)
    cache = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(configured) if configured else Path(cache) / "smtp-conformance" / "candidates"


def check_programs(candidate: CommonFields) -> Availability:
    """Return where a candidate's programs are: in its installed directory or on the system; or what is missing.

    As root, an installed directory that becomes a private root is not searched for programs: they have their paths only there.
    """
    directory = installation_root() / candidate.installed if candidate.installed else None
    if directory is not None and directory.is_dir():
        if candidate.private_root and os.geteuid() == 0:  # its programs have their paths only in the private root
            return Availability(installed=directory, private_root=directory)
        missing = _missing_program(candidate, directory)
        if missing and candidate.private_root:
            missing = "needs root, to run in a private root"
        return Availability(missing=missing) if missing else Availability(installed=directory)
    missing = _missing_program(candidate, None)
    if missing and candidate.installed:
        missing += f"; conformance candidate install {candidate.installed}"
    return Availability(missing=missing)


def _missing_program(candidate: CommonFields, installed: Path | None) -> str:
    """Return in words the first of a candidate's programs that is not installed, or "".

    `{installed}` in them stands for the directory `installed`; None: it does not exist, and programs in it are missing.
    """
    for program in candidate.programs:
        path = program.replace("{installed}", str(installed or ""))  # which() takes paths and names
        if ("{installed}" in program and installed is None) or shutil.which(path) is None:
            return f"{program} is not installed"
    return ""
