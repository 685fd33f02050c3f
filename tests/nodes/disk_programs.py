"""Disks of a node in a temporary directory, and programs that run on them."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from conformance.nodes.disks import layer, loop
from conformance.nodes.disks.node_disk import NodeDisk, Trouble
from conformance.scenarios.steps.breaking import Disk

on_loop = pytest.mark.skipif(bool(loop.unavailable_reason()), reason=loop.unavailable_reason() or "-")
layered = pytest.mark.skipif(bool(layer.unavailable_reason()), reason=layer.unavailable_reason() or "-")


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(30):
            await test()

    asyncio.run(main())


def trouble(what: str, **more: object) -> Disk:
    return Disk.model_validate({"node": "n", "is": what, **more})


def disk_of(directory: Path, *troubles: Trouble) -> NodeDisk:
    (directory / "data").mkdir()
    return NodeDisk("n", directory, troubles)


def on(disk: NodeDisk, program: str, directory: Path) -> subprocess.Popen[str]:
    """Start a program on the disk; its argument is the data directory."""
    return subprocess.Popen(
        [*disk.prefix, sys.executable, "-c", program, str(directory / "data")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **({"LD_PRELOAD": str(disk.preload)} if disk.preload else {})},
    )


def said(disk: NodeDisk, program: str, directory: Path) -> str:
    out, _ = on(disk, program, directory).communicate()
    return out.strip()


def content(disk: NodeDisk, directory: Path) -> dict[str, str]:
    """Return the non-empty files on the disk: path and text."""
    program = (
        "import json, pathlib, sys; root = pathlib.Path(sys.argv[1]); print(json.dumps({str(p.relative_to(root)): "
        "p.read_text() for p in root.rglob('*') if p.is_file() and p.stat().st_size}))"
    )
    found: dict[str, str] = json.loads(said(disk, program, directory))
    return found
