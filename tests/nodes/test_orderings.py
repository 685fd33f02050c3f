"""What a power cut leaves after each ordering of writes and syncs: by the layer's model, and on a real ext4."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.nodes.disks import layer, loop
from conformance.nodes.disks.choice import Kind, NodeDisk
from conformance.scenarios.steps.nodes import Keeps
from tests.nodes.orderings import HELPERS, ORDERINGS, Ordering

LISTS = """
import json, os, sys
found = {}
for where, directories, files in os.walk(sys.argv[1], followlinks=True):
    below = os.path.relpath(where, sys.argv[1])
    for file in files:
        with open(os.path.join(where, file)) as text:
            found[os.path.normpath(os.path.join(below, file))] = text.read()
    if not files and not directories and below != ".":
        found[below + "/"] = ""
found.pop("lost+found/", None)
print(json.dumps(found))
"""

on_loop = pytest.mark.skipif(bool(loop.missing()), reason=loop.missing() or "-")
layered = pytest.mark.skipif(bool(layer.missing()), reason=layer.missing() or "-")


def ran(disk: NodeDisk, program: str, data: Path) -> str:
    preload = {"LD_PRELOAD": str(disk.preload)} if disk.preload else {}
    words = [*disk.prefix, sys.executable, "-ISB", "-c", program, str(data)]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **preload}, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def left(directory: Path, ordering: Ordering, kind: Kind, keeps: Keeps) -> dict[str, str]:
    """Return what a disk has after the calls and a power cut."""

    async def main() -> dict[str, str]:
        data = directory / "data"
        data.mkdir()
        for name, text in ordering.before.items():
            path = data / name
            path.parent.mkdir(exist_ok=True)
            if name.endswith("/"):
                path.mkdir(exist_ok=True)
            else:
                path.write_text(text)
        disk = NodeDisk("n", directory, ["power-cut"], kind=kind)
        await disk.mount()
        try:
            ran(disk, HELPERS + ordering.does, data)
            await disk.cut_power(keeps)
            await disk.mount()
            found: dict[str, str] = json.loads(ran(disk, LISTS, data))
        finally:
            await disk.close()
        return found

    return asyncio.run(main())


@layered
@pytest.mark.parametrize("ordering", ORDERINGS, ids=lambda ordering: ordering.name)
def test_the_layer_keeps_what_all_file_systems_keep(tmp_path: Path, ordering: Ordering) -> None:
    assert left(tmp_path, ordering, "layer", "what-file-systems-keep") == ordering.left


@layered
@pytest.mark.parametrize("ordering", ORDERINGS, ids=lambda ordering: ordering.name)
def test_in_the_stricter_reading_only_the_directory_keeps_names(tmp_path: Path, ordering: Ordering) -> None:
    promised = ordering.left if ordering.promised is None else ordering.promised
    assert left(tmp_path, ordering, "layer", "what-posix-promises") == promised


@on_loop
@pytest.mark.parametrize("ordering", ORDERINGS, ids=lambda ordering: ordering.name)
def test_ext4_keeps_what_the_layer_keeps(tmp_path: Path, ordering: Ordering) -> None:
    """And more, where an ordering says so: it commits what others did, too."""
    kept = left(tmp_path, ordering, "loop", "what-file-systems-keep")
    assert kept == (ordering.left if ordering.ext4 is None else ordering.ext4)
