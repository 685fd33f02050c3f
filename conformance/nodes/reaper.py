"""The reaper: a small process that removes the containers and networks of a harness that has ended, in whatever way.

Run as a program: `python reaper.py LABEL VALUE`. The harness holds the other end of its standard input. When that ends,
the reaper removes everything at the engine with the label, and looks again until there is nothing: a container that the
harness asked for just before its end may be made a moment after it.
"""

import sys
import time
from typing import Any

import docker

_INTERVAL_S = 0.5
"""Seconds between two looks."""

_MAX_LOOKS = 60


def remove_labelled(client: Any, label: str) -> bool:
    """Remove every container, with its volumes, and every network that has the label; return whether there was any.

    `label` is `NAME=VALUE`. Blocks. An object that cannot be removed now is reported on stderr.
    """
    containers = client.containers.list(all=True, filters={"label": label}, ignore_removed=True)
    for container in containers:
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
    return bool(containers or networks)


def main(argv: list[str]) -> int:
    """Wait for the end of stdin and remove what has the label; return 1 when something is still there after 30 s."""
    label, value = argv
    sys.stdin.buffer.read()
    client = docker.from_env()
    try:
        for _ in range(_MAX_LOOKS):
            if not remove_labelled(client, f"{label}={value}"):
                return 0
            time.sleep(_INTERVAL_S)
    finally:
        client.close()
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
