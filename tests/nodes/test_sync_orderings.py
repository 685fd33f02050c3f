"""What a power cut leaves after each ordering of writes and syncs: on the layer, and on real file systems."""

import asyncio
import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.nodes.disks import layer, loop
from conformance.nodes.disks.node_disk import DiskKind, NodeDisk
from conformance.scenarios.steps.nodes import SurvivingNames
from tests.nodes import file_systems
from tests.nodes.file_systems import LISTS, after_cut
from tests.nodes.sync_orderings import HELPERS, ORDERINGS, Ordering

on_loop = pytest.mark.skipif(bool(loop.unavailable_reason()), reason=loop.unavailable_reason() or "-")
layered = pytest.mark.skipif(bool(layer.unavailable_reason()), reason=layer.unavailable_reason() or "-")


def ran(disk: NodeDisk, program: str, data: Path) -> str:
    preload = {"LD_PRELOAD": str(disk.preload)} if disk.preload else {}
    words = [*disk.prefix, sys.executable, "-ISB", "-c", program, str(data)]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **preload}, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def left(directory: Path, ordering: Ordering, kind: DiskKind, keeps: SurvivingNames) -> dict[str, str]:
    """Return the files that a disk has after the calls and a power cut."""

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
def test_the_layer_leaves_what_the_ordering_says(tmp_path: Path, ordering: Ordering) -> None:
    assert left(tmp_path, ordering, "layer", "what-file-systems-keep") == ordering.left


@layered
@pytest.mark.parametrize("ordering", ORDERINGS, ids=lambda ordering: ordering.name)
def test_under_posix_promises_the_layer_leaves_what_the_ordering_promises(tmp_path: Path, ordering: Ordering) -> None:
    promised = ordering.left if ordering.promised is None else ordering.promised
    assert left(tmp_path, ordering, "layer", "what-posix-promises") == promised


@pytest.mark.long
@on_loop
@pytest.mark.parametrize("ordering", ORDERINGS, ids=lambda ordering: ordering.name)
def test_ext4_leaves_what_the_ordering_says_of_it(tmp_path: Path, ordering: Ordering) -> None:
    """That is what the layer leaves, or more where an ordering says so: a commit includes the calls of others."""
    assert left(tmp_path, ordering, "loop", "what-file-systems-keep") in ordering.seen_on("ext4")


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory) -> Callable[[file_systems.Kind], Path]:
    """Return a function that returns the path of an image with a new file system of a kind."""
    folder = tmp_path_factory.mktemp("new")

    @functools.cache
    def image(kind: file_systems.Kind) -> Path:
        file_systems.make(kind, folder / kind)
        return folder / kind

    return image


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["xfs", "btrfs"])
@pytest.mark.parametrize("ordering", ORDERINGS, ids=lambda ordering: ordering.name)
def test_xfs_and_btrfs_leave_what_the_ordering_says_of_them(
    tmp_path: Path, ordering: Ordering, kind: file_systems.Kind, new: Callable[[file_systems.Kind], Path]
) -> None:
    """That is what the layer leaves, or something else where an ordering says so."""
    if reason := file_systems.missing(kind):
        pytest.skip(reason)
    image = tmp_path / "image"
    subprocess.run(["cp", "--sparse=always", new(kind), image], check=True)
    assert after_cut(kind, image, ordering.before, HELPERS + ordering.does) in ordering.seen_on(kind)
