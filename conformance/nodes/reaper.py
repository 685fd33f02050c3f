"""The reaper: a small process that removes the containers and networks of a harness that is gone, however it went.

Run as a program: `python reaper.py LABEL VALUE`. The harness holds the other end of its standard input; when that ends,
everything at the engine with the label is removed, and looked for again: what the harness asked for with its last breath
may be made a moment after that.
"""

import sys
import time
from typing import Any

import docker

_PAUSE = 0.5
"""Seconds between two looks."""

_LOOKS = 60


def reap(client: Any, label: str) -> bool:
    """Remove every container, with its volumes, and every network that has the label; return whether there was any."""
    found = client.containers.list(all=True, filters={"label": label}, ignore_removed=True)
    for container in found:
        try:
            container.remove(v=True, force=True)
        except docker.errors.APIError as error:  # it is being made, or removed
            sys.stderr.write(f"{container.name}: {error.explanation}\n")
    networks = client.networks.list(filters={"label": label})
    for network in networks:
        try:
            network.remove()
        except docker.errors.APIError as error:  # a container that was not removed is on it
            sys.stderr.write(f"{network.name}: {error.explanation}\n")
    return bool(found or networks)


def main(argv: list[str]) -> int:
    """Wait for the end of the harness, and reap."""
    label, value = argv
    sys.stdin.buffer.read()
    client = docker.from_env()
    try:
        for _ in range(_LOOKS):
            if not reap(client, f"{label}={value}"):
                return 0
            time.sleep(_PAUSE)
    finally:
        client.close()
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
