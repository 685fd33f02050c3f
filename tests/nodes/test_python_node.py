"""A node in the process of the harness, whose code may raise anything."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from conformance.nodes.contract import NodeError
from conformance.nodes.python_node import PythonNode


class BrokenNode:
    """Opens a listener, and then fails to start."""

    failure = None

    def __init__(self) -> None:
        self.servers: list[asyncio.Server] = []
        MADE.append(self)

    async def start(self) -> None:
        self.servers.append(await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0))
        raise AttributeError("no such attribute")

    async def kill(self) -> None:
        for server in self.servers:
            server.close()


def create(path: Path, clock: Any, defect: str | None = None) -> BrokenNode:
    return BrokenNode()


class Clock:
    """A clock that stands still."""

    def wall_now(self) -> float:
        return 0.0


MADE: list[BrokenNode] = []


async def start_and_close(directory: Path) -> None:
    node = PythonNode("mbx1", f"{__name__}:create", directory, Clock())  # type: ignore[arg-type]
    with pytest.raises(NodeError, match="mbx1: start: AttributeError: no such attribute"):
        await node.start({})  # type: ignore[arg-type]
    assert not any(server.is_serving() for made in MADE for server in made.servers)
    await node.close()


def test_an_exception_as_a_node_starts_is_the_failure_of_the_node(tmp_path: Path):
    asyncio.run(start_and_close(tmp_path))
    assert [len(made.servers) for made in MADE] == [1]


class NodeWithANullItem:
    """Returns for `inspect` a queue in which an item is null."""

    failure = None

    async def start(self) -> None:
        """Open nothing."""

    async def kill(self) -> None:
        """Close nothing."""

    async def command(self, name: str, arguments: tuple[str, ...]) -> Any:
        return {"database": "1", "queues": [{"queue": "q", "kind": "shadow", "items": [None]}], "delivered_to": 0}


def create_with_a_null_item(path: Path, clock: Any, defect: str | None = None) -> NodeWithANullItem:
    return NodeWithANullItem()


def test_an_answer_to_inspect_of_another_shape_is_the_failure_of_the_node(tmp_path: Path):
    async def inspect() -> None:
        node = PythonNode("mbx1", f"{__name__}:create_with_a_null_item", tmp_path, Clock())  # type: ignore[arg-type]
        await node.start({})  # type: ignore[arg-type]
        with pytest.raises(NodeError, match="mbx1: inspect: what it returned cannot be read: queues.0.items.0"):
            await node.command("inspect")
        await node.close()

    asyncio.run(inspect())


def test_an_exception_as_a_module_is_imported_is_the_failure_of_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "fails_at_import.py").write_text("raise ValueError('no such default')", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(NodeError, match="fails_at_import:create: import: ValueError: no such default"):
        PythonNode("mbx1", "fails_at_import:create", tmp_path / "node", Clock())  # type: ignore[arg-type]
